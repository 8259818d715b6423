"""The result of a simulated placement of a pod."""

from __future__ import annotations

from allotment.model.core import Pod
from allotment.model.meta import Value
from allotment.tools.migrate.simulation.device_kind import DeviceCount


class PodResult(Value, frozen=True):
    """A pod's node and devices, or the reason why it is pending and the smallest ``change`` that makes it fit."""

    pod: str
    node: str = ""
    devices: tuple[DeviceCount, ...] = ()
    reason: str = ""
    change: str = ""

    @property
    def fits(self) -> bool:
        """Whether the pod has a node."""
        return bool(self.node)


def name_of(pod: Pod) -> str:
    """``namespace/name``."""
    return str(pod.key)
