"""AMD's driver: published devices, claims, and partitions created and removed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cdi.lookup import CdiDevices
from allotment.cdi.spec import ContainerEdits
from allotment.cdi.store import MemoryStore
from allotment.drivers.amd.driver import AmdDriver
from allotment.drivers.amd.simulated.hardware import SimulatedHardware
from allotment.drivers.driver import AllocatedClaim, AllocatedDevice, ClaimError, DevicesChanged
from allotment.drivers.host import DriverHost, MemoryStorage
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.publishing.slice_builder import build_slices
from allotment.fleet import parse_fleet, slices_of
from allotment.fleet.modes import AutoPartition, Partitioned
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.resource import Device
from allotment.vocabulary.parameters.amd import VERSION
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import put_claim

FEATURES = Features("1.36")


class Node:
    """One node with AMD's driver on simulated GPUs."""

    def __init__(self, fleet: str) -> None:
        (self.machine,) = parse_fleet([f"n1={fleet}"])
        self.hardware = SimulatedHardware(self.machine)
        self.driver = self.restarted()
        self.plans: dict[str, Any] = {}

    def restarted(self) -> AmdDriver:
        mode = self.machine.mode
        vocabulary = mode.vocabulary if isinstance(mode, Partitioned) else "v1"
        self.driver = AmdDriver(
            self.hardware, "n1", auto_partition=isinstance(mode, AutoPartition), vocabulary=vocabulary
        )
        return self.driver

    async def devices(self) -> dict[str, Device]:
        (pool,) = await self.driver.discover()
        return {device.name: device for group in pool.groups for device in group}

    async def prepare(self, uid: str, *devices: str, partitions: int = 1, admin: bool = False) -> dict[str, Any]:
        allocated = tuple(
            AllocatedDevice(
                "gpu",
                "n1",
                device,
                share_id=uid,
                consumed_capacity={"partitions": Quantity.of_int(partitions)},
                admin_access=admin,
            )
            for device in devices
        )
        claim = AllocatedClaim(uid, "shop", uid, allocated, tuple(self.plans.values()))
        plan = self.plans[uid] = self.driver.plan(claim)
        try:
            prepared = await self.driver.prepare(claim, plan)
        except ClaimError:
            await self.unprepare(uid)
            raise
        assert "KUBERNETES_NODE_NAME=n1" in prepared.edits.env
        return {device: ready for (_, device, _), ready in prepared.devices.items()}

    async def unprepare(self, uid: str) -> None:
        plan = self.plans.pop(uid)
        await self.driver.unprepare(plan, tuple(self.plans.values()))

    async def modes(self) -> list[str]:
        return [gpu.profile for gpu in await self.hardware.gpus()]


def on_a_node(fleet: str) -> Callable[[Callable[[Node], Awaitable[None]]], Callable[[], None]]:
    def decorate(test: Callable[[Node], Awaitable[None]]) -> Callable[[], None]:
        def run() -> None:
            async def main() -> None:
                node = Node(fleet)
                await node.driver.discover()
                await test(node)

            idle.run(main())

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


def renders(edits: ContainerEdits) -> list[str]:
    return [node.path for node in edits.device_nodes if "render" in node.path]


# --- publishing -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode", ["spx@v0", "spx@v1", "cpx@v0", "cpx@v1", "cpx-nps4", "dpx", "qpx", "auto"]
)  # fmt: skip
def test_a_node_publishes_the_slices_of_its_profile(mode: str) -> None:
    async def main() -> None:
        node = Node(f"mi300x-8x-oam/{mode}")
        (pool,) = await node.driver.discover()
        built = build_slices(pool, "gpu.amd.com", "n1", FEATURES)
        assert built.notes == ()
        expected = slices_of(node.machine.hardware, node.machine.mode, "n1")
        assert [spec.devices for spec in built.specs] == [spec.spec.devices for spec in expected]
        assert [spec.shared_counters for spec in built.specs] == [spec.spec.shared_counters for spec in expected]

    idle.run(main())


@on_a_node("mi300x-8x-oam/auto")
async def test_every_partition_setting_of_a_gpu_is_published_as_a_device(node: Node) -> None:
    devices = await node.devices()
    assert [name for name in devices if name.startswith("gpu-0-")] == [
        "gpu-0-spx-nps1", "gpu-0-dpx-nps1", "gpu-0-qpx-nps1", "gpu-0-cpx-nps1", "gpu-0-cpx-nps4",
    ]  # fmt: skip
    cpx = devices["gpu-0-cpx-nps4"]
    assert {name: str(capacity.value) for name, capacity in cpx.capacity.items()} == {
        "computeUnits": "304", "memory": "196592Mi", "partitions": "8", "simdUnits": "1216",
    }  # fmt: skip
    # An allocation consumes one partition of each, whatever it requests.
    assert cpx.allow_multiple_allocations
    for name, part in {"computeUnits": "38", "memory": "24574Mi", "partitions": "1", "simdUnits": "152"}.items():
        policy = cpx.capacity[name].request_policy
        assert policy is not None
        assert [str(policy.default), *map(str, policy.valid_values)] == [part, part]
    assert cpx.attributes["computePartition"].string == "cpx"
    assert cpx.attributes["memoryPartition"].string == "nps4"
    assert cpx.attributes["gpuIndex"].int_ == 0
    assert [consumption.counter_set for consumption in cpx.consumes_counters] == ["gpu-0-mutex"]
    spx = devices["gpu-0-spx-nps1"]
    assert spx.allow_multiple_allocations is None
    assert all(capacity.request_policy is None for capacity in spx.capacity.values())


# --- current modes --------------------------------------------------------------------------------------------------


@on_a_node("mi300x-8x-oam/cpx")
async def test_a_partition_gets_its_device_files_and_their_groups(node: Node) -> None:
    ready = (await node.prepare("c", "gpu-2-129"))["gpu-2-129"]
    assert [(d.path, d.type, d.major, d.minor, d.permissions) for d in ready.edits.device_nodes] == [
        ("/dev/kfd", "c", 511, 0, "rwm"),
        ("/dev/dri/card2", "c", 226, 2, "rwm"),
        ("/dev/dri/renderD129", "c", 226, 129, "rwm"),
    ]
    assert ready.edits.additional_gids == (44, 109)
    await node.unprepare("c")


@on_a_node("mi300x-8x-oam")
async def test_a_removed_gpu_cannot_be_prepared_but_can_be_unprepared(node: Node) -> None:
    await node.prepare("c", "gpu-1-128")
    node.hardware.set_faults("gpu-0=gone")
    assert len(await node.devices()) == 7
    with pytest.raises(ClaimError, match="n1/gpu-1-128 not found on this node"):
        await node.prepare("d", "gpu-1-128")
    await node.unprepare("c")
    node.hardware.set_faults("")
    assert len(await node.devices()) == 8


def test_faults_are_parsed_strictly() -> None:
    node = Node("mi300x-8x-oam")
    for text in ("gpu-8=gone", "gpu-0=xid-79", "card1=gone"):
        with pytest.raises(ValueError, match=r"expected|no GPU"):
            node.hardware.set_faults(text)


@on_a_node("mi300x-8x-oam")
async def test_added_and_removed_gpus_are_reported(node: Node) -> None:
    events = node.driver.watch()
    event = asyncio.ensure_future(anext(aiter(events)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    node.hardware.set_faults("gpu-0=gone")
    assert isinstance(await asyncio.wait_for(event, 5), DevicesChanged)


@on_a_node("mi300x-8x-oam")
async def test_changes_before_watching_are_reported(node: Node) -> None:
    node.hardware.set_faults("gpu-0=gone")
    assert isinstance(await asyncio.wait_for(anext(aiter(node.driver.watch())), 5), DevicesChanged)


# --- partitions on demand -------------------------------------------------------------------------------------------


@on_a_node("mi300x-8x-oam/auto")
async def test_a_gpu_is_partitioned_for_a_claim_and_restored_after_the_last(node: Node) -> None:
    first = (await node.prepare("a", "gpu-0-cpx-nps1", partitions=2))["gpu-0-cpx-nps1"]
    assert (await node.modes())[:2] == ["cpx_nps1", "spx_nps1"]
    assert renders(first.edits) == ["/dev/dri/renderD128", "/dev/dri/renderD129"]
    assert first.status_data == {"pciBusID": "0000:05:00.0", "partitions": ["gpu-1-128", "gpu-2-129"]}
    second = (await node.prepare("b", "gpu-0-cpx-nps1"))["gpu-0-cpx-nps1"]
    assert renders(second.edits) == ["/dev/dri/renderD130"]
    await node.unprepare("a")
    assert (await node.modes())[0] == "cpx_nps1"
    third = (await node.prepare("c", "gpu-0-cpx-nps1"))["gpu-0-cpx-nps1"]
    assert renders(third.edits) == ["/dev/dri/renderD128"]
    await node.unprepare("b")
    await node.unprepare("c")
    assert await node.modes() == ["spx_nps1"] * 8
    assert node.hardware.simulated_files.reloads == 0


@on_a_node("mi300x-8x-oam/auto")
async def test_the_memory_mode_applies_to_the_whole_node(node: Node) -> None:
    await node.prepare("a", "gpu-0-cpx-nps4")
    assert await node.modes() == ["cpx_nps4"] * 8
    assert node.hardware.simulated_files.reloads == 1
    devices = await node.devices()
    tainted = {name for name, device in devices.items() if device.taints}
    assert tainted == {name for name in devices if not name.endswith("nps4")}
    assert {(taint.key, taint.effect) for taint in devices["gpu-1-spx-nps1"].taints} == {
        ("gpu.amd.com/memory-partition-conflict", "NoExecute")
    }
    with pytest.raises(
        ClaimError, match="requires memory mode NPS1, but other claims use the node's GPUs in mode NPS4"
    ):
        await node.prepare("b", "gpu-1-spx-nps1")
    await node.prepare("c", "gpu-3-cpx-nps4", partitions=8)
    assert node.hardware.simulated_files.reloads == 1
    await node.unprepare("a")
    await node.unprepare("c")
    assert await node.modes() == ["spx_nps1"] * 8
    assert not any(device.taints for device in (await node.devices()).values())


@on_a_node("mi300x-8x-oam/auto")
async def test_modes_of_one_gpu_exclude_each_other(node: Node) -> None:
    await node.prepare("a", "gpu-0-dpx-nps1")
    with pytest.raises(
        ClaimError, match=r"requires compute mode QPX on GPU 0000:05:00\.0, but gpu-0-dpx-nps1 on that GPU is in use"
    ):
        await node.prepare("b", "gpu-0-qpx-nps1")
    await node.prepare("b", "gpu-0-dpx-nps1")
    with pytest.raises(ClaimError, match="1 partitions requested, 0 of 2 available"):
        await node.prepare("c", "gpu-0-dpx-nps1")


@on_a_node("mi300x-8x-oam/auto")
async def test_admin_access_gives_all_partitions_and_changes_nothing(node: Node) -> None:
    await node.prepare("a", "gpu-0-dpx-nps1")
    ready = (await node.prepare("b", "gpu-0-spx-nps1", admin=True))["gpu-0-spx-nps1"]
    assert len(renders(ready.edits)) == 2
    assert (await node.modes())[0] == "dpx_nps1"


@on_a_node("mi300x-8x-oam/auto")
async def test_prepared_claims_are_restored_after_a_restart(node: Node) -> None:
    await node.prepare("a", "gpu-1-cpx-nps4")
    before = await node.devices()
    node.hardware.set_faults("gpu-0=gone")
    driver = node.restarted()
    driver.restore(tuple(node.plans.values()))
    after = await node.devices()
    # The name of GPU 1 and the taints are unchanged.
    assert {name: device for name, device in before.items() if not name.startswith("gpu-0-")}[
        "gpu-1-cpx-nps4"
    ] == after["gpu-1-cpx-nps4"]
    assert after["gpu-1-spx-nps1"].taints
    await node.unprepare("a")
    assert await node.modes() == ["spx_nps1"] * 7


@on_a_node("mi300x-8x-oam/auto")
async def test_a_change_of_the_memory_mode_is_reported(node: Node) -> None:
    events = node.driver.watch()
    event = asyncio.ensure_future(anext(aiter(events)))
    await node.prepare("a", "gpu-0-cpx-nps4")
    assert isinstance(await asyncio.wait_for(event, 5), DevicesChanged)


@on_a_node("mi300x-8x-oam/auto")
async def test_unpreparing_needs_no_hardware_and_is_idempotent(node: Node) -> None:
    await node.prepare("a", "gpu-0-cpx-nps1")
    plan = node.plans["a"]
    node.hardware.set_faults(",".join(f"gpu-{n}=gone" for n in range(8)))
    await node.driver.unprepare(plan)
    node.hardware.set_faults("")
    await node.driver.unprepare(plan)
    await node.driver.unprepare(plan)
    assert await node.modes() == ["spx_nps1"] * 8


STEPS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 2), st.sampled_from(["spx", "dpx", "cpx", "cpx4"]), st.integers(1, 3))
)


@given(STEPS)
def test_partitions_have_one_owner_and_the_initial_state_is_restored(steps: list[tuple[int, int, str, int]]) -> None:
    """``steps``: a claim to prepare (or unprepare if it is prepared), its GPU, mode and number of partitions."""

    async def main() -> None:
        node = Node("mi300x-8x-oam/auto")
        await node.driver.discover()
        owners: dict[str, list[str]] = {}
        for claim, gpu, mode, partitions in steps:
            uid = f"c{claim}"
            if uid in node.plans:
                await node.unprepare(uid)
                del owners[uid]
                continue
            compute, memory = ("cpx", "nps4") if mode == "cpx4" else (mode, "nps1")
            try:
                ready = await node.prepare(uid, f"gpu-{gpu}-{compute}-{memory}", partitions=partitions)
            except ClaimError:
                node.plans.pop(uid, None)
                continue
            ((_, device),) = ready.items()
            owners[uid] = renders(device.edits)
            assert len(owners[uid]) == partitions
            # Claims keep their partitions, and no partition has two owners.
            existing = {f"/dev/dri/renderD{part.render}" for each in await node.hardware.gpus() for part in each.parts}
            all_paths = [path for paths in owners.values() for path in paths]
            assert len(all_paths) == len(set(all_paths))
            assert set(all_paths) <= existing
        for uid in tuple(node.plans):
            await node.unprepare(uid)
        assert await node.modes() == ["spx_nps1"] * 8

    idle.run(main())


# --- with the node driver -------------------------------------------------------------------------------------------


def edits(store: MemoryStore, ids: Sequence[str]) -> ContainerEdits:
    return CdiDevices([store]).edits(ids)


def config(kind: str, **fields: Any) -> Sequence[dict[str, Any]]:
    parameters = {"apiVersion": VERSION, "kind": kind, **fields}
    return [{"source": "FromClaim", "requests": [], "opaque": {"driver": "gpu.amd.com", "parameters": parameters}}]


def test_claims_through_the_node_driver() -> None:
    async def main() -> None:
        node = Node("mi300x-8x-oam")
        client, store = MemoryClient(), MemoryStore()
        driver = NodeDriver(
            node.driver, DriverHost("n1", "boot", MemoryStorage(), store), client, IdleClock(), random=Random(1)
        )  # fmt: skip
        await driver.recover()
        await driver.discover_pools()
        fine = put_claim(client, "fine", "gpu-1-128", driver="gpu.amd.com", config=config("GpuConfig"))
        odd = put_claim(client, "odd", "gpu-9-136", driver="gpu.amd.com", config=config("GpuConfig", partitions=2))
        answers = await driver.prepare([fine, odd])
        assert answers[fine.uid].error == ""
        (device,) = answers[fine.uid].devices
        assert edits(store, device.cdi_ids).additional_gids == (44, 109)
        assert "partitions" in answers[odd.uid].error
        assert len(store.names()) == 1
        await driver.unprepare([fine, odd])
        assert store.names() == frozenset()

    idle.run(main())


def test_an_unreadable_plan_does_not_block_other_claims() -> None:
    async def scenario(n: Node) -> None:
        n.plans["odd"] = {"held": "of a version that never was"}
        (device,) = (name for name in await n.devices() if name == "gpu-0-cpx-nps1")
        await n.prepare("c1", device)
        again = n.restarted()
        again.restore(tuple(n.plans.values()))
        await again.discover()
        await again.unprepare(n.plans.pop("c1"), tuple(n.plans.values()))
        assert [gpu.profile for gpu in await n.hardware.gpus()] == ["spx_nps1"]

    idle.run(scenario(Node("1xmi300x/auto")))
