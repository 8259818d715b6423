"""Nodes with a device plugin for the machines of a fleet: the resources that the vendor's plugin would publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from allotment.fleet import FleetMachine, node_of
from allotment.fleet.modes import AutoPartition, ConsumableShares, DynamicMig, Full, Partitioned, Shared, StaticMig
from allotment.tools.migrate.plugin_requests import PluginRequest, Term
from allotment.tools.migrate.resource_names import SHARED, mig_profile
from allotment.tools.migrate.simulation import discovery_labels
from allotment.tools.migrate.simulation.device_kind import DeviceKind
from allotment.tools.migrate.simulation.plugin_node import FRACTIONS, Form, Offer, PluginNode, form_of
from allotment.tools.migrate.simulation.plugin_supply import CountedSupply, DynamicMigSupply, FractionSupply

GPU = "nvidia.com/gpu"


def fleet_nodes(
    machines: Iterable[FleetMachine], requests: Sequence[PluginRequest], terms: Sequence[Term]
) -> list[PluginNode]:
    """The nodes. ``requests`` and ``terms`` of all workloads determine the possible plugin configurations."""
    shares = tuple(
        dict.fromkeys((request.resource, form_of([request])) for request in requests if request.usage == "share")
    )
    makers = {"nvidia": _nvidia, "amd": _amd}
    return [
        PluginNode(machine.node, tuple(make(machine, shares, terms)) if make else ())
        for machine in machines
        for make in (makers.get(machine.hardware.accelerator.vendor),)
    ]


def labels_without_plugin(machine: FleetMachine, terms: Sequence[Term]) -> dict[str, str]:
    """The labels of a machine's node without its device plugin; feature discovery continues to run."""
    model, gpus = machine.hardware.accelerator, len(machine.hardware.slots)
    base = node_of(machine).metadata.labels
    if model.vendor == "amd":
        return {**base, **discovery_labels.amd_labels(model, gpus, _partition(machine))}
    if model.vendor != "nvidia":
        return base
    labels = {
        **base,
        **discovery_labels.nvidia_labels(model, gpus),
        **discovery_labels.cloud_labels(terms, model, gpus),
    }
    pieces = _pieces(machine)
    return discovery_labels.mixed(labels, model, pieces) if pieces else labels


# --- NVIDIA ----------------------------------------------------------------------------------------------------------


def _nvidia(machine: FleetMachine, shares: Sequence[tuple[str, Form]], terms: Sequence[Term]) -> Iterator[Offer]:
    model, gpus = machine.hardware.accelerator, len(machine.hardware.slots)
    labels = {**node_of(machine).metadata.labels, **discovery_labels.nvidia_labels(model, gpus)}
    labels |= discovery_labels.cloud_labels(terms, model, gpus)
    whole = DeviceKind(product=model.product)
    match machine.mode:
        case StaticMig():
            yield from _static(machine, labels, shares, terms)
        case DynamicMig():
            yield Offer(labels | {"nvidia.com/mig.strategy": "mixed"}, DynamicMigSupply(model, gpus, whole))
        case Full() | Shared() | ConsumableShares():
            yield Offer(labels, CountedSupply({GPU: (gpus, whole)}, exact=True))
            for resource, (strategy, replicas) in shares:
                if resource.removesuffix(SHARED) == GPU and replicas:
                    offer_labels = discovery_labels.shared(labels, strategy, replicas, renamed=resource != GPU)
                    kind = DeviceKind(product=model.product, shared=True)
                    supply = CountedSupply({resource: (gpus * replicas, kind)})
                    yield Offer(
                        offer_labels | discovery_labels.cloud_sharing(terms, replicas), supply, (strategy, replicas)
                    )
            yield Offer(labels, FractionSupply(gpus, model.memory_mib, model.product), FRACTIONS)
        case _:  # vGPUs for virtual machines: another plugin publishes them, and containers get none
            return


def _static(
    machine: FleetMachine, labels: dict[str, str], shares: Sequence[tuple[str, Form]], terms: Sequence[Term]
) -> Iterator[Offer]:
    model = machine.hardware.accelerator
    assert isinstance(machine.mode, StaticMig)
    pieces = _pieces(machine)
    uncut = sum(not layout for layout in machine.mode.layouts)

    def kind(profile: str, *, shared: bool = False) -> DeviceKind:
        return DeviceKind(product=model.product, profile=profile, shared=shared)

    amounts = {_resource(profile): (count, kind(profile)) for profile, count in pieces.items()}
    offer_labels = discovery_labels.mixed(labels, model, pieces)
    yield Offer(offer_labels, CountedSupply({**amounts, GPU: (uncut, kind(""))}, exact=True))
    for resource, (strategy, replicas) in shares:
        profile = mig_profile(resource)
        if profile in pieces and replicas:
            supply = CountedSupply({resource: (pieces[profile] * replicas, kind(profile, shared=True))})
            yield Offer(offer_labels, supply, (strategy, replicas))
    if len(pieces) == 1 and not uncut:
        ((profile, count),) = pieces.items()
        offer_labels = discovery_labels.single(labels, model, profile, count) | discovery_labels.cloud_partition(
            terms, profile
        )
        yield Offer(offer_labels, CountedSupply({GPU: (count, kind(profile))}, exact=True))
        for resource, (strategy, replicas) in shares:
            if resource.removesuffix(SHARED) == GPU and replicas:
                supply = CountedSupply({resource: (count * replicas, kind(profile, shared=True))})
                shared = discovery_labels.shared(offer_labels, strategy, replicas, renamed=resource != GPU)
                yield Offer(shared | discovery_labels.cloud_sharing(terms, replicas), supply, (strategy, replicas))


def _pieces(machine: FleetMachine) -> Counter[str]:
    layouts = machine.mode.layouts if isinstance(machine.mode, StaticMig) else ()
    return Counter(piece.profile.name for layout in layouts for piece in layout)


def _resource(profile: str) -> str:
    return f"nvidia.com/mig-{profile.replace('+', '.')}"


# --- AMD -------------------------------------------------------------------------------------------------------------


def _amd(machine: FleetMachine, shares: Sequence[tuple[str, Form]], terms: Sequence[Term]) -> Iterator[Offer]:
    """AMD's plugin names all devices ``amd.com/gpu``, or by partition mode (``resource_naming_strategy``)."""
    model, gpus = machine.hardware.accelerator, len(machine.hardware.slots)
    if not isinstance(machine.mode, Partitioned | AutoPartition):
        return
    profile = _partition(machine)
    partition = machine.mode.partition if isinstance(machine.mode, Partitioned) else None
    each = partition.per_gpu if partition is not None else 1
    labels = {**node_of(machine).metadata.labels, **discovery_labels.amd_labels(model, gpus, profile)}
    kind = DeviceKind(product=model.product, profile=profile if each > 1 else "")
    yield Offer(labels, CountedSupply({"amd.com/gpu": (gpus * each, kind)}))
    if profile:
        yield Offer(labels, CountedSupply({f"amd.com/{profile}": (gpus * each, kind)}))


def _partition(machine: FleetMachine) -> str:
    """The partition mode of the GPUs; those partitioned on demand are whole at first."""
    mode, partitions = machine.mode, machine.hardware.accelerator.partitions
    if isinstance(mode, AutoPartition):
        return partitions[0].profile if partitions else ""
    return mode.partition.profile if isinstance(mode, Partitioned) and mode.partition is not None else ""
