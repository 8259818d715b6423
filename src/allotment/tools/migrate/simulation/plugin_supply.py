"""The remaining resources of a node's device plugin, by the way plugins allocate GPUs.

A supply serves all requests of a pod, or none. Kubernetes only counts resources; individual GPUs matter if they are
partitioned on demand, or if pods get amounts of their memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from allotment.fleet import Accelerator, FleetError
from allotment.fleet.mig import parse_layout
from allotment.tools.migrate.plugin_requests import PluginRequest
from allotment.tools.migrate.simulation.device_kind import DeviceCount, DeviceKind

#: HAMi's default for the maximum number of pods per GPU (deviceSplitCount).
_MOST_ON_A_GPU = 10


class Supply(Protocol):
    """The remaining resources of a node."""

    def take(self, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | None:
        """Take all that is requested and return the devices; None, with nothing taken, if it does not fit."""
        ...

    def lacks(self, wants: Sequence[PluginRequest]) -> str:
        """The resources that are short, as ``nvidia.com/gpu (2 requested, 1 left)``; empty if none is."""
        ...


class CountedSupply:
    """Counts by resource name, as in ``status.allocatable``.

    ``exact``: a resource serves only requests for its own profile; on nodes of a cluster only the name decides.
    """

    def __init__(self, amounts: Mapping[str, tuple[int, DeviceKind]], *, exact: bool = False) -> None:
        self._left = dict(amounts)
        self._exact = exact

    def take(self, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | None:
        if self.lacks(wants):
            return None
        found = []
        for want in wants:
            left, kind = self._left[want.resource]
            self._left[want.resource] = (left - want.count, kind)
            found.append(DeviceCount(kind=kind, count=want.count))
        return tuple(found)

    @property
    def left(self) -> dict[str, int]:
        """The remaining counts by resource name."""
        return {name: count for name, (count, _) in self._left.items()}

    def use(self, resource: str, count: int) -> None:
        """Subtract the use of a running pod."""
        if resource in self._left:
            left, kind = self._left[resource]
            self._left[resource] = (left - count, kind)

    def lacks(self, wants: Sequence[PluginRequest]) -> str:
        for want in wants:
            left, kind = self._left.get(want.resource, (0, DeviceKind()))
            if self._exact and kind.profile != want.profile:
                left = 0
            if left < want.count:
                return f"{want.resource} ({want.count} requested, {max(left, 0)} left)"
        return ""


class DynamicMigSupply:
    """GPUs that are partitioned into MIG devices for each pod, as an administrator would do with MIG manager."""

    def __init__(self, model: Accelerator, gpus: int, whole: DeviceKind) -> None:
        self._model, self._whole = model, whole
        #: The profiles of each GPU; None if a pod has the whole GPU.
        self._gpus: list[tuple[str, ...] | None] = [()] * gpus

    def take(self, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | None:
        after = self._after(wants)
        if after is None:
            return None
        self._gpus = after
        return tuple(
            DeviceCount(kind=DeviceKind(product=self._whole.product, profile=want.profile), count=want.count)
            for want in wants
        )

    def lacks(self, wants: Sequence[PluginRequest]) -> str:
        if self._after(wants) is not None:
            return ""
        return " and ".join(f"{want.resource} ({want.count} requested)" for want in wants)

    def _after(self, wants: Sequence[PluginRequest]) -> list[tuple[str, ...] | None] | None:
        gpus = list(self._gpus)
        for want in wants:
            for _ in range(want.count):
                if not self._one(gpus, want.profile):
                    return None
        return gpus

    def _one(self, gpus: list[tuple[str, ...] | None], profile: str) -> bool:
        for number, pieces in enumerate(gpus):
            if pieces is None or (pieces and not profile):
                continue
            if not profile:
                gpus[number] = None
                return True
            if self._holds((*pieces, profile)):
                gpus[number] = (*pieces, profile)
                return True
        return False

    def _holds(self, pieces: Sequence[str]) -> bool:
        counts = {name: pieces.count(name) for name in pieces}
        try:
            return bool(parse_layout("+".join(f"{name}:{count}" for name, count in counts.items()), self._model))
        except FleetError:
            return False


class FractionSupply:
    """The remaining memory (MiB), cores (percent) and pod slots of each GPU, as HAMi and Volcano count them."""

    def __init__(self, gpus: int, memory_mib: int, product: str) -> None:
        self._memory = memory_mib
        self._kind = DeviceKind(product=product, shared=True)
        self._gpus = [(memory_mib, 100, _MOST_ON_A_GPU)] * gpus

    def take(self, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | None:
        after = self._after(wants)
        if after is None:
            return None
        self._gpus = after
        return tuple(DeviceCount(kind=self._kind, count=want.count) for want in wants)

    def lacks(self, wants: Sequence[PluginRequest]) -> str:
        return "" if self._after(wants) is not None else "no GPU has enough memory and cores left"

    def _after(self, wants: Sequence[PluginRequest]) -> list[tuple[int, int, int]] | None:
        gpus = list(self._gpus)
        for want in wants:
            memory = want.memory_mib or self._memory * (want.memory_percent or 100) // 100
            fitting = [n for n, (left, cores, _) in enumerate(gpus) if left >= memory and cores >= want.cores]
            fitting = [number for number in fitting if gpus[number][2] > 0][: want.count]
            if len(fitting) < want.count:
                return None
            for number in fitting:
                left, cores, slots = gpus[number]
                gpus[number] = (left - memory, cores - want.cores, slots - 1)
        return gpus
