"""Crashes of the driver at any step: the hardware always matches the recorded claims."""

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
from tests.unit.drivers.fake_driver import memory_host, opaque, put_claim
from tests.unit.drivers.nvidia.nodes import SimulatedNode, simulated_node

DRIVER = "gpu.nvidia.com"


class ClaimCase(NamedTuple):
    """A claim: its devices, parameters, and other fields of its results."""

    devices: tuple[str, ...]
    kind: str = ""
    sharing: Tree | None = None
    result: Tree = {}


LONG: Tree = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
SHORT: Tree = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}}
MPS: Tree = {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "5Gi"}}

#: Claims by machine and mode; some of them conflict.
CLAIM_CASES: dict[tuple[str, str], list[ClaimCase]] = {
    ("dgx-a100-40gb", "full"): [
        ClaimCase(("gpu-0", "gpu-1"), "GpuConfig", MPS),
        ClaimCase(("gpu-1",), "GpuConfig", LONG),
        ClaimCase(("gpu-0",), "GpuConfig", SHORT),
        ClaimCase(("gpu-1",), result={"adminAccess": True}),
        ClaimCase(("gpu-0",)),
    ],
    ("h100", "dynamic-mig"): [
        ClaimCase(("gpu-0-mig-3g40gb-9-0", "gpu-1-mig-1g10gb-19-6")),
        ClaimCase(("gpu-0-mig-3g40gb-9-4",), "MigDeviceConfig", MPS),
        ClaimCase(("gpu-0-mig-4g40gb-5-0",)),
        ClaimCase(("gpu-1",), "GpuConfig", MPS),
        ClaimCase(("gpu-1-mig-1g10gb-19-5", "gpu-1-mig-1g10gb-19-4")),
    ],
    ("dgx-a100-40gb", "shared"): [
        ClaimCase(("gpu-0",), result={"shareID": "s-1", "consumedCapacity": {"memory": "10Gi"}}),
        ClaimCase(("gpu-0", "gpu-1"), result={"shareID": "s-2", "consumedCapacity": {"memory": "20Gi"}}),
        ClaimCase(("gpu-1",), "GpuConfig", LONG, {"shareID": "s-3", "consumedCapacity": {"memory": "1Gi"}}),
    ],
    ("dgx-a100-40gb", "consumable-shares=4"): [
        ClaimCase(("gpu-0",), "GpuConfig", LONG, {"shareID": "s-1"}),
        ClaimCase(("gpu-0",), "GpuConfig", LONG, {"shareID": "s-2"}),
        ClaimCase(("gpu-0", "gpu-1"), "GpuConfig", SHORT, {"shareID": "s-3"}),
        ClaimCase(("gpu-0",), result={"shareID": "s-4"}),
    ],
    ("dgx-a100-40gb", "vfio"): [
        ClaimCase(("gpu-vfio-0",)),
        ClaimCase(("gpu-vfio-1",)),
        ClaimCase(("gpu-vfio-0", "gpu-vfio-1")),
    ],
}


class CrashScenario:
    """A node through crashes: hardware, checkpoint and CDI files persist, the driver is restarted."""

    def __init__(self, simulated: SimulatedNode, cases: Sequence[ClaimCase]) -> None:
        self.simulated = simulated
        self.client = MemoryClient()
        self.host = memory_host(storage=MemoryStorage(), cdi=MemoryStore())
        self.refs: list[ClaimRef] = []
        for number, case in enumerate(cases):
            parameters = {"apiVersion": VERSION, "kind": case.kind, "sharing": case.sharing}
            config = [opaque(parameters, driver=DRIVER)] if case.kind else []
            ref = put_claim(
                self.client, f"c{number}", *case.devices, uid=f"c{number}", driver=DRIVER, config=config,
                **(case.result or {}),
            )  # fmt: skip
            self.refs.append(ref)

    async def start(self) -> None:
        """Start a new process."""
        driver = NvidiaDriver(self.simulated.hardware, self.simulated.driver.mode)
        self.driver = NodeDriver(driver, self.host, self.client, IdleClock(), status=False)
        await self.driver.recover()
        await self.driver.discover_pools()

    async def call(self, verb: str, claim: int) -> None:
        """Make a kubelet's call; after a crash, start a new process."""
        refs = [self.refs[claim % len(self.refs)]]
        try:
            await (self.driver.prepare(refs) if verb == "prepare" else self.driver.unprepare(refs))
        except Crash:
            self.simulated.faults.crash_in(None)
            await self.start()

    def check(self) -> None:
        """Compare the hardware with the recorded claims."""
        checkpoint = Checkpoint(self.host.checkpoint, DRIVER, self.host.boot_id)
        checkpoint.load()
        entries = dict(checkpoint)
        assert {entry.state for entry in entries.values()} <= {"completed"}
        plans = [decode(entry.plan) for entry in entries.values()]
        snapshot = self.simulated.hardware.snapshot()
        assert set(snapshot.daemons) == {daemon.key for plan in plans for daemon in plan.daemons}
        for pci, card in snapshot.cards.items():
            devices = [device for plan in plans for device in plan.devices if device.pci == pci]
            expected = sorted((device.profile_id, device.start) for device in devices if device.dynamic)
            assert sorted((each.profile_id, each.start) for each in card.instances) == expected
            assert all(each.uuid for each in card.instances)
            hopper = self.simulated.driver._inventory.gpu(pci)
            assert hopper is not None
            assert card.mig == (hopper.mig_enabled or bool(expected))
            assert card.vfio == any(device.kind == "vfio" for device in devices)
            slices = {each.interval for plan in plans for each in plan.time_slices if pci in each.gpus}
            assert {card.interval} == (slices or {0})
            owned = any(pci in plan.gpus_of(each) and each.exclusive for plan in plans for each in plan.daemons)
            assert card.mode == ("EXCLUSIVE_PROCESS" if owned else "DEFAULT")
        files = {name for name in self.host.cdi.names() if "claim" in name}
        assert len(files) == len(entries)


calls = st.tuples(
    st.sampled_from(["prepare", "prepare", "unprepare"]), st.integers(0, 4), st.none() | st.integers(0, 14)
)


@pytest.mark.parametrize(("machine", "mode"), CLAIM_CASES)
@given(steps=st.lists(calls, min_size=1, max_size=10))
@example(steps=[("prepare", n, crash) for n in range(5) for crash in range(12)])
@example(
    steps=[step for n in range(5) for crash in range(12) for step in (("prepare", n, None), ("unprepare", n, crash))]
)
def test_the_hardware_matches_the_recorded_claims(
    machine: str, mode: str, steps: list[tuple[str, int, int | None]]
) -> None:
    async def main() -> None:
        scenario = CrashScenario(await simulated_node(machine, mode, gpus=2), CLAIM_CASES[machine, mode])
        await scenario.start()
        for verb, claim, crash in steps:
            scenario.simulated.faults.crash_in(crash)
            await scenario.call(verb, claim)
            scenario.simulated.faults.crash_in(None)
            scenario.check()
        for ref in scenario.refs:
            await scenario.driver.unprepare([ref])
        scenario.check()
        assert not scenario.simulated.hardware.snapshot().daemons

    idle.run(main())


@given(
    steps=st.lists(st.tuples(calls, st.sampled_from(["create_mig", "start_mps", "set_compute_mode", ""])), max_size=8)
)
def test_a_call_that_fails_leaves_nothing_behind(steps: list[tuple[tuple[str, int, int | None], str]]) -> None:
    async def main() -> None:
        scenario = CrashScenario(
            await simulated_node("h100", "dynamic-mig", gpus=2), CLAIM_CASES["h100", "dynamic-mig"]
        )
        await scenario.start()
        for (verb, claim, _), operation in steps:
            if operation:
                scenario.simulated.faults.fail(operation, moment="between" if operation == "create_mig" else "before")
            with suppress(Crash):
                await scenario.call(verb, claim)
            scenario.simulated.faults.clear()
            await scenario.start()  # undoes what could not be undone during the failures
            scenario.check()

    idle.run(main())
