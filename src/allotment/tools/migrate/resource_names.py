"""Parses the resource names of device plugins.

NVIDIA's plugin has ``nvidia.com/gpu`` and one name per MIG profile, each with the suffix ``.shared`` if several pods
share it; HAMi and Volcano add amounts of memory and cores to a number of GPUs. AMD's has ``amd.com/gpu``, or one name
per partition mode; Intel's has one per kernel driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from allotment.model.quantity import Quantity, QuantityError
from allotment.tools.migrate.plugin_requests import ContainerRequests, PluginRequest, Sharing, Usage, Vendor

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
    """The GPU vendor of a resource name; None for any other resource.

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


class ParsedRequests(NamedTuple):
    """The plugin requests of a container, and the resource names behind them, ``used``.

    ``unknown``: unknown resource names of known vendors. ``unreadable``: amounts that are not whole numbers, such as
    ``nvidia.com/gpu: ${GPUS}``.
    """

    requests: tuple[PluginRequest, ...] = ()
    used: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()


def parse_requests(amounts: Mapping[str, Any]) -> ParsedRequests:
    """The plugin requests in a container's limits or requests. An amount of 0 is no request."""
    vendor_amounts = {name: (amount, _count(amount)) for name, amount in amounts.items() if vendor_of(name)}
    unreadable = tuple(f"{name}: {amount}" for name, (amount, count) in vendor_amounts.items() if count is None)
    counts = {name: count for name, (_, count) in vendor_amounts.items() if count}
    requests: list[PluginRequest] = []
    used: list[str] = []
    for number, memory, percent, cores in _FRACTIONS:
        names = [name for name in (number, memory, percent, cores) if name in counts]
        if names and (names != [number] or number != "nvidia.com/gpu"):
            requests.append(
                PluginRequest(
                    vendor="nvidia",
                    usage="fraction",
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
        request = _parse_resource(name, count)
        if request is not None:
            if intel and request.vendor == "intel" and request.usage == "whole":
                request = replace(request, usage="fraction", cores=counts.get(intel[0], 0) // 10)
                used += intel
            requests.append(request)
            used.append(name)
    return ParsedRequests(tuple(requests), tuple(used), tuple(name for name in counts if name not in used), unreadable)


def _parse_resource(name: str, count: int) -> PluginRequest | None:
    base = name.removesuffix(SHARED)
    sharing = Sharing(source=f"resource {name}") if base != name else None
    if base == "nvidia.com/gpu":
        usage: Usage = "share" if sharing else "whole"
        return PluginRequest(vendor="nvidia", usage=usage, resource=name, count=count, sharing=sharing)
    if profile := mig_profile(name):
        usage = "share" if sharing else "piece"
        return PluginRequest(vendor="nvidia", usage=usage, resource=name, count=count, profile=profile, sharing=sharing)
    if name == "amd.com/gpu":
        return PluginRequest(vendor="amd", usage="whole", resource=name, count=count)
    if found := _PARTITION.fullmatch(name):
        return PluginRequest(vendor="amd", usage="piece", resource=name, count=count, profile=found[1])
    if found := _INTEL.fullmatch(name):
        usage = "monitoring" if found[2] else "whole"
        return PluginRequest(vendor="intel", usage=usage, resource=name, count=count, kernel_driver=found[1])
    return None


def _count(amount: Any) -> int | None:
    """An amount as a whole number; None if it is not one."""
    if isinstance(amount, bool) or not isinstance(amount, int | float | str):
        return None
    try:
        quantity = Quantity.parse(str(amount))
    except QuantityError:
        return None
    count = quantity.value()
    return count if count >= 0 and quantity == Quantity.of_int(count) else None


def format_requests(containers: Iterable[ContainerRequests]) -> str:
    """A pod's requests by the plugin's resource names: ``nvidia.com/gpu: 2, nvidia.com/mig-1g.5gb: 1``.

    As in Kubernetes, a pod needs the maximum of its init containers' and its other containers' requests.
    """
    staying: dict[str, int] = {}
    before: dict[str, int] = {}
    for container in containers:
        for request in container.requests:
            name = request.resource + _amounts(request)
            if container.role == "init":
                before[name] = max(before.get(name, 0), request.count)
            else:
                staying[name] = staying.get(name, 0) + request.count
    names = dict.fromkeys((*staying, *before))
    return ", ".join(f"{name}: {max(staying.get(name, 0), before.get(name, 0))}" for name in names)


def _amounts(request: PluginRequest) -> str:
    parts = (
        f"{request.memory_mib}Mi" if request.memory_mib else "",
        f"{request.memory_percent}% of memory" if request.memory_percent else "",
        f"{request.cores}% of cores" if request.cores else "",
    )
    listed = ", ".join(part for part in parts if part)
    return f" ({listed})" if listed else ""
