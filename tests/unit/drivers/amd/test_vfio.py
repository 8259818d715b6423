"""AMD's GPUs for virtual machines: bound to vfio-pci for a claim and restored after it, on simulated and real files."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cdi.lookup import CdiDevices
from allotment.cdi.store import MemoryStore
from allotment.drivers.amd import pci_binding
from allotment.drivers.amd.driver import AmdDriver
from allotment.drivers.amd.hardware import Hardware, HardwareError
from allotment.drivers.amd.kernel import KernelHardware
from allotment.drivers.amd.simulated.hardware import SimulatedHardware
from allotment.drivers.driver import AllocatedClaim, AllocatedDevice, ClaimError, ReadyDevice
from allotment.drivers.host import DriverHost, MemoryStorage
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.publishing.slice_builder import build_slices
from allotment.fleet import hardware, parse_fleet, slices_of
from allotment.fleet.amd import Function, functions_of, gpus_of
from allotment.fleet.modes import VirtualMachines
from allotment.model.features import Features
from allotment.vocabulary.parameters.amd import VERSION, Iommu, VfioDeviceConfig
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.amd.nodes import SimulatedKernelFiles
from tests.unit.drivers.fake_driver import put_claim

MI300X = hardware("mi300x-8x-oam")


class Guests:
    """A driver of GPUs for virtual machines, and the plans of its claims."""

    def __init__(self, hardware: Hardware) -> None:
        self.hardware = hardware
        self.plans: dict[str, Any] = {}
        self.restart()

    def restart(self) -> None:
        self.driver = AmdDriver(self.hardware, "n1", guests=True)
        self.driver.restore(tuple(self.plans.values()))

    async def names(self) -> list[str]:
        (pool,) = await self.driver.discover()
        return [device.name for group in pool.groups for device in group]

    async def prepare(self, uid: str, device: str, config: Any = None, *, admin: bool = False) -> ReadyDevice:
        allocated = AllocatedDevice("gpu", "n1", device, config, admin_access=admin)
        claim = AllocatedClaim(uid, "shop", uid, (allocated,), tuple(self.plans.values()))
        plan = self.driver.plan(claim)
        self.plans[uid] = plan
        try:
            return (await self.driver.prepare(claim, plan)).devices["n1", device, ""]
        except ClaimError:
            await self.unprepare(uid)
            raise

    async def unprepare(self, uid: str) -> None:
        plan = self.plans.pop(uid)
        try:
            await self.driver.unprepare(plan, tuple(self.plans.values()))
        except ClaimError:
            self.plans[uid] = plan
            raise

    async def drivers(self) -> list[str]:
        return [function.driver for function in await self.hardware.functions()]


async def simulated(fleet: str = "mi300x-8x-oam/vfio") -> Guests:
    (machine,) = parse_fleet([f"n1={fleet}"])
    guests = Guests(SimulatedHardware(machine))
    await guests.names()
    return guests


def paths(ready: ReadyDevice) -> list[str]:
    return [node.path for node in ready.edits.device_nodes]


@pytest.mark.parametrize("mode", ["vfio", "vfio=1", "vfio=8"])
def test_a_node_publishes_the_slices_of_its_profile(mode: str) -> None:
    async def main() -> None:
        (machine,) = parse_fleet([f"n1=mi300x-8x-oam/{mode}"])
        (pool,) = await AmdDriver(SimulatedHardware(machine), "n1", guests=True).discover()
        built = build_slices(pool, "gpu.amd.com", "n1", Features("1.36"))
        assert built.notes == ()
        expected = slices_of(machine.hardware, machine.mode, "n1")
        assert [spec.devices for spec in built.specs] == [spec.spec.devices for spec in expected]
        assert [spec.shared_counters for spec in built.specs] == [spec.spec.shared_counters for spec in expected]

    idle.run(main())


def test_a_gpu_is_bound_to_vfio_for_a_claim_and_restored_after_it() -> None:
    async def main() -> None:
        node = await simulated()
        before = await node.driver.discover()
        ready = await node.prepare("c", "gpu-vfio-2")
        assert paths(ready) == ["/dev/vfio/22", "/dev/vfio/vfio"]
        assert ready.status_data == {"type": "vfio", "pciBusID": "0000:46:00.0", "iommuGroup": "22"}
        assert await node.drivers() == ["amdgpu"] * 2 + ["vfio-pci"] + ["amdgpu"] * 5
        assert len(await node.hardware.gpus()) == 7
        # A virtual machine uses it; the published device is unchanged.
        assert await node.driver.discover() == before
        await node.unprepare("c")
        assert await node.drivers() == ["amdgpu"] * 8
        assert len(await node.hardware.gpus()) == 8

    idle.run(main())


def test_iommufd_is_used_if_the_claim_prefers_it() -> None:
    async def main() -> None:
        node = await simulated("mi300x/vfio")
        ready = await node.prepare("c", "gpu-vfio-0", VfioDeviceConfig(Iommu("PreferIommuFD")))
        assert paths(ready) == ["/dev/vfio/devices/vfio0", "/dev/iommu"]

    idle.run(main())


def test_a_virtual_function_has_no_driver_before_and_after() -> None:
    async def main() -> None:
        node = await simulated("mi300x/vfio=2")
        assert await node.names() == ["gpu-vfio-0", "gpu-vfio-1"]
        assert await node.hardware.gpus() == ()
        await node.prepare("c", "gpu-vfio-1")
        assert await node.drivers() == ["", "vfio-pci"]
        await node.unprepare("c")
        assert await node.drivers() == ["", ""]

    idle.run(main())


def test_claims_outlive_the_driver_and_restore_the_initial_kernel_driver() -> None:
    async def main() -> None:
        node = await simulated()
        await node.prepare("c", "gpu-vfio-0")
        node.restart()
        assert (await node.names())[0] == "gpu-vfio-0"
        await node.unprepare("c")
        assert await node.drivers() == ["amdgpu"] * 8
        await node.prepare("d", "gpu-vfio-0")
        await node.unprepare("d")
        assert await node.drivers() == ["amdgpu"] * 8

    idle.run(main())


def test_functions_bound_by_other_programs_stay_bound() -> None:
    async def main() -> None:
        node = await simulated("2xmi300x/vfio")
        await node.hardware.bind("0000:00:04.0", "vfio-pci")
        node.restart()
        await node.names()
        await node.prepare("c", "gpu-vfio-0")
        await node.unprepare("c")
        assert await node.drivers() == ["vfio-pci", "amdgpu"]

    idle.run(main())


def test_a_gpu_keeps_its_name_when_another_is_removed_and_unpreparing_does_not_need_it() -> None:
    async def main() -> None:
        node = await simulated()
        await node.prepare("c", "gpu-vfio-1")
        assert isinstance(node.hardware, SimulatedHardware)
        node.hardware.set_faults("gpu-0=gone,gpu-1=gone")
        assert (await node.names())[0] == "gpu-vfio-2"
        with pytest.raises(ClaimError, match="n1/gpu-vfio-0 not found on this node"):
            await node.prepare("d", "gpu-vfio-0")
        await node.unprepare("c")
        node.hardware.set_faults("")
        assert sorted(await node.names()) == [f"gpu-vfio-{number}" for number in range(8)]

    idle.run(main())


def test_admin_access_is_rejected() -> None:
    async def main() -> None:
        node = await simulated("mi300x/vfio")
        with pytest.raises(ClaimError, match="admin access to a GPU for virtual machines is not possible"):
            await node.prepare("c", "gpu-vfio-0", admin=True)

    idle.run(main())


# --- the kernel's files in a folder ----------------------------------------------------------------------------------


def folder(root: Path, groups: Sequence[int] = (), count: int = 2) -> SimulatedKernelFiles:
    machine = hardware("mi300x-8x-oam", count)
    mode = VirtualMachines()
    functions: list[Function] = list(functions_of(machine, mode))
    for index, group in enumerate(groups):
        functions[index] = functions[index]._replace(group=group)
    return SimulatedKernelFiles(root, gpus_of(machine, "n", mode), functions)


def test_functions_are_read_back_from_files(tmp_path: Path) -> None:
    async def main() -> None:
        files = folder(tmp_path)
        assert await KernelHardware(files, IdleClock()).functions() == tuple(files.functions.by_address.values())

    idle.run(main())


def test_writes_to_the_kernel_files(tmp_path: Path) -> None:
    async def main() -> None:
        files = folder(tmp_path)
        node = Guests(KernelHardware(files, IdleClock()))
        assert await node.names() == ["gpu-vfio-0", "gpu-vfio-1"]
        ready = await node.prepare("c", "gpu-vfio-1")
        assert files.written == ["driver_override=vfio-pci", "unbind=0000:26:00.0", "drivers_probe=0000:26:00.0"]
        assert [(d.path, d.major, d.minor) for d in ready.edits.device_nodes] == [
            ("/dev/vfio/21", 242, 21), ("/dev/vfio/vfio", 10, 196),
        ]  # fmt: skip
        files.written.clear()
        await node.unprepare("c")
        assert files.written == ["driver_override=", "unbind=0000:26:00.0", "drivers_probe=0000:26:00.0"]
        assert await node.drivers() == ["amdgpu", "amdgpu"]

    idle.run(main())


def test_gpus_of_one_iommu_group_are_bound_together(tmp_path: Path) -> None:
    async def main() -> None:
        node = Guests(KernelHardware(folder(tmp_path, groups=(7, 7), count=3), IdleClock()))
        await node.names()
        await node.prepare("c", "gpu-vfio-0")
        assert await node.drivers() == ["vfio-pci", "vfio-pci", "amdgpu"]
        with pytest.raises(
            ClaimError, match="on the same GPU or in the same IOMMU group is still prepared for another claim"
        ):
            await node.prepare("d", "gpu-vfio-1")
        await node.unprepare("c")
        assert await node.drivers() == ["amdgpu"] * 3

    idle.run(main())


def test_an_iommu_group_with_other_devices_in_use_is_rejected(tmp_path: Path) -> None:
    async def main() -> None:
        files = folder(tmp_path)
        node = Guests(KernelHardware(files, IdleClock()))
        await node.names()
        sound = tmp_path / "sys/devices/pci0000:00/0000:05:00.1"
        sound.mkdir(parents=True)
        (sound / "class").write_text("0x040300\n")
        (sound / "driver").symlink_to("../../../bus/pci/drivers/snd_hda_intel")
        (tmp_path / "sys/bus/pci/devices/0000:05:00.1").symlink_to("../../../devices/pci0000:00/0000:05:00.1")
        (tmp_path / "sys/kernel/iommu_groups/20/devices/0000:05:00.1").touch()
        with pytest.raises(ClaimError, match=r"other devices in its IOMMU group are in use: 0000:05:00\.1"):
            await node.prepare("c", "gpu-vfio-0")
        assert await node.drivers() == ["amdgpu", "amdgpu"]
        assert node.plans == {}

    idle.run(main())


def test_a_gpu_in_use_is_waited_for_and_then_rejected(tmp_path: Path) -> None:
    async def main() -> None:
        files = folder(tmp_path)
        node = KernelHardware(files, IdleClock())
        opened = tmp_path / "proc/123/fd"
        opened.mkdir(parents=True)
        (opened / "4").symlink_to("/dev/dri/renderD128")
        with pytest.raises(HardwareError, match="it is in use by process 123"):
            await pci_binding.bind(files, "0000:05:00.0", "vfio-pci", node.call, release_seconds=0.01)
        waiting = asyncio.ensure_future(
            pci_binding.bind(files, "0000:05:00.0", "vfio-pci", node.call, release_seconds=5)
        )
        await asyncio.sleep(0.02)
        (opened / "4").unlink()
        await waiting
        assert [function.driver for function in await node.functions()] == ["vfio-pci", "amdgpu"]

    idle.run(main())


@pytest.mark.parametrize("step", ["driver_override", "unbind", "drivers_probe"])
def test_a_kernel_error_leaves_the_bindings_unchanged(tmp_path: Path, step: str) -> None:
    async def main() -> None:
        files = folder(tmp_path)
        node = Guests(KernelHardware(files, IdleClock()))
        await node.names()
        files.refused = step
        with pytest.raises(ClaimError, match=f"{step}: Device or resource busy"):
            await node.prepare("c", "gpu-vfio-0")
        files.refused = ""
        if "c" in node.plans:
            await node.unprepare("c")
        assert await node.drivers() == ["amdgpu", "amdgpu"]
        assert files.read("sys/bus/pci/devices/0000:05:00.0/driver_override") == "(null)"

    idle.run(main())


def test_without_an_iommu_there_are_no_functions(tmp_path: Path) -> None:
    async def main() -> None:
        node = KernelHardware(folder(tmp_path, groups=(-1, -1)), IdleClock())
        assert await node.functions() == ()
        with pytest.raises(HardwareError, match="check that the IOMMU is enabled"):
            await node.bind("0000:05:00.0", "vfio-pci")

    idle.run(main())


# --- with the node driver ---------------------------------------------------------------------------------------------


def test_claims_through_the_node_driver() -> None:
    async def main() -> None:
        guests = await simulated("2xmi300x/vfio")
        client, store = MemoryClient(), MemoryStore()
        driver = NodeDriver(
            guests.driver, DriverHost("n1", "boot", MemoryStorage(), store), client, IdleClock(), random=Random(1)
        )  # fmt: skip
        await driver.recover()
        parameters = {"apiVersion": VERSION, "kind": "VfioDeviceConfig", "iommu": {"backendPolicy": "PreferIommuFD"}}
        config = [
            {"source": "FromClaim", "requests": [], "opaque": {"driver": "gpu.amd.com", "parameters": parameters}}
        ]
        ref = put_claim(client, "guest", "gpu-vfio-1", driver="gpu.amd.com", config=config)
        answer = (await driver.prepare([ref]))[ref.uid]
        assert answer.error == ""
        edits = CdiDevices([store]).edits(answer.devices[0].cdi_ids)
        assert [node.path for node in edits.device_nodes] == ["/dev/vfio/devices/vfio1", "/dev/iommu"]
        wrong = {"apiVersion": VERSION, "kind": "VfioDeviceConfig", "iommu": {"backendPolicy": "Newest"}}
        config = [{"source": "FromClaim", "requests": [], "opaque": {"driver": "gpu.amd.com", "parameters": wrong}}]
        odd = put_claim(client, "odd", "gpu-vfio-0", driver="gpu.amd.com", config=config)
        assert "backendPolicy" in (await driver.prepare([odd]))[odd.uid].error
        await driver.unprepare([ref, odd])
        assert await guests.drivers() == ["amdgpu", "amdgpu"]
        assert store.names() == frozenset()

    idle.run(main())


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.booleans()), max_size=12))
def test_every_function_has_one_owner_and_the_initial_state_is_restored(steps: list[tuple[int, int, bool]]) -> None:
    """``steps``: a claim to prepare (or unprepare if it is prepared), its GPU, and whether the driver restarts
    before.
    """

    async def main() -> None:
        node = await simulated("4xmi300x/vfio")
        owners: dict[str, int] = {}
        for claim, gpu, restart in steps:
            uid = f"c{claim}"
            if restart:
                node.restart()
                await node.names()
            if uid in node.plans:
                await node.unprepare(uid)
                del owners[uid]
            elif gpu not in owners.values():
                await node.prepare(uid, f"gpu-vfio-{gpu}")
                owners[uid] = gpu
            else:
                with pytest.raises(ClaimError, match="still prepared"):
                    await node.prepare(uid, f"gpu-vfio-{gpu}")
            assert {n for n, driver in enumerate(await node.drivers()) if driver == "vfio-pci"} == set(owners.values())
        for uid in tuple(node.plans):
            await node.unprepare(uid)
        assert await node.drivers() == ["amdgpu"] * 4

    idle.run(main())
