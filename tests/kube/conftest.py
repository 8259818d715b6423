"""Kubernetes' own programs for the tests. That they are missing is a failure here: ``make test-kube`` brings them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from bench.kube_programs import missing, programs
from bench.real_kube import ApiServer, plane

#: What never ends is ended. A machine that does much else takes minutes to start a control plane.
_SECONDS: Final = 900


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(_SECONDS))


@pytest.fixture(scope="session")
def paths() -> dict[str, str]:
    """Where etcd, kube-apiserver, kube-controller-manager and kube-scheduler are."""
    found = programs()
    if found is None:
        pytest.fail(f"{', '.join(missing())} not found; `python -m tests.kube.binaries` builds them", pytrace=False)
    return found


@pytest.fixture(scope="module")
def kube(paths: dict[str, str]) -> Iterator[ApiServer]:
    """The whole control plane as it comes, but for the controller that calls nodes without a kubelet dead."""
    with plane(paths) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """A test that fails shows what the programs said last."""
    report: pytest.TestReport = yield
    if report.failed:
        values = getattr(item, "funcargs", {}).values()
        for running in (value for value in values if isinstance(value, ApiServer)):
            report.sections += [(f"{name}.log", tail) for name, tail in running.tails().items()]
    return report
