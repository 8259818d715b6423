"""Hardware on which objects would fit: the smallest that is known, in the words of ``--fleet``.

It is tried, not computed: on the engine, machine by machine, small cards first. What the objects name (drivers, MIG
profiles, shares) only decides which machines and modes are worth trying.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Final

import msgspec

from allotment.fleet import cluster_of, parse_fleet
from allotment.fleet.profiles import Accelerator, accelerators, servers
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate, ResourceSlice
from allotment.model.trees import to_tree
from allotment.model.workload_pods import pods_of
from allotment.tools.explain import fits
from allotment.tools.explain.subjects import identity, to_try

#: GPUs in a machine and number of machines, from small to large.
_SIZES: Final = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8), (8, 16))
#: Machines of several vendors are tried in so many combinations.
_MOST_TOGETHER: Final = 24
#: For more pods nobody wants to wait here.
_MOST_PODS: Final = 1_000
_PROFILE: Final = re.compile(r"\b[1-9]g\.[0-9]+gb(?:[+-][a-z.]+)?")
#: How each vendor's drivers and classes are known in a text.
_VENDORS: Final = {"nvidia": "nvidia.com", "amd": "amd.com", "example": ".example.com"}


def fitting_fleet(values: Iterable[Object], features: Features) -> str | None:
    """The smallest known hardware on which all objects get their devices; None if there is none, or nothing to fit.

    >>> fitting_fleet([], Features(kube="1.36"))
    """
    asked = [value for value in values if not isinstance(value, Node | ResourceSlice)]
    demand = _demand(asked)
    if not 0 < demand <= _MOST_PODS:
        return None
    text = msgspec.json.encode([to_tree(value) for value in asked]).decode()
    vendors = [vendor for vendor, sign in _VENDORS.items() if sign in text] or list(_VENDORS)
    sizes = [size for number, size in enumerate(_SIZES) if not number or _total(_SIZES[number - 1]) < demand]
    kinds = [_kinds(vendor, text) for vendor in vendors]
    # Of several vendors, machines of each are needed; where none is named, any one will do.
    named = any(sign in text for sign in _VENDORS.values())
    combined = product(*kinds) if named else ((one,) for some in kinds for one in some)
    for kind in islice(combined, _MOST_TOGETHER if named and len(vendors) > 1 else None):
        if not _fits(asked, _words(kind, sizes[-1]), features):
            continue
        size = next((s for s in sizes[:-1] if _fits(asked, _words(kind, s), features)), sizes[-1])
        return _words(kind, size)
    return None


def _total(size: tuple[int, int]) -> int:
    return size[0] * size[1]


def _demand(values: list[Object]) -> int:
    """How many devices are asked for at most; a request for all counts as a whole machine."""
    specs: dict[tuple[str, ObjectKey], ResourceClaimSpec] = {}
    for value in values:
        if isinstance(value, ResourceClaim):
            specs[identity(value)] = value.spec
        elif isinstance(value, ResourceClaimTemplate):
            specs[identity(value)] = value.spec.spec
    total = sum(_devices(spec) for spec in specs.values())
    for value in values:
        for pod in pods_of(value, nodes=("any",), limit=_MOST_PODS + 1):
            for entry in pod.spec.resource_claims:
                key = ObjectKey(pod.metadata.namespace, entry.resource_claim_template_name or "")
                spec = specs.get(("ResourceClaimTemplate", key))
                total += _devices(spec) if spec is not None else 0
            for container in (*pod.spec.init_containers, *pod.spec.containers):
                total += sum(_extended(container.resources.limits))
    return total


def _extended(limits: Mapping[str, Quantity]) -> Iterator[int]:
    return (max(1, round(amount.nano / 1e9)) for name, amount in limits.items() if "/" in name)


def _devices(spec: ResourceClaimSpec) -> int:
    asked = [request.exactly or next(iter(request.first_available), None) for request in spec.devices.requests]
    return sum(8 if one.allocation_mode == "All" else max(1, one.count) for one in asked if one is not None)


# --- hardware --------------------------------------------------------------------------------------------------------


def _kinds(vendor: str, text: str) -> list[tuple[Accelerator, str]]:
    """Cards of a vendor with the modes that are worth trying, small cards first."""
    cards = sorted((one for one in accelerators().values() if one.vendor == vendor), key=lambda one: one.memory_mib)
    return [(card, mode) for card in cards for mode in dict.fromkeys(_modes(card, text))]


def _modes(card: Accelerator, text: str) -> Iterator[str]:
    shares = '"capacity":{"requests":' in text
    virtual = "vfio" in text
    match card.vendor:
        case "nvidia":
            yield ""
            if card.mig is not None and ("mig" in text or _PROFILE.search(text)):
                yield "dynamic-mig"
                most = {profile.name: profile.max_instances for profile in card.mig.profiles}
                yield from (f"static-mig={p}:{most[p]}" for p in _PROFILE.findall(text) if p in most)
            yield from ("shared", "consumable-shares=memory", "consumable-shares=8") if shares else ()
            yield from ("vfio",) if virtual else ()
        case "amd":
            yield ""
            if card.partitions:
                yield "spx@v0"
                cuts = dict.fromkeys(part.compute for part in card.partitions if part.per_gpu > 1)
                wanted = [cut for cut in reversed(cuts) if "partition" in text.lower() or cut in text]
                yield from (f"{cut}{version}" for cut in wanted for version in ("", "@v0"))
                yield from ("auto",) if "Partition" in text or '"partitions"' in text else ()
            yield from ("vfio",) if virtual else ()
        case _:
            more = "+".join(
                word for word, sign in (("nics=4", "net.example.com"), ("numa=2", "cpu.example.com")) if sign in text
            )
            for cut in ("", "partitions=4") if "partition" in text else ("",):
                for shared in ("", "shared") if shares else ("",):
                    yield "+".join(filter(None, (cut, shared, more)))


def _words(kinds: tuple[tuple[Accelerator, str], ...], size: tuple[int, int]) -> str:
    """The fleet of these cards in machines of a size, in the words of ``--fleet``."""
    gpus, machines = size
    parts = []
    for card, mode in kinds:
        whole = (
            server.id for server in servers().values() if (server.accelerator, len(server.gpus)) == (card.id, gpus)
        )
        short = min((card.id, *card.aliases), key=len)
        form = next(whole, short if gpus == 1 else f"{gpus}x{short}")
        parts.append(f"{form}{f':{machines}' if machines > 1 else ''}{f'/{mode}' if mode else ''}")
    return ",".join(parts)


def _fits(asked: list[Object], words: str, features: Features) -> bool:
    made = cluster_of(parse_fleet([words]), features.kube)
    return fits(to_try((*made.nodes, *made.slices, *made.classes), asked), features)
