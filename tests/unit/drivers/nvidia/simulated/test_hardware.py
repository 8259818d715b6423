import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.drivers.nvidia.hardware import GpuLost, GpusChanged, HardwareError, MpsDaemon, Xid
from allotment.drivers.nvidia.simulated.declared_faults import DeclaredFaults
from allotment.drivers.nvidia.simulated.fault_injection import Crash
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.fleet.mig import MigPlacement
from allotment.fleet.profiles import MIB
from tests.unit.drivers.nvidia.nodes import SimulatedNode, simulated_node


def run_on_node(scenario: Callable[[SimulatedNode], Awaitable[None]], *args: Any, **more: Any) -> None:
    async def main() -> None:
        await scenario(await simulated_node(*args, **more))

    asyncio.run(main())


# --- MIG ------------------------------------------------------------------------------------------------------------


def test_overlapping_placements_are_rejected() -> None:
    async def scenario(n: SimulatedNode) -> None:
        await n.hardware.create_mig(n.pci[0], 9, 0)
        with pytest.raises(HardwareError, match=r"3g\.20gb at 0 overlaps"):
            await n.hardware.create_mig(n.pci[0], 14, 2)
        await n.hardware.create_mig(n.pci[0], 14, 4)
        await n.hardware.create_mig(n.pci[1], 14, 2)

    run_on_node(scenario, mode="dynamic-mig")


def test_a_profile_has_a_maximum_number_of_instances_and_fixed_starts() -> None:
    async def scenario(n: SimulatedNode) -> None:
        await n.hardware.create_mig(n.pci[0], 20, 0)
        with pytest.raises(HardwareError, match="at most 1 of that profile"):
            await n.hardware.create_mig(n.pci[0], 20, 1)
        with pytest.raises(HardwareError, match="possible starts are 0, 4"):
            await n.hardware.create_mig(n.pci[0], 9, 3)
        with pytest.raises(HardwareError, match="no MIG profile with id 99"):
            await n.hardware.create_mig(n.pci[0], 99, 0)

    run_on_node(scenario, mode="dynamic-mig")


def test_ampere_needs_a_reset_for_mig_and_others_have_none() -> None:
    async def scenario(n: SimulatedNode) -> None:
        with pytest.raises(HardwareError, match="needs a reset"):
            await n.hardware.create_mig(n.pci[0], 9, 0)

    async def old(n: SimulatedNode) -> None:
        with pytest.raises(HardwareError, match="Not Supported"):
            await n.hardware.create_mig(n.pci[0], 9, 0)

    run_on_node(scenario)
    run_on_node(old, "t4")


def test_mig_is_not_enabled_while_the_gpu_is_in_use() -> None:
    async def scenario(n: SimulatedNode) -> None:
        (gpu,) = await n.hardware.gpus()
        await n.hardware.start_mps(MpsDaemon("k", (gpu.uuid,)))
        with pytest.raises(HardwareError, match="In use by another client"):
            await n.hardware.create_mig(n.pci[0], 9, 0)

    run_on_node(scenario, "h100", "dynamic-mig")


@given(st.lists(st.tuples(st.integers(0, 24), st.booleans()), max_size=30))
def test_what_exists_fits_on_the_gpu(moves: list[tuple[int, bool]]) -> None:
    async def scenario(n: SimulatedNode) -> None:
        (gpu,) = await n.hardware.gpus()
        assert gpu.mig is not None
        menu = [(profile, start) for profile in gpu.mig.profiles for start in profile.starts]
        used_uuids: set[str] = set()
        for number, create in moves:
            profile, start = menu[number % len(menu)]
            before = {device.uuid for device in await n.hardware.mig_devices(gpu.pci)}
            try:
                if create:
                    created = await n.hardware.create_mig(gpu.pci, profile.gi_id, start)
                    assert created.uuid in before or created.uuid not in used_uuids
                    used_uuids.add(created.uuid)
                else:
                    await n.hardware.destroy_mig(gpu.pci, profile.gi_id, start)
            except HardwareError:
                assert {device.uuid for device in await n.hardware.mig_devices(gpu.pci)} == before
            mig_devices = await n.hardware.mig_devices(gpu.pci)
            profiles = {profile.gi_id: profile for profile in gpu.mig.profiles}
            taken = [n for each in mig_devices for n in MigPlacement(profiles[each.profile_id], each.start).slices]
            assert len(taken) == len(set(taken))
            assert len({each.gpu_instance for each in mig_devices}) == len(mig_devices)
            assert sum(profiles[each.profile_id].multiprocessors for each in mig_devices) <= gpu.multiprocessors
            assert (await n.hardware.gpus())[0].mig_enabled == bool(mig_devices)

    run_on_node(scenario, "h100", "dynamic-mig")


# --- sharing --------------------------------------------------------------------------------------------------------


def test_an_exclusive_gpu_has_one_daemon() -> None:
    async def scenario(n: SimulatedNode) -> None:
        (gpu,) = await n.hardware.gpus()
        await n.hardware.set_compute_mode(gpu.pci, "EXCLUSIVE_PROCESS")
        await n.hardware.start_mps(MpsDaemon("one", (gpu.uuid,)))
        await n.hardware.start_mps(MpsDaemon("one", (gpu.uuid,)))
        with pytest.raises(HardwareError, match="owned exclusively by one"):
            await n.hardware.start_mps(MpsDaemon("two", (gpu.uuid,)))
        await n.hardware.set_compute_mode(gpu.pci, "DEFAULT")
        await n.hardware.start_mps(MpsDaemon("two", (gpu.uuid,)))
        assert await n.hardware.mps_daemons() == {"one", "two"}
        with pytest.raises(HardwareError, match="EXCLUSIVE_PROCESS"):
            await n.hardware.set_compute_mode(gpu.pci, "EXCLUSIVE_PROCESS")

    run_on_node(scenario, "t4")


def test_a_token_gives_the_share_of_its_container() -> None:
    async def scenario(n: SimulatedNode) -> None:
        gpu = (await n.hardware.gpus())[0]
        token = n.hardware.token("c1", gpu.pci)
        whole = n.hardware.share(token)
        assert whole is not None
        assert (whole.engine, whole.memory, whole.strategy) == (gpu.uuid, gpu.memory_bytes, "exclusive")
        assert not whole.exclusive
        await n.hardware.set_time_slice(gpu.pci, 3)
        sliced = n.hardware.share(token)
        assert sliced is not None
        assert (sliced.strategy, sliced.interval) == ("time-slicing", 3)
        await n.hardware.set_time_slice(gpu.pci, 0)
        await n.hardware.set_compute_mode(gpu.pci, "EXCLUSIVE_PROCESS")
        await n.hardware.start_mps(MpsDaemon("k", (gpu.uuid,), 33, {gpu.uuid: 5120}))
        client = n.hardware.share(n.hardware.token("c1", gpu.pci, "k"))
        assert client is not None
        assert (client.strategy, client.threads, client.memory_limit) == ("mps", 33, 5120 * MIB)
        assert not client.exclusive
        stranger = n.hardware.share(token)
        assert stranger is not None
        assert stranger.exclusive
        await n.hardware.stop_mps("k")
        assert n.hardware.share(n.hardware.token("c1", gpu.pci, "k")) is None

    run_on_node(scenario)


def test_a_token_of_a_mig_device_is_valid_while_the_device_exists() -> None:
    async def scenario(n: SimulatedNode) -> None:
        device = await n.hardware.create_mig(n.pci[0], 9, 4)
        token = n.hardware.token("c1", device)
        share = n.hardware.share(token)
        assert share is not None
        assert (share.engine, share.profile, share.strategy) == (device.uuid, "3g.20gb", "mig")
        assert (share.multiprocessors, share.memory) == (42, 19968 * MIB)
        assert n.hardware.share(n.hardware.token("c1", n.pci[0])) is None
        await n.hardware.destroy_mig(n.pci[0], 9, 4)
        assert n.hardware.share(token) is None

    run_on_node(scenario, mode="dynamic-mig")


@pytest.mark.parametrize("token", ["", "x", "n1/c/0000:07:00.0/a/b/", "other/c/0000:07:00.0/-1/-1/", "n1/c/p/-1/-1/"])
def test_unknown_tokens_give_no_share(token: str) -> None:
    async def scenario(n: SimulatedNode) -> None:
        assert n.hardware.share(token) is None

    run_on_node(scenario)


# --- added and removed GPUs--------------------------------------------------------------------------------------------


def test_events_are_delivered_to_all_listeners() -> None:
    async def scenario(n: SimulatedNode) -> None:
        listeners = [n.hardware.events(), n.hardware.events()]
        waiting = [asyncio.ensure_future(anext(each)) for each in listeners]
        await asyncio.sleep(0)
        n.hardware.report_xid(n.pci[3], 79)
        assert [await each for each in waiting] == [Xid(n.pci[3], 79)] * 2
        waiting = [asyncio.ensure_future(anext(each)) for each in listeners]
        n.hardware.remove(n.pci[3])
        assert [await each for each in waiting] == [GpusChanged()] * 2

    run_on_node(scenario)


def test_a_removed_gpu_is_new_when_added_again() -> None:
    async def scenario(n: SimulatedNode) -> None:
        gpu = (await n.hardware.gpus())[2]
        await n.hardware.set_compute_mode(gpu.pci, "EXCLUSIVE_PROCESS")
        await n.hardware.start_mps(MpsDaemon("k", (gpu.uuid,)))
        n.hardware.remove(gpu.pci)
        assert gpu.pci not in [each.pci for each in await n.hardware.gpus()]
        assert await n.hardware.mps_daemons() == frozenset()
        with pytest.raises(GpuLost):
            await n.hardware.set_time_slice(gpu.pci, 1)
        n.hardware.add(gpu)
        assert (await n.hardware.gpus())[2] == gpu
        assert n.card(2).mode == "DEFAULT"

    run_on_node(scenario)


def test_a_reboot_keeps_the_fixed_mig_layout() -> None:
    async def scenario(n: SimulatedNode) -> None:
        before = n.hardware.snapshot()
        await n.hardware.destroy_mig(n.pci[0], 9, 0)
        await n.hardware.set_time_slice(n.pci[1], 2)
        n.hardware.reboot()
        assert n.hardware.snapshot() == before

    run_on_node(scenario, mode="static-mig=3g.20gb+2g.10gb/full")


def test_faults_are_set_and_cleared_by_name() -> None:
    async def scenario(n: SimulatedNode) -> None:
        breaking = DeclaredFaults(n.hardware)
        breaking.apply("gpu-3=gone,gpu-1=lost")
        breaking.apply("gpu-3=gone, gpu-1=lost")
        assert len(await n.hardware.gpus()) == 7
        with pytest.raises(GpuLost):
            await n.hardware.set_time_slice(n.pci[1], 1)
        breaking.apply("gpu-0=xid-79")
        assert len(await n.hardware.gpus()) == 8
        await n.hardware.set_time_slice(n.pci[1], 1)
        for wrong in ("gpu-9=gone", "gpu-0", "gpu-0=xid-0", "gpu-0=sad"):
            with pytest.raises(ValueError, match=r"expected|no GPU"):
                breaking.apply(wrong)

    run_on_node(scenario)


# --- persistence ----------------------------------------------------------------------------------------------------


def test_with_a_folder_the_hardware_outlives_its_driver(tmp_path: Path) -> None:
    async def scenario() -> None:
        first = await simulated_node(mode="dynamic-mig", state=tmp_path)
        device = await first.hardware.create_mig(first.pci[0], 9, 4)
        await first.hardware.start_mps(MpsDaemon("k", (device.uuid,), None, {device.uuid: 100}))
        second = await simulated_node(mode="dynamic-mig", state=tmp_path)
        assert await second.hardware.mig_devices(first.pci[0]) == (device,)
        assert second.hardware.snapshot() == first.hardware.snapshot()
        mounts = second.hardware.mps_edits("k").mounts
        assert [Path(mount.host_path).is_dir() for mount in mounts] == [True, True]
        # Two concurrent drivers, an old one and its successor, see each other's changes.
        await second.hardware.stop_mps("k")
        assert await first.hardware.mps_daemons() == frozenset()
        await first.hardware.destroy_mig(first.pci[0], 9, 4)
        assert await second.hardware.mig_devices(first.pci[0]) == ()
        assert list((tmp_path / "mps").iterdir()) == []

    asyncio.run(scenario())


@pytest.mark.parametrize("folder", [False, True])
def test_a_crash_leaves_an_incomplete_mig_device_that_can_be_destroyed(folder: bool, tmp_path: Path) -> None:
    async def scenario() -> None:
        n = await simulated_node("h100", "dynamic-mig", state=tmp_path if folder else None)
        n.faults.crash_in(1)
        with pytest.raises(Crash):
            await n.hardware.create_mig(n.pci[0], 9, 0)
        assert [each.uuid for each in n.card().instances] == [""]
        assert await n.hardware.mig_devices(n.pci[0]) == ()
        with pytest.raises(HardwareError, match="overlaps"):
            await n.hardware.create_mig(n.pci[0], 0, 0)
        await n.hardware.destroy_mig(n.pci[0], 9, 0)
        assert not n.card().mig

    asyncio.run(scenario())


def test_a_thousand_nodes_cost_little() -> None:
    async def scenario() -> None:
        n = await simulated_node()
        gpus = await n.hardware.gpus()
        many = [SimulatedHardware(gpus, name=f"n{number}") for number in range(1000)]
        assert sum([len(await each.gpus()) for each in many]) == 8000

    asyncio.run(scenario())
