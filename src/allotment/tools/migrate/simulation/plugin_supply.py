"""The remaining supply of a node's device plugin, by the way plugins allocate GPUs.

Each supply gives all that a pod wants, or nothing. Kubernetes only counts; which GPU it is matters where a GPU is cut
as pods come, and where amounts of its memory are handed out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from allotment.fleet import Accelerator, FleetError
from allotment.fleet.mig import parse_layout
from allotment.tools.migrate.plugin_requests import PluginRequest
from allotment.tools.migrate.simulation.device_kind import DeviceCount, DeviceKind

#: How many pods HAMi lets onto a GPU unless it is told otherwise (deviceSplitCount).
_MOST_ON_A_GPU = 10


class Supply(Protocol):
    """What is left on a node."""

    def take(self, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | None:
        """Take all of it and say what it is, or None and nothing is taken."""
        ...

    def lacks(self, wants: Sequence[PluginRequest]) -> str:
        """The resources that are short, as ``nvidia.com/gpu (2 requested, 1 left)``; empty if none is."""
        ...


class CountedSupply:
    """Numbers by resource name, as ``status.allocatable`` has them.

    ``exact``: a resource that stands for pieces serves only who wants these; on a cluster's own nodes the name decides.
    """

    def __init__(self, amounts: Mapping[str, tuple[int, DeviceKind]], *, exact: bool = False) -> None:
        self._left = dict(amounts)
        self._exact = exact

    def take(self, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | None:
        """Take all of it, or nothing."""
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
        """What is left, by resource name."""
        return {name: count for name, (count, _) in self._left.items()}

    def use(self, resource: str, count: int) -> None:
        """What pods that run here already have."""
        if resource in self._left:
            left, kind = self._left[resource]
            self._left[resource] = (left - count, kind)

    def lacks(self, wants: Sequence[PluginRequest]) -> str:
        """What of it is not there."""
        for want in wants:
            left, kind = self._left.get(want.resource, (0, DeviceKind()))
            if self._exact and kind.profile != want.profile:
                left = 0
            if left < want.count:
                return f"{want.resource} ({want.count} requested, {max(left, 0)} left)"
        return ""


class DynamicMigSupply:
    """GPUs that are cut into MIG devices as pods come, as somebody with MIG manager would have done for them."""

    def __init__(self, model: Accelerator, gpus: int, whole: DeviceKind) -> None:
        self._model, self._whole = model, whole
        #: By GPU the profiles that it is cut into; None for one that is given whole.
        self._gpus: list[tuple[str, ...] | None] = [()] * gpus

    def take(self, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | None:
        """Take all of it, or nothing."""
        after = self._after(wants)
        if after is None:
            return None
        self._gpus = after
        return tuple(
            DeviceCount(kind=DeviceKind(product=self._whole.product, profile=want.profile), count=want.count)
            for want in wants
        )

    def lacks(self, wants: Sequence[PluginRequest]) -> str:
        """What of it is not there."""
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
    """Memory and cores of each GPU, as HAMi and Volcano hand them out."""

    def __init__(self, gpus: int, memory_mib: int, product: str) -> None:
        self._memory = memory_mib
        self._kind = DeviceKind(product=product, shared=True)
        self._gpus = [(memory_mib, 100, _MOST_ON_A_GPU)] * gpus

    def take(self, wants: Sequence[PluginRequest]) -> tuple[DeviceCount, ...] | None:
        """Take all of it, or nothing."""
        after = self._after(wants)
        if after is None:
            return None
        self._gpus = after
        return tuple(DeviceCount(kind=self._kind, count=want.count) for want in wants)

    def lacks(self, wants: Sequence[PluginRequest]) -> str:
        """What of it is not there."""
        return "" if self._after(wants) is not None else "a GPU with enough memory and cores left"

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
