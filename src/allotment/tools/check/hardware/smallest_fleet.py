"""The smallest known hardware on which objects fit, as a ``--fleet`` value.

It is found by simulation, machine by machine, small cards first. The names in the objects (drivers, MIG profiles,
shares) only determine which machines and modes are tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice, product
from typing import Final

import msgspec
from msgspec.structs import replace

from allotment.explanation import fits
from allotment.explanation.subjects import identity, objects_to_explain
from allotment.fleet import cluster_of, parse_fleet
from allotment.fleet.profiles import Accelerator, accelerators, servers
from allotment.model.core import Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceClaim, ResourceClaimSpec, ResourceClaimTemplate, ResourceSlice
from allotment.model.trees import to_tree
from allotment.model.workload_pods import pods_of
from allotment.model.workloads import template_of

#: GPUs per machine and number of machines, smallest first.
_SIZES: Final = ((1, 1), (2, 1), (4, 1), (8, 1), (8, 2), (8, 4), (8, 8), (8, 16))
#: Machines with more than eight GPUs (DGX-2, a2-megagpu-16g), and their numbers; tried last.
_LARGE_MACHINES: Final = ("16xv100-32gb", "16xa100-40gb")
_LARGE_MACHINE_COUNTS: Final = (1, 2, 4, 8)
#: The maximum number of combinations of machines of several vendors.
_MAX_COMBINATIONS: Final = 24
#: More pods take too long to simulate here.
_MAX_PODS: Final = 1_000
_PROFILE: Final = re.compile(r"\b[1-9]g\.[0-9]+gb(?:[+-][a-z.]+)?")
#: A substring of each vendor's driver and class names.
_VENDORS: Final = {"nvidia": "nvidia.com", "amd": "amd.com", "example": ".example.com"}


def smallest_fleet(values: Iterable[Object], features: Features) -> str | None:
    """The smallest known hardware on which all objects get their devices; None if there is none, or no device is
    requested.

    >>> smallest_fleet([], Features(kube="1.36"))
    """
    requesting = [value for value in values if not isinstance(value, Node | ResourceSlice)]
    device_count = _max_devices(requesting)
    if not 0 < device_count <= _MAX_PODS:
        return None
    text = msgspec.json.encode([to_tree(value) for value in requesting]).decode()
    vendors = [vendor for vendor, sign in _VENDORS.items() if sign in text] or list(_VENDORS)
    sizes = [size for number, size in enumerate(_SIZES) if not number or _total(_SIZES[number - 1]) < device_count]
    candidates = [_candidates(vendor, text) for vendor in vendors]
    # If the objects name several vendors, machines of each are needed; if they name none, any single vendor does.
    names_vendor = any(sign in text for sign in _VENDORS.values())
    combinations = (
        product(*candidates)
        if names_vendor
        else ((card,) for cards_of_vendor in candidates for card in cards_of_vendor)
    )
    for cards in islice(combinations, _MAX_COMBINATIONS if names_vendor and len(vendors) > 1 else None):
        if not _fits(requesting, _fleet_spec(cards, sizes[-1]), features):
            continue
        size = next((s for s in sizes[:-1] if _fits(requesting, _fleet_spec(cards, s), features)), sizes[-1])
        return _fleet_spec(cards, size)
    if vendors[0] != "nvidia":
        return None
    large = (f"{form}{f':{count}' if count > 1 else ''}" for count in _LARGE_MACHINE_COUNTS for form in _LARGE_MACHINES)
    return next((fleet for fleet in large if _fits(requesting, fleet, features)), None)


def without_node_rules(values: Iterable[Object]) -> tuple[Object, ...] | None:
    """The objects with the pods of the workloads instead of these, without their rules for nodes; None if no pod has
    such rules."""
    given = tuple(values)
    pods = [pod for value in given for pod in pods_of(value, nodes=("any",), limit=_MAX_PODS + 1)]
    if not any(pod.spec.node_selector or pod.spec.affinity or pod.spec.node_name for pod in pods):
        return None
    free = (replace(pod, spec=replace(pod.spec, node_selector={}, affinity=None, node_name="")) for pod in pods)
    return (*(value for value in given if not isinstance(value, Pod) and template_of(value) is None), *free)


def _total(size: tuple[int, int]) -> int:
    return size[0] * size[1]


def _max_devices(values: list[Object]) -> int:
    """The maximum number of requested devices; a request for all devices counts as a whole machine."""
    specs: dict[tuple[str, ObjectKey], ResourceClaimSpec] = {}
    for value in values:
        if isinstance(value, ResourceClaim):
            specs[identity(value)] = value.spec
        elif isinstance(value, ResourceClaimTemplate):
            specs[identity(value)] = value.spec.spec
    total = sum(_device_count(spec) for spec in specs.values())
    for value in values:
        for pod in pods_of(value, nodes=("any",), limit=_MAX_PODS + 1):
            for entry in pod.spec.resource_claims:
                key = ObjectKey(pod.metadata.namespace, entry.resource_claim_template_name or "")
                spec = specs.get(("ResourceClaimTemplate", key))
                total += _device_count(spec) if spec is not None else 0
            for container in (*pod.spec.init_containers, *pod.spec.containers):
                total += sum(_extended_resources(container.resources.limits))
    return total


def _extended_resources(limits: Mapping[str, Quantity]) -> Iterator[int]:
    return (max(1, round(amount.nano / 1e9)) for name, amount in limits.items() if "/" in name)


def _device_count(spec: ResourceClaimSpec) -> int:
    requests = [request.exactly or next(iter(request.first_available), None) for request in spec.devices.requests]
    return sum(8 if item.allocation_mode == "All" else max(1, item.count) for item in requests if item is not None)


# --- hardware --------------------------------------------------------------------------------------------------------


def _candidates(vendor: str, text: str) -> list[tuple[Accelerator, str]]:
    """The cards of a vendor with the modes to try, small cards first."""
    cards = sorted(
        (item for item in accelerators().values() if item.vendor == vendor), key=lambda item: item.memory_mib
    )
    return [(card, mode) for card in cards for mode in dict.fromkeys(_modes(card, text))]


def _modes(card: Accelerator, text: str) -> Iterator[str]:
    shares = '"capacity":{"requests":' in text
    virtual = "vfio" in text
    match card.vendor:
        case "nvidia":
            yield ""
            if card.mig is not None and ("mig" in text or _PROFILE.search(text)):
                yield "dynamic-mig"
                max_instances = {profile.name: profile.max_instances for profile in card.mig.profiles}
                yield from (f"static-mig={p}:{max_instances[p]}" for p in _PROFILE.findall(text) if p in max_instances)
            yield from ("shared", "consumable-shares=memory", "consumable-shares=8") if shares else ()
            yield from ("vfio",) if virtual else ()
        case "amd":
            yield ""
            if card.partitions:
                yield "spx@v0"
                profiles = dict.fromkeys(part.compute for part in card.partitions if part.per_gpu > 1)
                requested = [cut for cut in reversed(profiles) if "partition" in text.lower() or cut in text]
                yield from (f"{cut}{version}" for cut in requested for version in ("", "@v0"))
                yield from ("auto",) if "Partition" in text or '"partitions"' in text else ()
            yield from ("vfio",) if virtual else ()
        case _:
            options = "+".join(
                option
                for option, domain in (("nics=4", "net.example.com"), ("numa=2", "cpu.example.com"))
                if domain in text
            )
            for cut in ("", "partitions=4") if "partition" in text else ("",):
                for shared in ("", "shared") if shares else ("",):
                    yield "+".join(filter(None, (cut, shared, options)))


def _fleet_spec(cards: tuple[tuple[Accelerator, str], ...], size: tuple[int, int]) -> str:
    """The ``--fleet`` value for these cards in machines of a size."""
    gpus, machines = size
    parts = []
    for card, mode in cards:
        server_ids = (
            server.id for server in servers().values() if (server.accelerator, len(server.gpus)) == (card.id, gpus)
        )
        short = min((card.id, *card.aliases), key=len)
        form = next(server_ids, short if gpus == 1 else f"{gpus}x{short}")
        parts.append(f"{form}{f':{machines}' if machines > 1 else ''}{f'/{mode}' if mode else ''}")
    return ",".join(parts)


def _fits(requesting: list[Object], fleet: str, features: Features) -> bool:
    cluster = cluster_of(parse_fleet([fleet]), features.kube)
    return fits(objects_to_explain((*cluster.nodes, *cluster.slices, *cluster.classes), requesting), features)
