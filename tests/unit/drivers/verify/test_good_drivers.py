"""Correct drivers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from allotment.drivers.driver import Driver
from allotment.drivers.example import ExampleGpus
from allotment.drivers.verify.check import CheckResult
from allotment.drivers.verify.runner import verify
from allotment.drivers.verify.suite import CHECKS
from allotment.fleet.modes import Example
from tests.unit.drivers.nvidia import nodes
from tests.unit.drivers.verify.driver_node import NODE, DriverNode, open_session, run_checks


def nvidia(mode: str) -> Driver:
    return asyncio.run(nodes.simulated_node("dgx-a100-40gb", mode)).driver


DRIVERS: dict[str, Callable[[], Driver]] = {
    "example": lambda: ExampleGpus(NODE, 4),
    "partitions": lambda: ExampleGpus(NODE, 2, Example(partitions=2)),
    "nvidia": lambda: nvidia("full"),
    "dynamic MIG": lambda: nvidia("dynamic-mig"),
}


def told(rows: list[CheckResult]) -> list[str]:
    return [f"{row.check.name}: {row.seen}" for row in rows if row.result != "pass"]


@pytest.mark.parametrize("which", DRIVERS)
def test_all_checks_pass(which: str) -> None:
    rows = run_checks(DriverNode(DRIVERS[which]()))
    assert told(rows) == []
    assert len(rows) == len(CHECKS)


def test_only_overlap_is_skipped_for_shareable_devices() -> None:
    rows = run_checks(DriverNode(ExampleGpus(NODE, 4, Example(shared=True))))
    assert told(rows) == ["overlap: the devices here are for several claims at a time"]


def test_without_devices_calls_are_still_checked() -> None:
    rows = run_checks(DriverNode(ExampleGpus(NODE, 0)))
    results = {row.check.name: row.result for row in rows}
    assert "FAIL" not in results.values()
    assert {name for name, result in results.items() if result == "pass"} == {
        "get-info", "versions", "register", "empty-call", "slices", "pools", "slices-valid", "slices-owner",
        "unprepare-unknown", "unknown-claim", "not-allocated", "health", "restart-slices", "restart-register",
    }  # fmt: skip
    assert {row.seen for row in rows if row.check.name == "cdi"} == {"needs 1 free device: n1 has none"}


def test_without_a_command_the_process_is_not_stopped() -> None:
    world = DriverNode()
    rows = run_checks(world, lives=False)
    assert [row.check.name for row in rows if row.result == "skipped"] == [
        check.name for check in CHECKS if check.needs_command
    ]
    assert world.starts == 1


def test_all_objects_are_deleted() -> None:
    async def main() -> None:
        world = DriverNode()
        async with open_session(world) as made:
            await verify(made, lambda check: None, lambda row: None)
            assert list(world.cdi.iterdir()) == []
        kept = {entry.tree["kind"] for entry in world.cluster.store.list("resourceclaims.resource.k8s.io")}
        assert kept == set()
        assert list(world.cluster.store.list("pods")) == []

    asyncio.run(main())
