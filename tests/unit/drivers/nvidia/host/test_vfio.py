"""GPUs handed to virtual machines and back, with a thread in the kernel's part."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from allotment.drivers.nvidia.hardware import GpuLost, Hardware, HardwareError
from allotment.drivers.nvidia.host import vfio
from allotment.drivers.nvidia.host.sysfs import driver_of
from tests.nvml.library import A100
from tests.nvml.machine import Machine
from tests.unit.drivers.nvidia.host.hosting import on

PCI = "0000:07:00.0"
_END = "no more"


@contextmanager
def kernel(host: Machine, *, modules: tuple[str, ...] = ("nvidia", "vfio-pci")) -> Iterator[None]:
    """Binds what is written to ``drivers_probe``, as its override says. What is written waits to be read."""
    probe = host.roots.sys / "bus/pci/drivers_probe"
    probe.unlink(missing_ok=True)
    os.mkfifo(probe)

    def serve() -> None:
        written = ""
        while not written.endswith(_END):
            # Whoever is quick has written twice before it is read.
            written = probe.read_text()
            for pci in re.findall(r"\w{4}:\w\w:\w\w\.\w", written):
                wanted = (host.roots.sys / "bus/pci/devices" / pci / "driver_override").read_text().strip() or "nvidia"
                host.bind(pci, wanted if wanted in modules else "")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        probe.write_text(_END)
        thread.join()


def test_a_gpu_goes_and_comes_back(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", group=12)

    async def go_and_come(hardware: Hardware) -> None:
        await hardware.gpus()
        assert host.nvml.started() == 1
        assert await hardware.bind_vfio(PCI, True) == 12
        # The kernel takes a device from its driver only when nobody has it open: NVML was let go.
        assert host.nvml.started() == 0
        assert driver_of(host.roots, PCI) == "vfio-pci"
        assert (host.roots.sys / "bus/pci/drivers/nvidia/unbind").read_text() == PCI
        assert await hardware.bind_vfio(PCI, True) == 12
        assert await hardware.bind_vfio(PCI, False) == 12
        assert driver_of(host.roots, PCI) == "nvidia"
        assert await hardware.bind_vfio(PCI, False) == 12

    with kernel(host):
        on(host, go_and_come)


def test_what_is_in_the_way_is_said(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")
    host.gpu(A100, 8, "GPU-b", group=3)
    other = host.gpu(A100, 9, "GPU-c", group=3)

    async def fail(hardware: Hardware) -> None:
        with pytest.raises(HardwareError, match="it is in no IOMMU group"):
            await hardware.bind_vfio(PCI, True)
        with pytest.raises(HardwareError, match=f"IOMMU group 3 has other devices in use: {other}"):
            await hardware.bind_vfio("0000:08:00.0", True)
        host.bind(other, "")
        (host.roots.sys / "bus/pci/devices/0000:08:00.0/sriov_numvfs").write_text("4\n")
        with pytest.raises(HardwareError, match="it has virtual functions"):
            await hardware.bind_vfio("0000:08:00.0", True)
        with pytest.raises(GpuLost):
            await hardware.bind_vfio("0000:99:00.0", True)

    on(host, fail)


def test_programs_that_have_it_open_are_waited_for_and_named(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", group=12)
    fd = host.roots.proc / "4711/fd"
    fd.mkdir(parents=True)
    (fd / "3").symlink_to(host.roots.dev / "nvidia0")
    with pytest.raises(HardwareError, match="process 4711 has it open"):
        vfio.bind_to_vfio(host.roots, PCI, 0, release_seconds=0.02)
    assert driver_of(host.roots, PCI) == "nvidia"


def test_a_kernel_without_the_module_gives_it_back(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", group=12)
    with kernel(host, modules=("nvidia",)), pytest.raises(HardwareError, match="is the module vfio-pci loaded"):
        vfio.bind_to_vfio(host.roots, PCI, 0, release_seconds=0.02, bind_seconds=0.2)
    assert driver_of(host.roots, PCI) == "nvidia", "the kernel was done with it when it ended"


def test_gpus_of_a_group_that_go_together_are_not_in_each_others_way(host: Machine) -> None:
    one, other = host.gpu(A100, 7, "GPU-a", group=12), host.gpu(A100, 8, "GPU-b", group=12)

    async def go(hardware: Hardware) -> None:
        assert [gpu.iommu_group for gpu in await hardware.gpus()] == [12, 12]
        for pci in (one, other):
            assert await hardware.bind_vfio(pci, True, together_with=(one, other)) == 12
        assert [driver_of(host.roots, pci) for pci in (one, other)] == ["vfio-pci"] * 2
        assert [(gpu.vfio_bound, gpu.iommu_group) for gpu in await hardware.gpus()] == [(True, 12)] * 2
        for pci in (one, other):
            await hardware.bind_vfio(pci, False)

    with kernel(host):
        on(host, go)
