"""Correct drivers pass all checks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from allotment.drivers.driver import Driver
from allotment.drivers.example.driver import ExampleGpus
from allotment.drivers.verify.check import CheckResult
from allotment.drivers.verify.suite import CHECKS, verify
from allotment.fleet.modes import ExampleMode
from allotment.kubelet_plugin.encoding import HEALTH_V1, HEALTH_VERSIONS, HealthVersion
from tests.unit.drivers.nvidia import nodes
from tests.unit.drivers.verify.driver_node import NODE, DriverNode, open_session, run_checks, serve_with_info


def nvidia(mode: str) -> Driver:
    return asyncio.run(nodes.simulated_node("dgx-a100-40gb", mode)).driver


DRIVERS: dict[str, Callable[[], Driver]] = {
    "example": lambda: ExampleGpus(NODE, 4),
    "partitions": lambda: ExampleGpus(NODE, 2, ExampleMode(partitions=2)),
    "nvidia": lambda: nvidia("full"),
    "dynamic MIG": lambda: nvidia("dynamic-mig"),
}


def not_passed(results: list[CheckResult]) -> list[str]:
    return [f"{result.check.name}: {result.seen}" for result in results if result.result != "pass"]


@pytest.mark.parametrize("driver", DRIVERS)
def test_all_checks_pass(driver: str) -> None:
    results = run_checks(DriverNode(DRIVERS[driver]()))
    assert not_passed(results) == []
    assert len(results) == len(CHECKS)


@pytest.mark.parametrize("version", HEALTH_VERSIONS, ids=lambda version: version.service)
def test_one_version_of_the_health_service_is_enough(version: HealthVersion) -> None:
    node = DriverNode()
    assert node.cluster.features.kube == "1.36"
    node.serve = serve_with_info(versions=("v1.DRAPlugin", version.service), health_versions=(version,))
    versions, health = run_checks(node, "versions", "health")
    assert (versions.result, versions.seen) == ("pass", f"v1.DRAPlugin, {version.service}")
    ignored = "; kubelets of Kubernetes 1.36 call only v1alpha1.DRAResourceHealth" if version is HEALTH_V1 else ""
    assert (health.result, health.seen) == ("pass", f"4 Healthy ({version.service}){ignored}")


def test_health_is_skipped_for_a_driver_that_lists_the_service_and_answers_unimplemented() -> None:
    node = DriverNode()
    services = tuple(version.service for version in HEALTH_VERSIONS)
    node.serve = serve_with_info(versions=("v1.DRAPlugin", *services), health_versions=())
    (health,) = run_checks(node, "health")
    assert health.result == "skipped"
    assert health.seen.startswith("the driver does not report health: rpc error: code = Unimplemented")


def test_only_overlap_is_skipped_for_shareable_devices() -> None:
    results = run_checks(DriverNode(ExampleGpus(NODE, 4, ExampleMode(shared=True))))
    assert not_passed(results) == ["overlap: several claims can share the devices of this node"]


def test_without_devices_calls_are_still_checked() -> None:
    results = run_checks(DriverNode(ExampleGpus(NODE, 0)))
    outcomes = {result.check.name: result.result for result in results}
    assert "FAIL" not in outcomes.values()
    assert {name for name, outcome in outcomes.items() if outcome == "pass"} == {
        "get-info", "versions", "register", "empty-call", "slices", "pools", "slices-valid", "slices-owner",
        "unprepare-unknown", "unknown-claim", "not-allocated", "health", "restart-slices", "restart-register",
    }  # fmt: skip
    assert {result.seen for result in results if result.check.name == "cdi"} == {"requires 1 free device; n1 has none"}


def test_without_a_command_the_process_is_not_stopped() -> None:
    node = DriverNode()
    results = run_checks(node, restartable=False)
    assert [result.check.name for result in results if result.result == "skipped"] == [
        check.name for check in CHECKS if check.needs_command
    ]
    assert node.starts == 1


def test_all_objects_are_deleted() -> None:
    async def main() -> None:
        node = DriverNode()
        async with open_session(node) as session:
            await verify(session, lambda check: None, lambda result: None)
            assert list(node.cdi.iterdir()) == []
        claims = {entry.tree["kind"] for entry in node.cluster.store.list("resourceclaims.resource.k8s.io")}
        assert claims == set()
        assert list(node.cluster.store.list("pods")) == []

    asyncio.run(main())
