"""Discovery of GPUs through the real NVML bindings, on a fake library."""

from __future__ import annotations

import shutil
import sys

import pytest

from allotment.drivers.nvidia.hardware import GpuLost, Hardware
from allotment.fleet.hardware import hardware as hardware_of
from allotment.fleet.modes import DynamicMig, Full, Mode, NvidiaMode, Shared, StaticMig, Vfio, parse_mode
from allotment.fleet.nvidia import Fabric, Gpu, fixed_mig_devices, gpu_uuid, gpus_of, offering, offering_of
from tests.nvml.library import A100, H100, T4
from tests.nvml.machine import Machine
from tests.unit.drivers.nvidia.host.hosting import run_on_host

BUSES = {"0000:07:00.0": 0x07, "0000:0f:00.0": 0x0F}


def two_a100s(host: Machine, *, mig: tuple[bool, bool]) -> None:
    """The first two GPUs of a DGX A100."""
    for slot, on_ in zip(hardware_of("dgx-a100-40gb", 2).slots, mig, strict=True):
        host.gpu(A100, BUSES[slot.pci], gpu_uuid("n", slot.pci), mig=on_, numa=slot.numa, root=slot.pcie_root)


def gpus(host: Machine) -> tuple[Gpu, ...]:
    return run_on_host(host, lambda hardware: hardware.gpus())


@pytest.mark.parametrize("mode", [Full(), DynamicMig(), Shared(), Vfio()])
def test_slices_of_discovered_gpus_equal_those_of_the_profile(host: Machine, mode: NvidiaMode) -> None:
    machine = hardware_of("dgx-a100-40gb", 2)
    two_a100s(host, mig=(mode == DynamicMig(), mode == DynamicMig()))
    assert gpus(host) == gpus_of(machine, "n", mode)
    assert offering(gpus(host), mode) == offering_of(machine, "n", mode)


def test_a_fixed_mig_layout_is_published_like_that_of_the_profile(host: Machine) -> None:
    machine = hardware_of("dgx-a100-40gb", 2)
    mode: Mode = parse_mode("static-mig=3g.20gb+2g.10gb+1g.5gb/full", machine)
    assert isinstance(mode, StaticMig)
    two_a100s(host, mig=(True, False))
    layout = fixed_mig_devices(gpus_of(machine, "n", mode), "n", mode)

    async def make(hardware: Hardware) -> None:
        for pci, mig_devices in layout.items():
            for mig_device in mig_devices:
                await hardware.create_mig(pci, mig_device.profile_id, mig_device.start)
        discovered = await hardware.gpus()
        created = {gpu.pci: await hardware.mig_devices(gpu.pci) for gpu in discovered}
        assert {pci: [(m.profile_id, m.start) for m in each] for pci, each in created.items()} == {
            pci: [(mig_device.profile_id, mig_device.start) for mig_device in mig_devices]
            for pci, mig_devices in layout.items()
        }
        # The driver assigns the UUIDs.
        renamed = {
            pci: [old._replace(uuid=new.uuid) for old, new in zip(layout[pci], created[pci], strict=True)]
            for pci in layout
        }
        assert offering(discovered, mode, created) == offering(gpus_of(machine, "n", mode), mode, renamed)

    run_on_host(host, make)


def test_a_gpu_with_few_facts_is_discovered(host: Machine) -> None:
    host.gpu(T4, 0x1E, "GPU-t4", numa=-1, bar=1 << 28)
    (folder := host.roots.sys / "bus/pci/devices/0000:1e:00.0").unlink()
    assert not folder.exists()  # as on virtual machines without a readable topology
    (t4,) = gpus(host)
    assert (t4.product, t4.architecture, t4.brand, t4.compute_capability) == ("Tesla T4", "Turing", "Nvidia", "7.5")
    assert (t4.mig, t4.mig_enabled, t4.fabric, t4.addressing_mode, t4.numa, t4.pcie_root) == (None, False, *[None] * 4)
    assert t4.multiprocessors == 40
    assert t4.bar_bytes == 256 << 20


def test_newer_hardware_reports_more(host: Machine) -> None:
    host.gpu(H100, 0x53, "GPU-h100", device="0x2330")
    host.nvml.fabric(0, 7)
    (h100,) = gpus(host)
    assert h100.addressing_mode == "HMM"
    assert h100.fabric == Fabric("00112233-4455-6677-8899-aabbccddeeff", 7)
    assert str(h100.fabric) == "00112233-4455-6677-8899-aabbccddeeff.7"
    assert h100.mig is not None
    assert (h100.mig.reset_to_toggle, h100.mig_enabled) == (False, False)


def test_placements_are_known_while_mig_is_disabled(host: Machine) -> None:
    host.gpu(H100, 0x53, "GPU-h100")
    (discovered,), (profiled,) = gpus(host), gpus_of(hardware_of("h100"), "n")
    assert discovered.mig == profiled.mig


def test_profile_names_are_derived_if_an_old_driver_has_none(host: Machine) -> None:
    two_a100s(host, mig=(True, True))
    new = gpus(host)
    host.nvml.old_driver()
    assert gpus(host) == new


def test_memory_shared_with_the_cpu_is_not_reported(host: Machine) -> None:
    host.gpu(H100, 0x53, "GPU-h100")
    host.nvml.coherent(0)
    (gpu,) = gpus(host)
    assert gpu.memory_bytes is None
    (((device,),), _) = offering((gpu,), Full())
    assert "memory" not in device.capacity


def test_gpus_are_sorted_by_address(host: Machine) -> None:
    for bus, uuid in ((0x9, "GPU-c"), (0x3, "GPU-a"), (0x5, "GPU-b")):
        host.gpu(T4, bus, uuid)
    assert [gpu.uuid for gpu in gpus(host)] == ["GPU-a", "GPU-b", "GPU-c"]
    assert [gpu.minor for gpu in gpus(host)] == [1, 2, 0]


def test_a_lost_gpu_is_listed_until_the_kernel_removes_it(host: Machine) -> None:
    host.gpu(T4, 0x3, "GPU-a")
    host.gpu(T4, 0x5, "GPU-b")

    async def lose(hardware: Hardware) -> None:
        before = await hardware.gpus()
        host.nvml.fall_off_bus(0)
        assert await hardware.gpus() == before
        with pytest.raises(GpuLost, match=r"0000:03:00\.0"):
            await hardware.set_compute_mode("0000:03:00.0", "DEFAULT")
        host.bind("0000:03:00.0", "")
        assert await hardware.gpus() == before[1:]

    run_on_host(host, lose)
    # A restarted driver does not know the GPU.
    assert [gpu.uuid for gpu in gpus(host)] == ["GPU-b"]


def test_without_a_driver_there_are_no_gpus(host: Machine, caplog: pytest.LogCaptureFixture) -> None:
    host.gpu(T4, 0x3, "GPU-a")
    host.nvml.absent()

    async def twice(hardware: Hardware) -> None:
        assert await hardware.gpus() == ()
        assert await hardware.gpus() == ()
        host.nvml.absent(False)
        assert len(await hardware.gpus()) == 1

    run_on_host(host, twice)
    assert [record.message for record in caplog.records] == ["no GPUs: NVML cannot be initialized: Driver Not Loaded"]
    shutil.rmtree(host.root / "usr/lib")
    assert gpus(host) == ()


def test_with_an_invalid_library_there_are_no_gpus(host: Machine) -> None:
    path = host.root / "usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
    path.unlink()
    path.write_bytes(b"not a library")
    assert gpus(host) == ()


def test_a_gpu_bound_to_vfio_is_read_from_the_kernel(host: Machine) -> None:
    pci = host.gpu(H100, 0x53, "GPU-h100", device="0x2330", numa=1, bar=1 << 37)
    host.gpu(T4, 0x1E, "GPU-t4")
    (host.roots.dev / "iommu").write_bytes(b"")

    async def before_and_after(hardware: Hardware) -> None:
        (_, before) = await hardware.gpus()
        host.nvml.clear()
        host.bind(pci, "vfio-pci")
        host.bind("0000:1e:00.0", "")
        (after,) = await hardware.gpus()
        assert (before.vfio_bound, after.vfio_bound) == (False, True)
        assert offering((after,), Vfio()) == offering((before,), Vfio())

    run_on_host(host, before_and_after)
    (unseen,) = gpus(host)
    assert (unseen.product, unseen.device_id, unseen.bar_bytes) == ("NVIDIA H100 80GB HBM3", "0x2330", 1 << 37)
    assert offering((unseen,), Full()).groups == ((),)


def test_nvml_is_stopped_when_the_hardware_is_closed(host: Machine) -> None:
    host.gpu(T4, 0x3, "GPU-a")
    gpus(host)
    assert host.nvml.started() == 0


def test_without_the_bindings_there_are_no_gpus(host: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert run_on_host(host, lambda hardware: hardware.gpus()) == ()
