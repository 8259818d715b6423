"""What could be conceded: conditions of selectors, constraints, wishes about nodes, limits of the purchase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from msgspec.structs import replace as altered

from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.phrases import counted
from allotment.tools.explain.fixes import apply_change
from allotment.tools.explain.origin_mapping import template_of
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.pending_pods.demand import ClusterDemand, PendingPod
from allotment.tools.plan.pending_pods.grouping import Item, ItemKind
from allotment.tools.plan.reasons.type_verdicts import ServingType, TypeEvaluator
from allotment.tools.plan.relaxations.selector_conditions import RelaxedSelector, conditions


class FieldEdit(NamedTuple):
    """The new value of a field; None removes it."""

    value: Any


@dataclass(frozen=True, slots=True)
class RelaxationCandidate:
    """One change. ``object`` and ``path`` say where; ``edit`` or ``limits`` what; ``on`` makes it to a group's pods.

    ``of_numbers``: a limit on how many machines there may be.
    """

    what: str
    object: str = ""
    path: str = ""
    edit: FieldEdit | None = None
    limits: PlanLimits | None = None
    change_pod: Callable[[PendingPod], PendingPod] | None = None
    is_count_limit: bool = False

    def apply_to(self, kind: ItemKind) -> ItemKind:
        """A kind of items whose pods are as they would be then."""
        if self.change_pod is None:
            return kind
        model = Item(tuple(self.change_pod(pod) for pod in kind.representative.pods))
        return ItemKind(kind.number, [model] * len(kind.items), kind.zone)


# --- claims ---------------------------------------------------------------------------------------------------------


def claim_relaxations(kind: ItemKind, demand: ClusterDemand, judge: TypeEvaluator, limits: PlanLimits, cost: Decimal | None) -> Iterator[RelaxationCandidate]:
    """Conditions loosened to what cheaper types have, and constraints dropped."""
    seen: set[ObjectKey] = set()
    for pod in kind.representative.pods:
        for claim in pod.claims.pending:
            if claim.key not in seen:
                seen.add(claim.key)
                yield from _selector_relaxations(kind, pod, claim, demand, judge, limits, cost)
                yield from _constraint_relaxations(pod, claim)


def _requests(claim: ResourceClaim) -> Iterator[tuple[str, Any]]:
    """Path and request, or alternative of one."""
    for number, request in enumerate(claim.spec.devices.requests):
        path = f"spec.devices.requests[{number}]"
        if request.exactly is not None:
            yield f"{path}.exactly", request.exactly
        for sub, alternative in enumerate(request.first_available):
            yield f"{path}.firstAvailable[{sub}]", alternative


def _selector_relaxations(
    kind: ItemKind, pod: PendingPod, claim: ResourceClaim, demand: ClusterDemand, judge: TypeEvaluator, limits: PlanLimits, cost: Decimal | None
) -> Iterator[RelaxationCandidate]:
    if cost is None:
        return
    for path, request in _requests(claim):
        for index, selector in enumerate(request.selectors):
            expression = selector.cel.expression if selector.cel is not None else ""
            for condition in conditions(expression, demand.features):
                where = f"{path}.selectors[{index}]"
                dropped = _selector_edit(pod, claim, where, condition.without())
                for one in _smallest_and_largest(judge.serving(dropped.apply_to(kind), limits, cost)):
                    slices = judge.slices(one.instance, one.mode)
                    yield _selector_edit(pod, claim, where, condition.relaxed_to(slices))


def _smallest_and_largest(less: Sequence[ServingType]) -> Sequence[ServingType]:
    """The cheapest of the types that would be had for less, and the dearest, which is the smaller step."""
    return (less[0], less[-1]) if len(less) > 1 else less


def _selector_edit(pod: PendingPod, claim: ResourceClaim, where: str, loosened: RelaxedSelector) -> RelaxationCandidate:
    """A selector changed in a claim, which its template, if it has one, says too."""
    path = f"{where}.cel.expression" if loosened.expression else where
    return _claim_edit(pod, claim, path, loosened.expression or None, loosened.what)


def _constraint_relaxations(pod: PendingPod, claim: ResourceClaim) -> Iterator[RelaxationCandidate]:
    for index, one in enumerate(claim.spec.devices.constraints):
        name = one.match_attribute or one.distinct_attribute or ""
        kind = "matchAttribute" if one.match_attribute else "distinctAttribute"
        what = f"without the constraint {kind} {name.rpartition('/')[2]}"
        yield _claim_edit(pod, claim, f"spec.devices.constraints[{index}]", None, what)


def _claim_edit(pod: PendingPod, claim: ResourceClaim, path: str, becomes: Any, what: str) -> RelaxationCandidate:
    key = claim.key
    template = pod.claims.templates.get(key)
    object_ = f"ResourceClaimTemplate {ObjectKey(key.namespace, template)}" if template else f"ResourceClaim {key}"

    def on(other: PendingPod) -> PendingPod:
        pending = [apply_change(one, path, becomes) if one.key == key else one for one in other.claims.pending]
        return replace(other, claims=replace(other.claims, pending=pending))

    return RelaxationCandidate(what, object_, f"spec.{path}" if template else path, FieldEdit(becomes), change_pod=on)


# --- nodes ----------------------------------------------------------------------------------------------------------


def node_relaxations(kind: ItemKind) -> Iterator[RelaxationCandidate]:
    """What pods say of nodes, left out."""
    pod = kind.representative.pods[0]
    object_, prefix = template_of(pod.pod, pod.owner)
    for key, value in pod.requirements.node_selector:
        rest = {name: text for name, text in pod.requirements.node_selector if name != key}
        path = f"{prefix}spec.nodeSelector"

        def on(other: PendingPod, rest: dict[str, str] = rest) -> PendingPod:
            return replace(other, requirements=other.requirements.elsewhere(altered(other.requirements.spec, node_selector=rest)))

        # A mapping is merged into what stands there, so that one key of several is removed by its own path.
        own = f'["{key}"]' if "." in key else f".{key}"
        where = f"{path}{own}" if rest else path
        yield RelaxationCandidate(f"without nodeSelector {key}={value}", object_, where, FieldEdit(None), change_pod=on)
    if pod.requirements.required is not None:
        path = f"{prefix}spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

        def free(other: PendingPod) -> PendingPod:
            affinity = other.requirements.spec.affinity
            assert affinity is not None
            spec = altered(other.requirements.spec, affinity=altered(affinity, node_affinity=None))
            return replace(other, requirements=other.requirements.elsewhere(spec))

        yield RelaxationCandidate("without the required node affinity", object_, path, FieldEdit(None), change_pod=free)


# --- limits ---------------------------------------------------------------------------------------------------------


def limit_relaxations(limits: PlanLimits, catalog: Sequence[InstanceType]) -> Iterator[RelaxationCandidate]:
    """Each limit widened by itself."""
    if limits.providers:
        for provider in dict.fromkeys(one.provider for one in catalog):
            if provider not in limits.providers:
                more = replace(limits, providers=(*limits.providers, provider))
                yield RelaxationCandidate(f"provider {provider} allowed too", path=f"--catalog {provider}", limits=more)
    if limits.zones:
        yield RelaxationCandidate("any zone allowed", path="--zones", limits=replace(limits, zones=()))
    if limits.capacity == "on-demand":
        more = replace(limits, capacity="cheapest")
        yield RelaxationCandidate("spot machines allowed", path="--capacity-type cheapest", limits=more)
    if limits.capacity == "spot":
        more = replace(limits, capacity="cheapest")
        yield RelaxationCandidate("on-demand machines allowed", path="--capacity-type cheapest", limits=more)
    if limits.types:
        yield RelaxationCandidate("any type allowed", path="--types", limits=replace(limits, types=()))
    for pattern in limits.excluded_types:
        rest = tuple(one for one in limits.excluded_types if one != pattern)
        yield RelaxationCandidate(f"{pattern} allowed", path=f"--exclude-types {pattern}", limits=replace(limits, excluded_types=rest))
    for pattern, number in limits.max_by_pattern:
        fewer = tuple(one for one in limits.max_by_pattern if one[0] != pattern)
        more = replace(limits, max_by_pattern=fewer)
        what, path = f"more than {number} of {pattern} allowed", f"--max-per-type {pattern}={number}"
        yield RelaxationCandidate(what, path=path, limits=more, is_count_limit=True)
    if limits.max_machines is not None:
        more = replace(limits, max_machines=None)
        what = f"more than {counted(limits.max_machines, 'machine')} allowed"
        yield RelaxationCandidate(what, path="--max-machines", limits=more, is_count_limit=True)
