"""Partitioning on demand from scheduler to hardware: every allocation of published slices can be prepared."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from allotment.drivers.amd.driver import AmdDriver
from allotment.drivers.amd.simulated.hardware import SimulatedHardware
from allotment.drivers.driver import AllocatedClaim, AllocatedDevice
from allotment.drivers.publishing.slice_builder import build_slices
from allotment.engine import Allocated, Allocator, Inventory
from allotment.fleet import parse_fleet
from allotment.fleet.cluster import classes_of
from allotment.model.features import Features
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.resource import AllocationResult, ResourceClaim, ResourceSlice
from allotment.model.trees import to_value
from tests.unit.cluster import idle

FEATURES = Features("1.36")
DRIVER = "gpu.amd.com"


class Node:
    """A node whose driver publishes its devices after every prepared or unprepared claim."""

    def __init__(self) -> None:
        (self.machine,) = parse_fleet(["n1=3xmi300x/auto"])
        self.hardware = SimulatedHardware(self.machine)
        self.driver = AmdDriver(self.hardware, "n1", auto_partition=True)
        self.inventory = Inventory.of(FEATURES, nodes=[("n1", {})], classes=classes_of([self.machine]))
        self.plans: dict[str, Any] = {}
        self._shares = count()

    async def publish(self) -> None:
        (pool,) = await self.driver.discover()
        for number, spec in enumerate(build_slices(pool, DRIVER, "n1", FEATURES).specs):
            self.inventory.put_slice(ResourceSlice(metadata=ObjectMeta(name=f"{number:05x}"), spec=spec))

    async def allocate(self, uid: str, device_class: str, partitions: int, **attributes: str) -> tuple[str, ...]:
        """The partitions of a claim; none if it does not fit."""
        claim = claim_for(uid, device_class, partitions, attributes)
        outcome = Allocator(self.inventory, lambda: f"share-{next(self._shares)}").allocate("n1", [claim])
        if not isinstance(outcome, Allocated):
            return ()
        (result,) = outcome.results
        prepared = await self.driver.prepare(*self._planned(uid, result))
        self.inventory.allocate(ObjectKey("shop", uid), result)
        await self.publish()
        partitions_by_device = [
            ready.status_data["partitions"] for ready in prepared.devices.values() if ready.status_data is not None
        ]
        return tuple(name for names in partitions_by_device for name in names)

    def _planned(self, uid: str, result: AllocationResult) -> tuple[AllocatedClaim, Any]:
        allocated = tuple(
            AllocatedDevice(
                device.request,
                device.pool,
                device.device,
                share_id=device.share_id or "",
                consumed_capacity=device.consumed_capacity,
            )
            for device in result.devices.results
        )
        claim = AllocatedClaim(uid, "shop", uid, allocated, tuple(self.plans.values()))
        plan = self.plans[uid] = self.driver.plan(claim)
        return claim, plan

    async def release(self, uid: str) -> None:
        plan = self.plans.pop(uid)
        await self.driver.unprepare(plan, tuple(self.plans.values()))
        self.inventory.free(ObjectKey("shop", uid))
        await self.publish()

    async def modes(self) -> list[str]:
        return [gpu.profile for gpu in await self.hardware.gpus()]


def claim_for(uid: str, device_class: str, partitions: int, attributes: dict[str, str]) -> ResourceClaim:
    selectors = [
        {"cel": {"expression": f"device.attributes['{DRIVER}'].{name} == '{value}'"}}
        for name, value in attributes.items()
    ]
    exactly = {
        "deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1, "selectors": selectors,
        "capacity": {"requests": {"partitions": "1"}},
    }  # fmt: skip
    return to_value(
        {
            "metadata": {"namespace": "shop", "name": uid},
            # One request for each partition, because a device serves a request only once.
            "spec": {"devices": {"requests": [{"name": f"gpu-{n}", "exactly": exactly} for n in range(partitions)]}},
        },
        ResourceClaim,
    )


def test_partitions_fill_one_gpu_before_they_use_another() -> None:
    async def main() -> None:
        node = Node()
        await node.publish()
        assert await node.allocate("a", DRIVER, 6, computePartition="cpx", memoryPartition="nps1") == tuple(
            f"gpu-{n}-{127 + n}" for n in range(1, 7)
        )
        # Two are free on it, and two more are on the next GPU; a request for a whole GPU gets the last one.
        assert len(await node.allocate("b", DRIVER, 4, computePartition="cpx", memoryPartition="nps1")) == 4
        assert await node.modes() == ["cpx_nps1", "cpx_nps1", "spx_nps1"]
        assert await node.allocate("c", "gpu.amd.com-spx", 1) == ("gpu-17-144",)
        assert await node.allocate("d", "gpu.amd.com-spx", 1) == ()
        # Another memory mode requires that the whole node is unused.
        assert await node.allocate("e", DRIVER, 1, memoryPartition="nps4") == ()
        for uid in "abc":
            await node.release(uid)
        assert len(await node.allocate("e", DRIVER, 1, memoryPartition="nps4")) == 1

    idle.run(main())


STEPS = st.lists(
    st.tuples(
        st.integers(0, 5), st.sampled_from(["spx", "dpx", "qpx", "cpx", ""]), st.sampled_from(["nps1", "nps4", ""]),
        st.integers(1, 9),
    )
)  # fmt: skip


@given(STEPS)
def test_every_allocation_can_be_prepared(steps: list[tuple[int, str, str, int]]) -> None:
    """``steps``: a claim to prepare (or unprepare if it is prepared), its modes, and the number of partitions."""

    async def main() -> None:
        node = Node()
        await node.publish()
        for number, compute, memory, partitions in steps:
            uid = f"c{number}"
            if uid in node.plans:
                await node.release(uid)
                continue
            attributes = {"computePartition": compute, "memoryPartition": memory}
            allocated = await node.allocate(
                uid, DRIVER, partitions, **{name: value for name, value in attributes.items() if value}
            )
            assert len(allocated) in (0, partitions)
        for uid in tuple(node.plans):
            await node.release(uid)
        assert await node.modes() == ["spx_nps1"] * 3

    idle.run(main())
