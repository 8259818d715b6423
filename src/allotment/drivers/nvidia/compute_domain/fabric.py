"""NVLink between nodes as a driver's host sees it: here a simulation, in which every node is what it is told to be."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.cdi.spec import ContainerEdits, Mount
from allotment.drivers.nvidia.simulated.container_edits import device_node
from allotment.fleet.nvidia import Gpu

_VOID = "NVIDIA_VISIBLE_DEVICES=void"


def clique_of(gpus: Iterable[Gpu]) -> str:
    """The clique of a node, ``<cluster uuid>.<clique>``; empty where its GPUs have no fabric, or different ones."""
    cliques = {str(gpu.fabric) if gpu.fabric is not None else "" for gpu in gpus}
    return cliques.pop() if len(cliques) == 1 else ""


class SimulatedFabric(NamedTuple):
    """A node's place in the fabric. ``folder``: for what daemons keep, none if nothing is to be kept."""

    clique: str = ""
    folder: Path | None = None

    def channel_edits(self, channels: Iterable[int]) -> ContainerEdits:
        """The nodes of channels."""
        paths = (f"/dev/nvidia-caps-imex-channels/channel{channel}" for channel in channels)
        return ContainerEdits(env=(_VOID,), device_nodes=tuple(device_node(path) for path in paths))

    def daemon_edits(self, domain: str) -> ContainerEdits:
        """What a daemon manages the fabric with, and the folder of its domain."""
        mounts: tuple[Mount, ...] = ()
        if self.folder is not None:
            options = ("rw", "nosuid", "nodev", "bind")
            mounts = (Mount(host_path=str(self.folder / domain), container_path="/imexd", options=options),)
        return ContainerEdits(env=(_VOID,), device_nodes=(device_node("/dev/nvidia-caps/nvidia-cap2"),), mounts=mounts)

    def make_folder(self, domain: str) -> None:
        """The folder of a domain's daemon."""
        if self.folder is not None:
            (self.folder / domain).mkdir(parents=True, exist_ok=True)

    def remove_folder(self, domain: str) -> None:
        """Remove it and what a daemon left in it; one that is not there is removed already."""
        if self.folder is not None and (self.folder / domain).exists():
            for path in (self.folder / domain).iterdir():
                path.unlink()
            (self.folder / domain).rmdir()
