"""GPUs bound to vfio-pci and unbound, with a thread that acts as the kernel."""

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
from tests.unit.drivers.nvidia.host.hosting import run_on_host

PCI = "0000:07:00.0"
_END = "no more"


@contextmanager
def kernel(host: Machine, *, modules: tuple[str, ...] = ("nvidia", "vfio-pci")) -> Iterator[None]:
    """Bind devices written to ``drivers_probe`` to the driver in their override. The file is a FIFO, so writes
    block.
    """
    probe = host.roots.sys / "bus/pci/drivers_probe"
    probe.unlink(missing_ok=True)
    os.mkfifo(probe)

    def serve() -> None:
        written = ""
        while not written.endswith(_END):
            # A fast writer can write twice before the file is read.
            written = probe.read_text()
            for pci in re.findall(r"\w{4}:\w\w:\w\w\.\w", written):
                driver = (host.roots.sys / "bus/pci/devices" / pci / "driver_override").read_text().strip() or "nvidia"
                host.bind(pci, driver if driver in modules else "")

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield
    finally:
        probe.write_text(_END)
        thread.join()


def test_a_gpu_is_bound_to_vfio_and_unbound(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", group=12)

    async def bind_and_unbind(hardware: Hardware) -> None:
        await hardware.gpus()
        assert host.nvml.started() == 1
        assert await hardware.bind_vfio(PCI, True) == 12
        # The kernel unbinds a device only if no process has it open, so NVML was stopped.
        assert host.nvml.started() == 0
        assert driver_of(host.roots, PCI) == "vfio-pci"
        assert (host.roots.sys / "bus/pci/drivers/nvidia/unbind").read_text() == PCI
        assert await hardware.bind_vfio(PCI, True) == 12
        assert await hardware.bind_vfio(PCI, False) == 12
        assert driver_of(host.roots, PCI) == "nvidia"
        assert await hardware.bind_vfio(PCI, False) == 12

    with kernel(host):
        run_on_host(host, bind_and_unbind)


def test_obstacles_are_reported(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")
    host.gpu(A100, 8, "GPU-b", group=3)
    second = host.gpu(A100, 9, "GPU-c", group=3)

    async def fail(hardware: Hardware) -> None:
        with pytest.raises(HardwareError, match="it is not in an IOMMU group"):
            await hardware.bind_vfio(PCI, True)
        with pytest.raises(HardwareError, match=f"other devices in IOMMU group 3 are in use: {second}"):
            await hardware.bind_vfio("0000:08:00.0", True)
        host.bind(second, "")
        (host.roots.sys / "bus/pci/devices/0000:08:00.0/sriov_numvfs").write_text("4\n")
        with pytest.raises(HardwareError, match="it has virtual functions"):
            await hardware.bind_vfio("0000:08:00.0", True)
        with pytest.raises(GpuLost):
            await hardware.bind_vfio("0000:99:00.0", True)

    run_on_host(host, fail)


def test_programs_that_use_the_gpu_are_waited_for_and_named(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", group=12)
    fd = host.roots.proc / "4711/fd"
    fd.mkdir(parents=True)
    (fd / "3").symlink_to(host.roots.dev / "nvidia0")
    with pytest.raises(HardwareError, match="it is in use by process 4711"):
        vfio.bind_to_vfio(host.roots, PCI, 0, release_seconds=0.02)
    assert driver_of(host.roots, PCI) == "nvidia"


def test_without_the_vfio_module_the_gpu_is_bound_to_its_driver_again(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a", group=12)
    with (
        kernel(host, modules=("nvidia",)),
        pytest.raises(HardwareError, match="check that the kernel module vfio-pci is loaded"),
    ):
        vfio.bind_to_vfio(host.roots, PCI, 0, release_seconds=0.02, bind_seconds=0.2)
    assert driver_of(host.roots, PCI) == "nvidia", "the kernel was done with it when it ended"


def test_gpus_of_one_iommu_group_can_be_bound_together(host: Machine) -> None:
    first, second = host.gpu(A100, 7, "GPU-a", group=12), host.gpu(A100, 8, "GPU-b", group=12)

    async def go(hardware: Hardware) -> None:
        assert [gpu.iommu_group for gpu in await hardware.gpus()] == [12, 12]
        for pci in (first, second):
            assert await hardware.bind_vfio(pci, True, together_with=(first, second)) == 12
        assert [driver_of(host.roots, pci) for pci in (first, second)] == ["vfio-pci"] * 2
        assert [(gpu.vfio_bound, gpu.iommu_group) for gpu in await hardware.gpus()] == [(True, 12)] * 2
        for pci in (first, second):
            await hardware.bind_vfio(pci, False)

    with kernel(host):
        run_on_host(host, go)
