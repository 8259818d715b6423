"""Polls NVML for critical events of GPUs, such as XID errors.

Events are polled and not waited for, so that one thread is sufficient for all calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from allotment.drivers.nvidia.hardware import Xid
from allotment.drivers.nvidia.nvml.library import Handle, Library, address, text

#: The event number of a GPU that no longer answers.
LOST = 0

#: The maximum number of events in one poll.
_MAX_EVENTS = 256


class EventWatcher:
    """Reports the events of all GPUs since the last poll. It is valid until NVML is restarted."""

    def __init__(self, library: Library) -> None:
        nvml = library.nvml
        self._library = library
        self._start_count = library.start_count
        self._handles = library.handles()
        self._lost: set[str] = set()
        self._events: Any = library.try_call(nvml.nvmlEventSetCreate)
        #: GPUs whose events are not available; only their loss is noticed.
        self.unmonitored = tuple(handle.pci for handle in self._handles if not self._register(handle))

    def _register(self, handle: Handle) -> bool:
        nvml = self._library.nvml
        supported = self._library.try_call(nvml.nvmlDeviceGetSupportedEventTypes, handle.device) or 0
        if self._events is None or not supported & nvml.nvmlEventTypeXidCriticalError:
            return False
        try:
            nvml.nvmlDeviceRegisterEvents(handle.device, nvml.nvmlEventTypeXidCriticalError, self._events)
        except nvml.NVMLError:
            return False
        return True

    @property
    def is_stale(self) -> bool:
        """Whether NVML was stopped or restarted, so that no more events are reported."""
        return not self._library.is_running or self._library.start_count != self._start_count

    def poll(self) -> list[Xid]:
        """The events since the last poll; number 0, once, for a GPU that was lost."""
        return [*self._xid_events(), *self._newly_lost()]

    def _xid_events(self) -> Iterator[Xid]:
        nvml = self._library.nvml
        for _ in range(_MAX_EVENTS if self._events is not None else 0):
            try:
                data = nvml.nvmlEventSetWait(self._events, 0)
            except nvml.NVMLError:
                # No more events; or a GPU was lost, which makes the whole set fail: _newly_lost() finds which one.
                return
            pci = self._library.try_call(nvml.nvmlDeviceGetPciInfo, data.device)
            if data.eventType == nvml.nvmlEventTypeXidCriticalError and pci is not None:
                yield Xid(address(text(pci.busId)), int(data.eventData))

    def _newly_lost(self) -> list[Xid]:
        nvml = self._library.nvml
        events = []
        for handle in self._handles:
            try:
                nvml.nvmlDeviceGetUUID(handle.device)
            except (nvml.NVMLError_GpuIsLost, nvml.NVMLError_GpuNotFound):
                if handle.pci not in self._lost:
                    self._lost.add(handle.pci)
                    events.append(Xid(handle.pci, LOST))
            except nvml.NVMLError:
                continue
        return events

    def close(self) -> None:
        """Free the event set."""
        if self._events is not None and not self.is_stale:
            self._library.try_call(self._library.nvml.nvmlEventSetFree, self._events)
        self._events = None
