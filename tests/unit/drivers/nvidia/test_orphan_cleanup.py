"""NVIDIA's GPUs after the record of claims was lost: MIG devices and daemons without a plan go, and nothing else."""

from __future__ import annotations

import pytest

from allotment.drivers.driver import AllocatedDevice, ClaimError
from allotment.drivers.nvidia.orphan_cleanup import gpus_of_daemon
from tests.unit.cluster import idle
from tests.unit.drivers.nvidia.nodes import NODE, Simulated, config, node


def granted(device: str, parameters: object = None) -> AllocatedDevice:
    return AllocatedDevice("gpu", NODE, device, parameters)


def mps(kind: str = "GpuConfig") -> object:
    return config(kind, sharing={"strategy": "MPS"})


def made(on: Simulated) -> dict[int, list[int]]:
    return {minor: [one.start for one in on.card(minor).instances] for minor in range(len(on.pci))}


def test_mig_devices_made_for_claims_that_nobody_knows_go_and_the_others_stay() -> None:
    async def story() -> None:
        on = await node("dgx-a100-40gb", "dynamic-mig", gpus=2)
        plan, _ = await on.prepare("known", granted("gpu-0-mig-1g5gb-19-0"))
        await on.prepare("lost", granted("gpu-0-mig-1g5gb-19-3"), others=(plan,))
        await on.prepare("lost-too", granted("gpu-1-mig-3g20gb-9-4"), others=(plan,))
        assert made(on) == {0: [0, 3], 1: [4]}
        await on.driver.sweep([plan])
        assert made(on) == {0: [0], 1: []}
        await on.driver.sweep([])
        assert made(on) == {0: [], 1: []}

    idle.run(story())


def test_fixed_layouts_are_an_administrator_s() -> None:
    async def story() -> None:
        on = await node("dgx-a100-40gb", "static-mig=1g.5gb:7", gpus=1)
        before = on.hardware.snapshot()
        await on.driver.sweep([])
        assert on.hardware.snapshot() == before

    idle.run(story())


def test_daemons_that_nobody_knows_give_their_gpus_back() -> None:
    async def story() -> None:
        on = await node("t4-4x-pcie")
        plan, _ = await on.prepare("known", granted("gpu-0", mps()))
        together = mps()
        await on.prepare("lost", granted("gpu-1", together), granted("gpu-3", together), others=(plan,))
        assert [on.card(minor).mode for minor in range(4)] == [
            "EXCLUSIVE_PROCESS", "EXCLUSIVE_PROCESS", "DEFAULT", "EXCLUSIVE_PROCESS",
        ]  # fmt: skip
        await on.driver.sweep([plan])
        assert [on.card(minor).mode for minor in range(4)] == ["EXCLUSIVE_PROCESS", *["DEFAULT"] * 3]
        assert len(on.daemons()) == 1
        await on.driver.unprepare(plan)
        assert on.daemons() == []

    idle.run(story())


def test_a_plan_of_another_version_keeps_everything() -> None:
    async def story() -> None:
        on = await node("t4-4x-pcie")
        await on.prepare("lost", granted("gpu-0", mps()))
        with pytest.raises(ClaimError, match="plans another version has written"):
            await on.driver.sweep([{"held": "nobody knows"}])
        assert len(on.daemons()) == 1

    idle.run(story())


def test_whose_daemon_it_was_is_in_its_name() -> None:
    async def story() -> None:
        on = await node("t4-4x-pcie")
        gpus = await on.hardware.gpus()
        await on.prepare("lost", granted("gpu-2", mps()))
        (daemon,) = on.daemons()
        assert gpus_of_daemon(daemon.key, gpus) == (on.pci[2],)
        assert gpus_of_daemon("lost-00000", gpus) == ()

    idle.run(story())
