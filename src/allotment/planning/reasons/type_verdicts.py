"""Verdicts on every type of the catalog for each group of equal pods: it fits, or its first shortfall.

The checks are, in order: limits, resources for the pods, node selectors and affinity, devices. The engine checks each
kind of hardware once, not each type. Verdicts are ordered so that the most interesting ones come first: types that fit
by price, then the nearest misses, of which a type that only a limit excludes is the nearest.
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
from allotment.planning.limits import PlanLimits
from allotment.planning.offerings.offers import allowed_capacity_types, excluded_by_limits, offers_of
from allotment.planning.offerings.templates import UNDECIDED
from allotment.planning.pending_pods.demand import ClusterDemand, read_demand
from allotment.planning.pending_pods.grouping import Item, ItemKind, group_items
from allotment.planning.reasons.capacity import ItemRequirements, capacity_shortfall, item_requirements, max_items
from allotment.planning.reasons.node_requirements import architecture_shortfall, node_shortfall
from allotment.planning.reasons.refusal_text import AMOUNT, CLASS, LIMIT, NOTHING, OTHER, Shortfall, shortfall_of
from allotment.planning.reasons.template_nodes import ClaimsByPod, TemplateNodes
from allotment.planning.report import GroupVerdicts, ProvisioningPlan, TypeVerdict

#: Maximum number of pod groups whose nearest type is determined, which takes a tenth of a second each.
_MAX_NEAREST_GROUPS: Final = 5


def with_nearest_types(
    plan: ProvisioningPlan,
    values: Iterable[Object],
    catalog: Sequence[InstanceType],
    limits: PlanLimits,
    features: Features,
) -> ProvisioningPlan:
    """The plan, with the nearest type and its shortfall added to the text of pods that no type fits."""
    never = {each.pod for each in plan.unserved if each.code == "never" and not each.nearest}
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
            replace(
                each,
                text=f"{each.text}; the nearest type is {result.instance}: {result.text}",
                nearest=(result.instance,),
            )
            if (result := nearest.get(each.pod)) is not None
            else each
            for each in plan.unserved
        ),
    )


_MIB: Final = 1 << 20
#: The observed relative difference between the driver's figure and others.
_MEMORY_TOLERANCE: Final = Fraction(5, 100)


def memory_thresholds(expressions: Iterable[str], features: Features) -> tuple[Quantity, ...]:
    """The amounts of memory that selectors compare with."""
    result: list[Quantity] = []
    for expression in expressions:
        try:
            program = compile_selector(expression, features)
        except CompileError:
            continue
        for conjunct in program.conjuncts:
            comparison = conjunct.comparison
            if comparison is not None and comparison.path[0] == "capacity" and comparison.path[-1] == "memory":
                result += [each for each in _amounts(comparison.literal) if isinstance(each, Quantity)]
    return tuple(result)


def _amounts(literal: object) -> tuple[object, ...]:
    return literal if isinstance(literal, tuple) else (literal,)


def is_borderline(instance: InstanceType, wanted: Iterable[Quantity]) -> bool:
    """Whether a threshold is so close to an estimated memory size that the driver's figure may be on its other side."""
    if not instance.memory_bound or instance.accelerator is None:
        return False
    known = instance.accelerator.memory_mib * _MIB
    most = max(known, _cloud_memory(instance) or 0)
    low, high = known * (1 - _MEMORY_TOLERANCE), most * (1 + _MEMORY_TOLERANCE)
    return any(low <= Fraction(each.nano, 10**9) <= high for each in wanted)


def cloud_memory_text(instance: InstanceType, wanted: Iterable[Quantity]) -> str:
    """The provider's figure for the GPU memory, as text, if a claim would have another result with it; else empty."""
    cloud = _cloud_memory(instance)
    if cloud is None or instance.accelerator is None or instance.memory_bound:
        return ""
    low, high = sorted((cloud, instance.accelerator.memory_mib * _MIB))
    between = any(low < Fraction(each.nano, 10**9) <= high for each in wanted)
    return f"the provider states {cloud // _MIB}Mi" if between else ""


def _cloud_memory(instance: InstanceType) -> int | None:
    return None if instance.gpu_memory_gib is None else int(instance.gpu_memory_gib * 1024) * _MIB


#: Maximum number of pod groups with verdicts; the largest groups come first.
MAX_GROUPS: Final = 24
#: Maximum number of items that are counted on one machine.
_MAX_ITEMS: Final = 64
#: Attributes that are known only when a machine runs, on any hardware.
_RUNTIME: Final = frozenset(("uuid", "parentUUID", "pciBusID", "pcieRoot"))


class _HardwareFit(NamedTuple):
    """The fit of claims on one kind of hardware: the number of items that it holds, or the shortfall."""

    holds: int
    mode: str = ""
    shortfall: Shortfall | None = None


#: A shortfall whose reason is not needed.
_NO_REASON: Final = Shortfall("devices", "", OTHER)


@dataclass(frozen=True, slots=True)
class _PodGroup:
    """A group of equal items: its requirements on a node, and the claims of its pods in order."""

    kind: ItemKind
    item: Item
    requirements: ItemRequirements
    claims_by_pod: ClaimsByPod
    memory_thresholds: tuple[Quantity, ...]
    """Amounts that the claims compare the GPU memory with."""


def group_verdicts(
    demand: ClusterDemand,
    catalog: Sequence[InstanceType],
    limits: PlanLimits,
    features: Features,
    most: int = MAX_GROUPS,
) -> tuple[GroupVerdicts, ...]:
    """Verdicts for the ``most`` largest groups, in the order of the scheduler's queue."""
    return verdicts_of_kinds(group_items(demand), demand, catalog, limits, most)


def verdicts_of_kinds(
    kinds: Iterable[ItemKind],
    demand: ClusterDemand,
    catalog: Sequence[InstanceType],
    limits: PlanLimits,
    most: int = MAX_GROUPS,
) -> tuple[GroupVerdicts, ...]:
    """Like `group_verdicts`, for given item kinds. Pods with allocated claims cannot use new machines."""
    unallocated = [kind for kind in kinds if not any(pod.claims.allocated for pod in kind.representative.pods)]
    chosen = sorted(unallocated, key=lambda kind: -len(kind.items))[:most]
    evaluator = TypeEvaluator(demand, catalog)
    return tuple(evaluator.verdicts(kind, limits) for kind in sorted(chosen, key=lambda kind: kind.number))


class ServingType(NamedTuple):
    """A type that fits all of a group, the mode of its GPUs, and the cost of the group on it."""

    instance: InstanceType
    mode: str
    cost: Decimal


class TypeEvaluator:
    """Evaluates the types of a catalog for one pod group at a time."""

    def __init__(self, demand: ClusterDemand, catalog: Sequence[InstanceType]) -> None:
        self._demand = demand
        self._catalog = catalog
        self._templates = TemplateNodes(demand, catalog)

    def verdicts(self, kind: ItemKind, limits: PlanLimits) -> GroupVerdicts:
        """The verdicts of all types, in order."""
        group = self._group(kind, limits)
        fits_by_hardware: dict[str, _HardwareFit] = {}
        ranked = [
            _verdict(group, each, self._demand, limits, self._templates, fits_by_hardware) for each in self._catalog
        ]
        ranked.sort(key=lambda pair: (bool(pair[0].code), pair[1]))
        owners = {pod.owner for each in kind.items for pod in each.pods}
        return GroupVerdicts(
            pods=tuple(pod.key for each in kind.items for pod in each.pods),
            owner=next(iter(owners)) if len(owners) == 1 else "",
            verdicts=tuple(verdict for verdict, _ in ranked),
        )

    def serving(self, kind: ItemKind, limits: PlanLimits, max_cost: Decimal) -> list[ServingType]:
        """The types that fit a group for less than ``max_cost``, the cheapest first."""
        return sorted(self._serving(kind, limits, max_cost), key=lambda each: each.cost)

    def cheapest(self, kind: ItemKind, limits: PlanLimits, max_cost: Decimal | None = None) -> Decimal | None:
        """The cost of a group on its cheapest type; None if no type fits it for less than ``max_cost``."""
        costs = [each.cost for each in self._serving(kind, limits, max_cost, decreasing=True)]
        return min(costs, default=None)

    def _serving(
        self, kind: ItemKind, limits: PlanLimits, max_cost: Decimal | None, *, decreasing: bool = False
    ) -> Iterator[ServingType]:  # fmt: skip
        """The types that fit, by machine price. ``decreasing``: only types with a lower group cost than all before."""
        group = self._group(kind, limits)
        fits_by_hardware: dict[str, _HardwareFit] = {}
        priced = [(price, each) for each in self._catalog if (price := _price(each, limits)) is not None]
        for price, instance in sorted(priced, key=lambda pair: pair[0]):
            if max_cost is not None and price >= max_cost:
                return
            if _limit_shortfall(instance, limits, price) is not None:
                continue
            if _node_shortfall(group, instance, self._demand, limits) is not None:
                continue
            holds, mode, device_shortfall = _hardware_fit(
                group, instance, self._templates, fits_by_hardware, reasons=False
            )
            cost = price * -(-len(kind.items) // max(holds, 1))
            if device_shortfall is None and (max_cost is None or cost < max_cost):
                yield ServingType(instance, mode, cost)
                max_cost = cost if decreasing else max_cost

    def slices(self, instance: InstanceType, mode: str) -> tuple[ResourceSlice, ...]:
        """The slices that a machine of the type publishes."""
        template = self._templates.template(instance, mode)
        return template.slices if template is not None else ()

    def _group(self, kind: ItemKind, limits: PlanLimits) -> _PodGroup:
        item = kind.representative
        claims_by_pod = [claims for claims in _claims(item, self._demand) if claims]
        self._templates.set_claims(claims_by_pod, limits)
        memory = memory_thresholds(self._templates.expressions(), self._demand.features)
        return _PodGroup(kind, item, item_requirements(item, self._demand), claims_by_pod, memory)


def _claims(item: Item, demand: ClusterDemand) -> ClaimsByPod:
    """The claims of each pod on a new machine, which has no device plugin."""
    result = []
    for pod, own in item.newly_allocated_claims():
        extra = pod.extended_resource_claim(pod.device_resources, demand)
        result.append((*own, extra) if extra is not None else own)
    return result


def _verdict(
    group: _PodGroup, instance: InstanceType, demand: ClusterDemand, limits: PlanLimits, templates: TemplateNodes,
    fits_by_hardware: dict[str, _HardwareFit],
) -> tuple[TypeVerdict, tuple[float, ...]]:  # fmt: skip
    """The verdict of a type, and its sort key among fitting types or misses."""
    price = _price(instance, limits)
    limit = _limit_shortfall(instance, limits, price)
    on_node = _node_shortfall(group, instance, demand, limits)
    holds, mode, in_devices = _hardware_fit(group, instance, templates, fits_by_hardware)
    shortfall, distance = _reported_shortfall(on_node, in_devices), _distance(on_node, in_devices)
    by_memory = shortfall is None or (shortfall is in_devices and in_devices.rank == AMOUNT)
    borderline = by_memory and is_borderline(instance, group.memory_thresholds)
    cloud_text = cloud_memory_text(instance, group.memory_thresholds) if by_memory else ""
    reported = limit or shortfall
    if reported is None:
        count = -(-len(group.kind.items) // holds)
        cost = float(price * count) if price is not None else float("inf")
        verdict = _serving_verdict(instance, price, holds * len(group.item.pods), mode, cloud_text, borderline)
        return verdict, (cost, *_by_price(price))
    text = f"{reported.text} ({cloud_text})" if cloud_text and reported is shortfall else reported.text
    verdict = TypeVerdict(
        instance=instance.key, code=reported.code, text=text, per_hour=price,
        borderline=borderline and reported is shortfall,
    )  # fmt: skip
    # An excluded type that would not fit anyway is ranked by its worst shortfall.
    rank = max(float(reported.rank), distance[0]) if reported is limit else distance[0]
    return verdict, (rank, distance[1], *_by_price(price))


def _distance(on_node: Shortfall | None, in_devices: Shortfall | None) -> tuple[float, float]:
    """The worst rank of a type's shortfalls, and the total distance of those with this rank."""
    shortfalls = [each for each in (on_node, in_devices) if each is not None]
    worst = max((each.rank for each in shortfalls), default=LIMIT)
    return float(worst), sum(each.distance for each in shortfalls if each.rank == worst)


def _reported_shortfall(on_node: Shortfall | None, in_devices: Shortfall | None) -> Shortfall | None:
    """The shortfall to report: that of the node, unless the devices do not fit at all."""
    if on_node is None or (in_devices is not None and in_devices.rank >= OTHER):
        return in_devices or on_node
    return on_node


def _serving_verdict(
    instance: InstanceType, price: Decimal | None, holds: int, mode: str, cloud_text: str, borderline: bool
) -> TypeVerdict:
    return TypeVerdict(
        instance=instance.key, code="", text=f"serves ({cloud_text})" if cloud_text else "", per_hour=price,
        holds=holds, mode=mode, borderline=borderline,
    )  # fmt: skip


def _by_price(price: Decimal | None) -> tuple[float, float]:
    """A sort key: known prices in ascending order, then unknown ones."""
    return (float(price is None), float(price or 0))


def _price(instance: InstanceType, limits: PlanLimits) -> Decimal | None:
    """The price of the cheapest allowed capacity type; None if unknown."""
    prices = [price for each in allowed_capacity_types(limits) if (price := instance.price(each)) is not None]
    return min(prices, default=None)


def _limit_shortfall(instance: InstanceType, limits: PlanLimits, price: Decimal | None) -> Shortfall | None:
    """The limit or property that excludes a type from provisioning."""
    reason = excluded_by_limits(instance, limits)
    if reason:
        return Shortfall("limits", reason, LIMIT)
    if instance.unusable and instance.prices:
        return Shortfall("unusable", instance.unusable, NOTHING)
    if price is None:
        price_name = (
            f"its {limits.capacity} price" if limits.capacity != "cheapest" and instance.prices else "its price"
        )
        return Shortfall("price-unknown", f"{price_name} is unknown", LIMIT)
    if instance.unusable:
        return Shortfall("unusable", instance.unusable, NOTHING)
    if not offers_of(instance, limits, each_zone=True, each_capacity=True):
        return Shortfall("out-of-stock", "out of stock", LIMIT)
    if limits.budget is not None and price > limits.budget:
        return Shortfall("limits", f"{price} USD/h exceeds the budget of {limits.budget} USD/h", LIMIT)
    return None


def _node_shortfall(
    group: _PodGroup, instance: InstanceType, demand: ClusterDemand, limits: PlanLimits
) -> Shortfall | None:
    """The shortfall in resources, in node selectors, affinity and tolerations, or in the architecture."""
    if instance.room is None:
        return Shortfall("unusable", instance.unusable or "its size is unknown", NOTHING)
    return (
        capacity_shortfall(group.requirements, instance, instance.room)
        or node_shortfall(group.item, _node_facts(instance, demand, limits), instance.taints)
        or architecture_shortfall(group.item, instance.arch)
    )


def _node_facts(instance: InstanceType, demand: ClusterDemand, limits: PlanLimits) -> list[NodeFacts]:
    """The node of the type in each allowed zone and capacity type."""
    machine = hardware_of(instance) if instance.hardware else None
    zones = [zone for zone in instance.zones if not limits.zones or zone in limits.zones]
    return [
        NodeFacts("new", labels_of(instance, machine, "new", zone, capacity))
        for zone in zones or [""]
        for capacity in allowed_capacity_types(limits)
    ]


def _hardware_fit(
    group: _PodGroup, instance: InstanceType, templates: TemplateNodes, fits_by_hardware: dict[str, _HardwareFit],
    reasons: bool = True,
) -> _HardwareFit:  # fmt: skip
    """The fit of the claims on the type's GPUs; types with equal GPUs are checked once, regardless of resources."""
    most = max(max_items(group.requirements, instance, instance.room), 1) if instance.room is not None else 1
    if not group.claims_by_pod:
        return _HardwareFit(min(most, len(group.kind.items)))
    if not instance.hardware:
        text = instance.unusable or "it has no GPU"
        return _HardwareFit(0, "", Shortfall("driver-missing", text, NOTHING, 1.0))
    result = fits_by_hardware.get(instance.hardware)
    if result is None:
        items = min(len(group.kind.items), _MAX_ITEMS)
        result = fits_by_hardware[instance.hardware] = _check_hardware(instance, items, templates, reasons)
    return result._replace(holds=min(result.holds, most))


def _check_hardware(instance: InstanceType, most: int, templates: TemplateNodes, reasons: bool) -> _HardwareFit:
    """The fit in the first mode that holds the claims, or the nearest shortfall of all modes."""
    modes = templates.modes(instance)
    result: list[Shortfall] = []
    for mode in modes:
        if templates.lacks_devices(instance, mode):
            result.append(
                shortfall_of(templates.why_not(instance, mode), instance, _RUNTIME) if reasons else _NO_REASON
            )
            continue
        template = templates.template(instance, mode)
        if template is None:
            continue
        unknown = templates.run_time_dependency(instance, mode, template)
        if unknown:
            return _HardwareFit(0, "", Shortfall("run-time-only", unknown, OTHER))
        fits = templates.fits(instance, mode, most)
        if fits is not None:
            return _HardwareFit(fits.times, fits.mode)
        if not reasons:
            result.append(_NO_REASON)
            continue
        unmatched = templates.unmeasured_match(instance, mode, template)
        if unmatched:
            result.append(
                Shortfall(
                    "run-time-only",
                    (f"which GPUs have the same {unmatched} is known only after the machine has started"),
                    OTHER,
                )
            )
        else:
            result.append(shortfall_of(templates.why_not(instance, mode), instance, template.runtime_only))
    model = instance.accelerator
    if reasons and model is not None and model.mig is not None and result[0].rank == CLASS and UNDECIDED not in modes:
        if not templates.lacks_devices(instance, UNDECIDED) and templates.fits(instance, UNDECIDED, 1) is not None:
            result.append(Shortfall("limits", f"mode {UNDECIDED} is required but not allowed", LIMIT))
        else:
            # The claims need partitions that this GPU does not support, so that its mode is not the reason.
            result = [shortfall_of(templates.why_not(instance, UNDECIDED), instance, _RUNTIME)]
    return _HardwareFit(0, "", min(result, key=lambda each: (each.rank, each.distance)))
