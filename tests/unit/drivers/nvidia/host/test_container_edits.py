"""Container edits on a real host."""

from __future__ import annotations

from pathlib import Path

import pytest

from allotment.drivers.nvidia.hardware import GpuLost, Hardware, HardwareError, MigDevice
from allotment.drivers.nvidia.host import Roots
from allotment.drivers.nvidia.host.container_edits import common, device_node
from tests.nvml.library import A100
from tests.nvml.machine import VERSION, Machine
from tests.unit.drivers.nvidia.host.hosting import run_on_host

LIBS = "/usr/lib/x86_64-linux-gnu"


def test_every_container_gets_the_driver_files(host: Machine) -> None:
    host.gpu(A100, 7, "GPU-a")

    async def edits(hardware: Hardware) -> None:
        await hardware.gpus()
        common_edits = hardware.common_edits()
        assert common_edits.env == ("NVIDIA_VISIBLE_DEVICES=void", f"NVIDIA_CTK_LIBCUDA_DIR={LIBS}")
        assert [(node.path, node.host_path) for node in common_edits.device_nodes] == [
            ("/dev/nvidiactl", str(host.roots.dev / "nvidiactl")),
            ("/dev/nvidia-uvm", str(host.roots.dev / "nvidia-uvm")),
        ]
        mounts = {mount.container_path: mount.host_path for mount in common_edits.mounts}
        assert mounts[f"{LIBS}/libcuda.so.{VERSION}"] == f"{host.root}{LIBS}/libcuda.so.{VERSION}"
        # No hook creates links in the container, so the library is also mounted under its soname.
        assert mounts[f"{LIBS}/libcuda.so.1"] == f"{host.root}{LIBS}/libcuda.so.{VERSION}"
        assert mounts["/usr/bin/nvidia-smi"] == f"{host.root}/usr/bin/nvidia-smi"
        assert common_edits.hooks == ()
        assert hardware.grant_edits("claim", "0000:07:00.0") == type(common_edits)()

    run_on_host(host, edits)


def test_host_paths_use_the_driver_root_of_the_host(host: Machine) -> None:
    (host.root / "usr/bin/nvidia-cdi-hook").touch()
    (host.root / f"lib/firmware/nvidia/{VERSION}").mkdir(parents=True)
    (host.root / f"lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin").touch()
    (host.root / "run/nvidia-persistenced").mkdir(parents=True)
    (host.root / "run/nvidia-persistenced/socket").touch()
    common_edits = common(host.roots._replace(driver_on_host=Path("/run/nvidia/driver")), VERSION)
    mounts = {mount.container_path: mount for mount in common_edits.mounts}
    assert mounts[f"{LIBS}/libcuda.so.{VERSION}"].host_path == f"/run/nvidia/driver{LIBS}/libcuda.so.{VERSION}"
    assert f"/lib/firmware/nvidia/{VERSION}/gsp_ga10x.bin" in mounts
    assert "noexec" in mounts["/run/nvidia-persistenced/socket"].options
    assert f"{LIBS}/libcuda.so.1" not in mounts
    assert {hook.path for hook in common_edits.hooks} == {"/run/nvidia/driver/usr/bin/nvidia-cdi-hook"}
    by_name = {hook.args[1]: hook.args[2:] for hook in common_edits.hooks}
    assert list(by_name) == [
        "create-symlinks",
        "enable-cuda-compat",
        "update-ldcache",
        "disable-device-node-modification",
    ]
    assert f"libcuda.so.{VERSION}::{LIBS}/libcuda.so.1" in by_name["create-symlinks"]
    assert by_name["update-ldcache"] == ("--folder", LIBS)


def test_a_whole_gpu_gets_its_device_node_and_those_for_graphics(host: Machine) -> None:
    pci = host.gpu(A100, 7, "GPU-a")

    async def edits(hardware: Hardware) -> None:
        # Called before discovery, as after a restart.
        paths = [node.path for node in hardware.gpu_edits(pci).device_nodes]
        assert paths == ["/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD129"]
        with pytest.raises(GpuLost, match=r"0000:99:00\.0"):
            hardware.gpu_edits("0000:99:00.0")
        (host.root / "usr/bin/nvidia-cdi-hook").touch()
        (hook,) = hardware.gpu_edits(pci).hooks
        assert hook.args[1:4] == ("create-symlinks", "--link", f"../card1::/dev/dri/by-path/pci-{pci}-card")

    run_on_host(host, edits)


def test_a_mig_device_gets_the_gpu_node_and_two_capabilities(host: Machine) -> None:
    pci = host.gpu(A100, 7, "GPU-a", mig=True)
    host.capability(0, "gi1", 12)
    host.capability(0, "gi1/ci0", 13)
    device = MigDevice(pci, 19, 0, "MIG-a", 1, 0)

    async def edits(hardware: Hardware) -> None:
        nodes = hardware.mig_edits(device).device_nodes
        assert [(node.path, node.type, node.major, node.minor) for node in nodes] == [
            ("/dev/nvidia0", "", 0, 0),
            ("/dev/nvidia-caps/nvidia-cap12", "c", 235, 12),
            ("/dev/nvidia-caps/nvidia-cap13", "c", 235, 13),
        ]
        with pytest.raises(HardwareError, match=r"gi2/access: expected DeviceFileMinor"):
            hardware.mig_edits(device._replace(gpu_instance=2))
        (host.roots.proc / "devices").write_text("Character devices:\n195 nvidia\n")
        with pytest.raises(HardwareError, match="no device number for nvidia-caps"):
            hardware.mig_edits(device)

    run_on_host(host, edits)


def test_a_virtual_machine_gets_the_group_or_the_device(host: Machine) -> None:
    pci = host.gpu(A100, 7, "GPU-a", group=12)

    async def edits(hardware: Hardware) -> None:
        def paths(iommu_fd: bool, api_device: bool) -> list[str]:
            vfio = hardware.vfio_edits(pci, 12, api_device=api_device, iommu_fd=iommu_fd)
            return [node.path for node in vfio.device_nodes]

        # The host has no IOMMUFD.
        for iommu_fd in (False, True):
            assert paths(iommu_fd, False) == ["/dev/vfio/12"]
            assert paths(iommu_fd, True) == ["/dev/vfio/12", "/dev/vfio/vfio"]
        (host.roots.dev / "iommu").touch()
        (host.roots.sys / "bus/pci/devices" / pci / "vfio-dev/vfio3").mkdir(parents=True)
        # IOMMUFD exists, but is used only on request: a monitor without support for it would not start.
        assert paths(False, False) == ["/dev/vfio/12"]
        assert paths(False, True) == ["/dev/vfio/12", "/dev/vfio/vfio"]
        assert paths(True, False) == ["/dev/vfio/devices/vfio3"]
        assert paths(True, True) == ["/dev/vfio/devices/vfio3", "/dev/iommu"]

    run_on_host(host, edits)


def test_edits_have_the_numbers_of_existing_device_nodes(host: Machine) -> None:
    null = device_node(Roots(dev=Path("/dev")), "null")
    assert (null.path, null.host_path, null.type, null.major, null.minor) == ("/dev/null", "", "c", 1, 3)
