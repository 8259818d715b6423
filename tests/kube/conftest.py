"""Fixtures that provide Kubernetes' own programs. If they are missing the tests fail: ``make test-kube`` builds
them.

All tests run on the newest release. Those with the marker ``every_release`` also run on the older ones.
``$ALLOTMENT_KUBE_RELEASE`` selects one release for all tests, and ``$ALLOTMENT_KUBE_BIN`` one set of programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from bench.kube_programs import FOLDER, RELEASE, RELEASES, missing, programs, selected_release
from bench.real_kube import ApiServer, api_server, plane

#: Time limit per test. On a loaded machine a control plane takes minutes to start.
_SECONDS: Final = 900


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "every_release: run on each release of Kubernetes, not only on the newest")


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(_SECONDS))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the releases of a test, unless one is selected for all."""
    if FOLDER in os.environ or RELEASE in os.environ or "release" not in metafunc.fixturenames:
        return
    is_for_all = metafunc.definition.get_closest_marker("every_release") is not None
    metafunc.parametrize("release", RELEASES if is_for_all else [selected_release()], indirect=True, scope="session")


@pytest.fixture(scope="session")
def release(request: pytest.FixtureRequest) -> str:
    """The minor release of the programs: ``1.37``."""
    return str(getattr(request, "param", selected_release()))


@pytest.fixture(scope="session")
def paths(release: str) -> dict[str, str]:
    """The paths of etcd, kube-apiserver, kube-controller-manager and kube-scheduler."""
    found = programs(release=release)
    if found is None:
        lacking = ", ".join(missing(release=release))
        pytest.fail(f"{lacking} of {release} not found; `python -m tests.kube.binaries` builds them", pytrace=False)
    return found


@pytest.fixture(scope="session")
def admission_server(paths: dict[str, str]) -> Iterator[ApiServer]:
    """kube-apiserver without controllers, for tests whose policies and webhooks apply to namespaces of their own."""
    with api_server(paths, durable=False, authorization="RBAC") as running:
        yield running


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
