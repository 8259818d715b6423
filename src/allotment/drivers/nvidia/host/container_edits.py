"""Container edits for real GPUs: device nodes, the driver's libraries and programs, hooks.

The container has CUDA and the host has the driver, and the versions must match. So every library of the driver's
version is mounted from the host.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from allotment.cdi.spec import ContainerEdits, DeviceNode, Hook, Mount
from allotment.drivers.nvidia.hardware import HardwareError, MigDevice
from allotment.drivers.nvidia.host.roots import Roots
from allotment.drivers.nvidia.host.sysfs import drm_nodes, read
from allotment.drivers.nvidia.nvml.library import LIBRARY_FOLDERS
from allotment.fleet.nvidia import Gpu

#: The legacy runtime hook must not add devices of its own.
_VOID = "NVIDIA_VISIBLE_DEVICES=void"

_CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_PROGRAMS = (
    "nvidia-smi", "nvidia-debugdump", "nvidia-persistenced", "nvidia-cuda-mps-control", "nvidia-cuda-mps-server",
    "nvidia-imex", "nvidia-imex-ctl",
)  # fmt: skip
_SOCKETS = ("run/nvidia-persistenced/socket", "run/nvidia-fabricmanager/socket")

_READ_ONLY = ("ro", "nosuid", "nodev", "rbind", "rprivate")
_SOCKET = ("rw", "nosuid", "nodev", "noexec", "rbind", "rprivate")

HOOK = "nvidia-cdi-hook"


def common(roots: Roots, driver_version: str) -> ContainerEdits:
    """Edits for every container with a GPU."""
    libraries = tuple(_libraries(roots, driver_version))
    hook = roots.program(HOOK)
    mounts = [_mount(roots, path) for path in libraries]
    if hook is None:
        # No hook creates links in the container, so the libraries are mounted under the names that programs load.
        mounts += [_mount(roots, path, link) for path in libraries for link in _links(path) if ".so." in link.name]
    for name in _PROGRAMS:
        path = roots.program(name)
        if path is not None:
            mounts.append(_mount(roots, path))
    mounts += [_mount(roots, path) for path in _firmware(roots, driver_version)]
    mounts += [_mount(roots, path, options=_SOCKET) for name in _SOCKETS if (path := roots.driver / name).exists()]
    cuda = next((path for path in libraries if path.name.startswith("libcuda.so.")), None)
    env = (_VOID, *((f"NVIDIA_CTK_LIBCUDA_DIR={Path(roots.in_container(cuda)).parent}",) if cuda else ()))
    return ContainerEdits(
        env=env,
        device_nodes=tuple(device_node(roots, name) for name in _CONTROL if (roots.dev / name).exists()),
        mounts=tuple(mounts),
        hooks=tuple(_hooks(roots, hook, libraries, driver_version)) if hook else (),
    )


def whole_gpu(roots: Roots, gpu: Gpu) -> ContainerEdits:
    """Edits for a whole GPU: its device node, and those for graphics."""
    drm = drm_nodes(roots, gpu.pci)
    hook = roots.program(HOOK)
    links = []
    for name in drm:
        kind = "card" if name.startswith("card") else "render"
        links += ["--link", f"../{name}::/dev/dri/by-path/pci-{gpu.pci}-{kind}"]
    return ContainerEdits(
        device_nodes=(device_node(roots, f"nvidia{gpu.minor}"), *(device_node(roots, f"dri/{name}") for name in drm)),
        hooks=(_hook(roots, hook, "create-symlinks", *links),) if hook and links else (),
    )


def mig_device(roots: Roots, gpu: Gpu, device: MigDevice) -> ContainerEdits:
    """Edits for a MIG device: the GPU's device node, and the capabilities of the two instances. Raises
    HardwareError.
    """
    instance = f"gi{device.gpu_instance}"
    numbers = [
        _capability(roots, f"gpu{gpu.minor}/mig/{instance}/access"),
        _capability(roots, f"gpu{gpu.minor}/mig/{instance}/ci{device.compute_instance}/access"),
    ]
    major = _major(roots, "nvidia-caps")
    profile = next((p.name for p in (gpu.mig.profiles if gpu.mig else ()) if p.gi_id == device.profile_id), "")
    drm = drm_nodes(roots, gpu.pci) if "+gfx" in profile else ()
    return ContainerEdits(
        device_nodes=(
            device_node(roots, f"nvidia{gpu.minor}"),
            *(device_node(roots, f"nvidia-caps/nvidia-cap{minor}", major, minor) for minor in numbers),
            *(device_node(roots, f"dri/{name}") for name in drm),
        )
    )


def vfio_device(roots: Roots, pci: str, group: int, *, api_device: bool, iommu_fd: bool) -> ContainerEdits:
    """Edits for a virtual machine: the group's node, or the device's own with ``iommu_fd`` if the host has IOMMUFD.

    ``api_device``: also the node through which the virtual machine monitor programs the IOMMU.
    """
    own_file = next(iter(sorted((roots.sys / "bus/pci/devices" / pci / "vfio-dev").glob("vfio*"))), None)
    names = [f"vfio/{group}", "vfio/vfio"]
    if iommu_fd and own_file is not None and (roots.dev / "iommu").exists():
        names = [f"vfio/devices/{own_file.name}", "iommu"]
    if not api_device:
        names.pop()
    return ContainerEdits(env=(_VOID,), device_nodes=tuple(device_node(roots, name) for name in names))


def device_node(roots: Roots, name: str, major: int = 0, minor: int = 0) -> DeviceNode:
    """``/dev/<name>``, with its numbers if they can be read, so that a runtime need not look for them."""
    path, host_path = f"/dev/{name}", roots.dev / name
    try:
        status = host_path.stat()
    except OSError:
        status = None
    if status is not None and stat.S_ISCHR(status.st_mode):
        major, minor = status.st_rdev >> 8 & 0xFFF, status.st_rdev & 0xFF | status.st_rdev >> 12 & 0xFFF00
    host = "" if str(host_path) == path else str(host_path)
    return DeviceNode(path=path, host_path=host, type="c" if major else "", major=major, minor=minor)


# --- the driver's files -----------------------------------------------------------------------------------------------


def _libraries(roots: Roots, driver_version: str) -> Iterator[Path]:
    """The driver's libraries: all with its version in the file name."""
    seen = set()
    for folder in LIBRARY_FOLDERS if driver_version else ():
        for pattern in ("", "vdpau/", "nvidia/", "gbm/"):
            for path in sorted((roots.driver / folder).glob(f"{pattern}*.so.{driver_version}")):
                real = path.resolve()  # lib64 may be a link to usr/lib64
                if real not in seen:
                    seen.add(real)
                    yield path


def _links(library: Path) -> Iterator[Path]:
    """Links to a library in its folder: ``libcuda.so.1`` and ``libcuda.so``."""
    stem = library.name.partition(".so.")[0]
    for path in sorted(library.parent.glob(f"{stem}.so*")):
        if path.is_symlink() and path.resolve() == library.resolve():
            yield path


def _firmware(roots: Roots, driver_version: str) -> Iterable[Path]:
    folder = roots.driver / "lib/firmware/nvidia" / driver_version
    return sorted(folder.glob("gsp*.bin")) if driver_version else ()


def _mount(roots: Roots, path: Path, to: Path | None = None, options: tuple[str, ...] = _READ_ONLY) -> Mount:
    return Mount(host_path=roots.on_host(path), container_path=roots.in_container(to or path), options=options)


def _hooks(roots: Roots, hook: Path, libraries: tuple[Path, ...], driver_version: str) -> Iterator[Hook]:
    links = [
        argument
        for path in libraries
        for link in _links(path)
        for argument in ("--link", f"{path.name}::{roots.in_container(link)}")
    ]
    if links:
        yield _hook(roots, hook, "create-symlinks", *links)
    yield _hook(roots, hook, "enable-cuda-compat", f"--host-driver-version={driver_version}")
    folders = dict.fromkeys(str(Path(roots.in_container(path)).parent) for path in libraries)
    yield _hook(roots, hook, "update-ldcache", *(argument for folder in folders for argument in ("--folder", folder)))
    yield _hook(roots, hook, "disable-device-node-modification")


def _hook(roots: Roots, hook: Path, *arguments: str) -> Hook:
    return Hook(hook_name="createContainer", path=roots.on_host(hook), args=(HOOK, *arguments))


def _capability(roots: Roots, path: str) -> int:
    """The minor number of the device node that opens a MIG instance."""
    file = roots.proc / "driver/nvidia/capabilities" / path
    match = re.search(r"^DeviceFileMinor:\s*([0-9]+)", read(file), re.MULTILINE)
    if match is None:
        raise HardwareError(f"{file}: expected DeviceFileMinor, the number of the capability's device node")
    return int(match[1])


def _major(roots: Roots, driver: str) -> int:
    """The major number of a driver's character devices."""
    match = re.search(rf"^\s*([0-9]+) {re.escape(driver)}$", read(roots.proc / "devices"), re.MULTILINE)
    if match is None:
        raise HardwareError(f"{roots.proc / 'devices'}: no device number for {driver}")
    return int(match[1])
