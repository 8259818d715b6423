"""What the troubles of a GPU mean for its devices: taints for schedulers, words for people.

As the vendor's driver does, with one difference: when a GPU was reset or came back, its taints go.
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

#: Faults of programs, not of the GPU: told, but no reason to keep others away.
IGNORED: Final = frozenset((13, 31, 43, 45, 68, 109))

_MEANINGS: Final[Mapping[int, str]] = {
    13: "a program's graphics engine exception",
    31: "a program's memory page fault",
    43: "a program's GPU work was stopped",
    45: "a program was ended, its work with it",
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
    109: "a program's context switch timed out",
    119: "the GPU's system processor does not answer",
}


class GpuHealth(NamedTuple):
    """What is wrong with a GPU: its last critical event, its last ignored one, whether it is lost, or not watched."""

    critical: int = 0
    ignored: int = 0
    lost: bool = False
    unmonitored: bool = False

    def with_event(self, event: Xid | Unmonitored) -> GpuHealth:
        """With one more event; number 0 means that the GPU is lost."""
        if isinstance(event, Unmonitored):
            return self._replace(unmonitored=True)
        if event.number == 0:
            return self._replace(lost=True)
        if event.number in IGNORED:
            return self._replace(ignored=event.number)
        return self._replace(critical=event.number)

    @property
    def taints(self) -> tuple[DeviceTaint, ...]:
        """All that is to be on the GPU's devices. A critical event is not hidden by an ignored one after it."""
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
        """Whether it should be used."""
        if self.lost or self.critical:
            return "Unhealthy"
        return "Unknown" if self.unmonitored else "Healthy"

    @property
    def message(self) -> str:
        """For people."""
        parts = ["the GPU is lost: it no longer answers"] if self.lost else []
        if number := self.critical or self.ignored:
            parts.append(f"Xid {number}" + (f": {_MEANINGS[number]}" if number in _MEANINGS else ""))
        if self.unmonitored:
            parts.append("the driver does not tell the GPU's critical events")
        return "; ".join(parts)
