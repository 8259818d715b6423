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
from tests.unit.drivers.nvidia import nodes
from tests.unit.drivers.verify.driver_node import NODE, DriverNode, open_session, run_checks


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
