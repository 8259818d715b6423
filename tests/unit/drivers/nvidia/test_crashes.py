"""Whatever a driver's process dies of, and wherever: the hardware is what the claims on record say, nothing else."""

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allotment.cdi.store import MemoryStore
from allotment.drivers.host import MemoryStorage
from allotment.drivers.nvidia.config import VERSION
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.plan import decode
from allotment.drivers.nvidia.simulated.fault_injection import Crash
from allotment.drivers.preparation.checkpoint import Checkpoint
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.nvidia.nodes import Simulated, node
from tests.unit.drivers.world import memory_host, opaque, put_claim

DRIVER = "gpu.nvidia.com"


class Wanted(NamedTuple):
    """A claim: its devices, parameters and what else its results say."""

    devices: tuple[str, ...]
    kind: str = ""
    sharing: Tree | None = None
    result: Tree = {}


TURNS: Tree = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
SHORT: Tree = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}}
MPS: Tree = {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "5Gi"}}

#: Claims by machine and mode; several want the same devices.
MENUS: dict[tuple[str, str], list[Wanted]] = {
    ("dgx-a100-40gb", "full"): [
        Wanted(("gpu-0", "gpu-1"), "GpuConfig", MPS),
        Wanted(("gpu-1",), "GpuConfig", TURNS),
        Wanted(("gpu-0",), "GpuConfig", SHORT),
        Wanted(("gpu-1",), result={"adminAccess": True}),
        Wanted(("gpu-0",)),
    ],
    ("h100", "dynamic-mig"): [
        Wanted(("gpu-0-mig-3g40gb-9-0", "gpu-1-mig-1g10gb-19-6")),
        Wanted(("gpu-0-mig-3g40gb-9-4",), "MigDeviceConfig", MPS),
        Wanted(("gpu-0-mig-4g40gb-5-0",)),
        Wanted(("gpu-1",), "GpuConfig", MPS),
        Wanted(("gpu-1-mig-1g10gb-19-5", "gpu-1-mig-1g10gb-19-4")),
    ],
    ("dgx-a100-40gb", "shared"): [
        Wanted(("gpu-0",), result={"shareID": "s-1", "consumedCapacity": {"memory": "10Gi"}}),
        Wanted(("gpu-0", "gpu-1"), result={"shareID": "s-2", "consumedCapacity": {"memory": "20Gi"}}),
        Wanted(("gpu-1",), "GpuConfig", TURNS, {"shareID": "s-3", "consumedCapacity": {"memory": "1Gi"}}),
    ],
    ("dgx-a100-40gb", "consumable-shares=4"): [
        Wanted(("gpu-0",), "GpuConfig", TURNS, {"shareID": "s-1"}),
        Wanted(("gpu-0",), "GpuConfig", TURNS, {"shareID": "s-2"}),
        Wanted(("gpu-0", "gpu-1"), "GpuConfig", SHORT, {"shareID": "s-3"}),
        Wanted(("gpu-0",), result={"shareID": "s-4"}),
    ],
    ("dgx-a100-40gb", "vfio"): [Wanted(("gpu-vfio-0",)), Wanted(("gpu-vfio-1",)), Wanted(("gpu-vfio-0", "gpu-vfio-1"))],
}


class Story:
    """A node through crashes: hardware, checkpoint and CDI files stay, drivers come and go."""

    def __init__(self, there: Simulated, menu: Sequence[Wanted]) -> None:
        self.there = there
        self.client = MemoryClient()
        self.host = memory_host(storage=MemoryStorage(), cdi=MemoryStore())
        self.refs: list[ClaimRef] = []
        for number, wanted in enumerate(menu):
            parameters = {"apiVersion": VERSION, "kind": wanted.kind, "sharing": wanted.sharing}
            config = [opaque(parameters, driver=DRIVER)] if wanted.kind else []
            ref = put_claim(
                self.client, f"c{number}", *wanted.devices, uid=f"c{number}", driver=DRIVER, config=config,
                **(wanted.result or {}),
            )  # fmt: skip
            self.refs.append(ref)

    async def start(self) -> None:
        """A new process."""
        driver = NvidiaDriver(self.there.hardware, self.there.driver.mode)
        self.driver = NodeDriver(driver, self.host, self.client, IdleClock(), status=False)
        await self.driver.recover()
        await self.driver.discover_pools()

    async def call(self, what: str, claim: int) -> None:
        """A kubelet's call; after a crash the next process."""
        refs = [self.refs[claim % len(self.refs)]]
        try:
            await (self.driver.prepare(refs) if what == "prepare" else self.driver.unprepare(refs))
        except Crash:
            self.there.faults.crash_in(None)
            await self.start()

    def check(self) -> None:
        """The hardware against the claims on record."""
        checkpoint = Checkpoint(self.host.checkpoint, DRIVER, self.host.boot_id)
        checkpoint.load()
        entries = dict(checkpoint)
        assert {entry.state for entry in entries.values()} <= {"completed"}
        plans = [decode(entry.plan) for entry in entries.values()]
        picture = self.there.hardware.snapshot()
        assert set(picture.daemons) == {daemon.key for plan in plans for daemon in plan.daemons}
        for pci, card in picture.cards.items():
            mine = [held for plan in plans for held in plan.devices if held.pci == pci]
            made = sorted((held.profile_id, held.start) for held in mine if held.dynamic)
            assert sorted((each.profile_id, each.start) for each in card.instances) == made
            assert all(each.uuid for each in card.instances)
            hopper = self.there.driver._inventory.gpu(pci)
            assert hopper is not None
            assert card.mig == (hopper.mig_enabled or bool(made))
            assert card.vfio == any(held.kind == "vfio" for held in mine)
            slices = {each.interval for plan in plans for each in plan.time_slices if pci in each.gpus}
            assert {card.interval} == (slices or {0})
            owned = any(pci in plan.gpus_of(each) and each.exclusive for plan in plans for each in plan.daemons)
            assert card.mode == ("EXCLUSIVE_PROCESS" if owned else "DEFAULT")
        files = {name for name in self.host.cdi.names() if "claim" in name}
        assert len(files) == len(entries)


calls = st.tuples(
    st.sampled_from(["prepare", "prepare", "unprepare"]), st.integers(0, 4), st.none() | st.integers(0, 14)
)


@pytest.mark.parametrize(("machine", "mode"), MENUS)
@given(steps=st.lists(calls, min_size=1, max_size=10))
@example(steps=[("prepare", n, crash) for n in range(5) for crash in range(12)])
@example(
    steps=[step for n in range(5) for crash in range(12) for step in (("prepare", n, None), ("unprepare", n, crash))]
)
def test_the_hardware_is_as_the_claims_on_record_say(
    machine: str, mode: str, steps: list[tuple[str, int, int | None]]
) -> None:
    async def told() -> None:
        story = Story(await node(machine, mode, gpus=2), MENUS[machine, mode])
        await story.start()
        for what, claim, crash in steps:
            story.there.faults.crash_in(crash)
            await story.call(what, claim)
            story.there.faults.crash_in(None)
            story.check()
        for ref in story.refs:
            await story.driver.unprepare([ref])
        story.check()
        assert not story.there.hardware.snapshot().daemons

    idle.run(told())


@given(
    steps=st.lists(st.tuples(calls, st.sampled_from(["create_mig", "start_mps", "set_compute_mode", ""])), max_size=8)
)
def test_a_call_that_fails_leaves_nothing_behind(steps: list[tuple[tuple[str, int, int | None], str]]) -> None:
    async def told() -> None:
        story = Story(await node("h100", "dynamic-mig", gpus=2), MENUS["h100", "dynamic-mig"])
        await story.start()
        for (what, claim, _), operation in steps:
            if operation:
                story.there.faults.fail(operation, moment="between" if operation == "create_mig" else "before")
            with suppress(Crash):
                await story.call(what, claim)
            story.there.faults.clear()
            await story.start()  # undoes what could not be undone while things failed
            story.check()

    idle.run(told())
