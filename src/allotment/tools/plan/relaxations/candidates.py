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
from allotment.tools.explain.fixes import applied
from allotment.tools.explain.origin_mapping import template_of
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.pending_pods.demand import Demand, Waiting
from allotment.tools.plan.pending_pods.grouping import Item, Kind
from allotment.tools.plan.reasons.type_verdicts import Judge, Serving
from allotment.tools.plan.relaxations.selector_conditions import Loosened, conditions


class Edit(NamedTuple):
    """The new value of a field; None removes it."""

    becomes: Any


@dataclass(frozen=True, slots=True)
class Concession:
    """One change. ``object`` and ``path`` say where; ``edit`` or ``limits`` what; ``on`` makes it to a group's pods.

    ``of_numbers``: a limit on how many machines there may be.
    """

    what: str
    object: str = ""
    path: str = ""
    edit: Edit | None = None
    limits: Limits | None = None
    on: Callable[[Waiting], Waiting] | None = None
    of_numbers: bool = False

    def changed(self, kind: Kind) -> Kind:
        """A kind of items whose pods are as they would be then."""
        if self.on is None:
            return kind
        model = Item(tuple(self.on(pod) for pod in kind.model.pods))
        return Kind(kind.number, [model] * len(kind.items), kind.zone)


# --- claims ---------------------------------------------------------------------------------------------------------


def of_claims(kind: Kind, demand: Demand, judge: Judge, limits: Limits, cost: Decimal | None) -> Iterator[Concession]:
    """Conditions loosened to what cheaper types have, and constraints dropped."""
    seen: set[ObjectKey] = set()
    for pod in kind.model.pods:
        for claim in pod.claims.pending:
            if claim.key not in seen:
                seen.add(claim.key)
                yield from _of_selectors(kind, pod, claim, demand, judge, limits, cost)
                yield from _of_constraints(pod, claim)


def _requests(claim: ResourceClaim) -> Iterator[tuple[str, Any]]:
    """Path and request, or alternative of one."""
    for number, request in enumerate(claim.spec.devices.requests):
        path = f"spec.devices.requests[{number}]"
        if request.exactly is not None:
            yield f"{path}.exactly", request.exactly
        for sub, alternative in enumerate(request.first_available):
            yield f"{path}.firstAvailable[{sub}]", alternative


def _of_selectors(
    kind: Kind, pod: Waiting, claim: ResourceClaim, demand: Demand, judge: Judge, limits: Limits, cost: Decimal | None
) -> Iterator[Concession]:
    if cost is None:
        return
    for path, request in _requests(claim):
        for index, selector in enumerate(request.selectors):
            expression = selector.cel.expression if selector.cel is not None else ""
            for condition in conditions(expression, demand.features):
                where = f"{path}.selectors[{index}]"
                dropped = _edit_of(pod, claim, where, condition.without())
                for one in _steps(judge.serving(dropped.changed(kind), limits, cost)):
                    slices = judge.slices(one.instance, one.mode)
                    yield _edit_of(pod, claim, where, condition.towards(slices))


def _steps(less: Sequence[Serving]) -> Sequence[Serving]:
    """The cheapest of the types that would be had for less, and the dearest, which is the smaller step."""
    return (less[0], less[-1]) if len(less) > 1 else less


def _edit_of(pod: Waiting, claim: ResourceClaim, where: str, loosened: Loosened) -> Concession:
    """A selector changed in a claim, which its template, if it has one, says too."""
    path = f"{where}.cel.expression" if loosened.expression else where
    return _claim_edit(pod, claim, path, loosened.expression or None, loosened.what)


def _of_constraints(pod: Waiting, claim: ResourceClaim) -> Iterator[Concession]:
    for index, one in enumerate(claim.spec.devices.constraints):
        name = one.match_attribute or one.distinct_attribute or ""
        kind = "matchAttribute" if one.match_attribute else "distinctAttribute"
        what = f"without the constraint {kind} {name.rpartition('/')[2]}"
        yield _claim_edit(pod, claim, f"spec.devices.constraints[{index}]", None, what)


def _claim_edit(pod: Waiting, claim: ResourceClaim, path: str, becomes: Any, what: str) -> Concession:
    key = claim.key
    template = pod.claims.templates.get(key)
    object_ = f"ResourceClaimTemplate {ObjectKey(key.namespace, template)}" if template else f"ResourceClaim {key}"

    def on(other: Waiting) -> Waiting:
        pending = [applied(one, path, becomes) if one.key == key else one for one in other.claims.pending]
        return replace(other, claims=replace(other.claims, pending=pending))

    return Concession(what, object_, f"spec.{path}" if template else path, Edit(becomes), on=on)


# --- nodes ----------------------------------------------------------------------------------------------------------


def of_nodes(kind: Kind) -> Iterator[Concession]:
    """What pods say of nodes, left out."""
    pod = kind.model.pods[0]
    object_, prefix = template_of(pod.pod, pod.owner)
    for key, value in pod.asked.node_selector:
        rest = {name: text for name, text in pod.asked.node_selector if name != key}
        path = f"{prefix}spec.nodeSelector"

        def on(other: Waiting, rest: dict[str, str] = rest) -> Waiting:
            return replace(other, asked=other.asked.elsewhere(altered(other.asked.spec, node_selector=rest)))

        # A mapping is merged into what stands there, so that one key of several is removed by its own path.
        own = f'["{key}"]' if "." in key else f".{key}"
        where = f"{path}{own}" if rest else path
        yield Concession(f"without nodeSelector {key}={value}", object_, where, Edit(None), on=on)
    if pod.asked.required is not None:
        path = f"{prefix}spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

        def free(other: Waiting) -> Waiting:
            affinity = other.asked.spec.affinity
            assert affinity is not None
            spec = altered(other.asked.spec, affinity=altered(affinity, node_affinity=None))
            return replace(other, asked=other.asked.elsewhere(spec))

        yield Concession("without the required node affinity", object_, path, Edit(None), on=free)


# --- limits ---------------------------------------------------------------------------------------------------------


def of_limits(limits: Limits, catalog: Sequence[InstanceType]) -> Iterator[Concession]:
    """Each limit widened by itself."""
    if limits.providers:
        for provider in dict.fromkeys(one.provider for one in catalog):
            if provider not in limits.providers:
                more = replace(limits, providers=(*limits.providers, provider))
                yield Concession(f"provider {provider} allowed too", path=f"--catalog {provider}", limits=more)
    if limits.zones:
        yield Concession("any zone allowed", path="--zones", limits=replace(limits, zones=()))
    if limits.capacity == "on-demand":
        more = replace(limits, capacity="cheapest")
        yield Concession("spot machines allowed", path="--capacity cheapest", limits=more)
    if limits.capacity == "spot":
        more = replace(limits, capacity="cheapest")
        yield Concession("on-demand machines allowed", path="--capacity cheapest", limits=more)
    if limits.types:
        yield Concession("any type allowed", path="--types", limits=replace(limits, types=()))
    for pattern in limits.without:
        rest = tuple(one for one in limits.without if one != pattern)
        yield Concession(f"{pattern} allowed", path=f"--without {pattern}", limits=replace(limits, without=rest))
    for pattern, number in limits.most:
        fewer = tuple(one for one in limits.most if one[0] != pattern)
        more = replace(limits, most=fewer)
        what, path = f"more than {number} of {pattern} allowed", f"--most {pattern}={number}"
        yield Concession(what, path=path, limits=more, of_numbers=True)
    if limits.machines is not None:
        more = replace(limits, machines=None)
        what = f"more than {counted(limits.machines, 'machine')} allowed"
        yield Concession(what, path="--machines", limits=more, of_numbers=True)
