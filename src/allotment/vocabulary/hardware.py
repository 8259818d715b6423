"""Values of attributes that the hardware decides: those of the packaged hardware, instead of a second list of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from allotment.fleet import accelerators
from allotment.fleet.modes import AMD_VIRTUAL
from allotment.fleet.profiles import Accelerator


def _column(of: Callable[[Accelerator], Iterable[str]]) -> Callable[[str], tuple[str, ...]]:
    def values(vendor: str) -> tuple[str, ...]:
        found = (value for one in accelerators().values() if one.vendor == vendor for value in of(one))
        return tuple(dict.fromkeys(filter(None, found)))

    return values


#: What an attribute's ``from_hardware`` may name -> its values by vendor.
VALUES: Final[Mapping[str, Callable[[str], tuple[str, ...]]]] = {
    "product": _column(lambda one: [one.product]),
    "mig profile": _column(lambda one: [profile.name for profile in one.mig.profiles] if one.mig else []),
    "pci device": _column(lambda one: [one.pci_device, AMD_VIRTUAL.get(one.pci_device, "")]),
    "partition profile": _column(lambda one: [partition.profile for partition in one.partitions]),
    "compute partition": _column(lambda one: [partition.compute for partition in one.partitions]),
    "memory partition": _column(lambda one: [partition.memory for partition in one.partitions]),
    "family": _column(lambda one: [one.family]),
}
