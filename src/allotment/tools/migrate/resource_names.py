"""Resource names of device plugins: which vendor's, and what one of them is.

NVIDIA's plugin has ``nvidia.com/gpu`` and one name per MIG profile, each with ``.shared`` where it is handed out
several times; HAMi and Volcano add amounts of memory and cores to a number of GPUs. AMD's has ``amd.com/gpu``, or one
name per partition mode; Intel's one per kernel driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from allotment.model.quantity import Quantity, QuantityError
from allotment.tools.migrate.plugin_requests import Ask, ContainerAsk, Sharing, Sort, Vendor

SHARED: Final = ".shared"
_MIG: Final = re.compile(r"nvidia\.com/mig-((?:[1-9]c\.)?[0-9]+g\.[0-9]+gb)((?:\.me\.all|\.me|\.gfx|-me)?)")
_PARTITION: Final = re.compile(r"amd\.com/((?:spx|dpx|tpx|qpx|cpx)_nps[0-9])")
_INTEL: Final = re.compile(r"gpu\.intel\.com/(i915|xe)(_monitoring)?")

#: Amounts that belong to a number of GPUs, by family of names: the number, MiB, percent of memory, percent of cores.
_FRACTIONS: Final = (
    ("nvidia.com/gpu", "nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"),
)
#: Amounts of Intel's plugin, which only its own scheduler extension counts: thousandths of a GPU, and bytes.
_INTEL_AMOUNTS: Final = ("gpu.intel.com/millicores", "gpu.intel.com/memory.max", "gpu.intel.com/tiles")

_VENDORS: Final[tuple[tuple[str, Vendor], ...]] = (
    ("nvidia.com/", "nvidia"),
    ("volcano.sh/vgpu", "nvidia"),
    ("amd.com/", "amd"),
    ("gpu.intel.com/", "intel"),
)


def vendor_of(resource: str) -> Vendor | None:
    """Whose GPUs a resource name is about; None for any other resource.

    >>> vendor_of("volcano.sh/vgpu-number"), vendor_of("cpu")
    ('nvidia', None)
    """
    return next((vendor for prefix, vendor in _VENDORS if resource.startswith(prefix)), None)


def mig_profile(resource: str) -> str:
    """The MIG profile of a resource name, as the driver publishes it; empty for any other resource.

    >>> mig_profile("nvidia.com/mig-1g.10gb.me.shared"), mig_profile("nvidia.com/gpu")
    ('1g.10gb+me', '')
    """
    found = _MIG.fullmatch(resource.removesuffix(SHARED))
    if found is None:
        return ""
    suffix = found[2]
    return found[1] + (f"+{suffix[1:]}" if suffix.startswith(".") else suffix)


def amd_partition(resource: str) -> str:
    """The partition mode of a resource name; empty for any other resource.

    >>> amd_partition("amd.com/cpx_nps1"), amd_partition("amd.com/gpu")
    ('cpx_nps1', '')
    """
    found = _PARTITION.fullmatch(resource)
    return found[1] if found else ""


class Asked(NamedTuple):
    """What a container asks for: ``asks``, and the resource names that make them up, ``used``.

    ``unknown``: vendors' names that are none of those known here. ``unreadable``: amounts that are no whole numbers, as
    ``nvidia.com/gpu: ${GPUS}``, of which nobody knows what they ask for.
    """

    asks: tuple[Ask, ...] = ()
    used: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


def asks_of(amounts: Mapping[str, Any]) -> Asked:
    """What a container's limits or requests ask of device plugins. An amount of 0 asks for nothing."""
    theirs = {name: (amount, _count(amount)) for name, amount in amounts.items() if vendor_of(name)}
    unreadable = tuple(f"{name}: {amount}" for name, (amount, count) in theirs.items() if count is None)
    counts = {name: count for name, (_, count) in theirs.items() if count}
    asks: list[Ask] = []
    used: list[str] = []
    for number, memory, percent, cores in _FRACTIONS:
        names = [name for name in (number, memory, percent, cores) if name in counts]
        if names and (names != [number] or number != "nvidia.com/gpu"):
            asks.append(
                Ask(
                    vendor="nvidia",
                    sort="fraction",
                    resource=names[0],
                    count=counts.get(number, 1),
                    memory_mib=counts.get(memory, 0),
                    memory_percent=counts.get(percent, 0),
                    cores=counts.get(cores, 0),
                )
            )
            used += names
    intel = [name for name in _INTEL_AMOUNTS if name in counts]
    for name, count in counts.items():
        if name in used or name in intel:
            continue
        ask = _ask(name, count)
        if ask is not None:
            if intel and ask.vendor == "intel" and ask.sort == "whole":
                ask = replace(ask, sort="fraction", cores=counts.get(intel[0], 0) // 10)
                used += intel
            asks.append(ask)
            used.append(name)
    return Asked(tuple(asks), tuple(used), tuple(name for name in counts if name not in used), unreadable)


def _ask(name: str, count: int) -> Ask | None:
    base = name.removesuffix(SHARED)
    sharing = Sharing(told_by=f"resource {name}") if base != name else None
    if base == "nvidia.com/gpu":
        sort: Sort = "share" if sharing else "whole"
        return Ask(vendor="nvidia", sort=sort, resource=name, count=count, sharing=sharing)
    if profile := mig_profile(name):
        sort = "share" if sharing else "piece"
        return Ask(vendor="nvidia", sort=sort, resource=name, count=count, profile=profile, sharing=sharing)
    if name == "amd.com/gpu":
        return Ask(vendor="amd", sort="whole", resource=name, count=count)
    if found := _PARTITION.fullmatch(name):
        return Ask(vendor="amd", sort="piece", resource=name, count=count, profile=found[1])
    if found := _INTEL.fullmatch(name):
        sort = "monitoring" if found[2] else "whole"
        return Ask(vendor="intel", sort=sort, resource=name, count=count, kernel_driver=found[1])
    return None


def _count(amount: Any) -> int | None:
    """An amount as written, which must be a whole number; None for anything else."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | str):
        return None
    try:
        quantity = Quantity.parse(str(amount))
    except QuantityError:
        return None
    count = quantity.value()
    return count if count >= 0 and quantity == Quantity.of_int(count) else None


def in_words(containers: Iterable[ContainerAsk]) -> str:
    """What a pod asks for, in the names of the plugin: ``nvidia.com/gpu: 2, nvidia.com/mig-1g.5gb: 1``.

    What init containers ask for before the others start counts only as far as it is more.
    """
    staying: dict[str, int] = {}
    before: dict[str, int] = {}
    for container in containers:
        for ask in container.asks:
            name = ask.resource + _amounts(ask)
            if container.role == "init":
                before[name] = max(before.get(name, 0), ask.count)
            else:
                staying[name] = staying.get(name, 0) + ask.count
    names = dict.fromkeys((*staying, *before))
    return ", ".join(f"{name}: {max(staying.get(name, 0), before.get(name, 0))}" for name in names)


def _amounts(ask: Ask) -> str:
    parts = (
        f"{ask.memory_mib}Mi" if ask.memory_mib else "",
        f"{ask.memory_percent}% of memory" if ask.memory_percent else "",
        f"{ask.cores}% of cores" if ask.cores else "",
    )
    told = ", ".join(part for part in parts if part)
    return f" ({told})" if told else ""
