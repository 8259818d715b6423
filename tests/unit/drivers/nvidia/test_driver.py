from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from allotment.drivers.driver import ClaimError
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.hardware import HardwareError
from allotment.drivers.nvidia.simulated.fault_injection import FaultInjector
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.fleet.hardware import hardware
from allotment.fleet.modes import Full, Vfio
from allotment.fleet.nvidia import gpus_of
from tests.unit.cluster import idle
from tests.unit.drivers.nvidia.nodes import Simulated, config, env, gpu, mps, node, only, paths, slicing

Story = Callable[[Simulated], Awaitable[None]]


def on(story: Story, machine: str = "dgx-a100-40gb", mode: str = "full", **more: Any) -> None:
    """Tell a story on a new node; in the end its hardware must be as new."""

    async def told() -> None:
        there = await node(machine, mode, **more)
        before = there.hardware.snapshot()
        await story(there)
        after = there.hardware.snapshot()
        after.serial = before.serial
        assert after == before

    idle.run(told())


# --- whole GPUs -----------------------------------------------------------------------------------------------------


def test_a_gpu_without_parameters_is_given_and_left_alone() -> None:
    async def story(n: Simulated) -> None:
        before = n.hardware.snapshot()
        plan, prepared = await n.prepare("c1", gpu("gpu-0"))
        assert n.hardware.snapshot() == before
        assert list(prepared.devices) == [("n1", "gpu-0", "")]
        ready = only(prepared)
        assert paths(ready) == ["/dev/nvidia0"]
        assert ready.status_data is not None
        assert ready.status_data["uuid"] == (await n.hardware.gpus())[0].uuid
        await n.driver.unprepare(plan)

    on(story)


def test_every_container_of_a_claim_gets_the_control_nodes() -> None:
    async def story(n: Simulated) -> None:
        _, prepared = await n.prepare("c1", gpu("gpu-0"))
        assert "NVIDIA_VISIBLE_DEVICES=void" in prepared.edits.env
        assert "/dev/nvidiactl" in [each.path for each in prepared.edits.device_nodes]
        # A runtime must not have to look for a node on a host that has none.
        assert all(each.type and each.major for each in prepared.edits.device_nodes)

    on(story)


@pytest.mark.parametrize(("interval", "level"), [("Default", 0), ("Short", 1), ("Medium", 2), ("Long", 3)])
def test_time_slices_are_set_and_set_back(interval: str, level: int) -> None:
    async def story(n: Simulated) -> None:
        plan, prepared = await n.prepare("c1", gpu("gpu-1", slicing(interval)))
        assert (n.card(1).interval, n.card(1).mode, n.card(0).interval) == (level, "DEFAULT", 0)
        assert only(prepared).status_data == {
            "type": "gpu",
            "uuid": n.driver._inventory.gpus[1].uuid,
            "pciBusID": n.pci[1],
            "sharing": {"strategy": "TimeSlicing"},
        }
        await n.driver.unprepare(plan)

    on(story)


def test_mps_has_a_daemon_that_owns_its_gpu() -> None:
    async def story(n: Simulated) -> None:
        wanted = mps(defaultActiveThreadPercentage=33, defaultPinnedDeviceMemoryLimit="5Gi")
        plan, prepared = await n.prepare("c1", gpu("gpu-0", wanted))
        (daemon,) = n.daemons()
        (uuid,) = daemon.uuids
        assert (daemon.threads, daemon.memory_limits, n.card().mode) == (33, {uuid: 5120}, "EXCLUSIVE_PROCESS")
        assert daemon.key.startswith("c1-")
        assert len(daemon.key) == len("c1-") + 5
        assert env(only(prepared))["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
        await n.driver.unprepare(plan)
        assert (n.daemons(), n.card().mode) == ([], "DEFAULT")

    on(story)


def test_mps_without_settings_limits_nothing() -> None:
    async def story(n: Simulated) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", config("GpuConfig", sharing={"strategy": "MPS"})))
        (daemon,) = n.daemons()
        assert (daemon.threads, daemon.memory_limits, daemon.multi_user) == (None, {}, False)
        await n.driver.unprepare(plan)

    on(story)


def test_gpus_with_the_same_parameters_have_one_daemon_and_others_their_own() -> None:
    async def story(n: Simulated) -> None:
        one, other = mps(defaultPinnedDeviceMemoryLimit="1Gi"), mps(defaultPinnedDeviceMemoryLimit="1Gi")
        plan, prepared = await n.prepare("c1", gpu("gpu-0", one), gpu("gpu-1", one), gpu("gpu-2", other))
        assert sorted(len(daemon.uuids) for daemon in n.daemons()) == [1, 2]
        assert len(prepared.devices) == 3
        await n.driver.unprepare(plan)

    on(story)


def test_memory_limits_of_single_devices_go_by_index_of_the_sorted_uuids() -> None:
    async def story(n: Simulated) -> None:
        limits = mps(defaultPinnedDeviceMemoryLimit="1Gi", defaultPerDevicePinnedMemoryLimit={"1": "2Gi"})
        plan, _ = await n.prepare("c1", gpu("gpu-0", limits), gpu("gpu-1", limits))
        (daemon,) = n.daemons()
        assert [daemon.memory_limits[uuid] for uuid in sorted(daemon.uuids)] == [1024, 2048]
        await n.driver.unprepare(plan)

    on(story)


def test_a_limit_for_a_device_that_the_claim_has_not_is_refused_before_anything_is_done() -> None:
    async def story(n: Simulated) -> None:
        with pytest.raises(ClaimError, match="the claim has no such device") as caught:
            n.plan("c1", gpu("gpu-0", mps(defaultPerDevicePinnedMemoryLimit={"1": "2Gi"})))
        assert caught.value.permanent

    on(story)


def test_users_of_all_sorts_need_volta() -> None:
    async def story(n: Simulated) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", mps(multiUser=True)))
        assert n.daemons()[0].multi_user
        await n.driver.unprepare(plan)
        old = n.driver._inventory
        n.driver._inventory = old._replace(gpus=tuple(g._replace(compute_capability="6.1") for g in old.gpus))
        with pytest.raises(ClaimError, match=r"wanted compute capability 7\.0 or more"):
            n.plan("c2", gpu("gpu-0", mps(multiUser=True)))

    on(story, "v100")


def test_one_claim_mixes_ways_of_sharing() -> None:
    async def story(n: Simulated) -> None:
        plan, prepared = await n.prepare(
            "c1",
            gpu("gpu-0", slicing("Long"), request="ts-gpu"),
            gpu("gpu-1", mps(defaultActiveThreadPercentage=50), request="mps-gpu"),
        )
        assert (n.card(0).interval, n.card(0).mode, n.card(1).mode) == (3, "DEFAULT", "EXCLUSIVE_PROCESS")
        sliced, served = prepared.devices.values()
        assert "CUDA_MPS_PIPE_DIRECTORY" not in env(sliced)
        assert "CUDA_MPS_PIPE_DIRECTORY" in env(served)
        await n.driver.unprepare(plan)

    on(story)


def test_admin_access_looks_and_changes_nothing() -> None:
    async def story(n: Simulated) -> None:
        plan, _ = await n.prepare("user", gpu("gpu-0", mps()))
        before = n.hardware.snapshot()
        watching, prepared = await n.prepare("admin", gpu("gpu-0", admin=True), others=(plan,))
        assert paths(only(prepared)) == ["/dev/nvidia0"]
        assert n.hardware.snapshot() == before
        await n.driver.unprepare(watching, (plan,))
        assert n.hardware.snapshot() == before
        await n.driver.unprepare(plan, (watching,))

    on(story)


@pytest.mark.parametrize("first", ["user", "administrator"])
def test_a_claim_that_also_looks_at_its_own_device_uses_it_all_the_same(first: str) -> None:
    async def story(n: Simulated) -> None:
        kind = "gpu-0-mig-3g20gb-9-4"
        wanted = config("MigDeviceConfig", sharing={"strategy": "MPS"})
        both = [gpu(kind, wanted), gpu(kind, request="monitor", admin=True)]
        plan, prepared = await n.prepare("c1", *(both if first == "user" else reversed(both)))
        assert "CUDA_MPS_PIPE_DIRECTORY" in env(only(prepared))
        await n.driver.unprepare(plan)

    on(story, mode="dynamic-mig")


def test_a_device_that_another_claim_still_has_is_refused_with_its_name() -> None:
    async def story(n: Simulated) -> None:
        first, _ = await n.prepare("c1", gpu("gpu-0", slicing("Long")))
        with pytest.raises(ClaimError, match="still prepared for claim c1") as caught:
            n.plan("c2", gpu("gpu-0"), others=(first,))
        assert not caught.value.permanent
        assert n.card().interval == 3
        await n.driver.unprepare(first)

    on(story)


@pytest.mark.parametrize("device", ["gpu-8", "gpu-0-mig-1g5gb-19-0", "nic-0"])
def test_a_device_that_is_not_there_is_refused(device: str) -> None:
    async def story(n: Simulated) -> None:
        with pytest.raises(ClaimError, match=device):
            n.plan("c1", gpu(device))

    on(story)


# --- MIG ------------------------------------------------------------------------------------------------------------


def test_a_mig_device_is_made_for_its_claim_and_destroyed_after_it() -> None:
    async def story(n: Simulated) -> None:
        plan, prepared = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4"))
        (piece,) = await n.hardware.mig_devices(n.pci[0])
        assert (piece.profile_id, piece.start) == (9, 4)
        ready = only(prepared)
        assert ready.status_data == {"type": "mig", "uuid": piece.uuid, "pciBusID": n.pci[0]}
        assert paths(ready) == ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"]
        await n.driver.unprepare(plan)
        again, _ = await n.prepare("c2", gpu("gpu-0-mig-3g20gb-9-4"))
        assert (await n.hardware.mig_devices(n.pci[0]))[0].uuid != piece.uuid
        await n.driver.unprepare(again)

    on(story, mode="dynamic-mig")


def test_preparing_twice_gives_the_same_mig_device() -> None:
    async def story(n: Simulated) -> None:
        plan, first = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4"))
        _, second = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4"))
        assert first == second
        await n.driver.unprepare(plan)

    on(story, mode="dynamic-mig")


def test_seven_pieces_of_one_gpu_and_an_eighth_does_not_fit() -> None:
    async def story(n: Simulated) -> None:
        plans = [(await n.prepare(f"c{start}", gpu(f"gpu-0-mig-1g5gb-19-{start}")))[0] for start in range(7)]
        assert len({piece.uuid for piece in await n.hardware.mig_devices(n.pci[0])}) == 7
        with pytest.raises(ClaimError, match="Insufficient Resources"):
            await n.prepare("c8", gpu("gpu-0-mig-1g10gb-15-6"), others=tuple(plans))
        await n.driver.unprepare(n.plan("c8", gpu("gpu-0-mig-1g10gb-15-6")), tuple(plans))
        for plan in plans:
            await n.driver.unprepare(plan)

    on(story, mode="dynamic-mig")


def test_on_hopper_mig_is_switched_on_with_the_first_and_off_with_the_last() -> None:
    async def story(n: Simulated) -> None:
        assert not n.card().mig
        published = await n.driver.discover()
        first, _ = await n.prepare("c1", gpu("gpu-0-mig-3g40gb-9-0"))
        second, _ = await n.prepare("c2", gpu("gpu-0-mig-1g10gb-19-4"), others=(first,))
        assert n.card().mig
        assert await n.driver.discover() == published
        with pytest.raises(ClaimError, match="is in the way of gpu-0-mig"):
            n.plan("c3", gpu("gpu-0"), others=(first, second))
        await n.driver.unprepare(first, (second,))
        assert n.card().mig
        await n.driver.unprepare(second)
        assert not n.card().mig

    on(story, "h100", "dynamic-mig")


def test_a_whole_gpu_is_given_when_it_has_left_mig() -> None:
    async def story(n: Simulated) -> None:
        with n.hardware._state_file.change() as state:
            state.cards[n.pci[0]].mig = True  # a monitor had it open when its last MIG device went
        n.faults.fail("leave_mig")
        with pytest.raises(ClaimError, match=r"preparing gpu-0: .*leave_mig"):
            await n.prepare("c1", gpu("gpu-0"))
        assert n.card().mig
        await n.prepare("c1", gpu("gpu-0", admin=True))
        assert n.card().mig
        await n.prepare("c1", gpu("gpu-0"))
        assert not n.card().mig

    on(story, "h100", "dynamic-mig")


def test_two_pieces_in_one_claim_are_both_or_none() -> None:
    async def story(n: Simulated) -> None:
        both = (gpu("gpu-0-mig-3g20gb-9-0"), gpu("gpu-0-mig-2g10gb-14-4"))
        n.faults.fail("create_mig", moment="between", times=1)
        with pytest.raises(ClaimError, match="simulated failure"):
            await n.prepare("c1", *both)
        # Its GPU instance went with it: nothing to find by name, nothing in the way.
        assert n.card().instances == []
        plan, _ = await n.prepare("c1", *both)
        assert len(await n.hardware.mig_devices(n.pci[0])) == 2
        await n.driver.unprepare(plan)

    on(story, mode="dynamic-mig")


def test_mps_on_a_mig_device_serves_the_device_and_leaves_the_gpu_its_mode() -> None:
    async def story(n: Simulated) -> None:
        sharing = {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "1Gi"}}
        plan, prepared = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4", config("MigDeviceConfig", sharing=sharing)))
        (daemon,) = n.daemons()
        (piece,) = await n.hardware.mig_devices(n.pci[0])
        assert (daemon.uuids, daemon.memory_limits) == ((piece.uuid,), {piece.uuid: 1024})
        assert n.card().mode == "DEFAULT"
        assert "CUDA_MPS_PIPE_DIRECTORY" in env(only(prepared))
        await n.driver.unprepare(plan)

    on(story, mode="dynamic-mig")


def test_time_slicing_on_a_mig_device_does_nothing() -> None:
    async def story(n: Simulated) -> None:
        sharing = config("MigDeviceConfig", sharing={"strategy": "TimeSlicing"})
        plan, _ = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4", sharing))
        assert plan.keys() == {"claim", "held"}
        await n.driver.unprepare(plan)

    on(story, mode="dynamic-mig")


def test_fixed_mig_devices_are_looked_up_and_left_where_they_are() -> None:
    async def story(n: Simulated) -> None:
        before = n.hardware.snapshot()
        (offer,) = await n.driver.discover()
        published = {device.name: device for group in offer.groups for device in group}
        plan, prepared = await n.prepare("c1", gpu("gpu-0-mig-1g5gb-19-6"))
        uuid = published["gpu-0-mig-1g5gb-19-6"].attributes["uuid"].string
        assert only(prepared).status_data == {"type": "mig", "uuid": uuid, "pciBusID": n.pci[0]}
        await n.driver.unprepare(plan)
        assert n.hardware.snapshot() == before

    on(story, mode="static-mig=1g.5gb:7")


def test_a_fixed_mig_device_that_was_destroyed_is_missed() -> None:
    async def story() -> None:
        n = await node(mode="static-mig=1g.5gb:7")
        await n.hardware.destroy_mig(n.pci[0], 19, 6)
        with pytest.raises(ClaimError, match="it was destroyed after it was published"):
            await n.prepare("c1", gpu("gpu-0-mig-1g5gb-19-6"))
        await n.driver.discover()
        with pytest.raises(ClaimError, match="not on this node"):
            n.plan("c1", gpu("gpu-0-mig-1g5gb-19-6"))

    idle.run(story())


# --- virtual machines -----------------------------------------------------------------------------------------------


def test_a_gpu_is_handed_to_a_virtual_machine_and_given_back() -> None:
    async def story(n: Simulated) -> None:
        parameters = config("VfioDeviceConfig", iommu={"enableAPIDevice": True})
        plan, prepared = await n.prepare("c1", gpu("gpu-vfio-1", parameters))
        published = await n.driver.discover()
        assert [n.card(minor).vfio for minor in range(3)] == [False, True, False]
        assert [each.vfio_bound for each in await n.hardware.gpus()][:3] == [False, True, False]
        assert paths(only(prepared)) == ["/dev/vfio/1001", "/dev/vfio/vfio"]
        assert not prepared.edits
        await n.driver.unprepare(plan)
        assert await n.driver.discover() == published
        _, plain = await n.prepare("c2", gpu("gpu-vfio-1"))
        assert paths(only(plain)) == ["/dev/vfio/1001"]
        await n.driver.unprepare(plan)

    on(story, mode="vfio")


def test_the_interface_that_a_virtual_machine_prefers_is_part_of_the_plan() -> None:
    async def story(n: Simulated) -> None:
        newer = config("VfioDeviceConfig", iommu={"backendPolicy": "PreferIommuFD"})
        assert [n.plan("c1", gpu("gpu-vfio-0", each))["held"][0].get("iommuFd") for each in (newer, None)] == [
            True,
            None,
        ]

    on(story, mode="vfio")


def test_a_claim_has_gpus_of_one_iommu_group_only() -> None:
    async def story(n: Simulated) -> None:
        with pytest.raises(ClaimError, match="one IOMMU group only") as caught:
            await n.prepare("c1", gpu("gpu-vfio-0"), gpu("gpu-vfio-1"))
        assert caught.value.permanent
        await n.driver.unprepare(n.plan("c1", gpu("gpu-vfio-0"), gpu("gpu-vfio-1")))

    on(story, mode="vfio")


def test_gpus_of_one_iommu_group_go_to_one_claim_at_a_time() -> None:
    async def told() -> None:
        by_address = sorted(gpus_of(hardware("dgx-a100-40gb", 4), "n1"))
        gpus = [each._replace(iommu_group=1 + number // 2) for number, each in enumerate(by_address)]
        there = SimulatedHardware(gpus)
        n = Simulated(NvidiaDriver(there, Vfio()), there, FaultInjector(), tuple(each.pci for each in gpus))
        await n.driver.discover()
        plan, prepared = await n.prepare("c1", gpu("gpu-vfio-0"), gpu("gpu-vfio-1"))
        assert [paths(ready) for ready in prepared.devices.values()] == [["/dev/vfio/1"]] * 2
        await n.driver.unprepare(plan)
        plan, _ = await n.prepare("c1", gpu("gpu-vfio-0"))
        with pytest.raises(ClaimError, match=r"IOMMU group 1 with gpu-vfio-0, which is still prepared for") as caught:
            n.plan("c2", gpu("gpu-vfio-1"), others=(plan,))
        assert not caught.value.permanent
        n.plan("c2", gpu("gpu-vfio-2"), others=(plan,))
        with pytest.raises(ClaimError, match="one IOMMU group only"):
            n.plan("c2", gpu("gpu-vfio-1"), gpu("gpu-vfio-2"))

    idle.run(told())


def test_nobody_looks_at_a_gpu_by_taking_it_away() -> None:
    async def story(n: Simulated) -> None:
        with pytest.raises(ClaimError, match="admin access"):
            n.plan("c1", gpu("gpu-vfio-0", admin=True))

    on(story, mode="vfio")


# --- undoing --------------------------------------------------------------------------------------------------------


def test_undoing_twice_and_after_a_restart_is_the_same_as_once() -> None:
    async def story(n: Simulated) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", mps()), gpu("gpu-1", slicing("Short")))
        restarted = NvidiaDriver(n.hardware, Full())
        await restarted.unprepare(plan)
        await restarted.unprepare(plan)

    on(story)


def test_undoing_works_without_the_hardware() -> None:
    async def story() -> None:
        n = await node()
        plan, _ = await n.prepare("c1", gpu("gpu-0", mps()), gpu("gpu-1", slicing("Short")))
        await NvidiaDriver(SimulatedHardware(()), Full()).unprepare(plan)
        n.hardware.remove(n.pci[0])
        n.hardware.lose(n.pci[1])
        await n.driver.unprepare(plan)
        assert n.daemons() == []

    idle.run(story())


def test_what_cannot_be_undone_does_not_keep_the_rest() -> None:
    async def story(n: Simulated) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", mps()), gpu("gpu-1", slicing("Short")))
        n.faults.fail("stop_mps")
        with pytest.raises(ClaimError, match=r"unpreparing claim c1.*stop_mps"):
            await n.driver.unprepare(plan)
        assert n.card(1).interval == 0
        assert len(n.daemons()) == 1
        await n.driver.unprepare(plan)

    on(story)


def test_a_device_in_use_is_not_destroyed_and_the_next_attempt_succeeds() -> None:
    async def story(n: Simulated) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4"))
        (piece,) = await n.hardware.mig_devices(n.pci[0])
        share = n.hardware.share(n.hardware.token("c1", piece))
        assert share is not None
        with n.hardware.running(share), pytest.raises(ClaimError, match="In use by another client"):
            await n.driver.unprepare(plan)
        await n.driver.unprepare(plan)

    on(story, mode="dynamic-mig")


def test_a_plan_of_a_newer_driver_is_understood() -> None:
    async def story(n: Simulated) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", slicing("Long")))
        plan["future"] = {"a": 1}
        plan["held"][0]["colour"] = "blue"
        await n.driver.unprepare(plan, ({"claim": "odd", "held": "nonsense"},))

    on(story)


def test_hardware_that_refuses_is_told_with_the_device() -> None:
    async def story(n: Simulated) -> None:
        n.faults.fail("start_mps")
        with pytest.raises(ClaimError, match=r"preparing gpu-0: .*start_mps") as caught:
            await n.prepare("c1", gpu("gpu-0", mps()))
        assert isinstance(caught.value.__cause__, HardwareError)
        await n.driver.unprepare(n.plan("c1", gpu("gpu-0", mps())))

    on(story)


def test_nothing_there_is_one_offer_without_devices() -> None:
    async def story() -> None:
        (offer,) = await NvidiaDriver(SimulatedHardware(()), Full()).discover()
        assert [device for group in offer.groups for device in group] == []

    idle.run(story())
