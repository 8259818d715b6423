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
from tests.unit.drivers.nvidia.nodes import (
    SimulatedNode,
    config,
    env,
    gpu,
    mps,
    only_device,
    paths,
    simulated_node,
    time_slicing,
)

Scenario = Callable[[SimulatedNode], Awaitable[None]]


def run_on_node(scenario: Scenario, machine: str = "dgx-a100-40gb", mode: str = "full", **more: Any) -> None:
    """Run a scenario on a new node; afterwards its hardware must be in the initial state."""

    async def main() -> None:
        simulated = await simulated_node(machine, mode, **more)
        before = simulated.hardware.snapshot()
        await scenario(simulated)
        after = simulated.hardware.snapshot()
        after.serial = before.serial
        assert after == before

    idle.run(main())


# --- whole GPUs -----------------------------------------------------------------------------------------------------


def test_a_gpu_without_parameters_is_prepared_unchanged() -> None:
    async def scenario(n: SimulatedNode) -> None:
        before = n.hardware.snapshot()
        plan, prepared = await n.prepare("c1", gpu("gpu-0"))
        assert n.hardware.snapshot() == before
        assert list(prepared.devices) == [("n1", "gpu-0", "")]
        ready = only_device(prepared)
        assert paths(ready) == ["/dev/nvidia0"]
        assert ready.status_data is not None
        assert ready.status_data["uuid"] == (await n.hardware.gpus())[0].uuid
        await n.driver.unprepare(plan)

    run_on_node(scenario)


def test_every_container_of_a_claim_gets_the_control_nodes() -> None:
    async def scenario(n: SimulatedNode) -> None:
        _, prepared = await n.prepare("c1", gpu("gpu-0"))
        assert "NVIDIA_VISIBLE_DEVICES=void" in prepared.edits.env
        assert "/dev/nvidiactl" in [each.path for each in prepared.edits.device_nodes]
        # A runtime must not look for a device node on a host that has none.
        assert all(each.type and each.major for each in prepared.edits.device_nodes)

    run_on_node(scenario)


@pytest.mark.parametrize(("interval", "level"), [("Default", 0), ("Short", 1), ("Medium", 2), ("Long", 3)])
def test_time_slices_are_set_and_reset(interval: str, level: int) -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, prepared = await n.prepare("c1", gpu("gpu-1", time_slicing(interval)))
        assert (n.card(1).interval, n.card(1).mode, n.card(0).interval) == (level, "DEFAULT", 0)
        assert only_device(prepared).status_data == {
            "type": "gpu",
            "uuid": n.driver._inventory.gpus[1].uuid,
            "pciBusID": n.pci[1],
            "sharing": {"strategy": "TimeSlicing"},
        }
        await n.driver.unprepare(plan)

    run_on_node(scenario)


def test_mps_has_a_daemon_that_owns_its_gpu() -> None:
    async def scenario(n: SimulatedNode) -> None:
        parameters = mps(defaultActiveThreadPercentage=33, defaultPinnedDeviceMemoryLimit="5Gi")
        plan, prepared = await n.prepare("c1", gpu("gpu-0", parameters))
        (daemon,) = n.daemons()
        (uuid,) = daemon.uuids
        assert (daemon.threads, daemon.memory_limits, n.card().mode) == (33, {uuid: 5120}, "EXCLUSIVE_PROCESS")
        assert daemon.key.startswith("c1-")
        assert len(daemon.key) == len("c1-") + 5
        assert env(only_device(prepared))["CUDA_MPS_PIPE_DIRECTORY"] == "/tmp/nvidia-mps"
        await n.driver.unprepare(plan)
        assert (n.daemons(), n.card().mode) == ([], "DEFAULT")

    run_on_node(scenario)


def test_mps_without_settings_limits_nothing() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", config("GpuConfig", sharing={"strategy": "MPS"})))
        (daemon,) = n.daemons()
        assert (daemon.threads, daemon.memory_limits, daemon.multi_user) == (None, {}, False)
        await n.driver.unprepare(plan)

    run_on_node(scenario)


def test_gpus_with_the_same_parameters_have_one_daemon_and_others_their_own() -> None:
    async def scenario(n: SimulatedNode) -> None:
        first, second = mps(defaultPinnedDeviceMemoryLimit="1Gi"), mps(defaultPinnedDeviceMemoryLimit="1Gi")
        plan, prepared = await n.prepare("c1", gpu("gpu-0", first), gpu("gpu-1", first), gpu("gpu-2", second))
        assert sorted(len(daemon.uuids) for daemon in n.daemons()) == [1, 2]
        assert len(prepared.devices) == 3
        await n.driver.unprepare(plan)

    run_on_node(scenario)


def test_per_device_memory_limits_use_indexes_of_the_sorted_uuids() -> None:
    async def scenario(n: SimulatedNode) -> None:
        limits = mps(defaultPinnedDeviceMemoryLimit="1Gi", defaultPerDevicePinnedMemoryLimit={"1": "2Gi"})
        plan, _ = await n.prepare("c1", gpu("gpu-0", limits), gpu("gpu-1", limits))
        (daemon,) = n.daemons()
        assert [daemon.memory_limits[uuid] for uuid in sorted(daemon.uuids)] == [1024, 2048]
        await n.driver.unprepare(plan)

    run_on_node(scenario)


def test_a_limit_for_a_device_that_is_not_in_the_claim_is_rejected_when_planning() -> None:
    async def scenario(n: SimulatedNode) -> None:
        with pytest.raises(ClaimError, match="the claim has no such device") as caught:
            n.plan("c1", gpu("gpu-0", mps(defaultPerDevicePinnedMemoryLimit={"1": "2Gi"})))
        assert caught.value.permanent

    run_on_node(scenario)


def test_multi_user_mps_needs_volta() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", mps(multiUser=True)))
        assert n.daemons()[0].multi_user
        await n.driver.unprepare(plan)
        old = n.driver._inventory
        n.driver._inventory = old._replace(gpus=tuple(g._replace(compute_capability="6.1") for g in old.gpus))
        with pytest.raises(ClaimError, match=r"requires compute capability >= 7\.0"):
            n.plan("c2", gpu("gpu-0", mps(multiUser=True)))

    run_on_node(scenario, "v100")


def test_one_claim_mixes_sharing_strategies() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, prepared = await n.prepare(
            "c1",
            gpu("gpu-0", time_slicing("Long"), request="ts-gpu"),
            gpu("gpu-1", mps(defaultActiveThreadPercentage=50), request="mps-gpu"),
        )
        assert (n.card(0).interval, n.card(0).mode, n.card(1).mode) == (3, "DEFAULT", "EXCLUSIVE_PROCESS")
        sliced, served = prepared.devices.values()
        assert "CUDA_MPS_PIPE_DIRECTORY" not in env(sliced)
        assert "CUDA_MPS_PIPE_DIRECTORY" in env(served)
        await n.driver.unprepare(plan)

    run_on_node(scenario)


def test_admin_access_changes_nothing() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, _ = await n.prepare("user", gpu("gpu-0", mps()))
        before = n.hardware.snapshot()
        watching, prepared = await n.prepare("admin", gpu("gpu-0", admin=True), others=(plan,))
        assert paths(only_device(prepared)) == ["/dev/nvidia0"]
        assert n.hardware.snapshot() == before
        await n.driver.unprepare(watching, (plan,))
        assert n.hardware.snapshot() == before
        await n.driver.unprepare(plan, (watching,))

    run_on_node(scenario)


@pytest.mark.parametrize("first", ["user", "administrator"])
def test_a_claim_with_admin_access_to_its_own_device_uses_it(first: str) -> None:
    async def scenario(n: SimulatedNode) -> None:
        kind = "gpu-0-mig-3g20gb-9-4"
        parameters = config("MigDeviceConfig", sharing={"strategy": "MPS"})
        both = [gpu(kind, parameters), gpu(kind, request="monitor", admin=True)]
        plan, prepared = await n.prepare("c1", *(both if first == "user" else reversed(both)))
        assert "CUDA_MPS_PIPE_DIRECTORY" in env(only_device(prepared))
        await n.driver.unprepare(plan)

    run_on_node(scenario, mode="dynamic-mig")


def test_a_device_in_use_is_rejected_with_the_name_of_the_claim() -> None:
    async def scenario(n: SimulatedNode) -> None:
        first, _ = await n.prepare("c1", gpu("gpu-0", time_slicing("Long")))
        with pytest.raises(ClaimError, match="still prepared for claim c1") as caught:
            n.plan("c2", gpu("gpu-0"), others=(first,))
        assert not caught.value.permanent
        assert n.card().interval == 3
        await n.driver.unprepare(first)

    run_on_node(scenario)


@pytest.mark.parametrize("device", ["gpu-8", "gpu-0-mig-1g5gb-19-0", "nic-0"])
def test_a_missing_device_is_rejected(device: str) -> None:
    async def scenario(n: SimulatedNode) -> None:
        with pytest.raises(ClaimError, match=device):
            n.plan("c1", gpu(device))

    run_on_node(scenario)


# --- MIG ------------------------------------------------------------------------------------------------------------


def test_a_mig_device_is_created_for_its_claim_and_destroyed_after_it() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, prepared = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4"))
        (piece,) = await n.hardware.mig_devices(n.pci[0])
        assert (piece.profile_id, piece.start) == (9, 4)
        ready = only_device(prepared)
        assert ready.status_data == {"type": "mig", "uuid": piece.uuid, "pciBusID": n.pci[0]}
        assert paths(ready) == ["/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap12", "/dev/nvidia-caps/nvidia-cap13"]
        await n.driver.unprepare(plan)
        again, _ = await n.prepare("c2", gpu("gpu-0-mig-3g20gb-9-4"))
        assert (await n.hardware.mig_devices(n.pci[0]))[0].uuid != piece.uuid
        await n.driver.unprepare(again)

    run_on_node(scenario, mode="dynamic-mig")


def test_preparing_twice_gives_the_same_mig_device() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, first = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4"))
        _, second = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4"))
        assert first == second
        await n.driver.unprepare(plan)

    run_on_node(scenario, mode="dynamic-mig")


def test_seven_mig_devices_fit_on_one_gpu_and_an_eighth_does_not() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plans = [(await n.prepare(f"c{start}", gpu(f"gpu-0-mig-1g5gb-19-{start}")))[0] for start in range(7)]
        assert len({piece.uuid for piece in await n.hardware.mig_devices(n.pci[0])}) == 7
        with pytest.raises(ClaimError, match="Insufficient Resources"):
            await n.prepare("c8", gpu("gpu-0-mig-1g10gb-15-6"), others=tuple(plans))
        await n.driver.unprepare(n.plan("c8", gpu("gpu-0-mig-1g10gb-15-6")), tuple(plans))
        for plan in plans:
            await n.driver.unprepare(plan)

    run_on_node(scenario, mode="dynamic-mig")


def test_on_hopper_mig_is_enabled_with_the_first_and_disabled_with_the_last() -> None:
    async def scenario(n: SimulatedNode) -> None:
        assert not n.card().mig
        published = await n.driver.discover()
        first, _ = await n.prepare("c1", gpu("gpu-0-mig-3g40gb-9-0"))
        second, _ = await n.prepare("c2", gpu("gpu-0-mig-1g10gb-19-4"), others=(first,))
        assert n.card().mig
        assert await n.driver.discover() == published
        with pytest.raises(ClaimError, match="conflicts with gpu-0-mig"):
            n.plan("c3", gpu("gpu-0"), others=(first, second))
        await n.driver.unprepare(first, (second,))
        assert n.card().mig
        await n.driver.unprepare(second)
        assert not n.card().mig

    run_on_node(scenario, "h100", "dynamic-mig")


def test_a_whole_gpu_is_prepared_after_disabling_mig() -> None:
    async def scenario(n: SimulatedNode) -> None:
        with n.hardware._state_file.change() as state:
            state.cards[n.pci[0]].mig = True  # a monitor had it open when the last MIG device was destroyed
        n.faults.fail("disable_mig")
        with pytest.raises(ClaimError, match=r"preparing gpu-0: .*disable_mig"):
            await n.prepare("c1", gpu("gpu-0"))
        assert n.card().mig
        await n.prepare("c1", gpu("gpu-0", admin=True))
        assert n.card().mig
        await n.prepare("c1", gpu("gpu-0"))
        assert not n.card().mig

    run_on_node(scenario, "h100", "dynamic-mig")


def test_two_mig_devices_in_one_claim_are_both_created_or_none() -> None:
    async def scenario(n: SimulatedNode) -> None:
        both = (gpu("gpu-0-mig-3g20gb-9-0"), gpu("gpu-0-mig-2g10gb-14-4"))
        n.faults.fail("create_mig", moment="between", times=1)
        with pytest.raises(ClaimError, match="simulated failure"):
            await n.prepare("c1", *both)
        # Its GPU instance was destroyed, too, so its placement is free.
        assert n.card().instances == []
        plan, _ = await n.prepare("c1", *both)
        assert len(await n.hardware.mig_devices(n.pci[0])) == 2
        await n.driver.unprepare(plan)

    run_on_node(scenario, mode="dynamic-mig")


def test_mps_on_a_mig_device_serves_the_device_and_leaves_the_gpu_its_mode() -> None:
    async def scenario(n: SimulatedNode) -> None:
        sharing = {"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "1Gi"}}
        plan, prepared = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4", config("MigDeviceConfig", sharing=sharing)))
        (daemon,) = n.daemons()
        (piece,) = await n.hardware.mig_devices(n.pci[0])
        assert (daemon.uuids, daemon.memory_limits) == ((piece.uuid,), {piece.uuid: 1024})
        assert n.card().mode == "DEFAULT"
        assert "CUDA_MPS_PIPE_DIRECTORY" in env(only_device(prepared))
        await n.driver.unprepare(plan)

    run_on_node(scenario, mode="dynamic-mig")


def test_time_slicing_on_a_mig_device_does_nothing() -> None:
    async def scenario(n: SimulatedNode) -> None:
        sharing = config("MigDeviceConfig", sharing={"strategy": "TimeSlicing"})
        plan, _ = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4", sharing))
        assert plan.keys() == {"claim", "held"}
        await n.driver.unprepare(plan)

    run_on_node(scenario, mode="dynamic-mig")


def test_fixed_mig_devices_are_looked_up_and_kept() -> None:
    async def scenario(n: SimulatedNode) -> None:
        before = n.hardware.snapshot()
        (offer,) = await n.driver.discover()
        published = {device.name: device for group in offer.groups for device in group}
        plan, prepared = await n.prepare("c1", gpu("gpu-0-mig-1g5gb-19-6"))
        uuid = published["gpu-0-mig-1g5gb-19-6"].attributes["uuid"].string
        assert only_device(prepared).status_data == {"type": "mig", "uuid": uuid, "pciBusID": n.pci[0]}
        await n.driver.unprepare(plan)
        assert n.hardware.snapshot() == before

    run_on_node(scenario, mode="static-mig=1g.5gb:7")


def test_a_destroyed_fixed_mig_device_is_reported() -> None:
    async def scenario() -> None:
        n = await simulated_node(mode="static-mig=1g.5gb:7")
        await n.hardware.destroy_mig(n.pci[0], 19, 6)
        with pytest.raises(ClaimError, match="it was destroyed after it was published"):
            await n.prepare("c1", gpu("gpu-0-mig-1g5gb-19-6"))
        await n.driver.discover()
        with pytest.raises(ClaimError, match="not found on this node"):
            n.plan("c1", gpu("gpu-0-mig-1g5gb-19-6"))

    idle.run(scenario())


# --- virtual machines -----------------------------------------------------------------------------------------------


def test_a_gpu_is_bound_to_vfio_for_a_claim_and_released() -> None:
    async def scenario(n: SimulatedNode) -> None:
        parameters = config("VfioDeviceConfig", iommu={"enableAPIDevice": True})
        plan, prepared = await n.prepare("c1", gpu("gpu-vfio-1", parameters))
        published = await n.driver.discover()
        assert [n.card(minor).vfio for minor in range(3)] == [False, True, False]
        assert [each.vfio_bound for each in await n.hardware.gpus()][:3] == [False, True, False]
        assert paths(only_device(prepared)) == ["/dev/vfio/1001", "/dev/vfio/vfio"]
        assert not prepared.edits
        await n.driver.unprepare(plan)
        assert await n.driver.discover() == published
        _, plain = await n.prepare("c2", gpu("gpu-vfio-1"))
        assert paths(only_device(plain)) == ["/dev/vfio/1001"]
        await n.driver.unprepare(plan)

    run_on_node(scenario, mode="vfio")


def test_the_preferred_iommu_interface_is_part_of_the_plan() -> None:
    async def scenario(n: SimulatedNode) -> None:
        newer = config("VfioDeviceConfig", iommu={"backendPolicy": "PreferIommuFD"})
        assert [n.plan("c1", gpu("gpu-vfio-0", each))["held"][0].get("iommuFd") for each in (newer, None)] == [
            True,
            None,
        ]

    run_on_node(scenario, mode="vfio")


def test_a_claim_has_gpus_of_one_iommu_group_only() -> None:
    async def scenario(n: SimulatedNode) -> None:
        with pytest.raises(ClaimError, match="must be in one IOMMU group") as caught:
            await n.prepare("c1", gpu("gpu-vfio-0"), gpu("gpu-vfio-1"))
        assert caught.value.permanent
        await n.driver.unprepare(n.plan("c1", gpu("gpu-vfio-0"), gpu("gpu-vfio-1")))

    run_on_node(scenario, mode="vfio")


def test_an_iommu_group_is_used_by_one_claim_at_a_time() -> None:
    async def main() -> None:
        by_address = sorted(gpus_of(hardware("dgx-a100-40gb", 4), "n1"))
        gpus = [each._replace(iommu_group=1 + number // 2) for number, each in enumerate(by_address)]
        simulated = SimulatedHardware(gpus)
        n = SimulatedNode(NvidiaDriver(simulated, Vfio()), simulated, FaultInjector(), tuple(each.pci for each in gpus))
        await n.driver.discover()
        plan, prepared = await n.prepare("c1", gpu("gpu-vfio-0"), gpu("gpu-vfio-1"))
        assert [paths(ready) for ready in prepared.devices.values()] == [["/dev/vfio/1"]] * 2
        await n.driver.unprepare(plan)
        plan, _ = await n.prepare("c1", gpu("gpu-vfio-0"))
        with pytest.raises(ClaimError, match=r"IOMMU group 1 with gpu-vfio-0, which is still prepared for") as caught:
            n.plan("c2", gpu("gpu-vfio-1"), others=(plan,))
        assert not caught.value.permanent
        n.plan("c2", gpu("gpu-vfio-2"), others=(plan,))
        with pytest.raises(ClaimError, match="must be in one IOMMU group"):
            n.plan("c2", gpu("gpu-vfio-1"), gpu("gpu-vfio-2"))

    idle.run(main())


def test_admin_access_to_a_gpu_for_virtual_machines_is_rejected() -> None:
    async def scenario(n: SimulatedNode) -> None:
        with pytest.raises(ClaimError, match="admin access"):
            n.plan("c1", gpu("gpu-vfio-0", admin=True))

    run_on_node(scenario, mode="vfio")


# --- unpreparing-----------------------------------------------------------------------------------------------------


def test_unpreparing_is_idempotent_and_survives_a_restart() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", mps()), gpu("gpu-1", time_slicing("Short")))
        restarted = NvidiaDriver(n.hardware, Full())
        await restarted.unprepare(plan)
        await restarted.unprepare(plan)

    run_on_node(scenario)


def test_unpreparing_works_without_the_hardware() -> None:
    async def scenario() -> None:
        n = await simulated_node()
        plan, _ = await n.prepare("c1", gpu("gpu-0", mps()), gpu("gpu-1", time_slicing("Short")))
        await NvidiaDriver(SimulatedHardware(()), Full()).unprepare(plan)
        n.hardware.remove(n.pci[0])
        n.hardware.lose(n.pci[1])
        await n.driver.unprepare(plan)
        assert n.daemons() == []

    idle.run(scenario())


def test_a_failed_undo_step_does_not_prevent_the_others() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", mps()), gpu("gpu-1", time_slicing("Short")))
        n.faults.fail("stop_mps")
        with pytest.raises(ClaimError, match=r"cannot unprepare claim c1.*stop_mps"):
            await n.driver.unprepare(plan)
        assert n.card(1).interval == 0
        assert len(n.daemons()) == 1
        await n.driver.unprepare(plan)

    run_on_node(scenario)


def test_a_device_in_use_is_not_destroyed_and_the_next_attempt_succeeds() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0-mig-3g20gb-9-4"))
        (piece,) = await n.hardware.mig_devices(n.pci[0])
        share = n.hardware.share(n.hardware.token("c1", piece))
        assert share is not None
        with n.hardware.running(share), pytest.raises(ClaimError, match="In use by another client"):
            await n.driver.unprepare(plan)
        await n.driver.unprepare(plan)

    run_on_node(scenario, mode="dynamic-mig")


def test_a_plan_of_a_newer_driver_is_decoded() -> None:
    async def scenario(n: SimulatedNode) -> None:
        plan, _ = await n.prepare("c1", gpu("gpu-0", time_slicing("Long")))
        plan["future"] = {"a": 1}
        plan["held"][0]["colour"] = "blue"
        await n.driver.unprepare(plan, ({"claim": "odd", "held": "nonsense"},))

    run_on_node(scenario)


def test_a_hardware_error_names_the_device() -> None:
    async def scenario(n: SimulatedNode) -> None:
        n.faults.fail("start_mps")
        with pytest.raises(ClaimError, match=r"preparing gpu-0: .*start_mps") as caught:
            await n.prepare("c1", gpu("gpu-0", mps()))
        assert isinstance(caught.value.__cause__, HardwareError)
        await n.driver.unprepare(n.plan("c1", gpu("gpu-0", mps())))

    run_on_node(scenario)


def test_a_node_without_gpus_publishes_an_empty_pool() -> None:
    async def scenario() -> None:
        (offer,) = await NvidiaDriver(SimulatedHardware(()), Full()).discover()
        assert [device for group in offer.groups for device in group] == []

    idle.run(scenario())
