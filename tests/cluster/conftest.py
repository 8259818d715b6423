"""Runs the suite on a lab in its own process, and on the same lab over HTTPS. For Kubernetes itself see tests/kube."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.backends import Backend, labs


@pytest.fixture(scope="session")
def backends() -> Iterator[dict[str, Backend]]:
    with labs() as found:
        yield found


@pytest.fixture(params=["local", "lab"])
def backend(request: pytest.FixtureRequest, backends: dict[str, Backend]) -> Backend:
    return backends[request.param]
