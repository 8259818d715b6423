"""The simulated NVLink fabric between nodes, as a node's driver sees it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.cdi.spec import ContainerEdits, Mount
from allotment.drivers.nvidia.simulated.container_edits import device_node
from allotment.fleet.nvidia import Gpu

_VOID = "NVIDIA_VISIBLE_DEVICES=void"


def clique_of(gpus: Iterable[Gpu]) -> str:
    """The clique of a node, ``<cluster uuid>.<clique>``; empty if its GPUs have no fabric, or different ones."""
    cliques = {str(gpu.fabric) if gpu.fabric is not None else "" for gpu in gpus}
    return cliques.pop() if len(cliques) == 1 else ""


class SimulatedFabric(NamedTuple):
    """A node's location in the fabric. ``folder``: for the daemons' files, None to store nothing."""

    clique: str = ""
    folder: Path | None = None

    def channel_edits(self, channels: Iterable[int]) -> ContainerEdits:
        """Edits with the device nodes of channels."""
        paths = (f"/dev/nvidia-caps-imex-channels/channel{channel}" for channel in channels)
        return ContainerEdits(env=(_VOID,), device_nodes=tuple(device_node(path) for path in paths))

    def daemon_edits(self, domain: str) -> ContainerEdits:
        """Edits for a daemon: the device with which it manages the fabric, and its domain's folder."""
        mounts: tuple[Mount, ...] = ()
        if self.folder is not None:
            options = ("rw", "nosuid", "nodev", "bind")
            mounts = (Mount(host_path=str(self.folder / domain), container_path="/imexd", options=options),)
        return ContainerEdits(env=(_VOID,), device_nodes=(device_node("/dev/nvidia-caps/nvidia-cap2"),), mounts=mounts)

    def make_folder(self, domain: str) -> None:
        """Create the folder of a domain's daemon."""
        if self.folder is not None:
            (self.folder / domain).mkdir(parents=True, exist_ok=True)

    def remove_folder(self, domain: str) -> None:
        """Remove the folder with its files, if it exists."""
        if self.folder is not None and (self.folder / domain).exists():
            for path in (self.folder / domain).iterdir():
                path.unlink()
            (self.folder / domain).rmdir()
