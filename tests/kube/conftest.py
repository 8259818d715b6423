"""Fixtures that provide Kubernetes' own programs. If they are missing the tests fail: ``make test-kube`` builds
them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from bench.kube_programs import missing, programs
from bench.real_kube import ApiServer, plane

#: Time limit per test. On a loaded machine a control plane takes minutes to start.
_SECONDS: Final = 900


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(_SECONDS))


@pytest.fixture(scope="session")
def paths() -> dict[str, str]:
    """The paths of etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""
    found = programs()
    if found is None:
        pytest.fail(f"{', '.join(missing())} not found; `python -m tests.kube.binaries` builds them", pytrace=False)
    return found


@pytest.fixture(scope="module")
def kube(paths: dict[str, str]) -> Iterator[ApiServer]:
    """A complete control plane without the node lifecycle controller, which would taint nodes that have no kubelet."""
    with plane(paths) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add the last log lines of the programs to the report of a failed test."""
    report: pytest.TestReport = yield
    if report.failed:
        values = getattr(item, "funcargs", {}).values()
        for running in (value for value in values if isinstance(value, ApiServer)):
            report.sections += [(f"{name}.log", tail) for name, tail in running.tails().items()]
    return report
