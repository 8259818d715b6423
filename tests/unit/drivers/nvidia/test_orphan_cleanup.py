"""Cleanup after the record of claims was lost: only MIG devices and daemons without a plan are removed."""

from __future__ import annotations

import pytest

from allotment.drivers.driver import AllocatedDevice, ClaimError
from allotment.drivers.nvidia.orphan_cleanup import gpus_of_daemon
from tests.unit.cluster import idle
from tests.unit.drivers.nvidia.nodes import NODE, SimulatedNode, config, simulated_node


def allocated(device: str, parameters: object = None) -> AllocatedDevice:
    return AllocatedDevice("gpu", NODE, device, parameters)


def mps(kind: str = "GpuConfig") -> object:
    return config(kind, sharing={"strategy": "MPS"})


def mig_starts(simulated: SimulatedNode) -> dict[int, list[int]]:
    return {
        minor: [instance.start for instance in simulated.card(minor).instances] for minor in range(len(simulated.pci))
    }


def test_orphaned_mig_devices_are_destroyed_and_others_stay() -> None:
    async def scenario() -> None:
        simulated = await simulated_node("dgx-a100-40gb", "dynamic-mig", gpus=2)
        plan, _ = await simulated.prepare("known", allocated("gpu-0-mig-1g5gb-19-0"))
        await simulated.prepare("lost", allocated("gpu-0-mig-1g5gb-19-3"), others=(plan,))
        await simulated.prepare("lost-too", allocated("gpu-1-mig-3g20gb-9-4"), others=(plan,))
        assert mig_starts(simulated) == {0: [0, 3], 1: [4]}
        await simulated.driver.sweep([plan])
        assert mig_starts(simulated) == {0: [0], 1: []}
        await simulated.driver.sweep([])
        assert mig_starts(simulated) == {0: [], 1: []}

    idle.run(scenario())


def test_fixed_mig_layouts_are_not_changed() -> None:
    async def scenario() -> None:
        simulated = await simulated_node("dgx-a100-40gb", "static-mig=1g.5gb:7", gpus=1)
        before = simulated.hardware.snapshot()
        await simulated.driver.sweep([])
        assert simulated.hardware.snapshot() == before

    idle.run(scenario())


def test_orphaned_daemons_are_stopped_and_their_gpus_reset() -> None:
    async def scenario() -> None:
        simulated = await simulated_node("t4-4x-pcie")
        plan, _ = await simulated.prepare("known", allocated("gpu-0", mps()))
        together = mps()
        await simulated.prepare("lost", allocated("gpu-1", together), allocated("gpu-3", together), others=(plan,))
        assert [simulated.card(minor).mode for minor in range(4)] == [
            "EXCLUSIVE_PROCESS", "EXCLUSIVE_PROCESS", "DEFAULT", "EXCLUSIVE_PROCESS",
        ]  # fmt: skip
        await simulated.driver.sweep([plan])
        assert [simulated.card(minor).mode for minor in range(4)] == ["EXCLUSIVE_PROCESS", *["DEFAULT"] * 3]
        assert len(simulated.daemons()) == 1
        await simulated.driver.unprepare(plan)
        assert simulated.daemons() == []

    idle.run(scenario())


def test_a_plan_of_an_unknown_version_prevents_the_cleanup() -> None:
    async def scenario() -> None:
        simulated = await simulated_node("t4-4x-pcie")
        await simulated.prepare("lost", allocated("gpu-0", mps()))
        with pytest.raises(ClaimError, match="prepared by a different version of the driver"):
            await simulated.driver.sweep([{"held": "unknown"}])
        assert len(simulated.daemons()) == 1

    idle.run(scenario())


def test_the_gpus_of_a_daemon_are_found_from_its_key() -> None:
    async def scenario() -> None:
        simulated = await simulated_node("t4-4x-pcie")
        gpus = await simulated.hardware.gpus()
        await simulated.prepare("lost", allocated("gpu-2", mps()))
        (daemon,) = simulated.daemons()
        assert gpus_of_daemon(daemon.key, gpus) == (simulated.pci[2],)
        assert gpus_of_daemon("lost-00000", gpus) == ()

    idle.run(scenario())
