"""Container edits for simulated GPUs: the device nodes and variables of real GPUs, without function.

Every node is ``/dev/null`` under the real node's name, with its numbers, so that a runtime need not look for it on the
host. Programs reach a simulated GPU by ``ALLOTMENT_GPU``, see :mod:`.compute_server`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from allotment.cdi.spec import ContainerEdits, DeviceNode, Mount
from allotment.drivers.nvidia.hardware import MigDevice
from allotment.drivers.nvidia.simulated.state import profile_of
from allotment.fleet.identity import uuid_variable
from allotment.fleet.nvidia import Gpu
from allotment.fleet.nvidia.mig_devices import piece_name

#: The legacy runtime hook must not add devices of its own.
_VOID: Final = "NVIDIA_VISIBLE_DEVICES=void"
_CONTROL: Final = ("/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia-modeset")

#: Variable with the socket of the compute server and a token, ``<socket>#<token>``.
VARIABLE: Final = "ALLOTMENT_GPU"


def device_node(path: str) -> DeviceNode:
    """``/dev/null`` as ``path``."""
    return DeviceNode(path=path, host_path="/dev/null", type="c", major=1, minor=3)


def common() -> ContainerEdits:
    """Edits for every container with a GPU: the control nodes."""
    return ContainerEdits(env=(_VOID,), device_nodes=tuple(device_node(path) for path in _CONTROL))


def whole_gpu(gpu: Gpu) -> ContainerEdits:
    """Edits for a whole GPU: ``/dev/nvidia<minor>``."""
    return ContainerEdits(device_nodes=(device_node(f"/dev/nvidia{gpu.minor}"),))


def mig_device(gpu: Gpu, device: MigDevice) -> ContainerEdits:
    """Edits for a MIG device: the GPU's node, and the capabilities of both instances, numbered as in the real driver
    (15 × 9 per GPU).

    The variable is for programs that show the device, because its UUID is not in any slice.
    """
    access = 3 + 135 * gpu.minor + 9 * device.gpu_instance
    capabilities = (access, access + 1 + device.compute_instance)
    nodes = (f"/dev/nvidia{gpu.minor}", *(f"/dev/nvidia-caps/nvidia-cap{number}" for number in capabilities))
    name = piece_name(gpu, profile_of(gpu, device.profile_id), device.start)
    env = (f"{uuid_variable(name)}={device.uuid}",)
    return ContainerEdits(env=env, device_nodes=tuple(device_node(path) for path in nodes))


def mps_client(folder: Path | None) -> ContainerEdits:
    """Edits for a client of a control daemon; with mounts if the daemon has folders."""
    env = ("CUDA_MPS_PIPE_DIRECTORY=/tmp/nvidia-mps",)
    if folder is None:
        return ContainerEdits(env=env)
    options = ("rw", "nosuid", "nodev", "bind")
    shm = Mount(host_path=str(folder / "shm"), container_path="/dev/shm", options=options)
    pipe = Mount(host_path=str(folder / "pipe"), container_path="/tmp/nvidia-mps", options=options)
    return ContainerEdits(env=env, mounts=(shm, pipe))


def vfio_device(group: int, api_device: bool) -> ContainerEdits:
    """Edits for a virtual machine: the IOMMU group's node."""
    paths = (f"/dev/vfio/{group}", *(("/dev/vfio/vfio",) if api_device else ()))
    return ContainerEdits(env=(_VOID,), device_nodes=tuple(device_node(path) for path in paths))


def compute_server(address: str) -> ContainerEdits:
    """Edits with which programs reach the compute server: its socket is mounted at the path that it has on the host."""
    socket = address.partition("#")[0]
    mount = Mount(host_path=socket, container_path=socket, options=("rw", "nosuid", "nodev", "bind"))
    return ContainerEdits(env=(f"{VARIABLE}={address}",), mounts=(mount,))
