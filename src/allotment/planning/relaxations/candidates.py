"""Candidates for relaxation: selector conditions, constraints, node selectors and affinity, limits of the plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, NamedTuple

from msgspec.structs import replace as altered

from allotment.explanation.fixes import apply_change
from allotment.explanation.origin_mapping import template_of
from allotment.fleet.advertised_memory import accelerator_gb
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.meta import ObjectKey
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceClaim
from allotment.phrases import counted
from allotment.planning.limits import PlanLimits
from allotment.planning.pending_pods.demand import ClusterDemand, PendingPod
from allotment.planning.pending_pods.grouping import Item, ItemKind
from allotment.planning.reasons.type_verdicts import ServingType, TypeEvaluator
from allotment.planning.relaxations.selector_conditions import (
    CONSTRAINT,
    DROPPED,
    LIMIT,
    Distance,
    RelaxedSelector,
    SelectorCondition,
    conditions,
)

_OF_LIMIT: Final = Distance(LIMIT)


class FieldEdit(NamedTuple):
    """The new value of a field; None removes the field."""

    value: Any


@dataclass(frozen=True, slots=True)
class RelaxationCandidate:
    """One change. ``object`` and ``path``: its location; ``edit`` or ``limits``: the new value.

    ``change_pod`` applies it to a pod of a group. ``is_count_limit``: it removes a limit on the number of machines.
    ``distance``: from what was requested.
    """

    what: str
    object: str = ""
    path: str = ""
    edit: FieldEdit | None = None
    limits: PlanLimits | None = None
    change_pod: Callable[[PendingPod], PendingPod] | None = None
    is_count_limit: bool = False
    distance: Distance = _OF_LIMIT

    def apply_to(self, kind: ItemKind) -> ItemKind:
        """The item kind with the change applied to its pods."""
        if self.change_pod is None:
            return kind
        model = Item(tuple(self.change_pod(pod) for pod in kind.representative.pods))
        return ItemKind(kind.number, [model] * len(kind.items), kind.zone)


# --- claims ---------------------------------------------------------------------------------------------------------


def claim_relaxations(
    kind: ItemKind, demand: ClusterDemand, evaluator: TypeEvaluator, limits: PlanLimits, cost: Decimal | None
) -> Iterator[RelaxationCandidate]:
    """Selector conditions relaxed to the values of cheaper types, and removed constraints."""
    seen: set[ObjectKey] = set()
    for pod in kind.representative.pods:
        for claim in pod.claims.pending:
            if claim.key not in seen:
                seen.add(claim.key)
                yield from _selector_relaxations(kind, pod, claim, demand, evaluator, limits, cost)
                yield from _constraint_relaxations(pod, claim)


def _requests(claim: ResourceClaim) -> Iterator[tuple[str, Any]]:
    """The path and value of each request and alternative."""
    for number, request in enumerate(claim.spec.devices.requests):
        path = f"spec.devices.requests[{number}]"
        if request.exactly is not None:
            yield f"{path}.exactly", request.exactly
        for sub, alternative in enumerate(request.first_available):
            yield f"{path}.firstAvailable[{sub}]", alternative


def _selector_relaxations(
    kind: ItemKind,
    pod: PendingPod,
    claim: ResourceClaim,
    demand: ClusterDemand,
    evaluator: TypeEvaluator,
    limits: PlanLimits,
    cost: Decimal | None,
) -> Iterator[RelaxationCandidate]:
    if cost is None:
        return
    for path, request in _requests(claim):
        for index, selector in enumerate(request.selectors):
            expression = selector.cel.expression if selector.cel is not None else ""
            for condition in conditions(expression, demand.features):
                selector_path = f"{path}.selectors[{index}]"
                removed = _selector_edit(pod, claim, selector_path, condition.without())
                serving = evaluator.serving(removed.apply_to(kind), limits, cost)
                for relaxed in _nearest_and_cheapest(condition, serving, evaluator):
                    yield _selector_edit(pod, claim, selector_path, relaxed)


def existing_device_relaxations(kind: ItemKind, demand: ClusterDemand) -> Iterator[list[RelaxationCandidate]]:
    """For each selector condition, the relaxations to the values of existing devices, the nearest first."""
    pod = kind.representative.pods[0]
    for claim in pod.claims.pending:
        for path, request in _requests(claim):
            for index, selector in enumerate(request.selectors):
                expression = selector.cel.expression if selector.cel is not None else ""
                for condition in conditions(expression, demand.features):
                    relaxed = condition.relaxed_to_each(demand.objects.slices)
                    yield [_selector_edit(pod, claim, f"{path}.selectors[{index}]", each) for each in relaxed]


def _nearest_and_cheapest(
    condition: SelectorCondition, serving: Sequence[ServingType], evaluator: TypeEvaluator
) -> Iterator[RelaxedSelector]:
    """The condition relaxed to the nearest value of the types with a lower cost, and to that of the cheapest type."""
    if not serving:
        return
    by_hardware: dict[tuple[str, str], RelaxedSelector] = {}
    labelled: list[Quantity] = []
    for each in reversed(serving):  # of equally near values, that of the most expensive type is the smallest change
        key = (each.instance.hardware, each.mode)
        if key in by_hardware:
            continue
        slices = evaluator.slices(each.instance, each.mode)
        by_hardware[key] = condition.relaxed_to(slices)
        model, value = each.instance.accelerator, condition.published(slices)
        if isinstance(value, Quantity) and model is not None and accelerator_gb(model) == condition.gibibytes:
            labelled.append(value)
    nearest = condition.in_decimal_unit(condition.gibibytes, labelled) or min(
        by_hardware.values(), key=lambda relaxed: relaxed.distance
    )
    cheapest = by_hardware[serving[0].instance.hardware, serving[0].mode]
    yield nearest
    if cheapest.expression != nearest.expression:
        yield cheapest


def _selector_edit(
    pod: PendingPod, claim: ResourceClaim, selector_path: str, relaxed: RelaxedSelector
) -> RelaxationCandidate:
    """A change of a selector in a claim or its template."""
    path = f"{selector_path}.cel.expression" if relaxed.expression else selector_path
    return _claim_edit(pod, claim, path, relaxed.expression or None, relaxed.what, relaxed.distance)


def _constraint_relaxations(pod: PendingPod, claim: ResourceClaim) -> Iterator[RelaxationCandidate]:
    for index, each in enumerate(claim.spec.devices.constraints):
        name = each.match_attribute or each.distinct_attribute or ""
        kind = "matchAttribute" if each.match_attribute else "distinctAttribute"
        what = f"without constraint {kind} {name.rpartition('/')[2]}"
        yield _claim_edit(pod, claim, f"spec.devices.constraints[{index}]", None, what, Distance(CONSTRAINT))


def _claim_edit(
    pod: PendingPod, claim: ResourceClaim, path: str, value: Any, what: str, distance: Distance
) -> RelaxationCandidate:
    key = claim.key
    template = pod.claims.templates.get(key)
    object_name = f"ResourceClaimTemplate {ObjectKey(key.namespace, template)}" if template else f"ResourceClaim {key}"

    def change(other: PendingPod) -> PendingPod:
        pending = [apply_change(each, path, value) if each.key == key else each for each in other.claims.pending]
        return replace(other, claims=replace(other.claims, pending=pending))

    return RelaxationCandidate(
        what, object_name, f"spec.{path}" if template else path, FieldEdit(value), change_pod=change, distance=distance
    )


# --- nodes ----------------------------------------------------------------------------------------------------------


def node_relaxations(kind: ItemKind) -> Iterator[RelaxationCandidate]:
    """Node selector labels and required node affinity, each removed."""
    pod = kind.representative.pods[0]
    object_name, prefix = template_of(pod.pod, pod.owner)
    for key, value in pod.requirements.node_selector:
        rest = {name: text for name, text in pod.requirements.node_selector if name != key}
        path = f"{prefix}spec.nodeSelector"

        def change(other: PendingPod, rest: dict[str, str] = rest) -> PendingPod:
            return replace(
                other,
                requirements=other.requirements.with_placement_of(altered(other.requirements.spec, node_selector=rest)),
            )

        # Mappings are merged, so that one key of several is removed by its own path.
        subpath = f'["{key}"]' if "." in key else f".{key}"
        selector_path = f"{path}{subpath}" if rest else path
        yield RelaxationCandidate(
            f"without nodeSelector {key}={value}",
            object_name,
            selector_path,
            FieldEdit(None),
            change_pod=change,
            distance=Distance(DROPPED),
        )
    if pod.requirements.required is not None:
        path = f"{prefix}spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

        def change_affinity(other: PendingPod) -> PendingPod:
            affinity = other.requirements.spec.affinity
            assert affinity is not None
            spec = altered(other.requirements.spec, affinity=altered(affinity, node_affinity=None))
            return replace(other, requirements=other.requirements.with_placement_of(spec))

        yield RelaxationCandidate(
            "without the required node affinity",
            object_name,
            path,
            FieldEdit(None),
            change_pod=change_affinity,
            distance=Distance(DROPPED),
        )


# --- limits ---------------------------------------------------------------------------------------------------------


def limit_relaxations(limits: PlanLimits, catalog: Sequence[InstanceType]) -> Iterator[RelaxationCandidate]:
    """Each limit widened by itself."""
    if limits.providers:
        for provider in dict.fromkeys(each.provider for each in catalog):
            if provider not in limits.providers:
                widened = replace(limits, providers=(*limits.providers, provider))
                yield RelaxationCandidate(
                    f"provider {provider} also allowed", path=f"--catalog {provider}", limits=widened
                )
    if limits.zones:
        yield RelaxationCandidate("any zone allowed", path="--zones", limits=replace(limits, zones=()))
    if limits.capacity == "on-demand":
        widened = replace(limits, capacity="cheapest")
        yield RelaxationCandidate("spot machines allowed", path="--capacity-type cheapest", limits=widened)
    if limits.capacity == "spot":
        widened = replace(limits, capacity="cheapest")
        yield RelaxationCandidate("on-demand machines allowed", path="--capacity-type cheapest", limits=widened)
    if limits.types:
        yield RelaxationCandidate("any type allowed", path="--types", limits=replace(limits, types=()))
    for pattern in limits.excluded_types:
        rest = tuple(each for each in limits.excluded_types if each != pattern)
        yield RelaxationCandidate(
            f"{pattern} allowed", path=f"--exclude-types {pattern}", limits=replace(limits, excluded_types=rest)
        )
    for pattern, number in limits.max_by_pattern:
        fewer = tuple(each for each in limits.max_by_pattern if each[0] != pattern)
        widened = replace(limits, max_by_pattern=fewer)
        what, path = (
            f"more than {counted(number, 'machine')} of type {pattern} allowed",
            f"--max-per-type {pattern}={number}",
        )
        yield RelaxationCandidate(what, path=path, limits=widened, is_count_limit=True)
    if limits.max_machines is not None:
        widened = replace(limits, max_machines=None)
        what = f"more than {counted(limits.max_machines, 'machine')} allowed"
        yield RelaxationCandidate(what, path="--max-machines", limits=widened, is_count_limit=True)
