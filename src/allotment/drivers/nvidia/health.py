"""Health of NVIDIA GPUs as Kubernetes reports it: device taints, a status and a message.

The rules are those of NVIDIA's driver, with one difference: a reset of a GPU, or adding it again, removes its taints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from allotment.drivers.nvidia.hardware import Unmonitored, Xid
from allotment.kubelet_plugin.messages import Health
from allotment.model.resource import DeviceTaint

XID_TAINT: Final = "gpu.nvidia.com/xid"
LOST_TAINT: Final = "gpu.nvidia.com/gpu-lost"
UNMONITORED_TAINT: Final = "gpu.nvidia.com/unmonitored"

#: Faults of programs, not of the GPU: reported, but new pods can still use the GPU.
IGNORED: Final = frozenset((13, 31, 43, 45, 68, 109))

_MEANINGS: Final[Mapping[int, str]] = {
    13: "a graphics engine exception in a program",
    31: "a memory page fault in a program",
    43: "a program's GPU work was stopped",
    45: "a program and its GPU work were terminated",
    48: "double-bit memory error",
    62: "internal micro-controller halted",
    63: "memory row remapped, or a page retired",
    64: "memory row could not be remapped",
    68: "video decoder exception",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many single-bit memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "a context switch of a program timed out",
    119: "the GPU's system processor does not respond",
}


class GpuHealth(NamedTuple):
    """The health of a GPU: its last critical event, its last ignored event, whether it is lost, and whether it is
    monitored.
    """

    critical: int = 0
    ignored: int = 0
    lost: bool = False
    unmonitored: bool = False

    def with_event(self, event: Xid | Unmonitored) -> GpuHealth:
        """The health after one more event; number 0 means that the GPU is lost."""
        if isinstance(event, Unmonitored):
            return self._replace(unmonitored=True)
        if event.number == 0:
            return self._replace(lost=True)
        if event.number in IGNORED:
            return self._replace(ignored=event.number)
        return self._replace(critical=event.number)

    @property
    def taints(self) -> tuple[DeviceTaint, ...]:
        """All taints of the GPU's devices. An ignored event does not replace an earlier critical one."""
        taints = []
        if self.lost:
            taints.append(DeviceTaint(key=LOST_TAINT, effect="NoSchedule"))
        if self.critical:
            taints.append(DeviceTaint(key=XID_TAINT, value=str(self.critical), effect="NoSchedule"))
        elif self.ignored:
            taints.append(DeviceTaint(key=XID_TAINT, value=str(self.ignored), effect="None"))
        if self.unmonitored:
            taints.append(DeviceTaint(key=UNMONITORED_TAINT, effect="None"))
        return tuple(taints)

    @property
    def status(self) -> Health:
        """Whether the GPU can be used."""
        if self.lost or self.critical:
            return "Unhealthy"
        return "Unknown" if self.unmonitored else "Healthy"

    @property
    def message(self) -> str:
        """The health as text."""
        parts = ["the GPU is lost: it no longer responds"] if self.lost else []
        if number := self.critical or self.ignored:
            parts.append(f"Xid {number}" + (f": {_MEANINGS[number]}" if number in _MEANINGS else ""))
        if self.unmonitored:
            parts.append("NVIDIA's driver does not report critical events for this GPU")
        return "; ".join(parts)
