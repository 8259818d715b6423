"""For each group of equal pods every type of the catalogue: that it serves, or the first thing in its way.

First come limits, then room for the pods, then what the pods say of nodes, then devices: the engine is asked once for
each form of hardware, not for each type. Two types in a catalogue of hundreds are worth reading about: the one that is
taken, and the one that nearly was. So misses are ordered by how near they come, and one that nothing but a limit
forbids is the nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from msgspec.structs import replace

from allotment.cel import CompileError, compile_selector
from allotment.engine.cluster.node_selection import NodeFacts
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.labels import labels_of
from allotment.fleet.catalog.templates import hardware_of
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceSlice
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.offerings.offers import allowed_capacity_types, excluded_by_limits, offers_of
from allotment.tools.plan.offerings.templates import UNDECIDED
from allotment.tools.plan.pending_pods.demand import ClusterDemand, read_demand
from allotment.tools.plan.pending_pods.grouping import Item, ItemKind, group_items
from allotment.tools.plan.reasons.capacity import ItemRequirements, capacity_shortfall, item_requirements, max_items
from allotment.tools.plan.reasons.node_requirements import node_shortfall
from allotment.tools.plan.reasons.refusal_text import AMOUNT, CLASS, LIMIT, NOTHING, OTHER, Shortfall, shortfall_of
from allotment.tools.plan.reasons.template_nodes import ClaimsByPod, TemplateNodes
from allotment.tools.plan.report import GroupVerdicts, ProvisioningPlan, TypeVerdict

#: Groups of equal pods that are told; finding it takes a tenth of a second for each.
_MAX_NEAREST_GROUPS: Final = 5


def with_nearest_types(
    plan: ProvisioningPlan, values: Iterable[Object], catalog: Sequence[InstanceType], limits: PlanLimits, features: Features
) -> ProvisioningPlan:
    """The plan, with the nearest type and its miss in the words for pods that no type serves."""
    never = {one.pod for one in plan.unserved if one.code == "never" and not one.nearest}
    if not never:
        return plan
    alone = [value for value in values if not isinstance(value, Pod) or value.key in never]
    nearest: dict[ObjectKey, TypeVerdict] = {
        pod: choice.verdicts[0]
        for choice in group_verdicts(read_demand(alone, features), catalog, limits, features, _MAX_NEAREST_GROUPS)
        if choice.verdicts and choice.verdicts[0].code
        for pod in choice.pods
    }
    return replace(
        plan,
        unserved=tuple(
            replace(one, text=f"{one.text}; nearest is {found.instance}: {found.text}", nearest=(found.instance,))
            if (found := nearest.get(one.pod)) is not None
            else one
            for one in plan.unserved
        ),
    )


_MIB: Final = 1 << 20
#: How far the driver's own figure was seen to be from the others.
_MEMORY_TOLERANCE: Final = Fraction(5, 100)


def memory_thresholds(expressions: Iterable[str], features: Features) -> tuple[Quantity, ...]:
    """Amounts of memory that selectors compare with."""
    found: list[Quantity] = []
    for expression in expressions:
        try:
            program = compile_selector(expression, features)
        except CompileError:
            continue
        for conjunct in program.conjuncts:
            comparison = conjunct.comparison
            if comparison is not None and comparison.path[0] == "capacity" and comparison.path[-1] == "memory":
                found += [one for one in _amounts(comparison.literal) if isinstance(one, Quantity)]
    return tuple(found)


def _amounts(literal: object) -> tuple[object, ...]:
    return literal if isinstance(literal, tuple) else (literal,)


def is_borderline(instance: InstanceType, wanted: Iterable[Quantity]) -> bool:
    """Whether a threshold is so near to a figure that is not the driver's own that it may be on its other side."""
    if not instance.memory_bound or instance.accelerator is None:
        return False
    known = instance.accelerator.memory_mib * _MIB
    most = max(known, _cloud_memory(instance) or 0)
    low, high = known * (1 - _MEMORY_TOLERANCE), most * (1 + _MEMORY_TOLERANCE)
    return any(low <= Fraction(one.nano, 10**9) <= high for one in wanted)


def cloud_memory_text(instance: InstanceType, wanted: Iterable[Quantity]) -> str:
    """What the cloud says of the GPU's memory, where a claim would be answered otherwise by it; else empty."""
    cloud = _cloud_memory(instance)
    if cloud is None or instance.accelerator is None or instance.memory_bound:
        return ""
    low, high = sorted((cloud, instance.accelerator.memory_mib * _MIB))
    between = any(low < Fraction(one.nano, 10**9) <= high for one in wanted)
    return f"the cloud says {cloud // _MIB}Mi" if between else ""


def _cloud_memory(instance: InstanceType) -> int | None:
    return None if instance.gpu_memory_gib is None else int(instance.gpu_memory_gib * 1024) * _MIB


#: Groups of pods for which verdicts are given, those of most pods first.
MAX_GROUPS: Final = 24
#: So many items on one machine are counted.
_MAX_ITEMS: Final = 64
#: What no template knows before it runs, whatever the hardware.
_RUNTIME: Final = frozenset(("uuid", "parentUUID", "pciBusID", "pcieRoot"))


class _HardwareFit(NamedTuple):
    """What a form of hardware is for claims: it holds them so often, or why not."""

    holds: int
    mode: str = ""
    shortfall: Shortfall | None = None


#: A refusal that nobody reads.
_NO_REASON: Final = Shortfall("devices", "", OTHER)


@dataclass(frozen=True, slots=True)
class _PodGroup:
    """One kind of item: what it needs of a node, and the claims of its pods in order."""

    kind: ItemKind
    item: Item
    requirements: ItemRequirements
    claims_by_pod: ClaimsByPod
    memory_thresholds: tuple[Quantity, ...]
    """Amounts of memory that the claims compare a GPU's with."""


def group_verdicts(
    demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits, features: Features, most: int = MAX_GROUPS
) -> tuple[GroupVerdicts, ...]:
    """Verdicts for the ``most`` groups of most pods, in the order in which their pods wait."""
    return verdicts_of_kinds(group_items(demand), demand, catalog, limits, most)


def verdicts_of_kinds(
    kinds: Iterable[ItemKind], demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits, most: int = MAX_GROUPS
) -> tuple[GroupVerdicts, ...]:
    """The same for kinds of items that were made already. Pods whose claims are allocated cannot use new machines."""
    open_ = [kind for kind in kinds if not any(pod.claims.allocated for pod in kind.representative.pods)]
    chosen = sorted(open_, key=lambda kind: -len(kind.items))[:most]
    judge = TypeEvaluator(demand, catalog)
    return tuple(judge.verdicts(kind, limits) for kind in sorted(chosen, key=lambda kind: kind.number))


class ServingType(NamedTuple):
    """A type that serves a group by itself, its GPUs in a mode, and what all of the group then costs."""

    instance: InstanceType
    mode: str
    cost: Decimal


class TypeEvaluator:
    """Asks the types of a catalogue about one group of pods after the other."""

    def __init__(self, demand: ClusterDemand, catalog: Sequence[InstanceType]) -> None:
        self._demand = demand
        self._catalog = catalog
        self._templates = TemplateNodes(demand, catalog)

    def verdicts(self, kind: ItemKind, limits: PlanLimits) -> GroupVerdicts:
        """The verdict of every type, ordered."""
        group = self._group(kind, limits)
        physical: dict[str, _HardwareFit] = {}
        ranked = [_verdict(group, one, self._demand, limits, self._templates, physical) for one in self._catalog]
        ranked.sort(key=lambda pair: (bool(pair[0].code), pair[1]))
        owners = {pod.owner for one in kind.items for pod in one.pods}
        return GroupVerdicts(
            pods=tuple(pod.key for one in kind.items for pod in one.pods),
            owner=next(iter(owners)) if len(owners) == 1 else "",
            verdicts=tuple(verdict for verdict, _ in ranked),
        )

    def serving(self, kind: ItemKind, limits: PlanLimits, below: Decimal) -> list[ServingType]:
        """The types that serve a group by themselves for less than ``below``, the cheapest first."""
        return sorted(self._serving(kind, limits, below), key=lambda one: one.cost)

    def cheapest(self, kind: ItemKind, limits: PlanLimits, below: Decimal | None = None) -> Decimal | None:
        """What a group costs by itself on its cheapest type; None if nothing serves it for less than ``below``."""
        costs = [one.cost for one in self._serving(kind, limits, below, falling=True)]
        return min(costs, default=None)

    def _serving(
        self, kind: ItemKind, limits: PlanLimits, below: Decimal | None, *, falling: bool = False
    ) -> Iterator[ServingType]:  # fmt: skip
        """By price, the least that a group costs on a type. ``falling``: only what is cheaper than all before."""
        group = self._group(kind, limits)
        physical: dict[str, _HardwareFit] = {}
        priced = [(price, one) for one in self._catalog if (price := _price(one, limits)) is not None]
        for price, instance in sorted(priced, key=lambda pair: pair[0]):
            if below is not None and price >= below:
                return
            if _limit_shortfall(instance, limits, price) is not None:
                continue
            if _node_shortfall(group, instance, self._demand, limits) is not None:
                continue
            holds, mode, lack = _hardware_fit(group, instance, self._templates, physical, reasons=False)
            cost = price * -(-len(kind.items) // max(holds, 1))
            if lack is None and (below is None or cost < below):
                yield ServingType(instance, mode, cost)
                below = cost if falling else below

    def slices(self, instance: InstanceType, mode: str) -> tuple[ResourceSlice, ...]:
        """What a machine of the type will publish."""
        made = self._templates.template(instance, mode)
        return made.slices if made is not None else ()

    def _group(self, kind: ItemKind, limits: PlanLimits) -> _PodGroup:
        item = kind.representative
        asked = [claims for claims in _claims(item, self._demand) if claims]
        self._templates.set_claims(asked, limits)
        memory = memory_thresholds(self._templates.expressions(), self._demand.features)
        return _PodGroup(kind, item, item_requirements(item, self._demand), asked, memory)


def _claims(item: Item, demand: ClusterDemand) -> ClaimsByPod:
    """The claims of each pod when it is placed on a new machine, where no device plugin is."""
    found = []
    for pod, own in item.newly_allocated_claims():
        extra = pod.extended_resource_claim(pod.device_resources, demand)
        found.append((*own, extra) if extra is not None else own)
    return found


def _verdict(
    group: _PodGroup, instance: InstanceType, demand: ClusterDemand, limits: PlanLimits, showroom: TemplateNodes,
    physical: dict[str, _HardwareFit],
) -> tuple[TypeVerdict, tuple[float, ...]]:  # fmt: skip
    """The verdict of a type, and where it stands among those of its sort."""
    price = _price(instance, limits)
    limit = _limit_shortfall(instance, limits, price)
    size = _node_shortfall(group, instance, demand, limits)
    holds, mode, lack = _hardware_fit(group, instance, showroom, physical)
    why, far = _reported_shortfall(size, lack), _distance(size, lack)
    by_memory = why is None or (why is lack and lack.rank == AMOUNT)
    unsure = by_memory and is_borderline(instance, group.memory_thresholds)
    other = cloud_memory_text(instance, group.memory_thresholds) if by_memory else ""
    told = limit or why
    if told is None:
        count = -(-len(group.kind.items) // holds)
        cost = float(price * count) if price is not None else float("inf")
        return _serving_verdict(instance, price, holds * len(group.item.pods), mode, other, unsure), (cost, *_by_price(price))
    text = f"{told.text} ({other})" if other and told is why else told.text
    verdict = TypeVerdict(
        instance=instance.key, code=told.code, text=text, per_hour=price, borderline=unsure and told is why
    )
    # A type that is forbidden, or too small, and would not serve anyhow is as far away as the worst that it lacks.
    rank = max(float(told.rank), far[0]) if told is limit else far[0]
    return verdict, (rank, far[1], *_by_price(price))


def _distance(size: Shortfall | None, lack: Shortfall | None) -> tuple[float, float]:
    """The worst that a type lacks, and by how much all of that sort."""
    lacking = [one for one in (size, lack) if one is not None]
    worst = max((one.rank for one in lacking), default=LIMIT)
    return float(worst), sum(one.distance for one in lacking if one.rank == worst)


def _reported_shortfall(size: Shortfall | None, lack: Shortfall | None) -> Shortfall | None:
    """What to tell of a type that lacks room and devices: room, unless its devices are of no use at all."""
    if size is None or (lack is not None and lack.rank >= OTHER):
        return lack or size
    return size


def _serving_verdict(
    instance: InstanceType, price: Decimal | None, holds: int, mode: str, other: str, unsure: bool
) -> TypeVerdict:
    return TypeVerdict(
        instance=instance.key, code="", text=f"serves ({other})" if other else "", per_hour=price, holds=holds,
        mode=mode, borderline=unsure,
    )  # fmt: skip


def _by_price(price: Decimal | None) -> tuple[float, float]:
    """Known prices first, then the lower ones."""
    return (float(price is None), float(price or 0))


def _price(instance: InstanceType, limits: PlanLimits) -> Decimal | None:
    """Of the cheapest capacity type that the policy allows."""
    prices = [price for one in allowed_capacity_types(limits) if (price := instance.price(one)) is not None]
    return min(prices, default=None)


def _limit_shortfall(instance: InstanceType, limits: PlanLimits, price: Decimal | None) -> Shortfall | None:
    """What keeps a type from being bought at all."""
    words = excluded_by_limits(instance, limits)
    if words:
        return Shortfall("limits", words, LIMIT)
    if instance.unusable and instance.prices:
        return Shortfall("unusable", instance.unusable, NOTHING)
    if price is None:
        which = f"its {limits.capacity} price" if limits.capacity != "cheapest" and instance.prices else "its price"
        return Shortfall("price-unknown", f"{which} is not known", LIMIT)
    if instance.unusable:
        return Shortfall("unusable", instance.unusable, NOTHING)
    if not offers_of(instance, limits, each_zone=True, each_capacity=True):
        return Shortfall("out-of-stock", "it was out of stock just now", LIMIT)
    if limits.budget is not None and price > limits.budget:
        return Shortfall("limits", f"{price} USD/h, the budget is {limits.budget}", LIMIT)
    return None


def _node_shortfall(group: _PodGroup, instance: InstanceType, demand: ClusterDemand, limits: PlanLimits) -> Shortfall | None:
    """Room for the pods, and what they say of nodes."""
    if instance.room is None:
        return Shortfall("unusable", instance.unusable or "its size is not known", NOTHING)
    return capacity_shortfall(group.requirements, instance, instance.room) or node_shortfall(
        group.item, _node_facts(instance, demand, limits), instance.taints
    )


def _node_facts(instance: InstanceType, demand: ClusterDemand, limits: PlanLimits) -> list[NodeFacts]:
    """A node of the type in each zone and of each capacity type that may be bought."""
    machine = hardware_of(instance) if instance.hardware else None
    zones = [zone for zone in instance.zones if not limits.zones or zone in limits.zones]
    return [
        NodeFacts("new", labels_of(instance, machine, "new", zone, capacity))
        for zone in zones or [""]
        for capacity in allowed_capacity_types(limits)
    ]


def _hardware_fit(
    group: _PodGroup, instance: InstanceType, showroom: TemplateNodes, physical: dict[str, _HardwareFit],
    reasons: bool = True,
) -> _HardwareFit:  # fmt: skip
    """What its GPUs are for the claims; types with equal GPUs are asked about once, as if there were room enough."""
    most = max(max_items(group.requirements, instance, instance.room), 1) if instance.room is not None else 1
    if not group.claims_by_pod:
        return _HardwareFit(min(most, len(group.kind.items)))
    if not instance.hardware:
        text = instance.unusable or "it has no GPU"
        return _HardwareFit(0, "", Shortfall("driver-missing", text, NOTHING, 1.0))
    found = physical.get(instance.hardware)
    if found is None:
        items = min(len(group.kind.items), _MAX_ITEMS)
        found = physical[instance.hardware] = _check_hardware(instance, items, showroom, reasons)
    return found._replace(holds=min(found.holds, most))


def _check_hardware(instance: InstanceType, most: int, showroom: TemplateNodes, reasons: bool) -> _HardwareFit:
    """The first mode in which the claims fit, or the reason of the one that comes nearest."""
    modes = showroom.modes(instance)
    found: list[Shortfall] = []
    for mode in modes:
        if showroom.lacks_devices(instance, mode):
            found.append(shortfall_of(showroom.why_not(instance, mode), instance, _RUNTIME) if reasons else _NO_REASON)
            continue
        made = showroom.template(instance, mode)
        if made is None:
            continue
        unknown = showroom.run_time_dependency(instance, mode, made)
        if unknown:
            return _HardwareFit(0, "", Shortfall("run-time-only", unknown, OTHER))
        fits = showroom.fits(instance, mode, most)
        if fits is not None:
            return _HardwareFit(fits.times, fits.mode)
        if not reasons:
            found.append(_NO_REASON)
            continue
        unmatched = showroom.unmeasured_match(instance, mode, made)
        if unmatched:
            found.append(Shortfall("run-time-only", f"which GPUs share {unmatched} is known only once it runs", OTHER))
        else:
            found.append(shortfall_of(showroom.why_not(instance, mode), instance, made.runtime_only))
    model = instance.accelerator
    if reasons and model is not None and model.mig is not None and found[0].rank == CLASS and UNDECIDED not in modes:
        if not showroom.lacks_devices(instance, UNDECIDED) and showroom.fits(instance, UNDECIDED, 1) is not None:
            found.append(
                Shortfall("limits", f"its GPUs would have to be in mode {UNDECIDED}, which is not allowed", LIMIT)
            )
        else:
            # The claims are for pieces, and no piece of this GPU is such a one: that it is not cut is not the reason.
            found = [shortfall_of(showroom.why_not(instance, UNDECIDED), instance, _RUNTIME)]
    return _HardwareFit(0, "", min(found, key=lambda one: (one.rank, one.distance)))
