"""``explain``: allocate the claims of pods one after the other, as a scheduler would, and explain each result.

Pods are tried in the given order, and devices allocated to one pod are not available to the next. Replicas of a
workload are separate pods, with separate claims if they use a template. Claims that no pod uses are tried at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from msgspec.structs import replace

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.context import requests_of
from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.placement import Placed
from allotment.engine.refusal import CODES, AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import (
    AllocationResult,
    Device,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from allotment.model.workload_pods import pods_of
from allotment.node_fit.device_table import DeviceTables
from allotment.phrases import first_few, listed
from allotment.tools.explain.diagnosis_cache import DiagnosisCache
from allotment.tools.explain.extended_requests import extended_resources as extended_resources
from allotment.tools.explain.extended_resources import plugin_resources
from allotment.tools.explain.fixes import apply_change, make_eligible
from allotment.tools.explain.input import ExplainInput, sort_objects, with_change
from allotment.tools.explain.node_eligibility import (
    EligibilityNode,
    daemon_node,
    eligibility_nodes,
    excluded_nodes,
    exclusion_text,
    matches,
    why_excluded,
)
from allotment.tools.explain.obstacles import Obstacle, invalid, invalid_class, refused_everywhere, too_many_consumers
from allotment.tools.explain.origin_mapping import (
    by_origin,
    easiest_fix,
    not_eligible,
    owner_of,
    template_of,
    with_excluded,
    with_replica_advice,
)
from allotment.tools.explain.pod_claims import PodClaims, pod_claims
from allotment.tools.explain.report import Answer, ClaimAllocation, Explanation, claim_allocation
from allotment.tools.orphaned_slices import orphaned_note


def with_waiting_reason(answer: Answer, pod: Pod) -> Answer:
    """The answer for a pod without a node; if it would fit, with the reason why it is still pending."""
    return replace(answer, waits=_waiting_reason(pod)) if answer.fits else answer


def _waiting_reason(pod: Pod) -> str:
    if gates := [gate.name for gate in pod.spec.scheduling_gates]:
        if len(gates) == 1:
            return f"scheduling gate {gates[0]} prevents scheduling until its owner removes it"
        return f"scheduling gates {listed(gates)} prevent scheduling until their owners remove them"
    condition = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
    if condition is not None:
        message = condition.message or condition.reason
        if condition.status != "False" or not message:
            return ""
        return f"last message of its scheduler: {'; '.join(message.splitlines())}"
    known = pod.metadata.uid and pod.spec.scheduler_name
    return f"scheduler {pod.spec.scheduler_name} has not reported on it yet" if known else ""


def explain(values: Iterable[Object], features: Features, tries: int | None = None) -> Explanation:
    """The devices that every pod and claim gets, or the reason why it gets none.

    ``values`` are the decoded objects of the cluster and those to explain; earlier ones get devices first. ``tries``
    limits the trials for changes that would help, which take most of the time, over all answers together.
    """
    run = _Run(sort_objects(values, features), tries)
    answers = [with_waiting_reason(run.pod(pod, owner), pod) for pod, owner in run.pods()]
    answers += [run.claim_alone(key) for key in run.unnamed()]
    return Explanation(answers=tuple(answers), notes=tuple(run.notes()))


#: Number of groups of excluded nodes for which changes are searched.
_WITH_CHANGE = 8


def _claim_refused(objects: ExplainInput, key: ObjectKey, claim: ResourceClaim) -> Obstacle | None:
    """The obstacle if the API server rejects a claim or one of its classes."""
    return invalid(objects, "ResourceClaim", key) or invalid_class(objects, claim.spec)


def _with_first(reasons: Diagnosis, tried: Iterable[tuple[SuggestedChange, str]]) -> Diagnosis:
    """The reasons with the first change after which a node fits."""
    changes = next(((replace(change, node=node),) for change, node in tried if node), ())
    return replace(reasons, headline=replace(reasons.headline, changes=changes))


class _Run:
    """The state of an explanation."""

    def __init__(self, input: ExplainInput, tries: int | None = None) -> None:
        self.input = input
        self.slices = [s for s in input.slices if ("ResourceSlice", s.key) not in input.refused]
        self.nodes: dict[str, EligibilityNode] = eligibility_nodes(input.nodes, self.slices)
        self.inventory = Inventory.of(
            input.features,
            nodes=((name, node.facts.labels) for name, node in self.nodes.items()),
            slices=self.slices,
            classes=input.classes.values(),
            claims=input.claims.values(),
            taint_rules=input.rules,
        )
        self.allocator = Allocator(self.inventory)
        self.tables = DeviceTables(self.allocator)
        self.diagnoser = Diagnoser(self.inventory, input.claims.values(), tries)
        self.cache = DiagnosisCache(self.diagnoser)
        self.plugins = plugin_resources(input.nodes)
        self.commits = 0
        self.fixed: dict[tuple[object, ...], Diagnosis] = {}
        self.claims = dict(input.claims)
        self.used: set[ObjectKey] = set()
        self.devices: dict[DeviceID, Device] = {
            DeviceID(s.spec.driver, s.spec.pool.name, d.name): d for s in self.slices for d in s.spec.devices or ()
        }

    # --- input ---------------------------------------------------------------------------------------------------

    def pods(self) -> list[tuple[Pod, str]]:
        """The pods to try, with their workloads."""
        return [(pod, owner_of(pod)) for value in self.input.workloads for pod in pods_of(value, nodes=self.nodes)]

    def unnamed(self) -> list[ObjectKey]:
        """Claims that no pod uses and that are not allocated."""
        return [key for key, claim in self.claims.items() if key not in self.used and claim.status.allocation is None]

    def notes(self) -> list[str]:
        """Notes about the input."""
        found = []
        for (kind, key), errors in self.input.refused.items():
            if kind == "ResourceSlice":
                found.append(f"ResourceSlice {key} is ignored, because the API server rejects it: {errors[0]}")
        if self.input.missing_nodes:
            found.append(orphaned_note(self.input.missing_nodes))
        unknown = [name for name, node in self.nodes.items() if not node.has_object]
        if unknown and self.input.nodes:
            found.append(f"no Node object for {first_few(unknown, 4)}: assumed to have no labels and no taints")
        return found

    # --- trying --------------------------------------------------------------------------------------------------

    def pod(self, pod: Pod, owner: str) -> Answer:
        """Try one pod and record its allocations."""
        name = str(pod.key)
        named = [entry.resource_claim_name for entry in pod.spec.resource_claims]
        named += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
        self.used.update(ObjectKey(pod.metadata.namespace, claim) for claim in named if claim)
        eligible, exclusions = self._nodes_for(pod)
        plugins, eligible = self._plugin_resources(pod, template_of(pod, owner), eligible)
        requested = pod_claims(pod, template_of(pod, owner), self.input, self.claims, plugins)
        if isinstance(requested, Obstacle):
            reasons = self._with_fix(pod, requested, template_of(pod, owner))
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        if self.nodes and self._lacks_class(requested):  # Kubernetes examines no node
            reasons = self._reasons(tuple(requested.pending), requested, list(self.nodes), {}, pod, owner)
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        if requested.allocated and self._aborts(requested, eligible):
            reasons = self._reasons(tuple(requested.pending), requested, eligible, exclusions, pod, owner)
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        for claim in requested.allocated:
            eligible, unreachable = self._reachable_nodes(claim, eligible)
            if unreachable is not None:
                reasons = self._with_way_to_claims(requested, unreachable, pod, owner, exclusions)
                return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        return self._place("Pod", name, owner, requested, eligible, exclusions, pod)

    def claim_alone(self, key: ObjectKey) -> Answer:
        """Try a claim as if it belonged to a pod that may run on any node."""
        claim = self.claims[key]
        refused = _claim_refused(self.input, key, claim)
        if refused is not None:
            tried = ((way, self._node_for_claim(key, way)) for way in refused.changes)
            reasons = _with_first(refused.reasons, tried)
            return Answer(kind="ResourceClaim", name=str(key), outcome="refused", reasons=reasons)
        return self._place("ResourceClaim", str(key), "", PodClaims([claim]), list(self.nodes), {}, None)

    def _aborts(self, requested: PodClaims, eligible: list[str]) -> bool:
        """Whether an error on a node ends the attempt, even if allocated claims of the pod cannot be used there."""
        pending = tuple(requested.pending)
        return bool(pending and self.tables.of(pending).errors & self.inventory.node_mask(eligible))

    def _plugin_resources(
        self, pod: Pod, where: tuple[str, str], eligible: list[str]
    ) -> tuple[frozenset[str], list[str]]:
        """The requested resources that device plugins provide, and the nodes that provide exactly these.

        A class provides a resource only on nodes without a device plugin for it. Of several groups of nodes the first
        one on which the pod fits is returned, groups with fewer resources first; otherwise the first group.
        """
        wanted = frozenset(extended_resources(pod))
        kinds: dict[frozenset[str], list[str]] = {}
        for node in eligible:
            kinds.setdefault(self.plugins.get(node, frozenset()) & wanted, []).append(node)
        if not kinds:
            return frozenset[str]().union(*self.plugins.values()) & wanted, eligible
        ordered = sorted(kinds.items(), key=lambda kind: len(kind[0]))
        if len(ordered) == 1:
            return ordered[0]
        return next((kind for kind in ordered if self._fits_with_plugins(pod, where, *kind)), ordered[0])

    def _fits_with_plugins(self, pod: Pod, where: tuple[str, str], plugins: frozenset[str], nodes: list[str]) -> bool:
        requested = pod_claims(pod, where, self.input, self.claims, plugins)
        if isinstance(requested, Obstacle):
            return False
        for claim in requested.allocated:
            nodes, _ = self._reachable_nodes(claim, nodes)
        pending = tuple(requested.pending)
        return bool(nodes) and (not pending or self._placed(pending, self.inventory.node_mask(nodes)) is not None)

    def _lacks_class(self, requested: PodClaims) -> bool:
        wanted = (request.device_class_name for claim in requested.pending for _, request in requests_of(claim))
        return any(name not in self.input.classes for name in wanted)

    def _nodes_for(self, pod: Pod) -> tuple[list[str], dict[str, str]]:
        """The eligible nodes of a pod, and the reasons for excluded nodes; a daemon pod has only its own node."""
        served = daemon_node(pod)
        nodes = {served: self.nodes[served]} if served in self.nodes else self.nodes
        exclusions = excluded_nodes(pod, nodes)
        return [node for node in nodes if node not in exclusions], exclusions

    def _with_fix(self, pod: Pod, obstacle: Obstacle, where: tuple[str, str]) -> Diagnosis:
        """The reasons with the first change after which the pod fits, if any. Replicas are tried once."""
        reasons = obstacle.reasons
        key = (where[0], id(pod.spec), self.commits, reasons.headline.code, reasons.headline.summary)
        if key not in self.fixed:
            tried = ((way, self._node_for_pod(pod, way, where)) for way in obstacle.changes)
            self.fixed[key] = _with_first(reasons, tried)
        return self.fixed[key]

    def _node_for_pod(self, pod: Pod, change: SuggestedChange, where: tuple[str, str]) -> str:
        """The node of the pod after a change; empty if none fits."""
        objects, claims = self.input, self.claims
        if change.object == where[0]:
            pod = apply_change(pod, change.path.removeprefix(where[1]), change.becomes)
        elif (changed := with_change(objects, change)) is not None:
            untouched = {k: c for k, c in claims.items() if changed.claims.get(k) is objects.claims.get(k)}
            objects, claims = changed, {**changed.claims, **untouched}
        else:
            return ""
        plugins, eligible = self._plugin_resources(pod, where, self._nodes_for(pod)[0])
        requested = pod_claims(pod, where, objects, claims, plugins)
        if isinstance(requested, Obstacle) or requested.allocated or not requested.pending:
            return ""
        return self._node_for(objects, requested.pending, eligible)

    def _node_for_claim(self, key: ObjectKey, change: SuggestedChange) -> str:
        """The node of a claim after a change; empty if none fits."""
        objects = with_change(self.input, change)
        claim = objects.claims.get(key) if objects is not None else None
        if objects is None or claim is None or _claim_refused(objects, key, claim) is not None:
            return ""
        return self._node_for(objects, [claim], self.nodes)

    def _node_for(self, objects: ExplainInput, claims: list[ResourceClaim], nodes: Iterable[str]) -> str:
        """The node among ``nodes`` for claims with the classes of another input; empty if none fits."""
        old = [self.input.classes[name] for name, c in objects.classes.items() if self.input.classes.get(name) is not c]
        for class_ in old:
            self.inventory.put_class(objects.classes[class_.metadata.name])
        try:
            placed = self._placed(tuple(claims), self.inventory.node_mask(nodes))
        finally:
            for class_ in old:
                self.inventory.put_class(class_)
        return placed.node if placed is not None else ""

    def _placed(self, claims: tuple[ResourceClaim, ...], among: int) -> Placed | None:
        """The first node on which claims fit; None if no node fits or an error on a node ends the attempt."""
        if self.tables.of(claims).errors & among:
            return None
        placed = self.allocator.place(claims, among=among)
        return placed if isinstance(placed, Placed) else None

    def _reachable_nodes(self, claim: ResourceClaim, nodes: list[str]) -> tuple[list[str], Diagnosis | None]:
        """Nodes that can use an allocated claim's devices, and the reason if there is none."""
        allocation = claim.status.allocation
        assert allocation is not None
        key = claim.key
        if len(claim.status.reserved_for) >= 256:
            return [], too_many_consumers(str(key), len(claim.status.reserved_for))
        if allocation.node_selector is None:
            return nodes, None
        left = [node for node in nodes if matches(allocation.node_selector, self.nodes[node].facts)]
        if left or not nodes:
            return left, None
        where = [name for name, node in self.nodes.items() if matches(allocation.node_selector, node.facts)]
        summary = f"claim {key} is allocated on {', '.join(where) or 'an unknown node'}, where the pod may not run"
        return [], refused_everywhere("claim-on-other-node", summary, str(key))

    def _place(
        self,
        kind: str,
        name: str,
        owner: str,
        requested: PodClaims,
        eligible: list[str],
        exclusions: dict[str, str],
        pod: Pod | None,
    ) -> Answer:
        if not eligible and self.nodes:
            rows = self._excluded(requested, eligible, exclusions, pod, owner)
            return Answer(kind=kind, name=name, outcome="refused", reasons=not_eligible(rows), owner=owner)
        pending = tuple(requested.pending)
        if not pending:
            node = eligible[0] if eligible else ""
            return Answer(
                kind=kind,
                name=name,
                outcome="fits",
                node=node if requested.allocated else "",
                owner=owner,
                claims=tuple(self._claim_allocation(c, requested) for c in requested.allocated),
                notes=() if requested.allocated else ("no claims, so any node fits",),
            )
        among = -1 if len(eligible) == len(self.nodes) else self.inventory.node_mask(eligible)
        placed = self._placed(pending, among)
        if placed is not None:
            claims = [
                self._commit(claim, result, pod, requested)
                for claim, result in zip(pending, placed.results, strict=True)
            ]
            objects = (*requested.allocated, *claims)
            return Answer(
                kind=kind,
                name=name,
                outcome="fits",
                node=placed.node,
                owner=owner,
                claims=tuple(self._claim_allocation(c, requested) for c in objects),
            )
        reasons = self._reasons(pending, requested, eligible, exclusions, pod, owner)
        return Answer(kind=kind, name=name, outcome="refused", reasons=reasons, owner=owner)

    def _reasons(
        self,
        pending: tuple[ResourceClaim, ...],
        requested: PodClaims,
        eligible: list[str],
        exclusions: dict[str, str],
        pod: Pod | None,
        owner: str,
    ) -> Diagnosis:
        """The reasons why the claims fit no node."""
        reasons = by_origin(self.cache.diagnose(pending, eligible), requested.templates, requested.extended)
        if pod is not None:
            reasons = with_replica_advice(reasons, pod)
        if not exclusions:
            return reasons
        return with_excluded(
            reasons, self._excluded(requested, eligible, exclusions, pod, owner), self._aborts(requested, eligible)
        )

    def _excluded(
        self, requested: PodClaims, eligible: list[str], exclusions: dict[str, str], pod: Pod | None, owner: str
    ) -> tuple[NodeReason, ...]:
        """Excluded nodes by the excluding rule, each with a node that would fit otherwise, if any."""
        pending = tuple(requested.pending)
        groups: dict[str, list[str]] = {}
        for node, why in exclusions.items():
            groups.setdefault(why, []).append(node)
        rows: list[NodeReason] = []
        for why, nodes in groups.items():
            reached = nodes
            for claim in requested.allocated:
                reached, _ = self._reachable_nodes(claim, reached)
            placed = self.allocator.place(pending, among=self.inventory.node_mask(reached)) if pending else None
            node = placed.node if isinstance(placed, Placed) else ""
            changes: tuple[SuggestedChange, ...] = ()
            if node and pod is not None and len(rows) < _WITH_CHANGE:
                changes = self._eligibility_changes(pod, owner, requested, eligible, node)
            refused = AllocationRefusal(
                code="node-not-eligible",
                summary=exclusion_text(nodes, why, node),
                node=nodes[0],
                changes=changes,
                kubernetes=CODES["node-not-eligible"].kubernetes,
            )
            rows.append(NodeReason(nodes=tuple(nodes), refused=refused))
        return tuple(rows)

    def _eligibility_changes(
        self, pod: Pod, owner: str, requested: PodClaims, eligible: list[str], node: str
    ) -> tuple[SuggestedChange, ...]:
        """Changes that make a node eligible; empty if an error on another node would end the attempt."""
        way = make_eligible(pod, self.nodes[node], template_of(pod, owner), bool(daemon_node(pod)))
        stays = [name for name in eligible if not why_excluded(way.pod, self.nodes[name])]
        return () if self._aborts(requested, stays) else way.changes

    def _with_way_to_claims(
        self, requested: PodClaims, reasons: Diagnosis, pod: Pod, owner: str, exclusions: Iterable[str]
    ) -> Diagnosis:
        """The reasons with the easiest changes for a node where allocated claims can be used and pending ones fit."""
        reachable, pending = list(exclusions), tuple(requested.pending)
        for claim in requested.allocated:
            reachable, _ = self._reachable_nodes(claim, reachable)
        rows = [
            NodeReason(
                (node,),
                AllocationRefusal(
                    "node-not-eligible", "", node, changes=self._eligibility_changes(pod, owner, requested, [], node)
                ),
            )
            for node in reachable[:_WITH_CHANGE]
            if not pending or self._placed(pending, self.inventory.node_mask([node])) is not None
        ]
        way = easiest_fix(rows)
        if way is None:
            return reasons
        return replace(reasons, headline=replace(reasons.headline, changes=way.refused.changes))

    def _commit(
        self, claim: ResourceClaim, allocation: AllocationResult, pod: Pod | None, requested: PodClaims
    ) -> ResourceClaim:
        """Record an allocation; a claim that no pod uses does not hold devices, because it would not be allocated."""
        if pod is None:
            return replace(claim, status=ResourceClaimStatus(allocation=allocation))
        key = claim.key
        own = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        user = requested.consumers.get(key, own)
        booked = replace(claim, status=ResourceClaimStatus(allocation=allocation, reserved_for=(user,)))
        self.claims[key] = booked
        self.inventory.allocate(key, allocation)
        self.diagnoser.add_allocated(booked)
        self.cache.clear()
        self.commits += 1
        return booked

    def _claim_allocation(self, claim: ResourceClaim, requested: PodClaims) -> ClaimAllocation:
        template = requested.templates.get(claim.key, "")
        return claim_allocation(claim, template, any(claim is c for c in requested.allocated), self.devices)


def fits(values: Iterable[Object], features: Features) -> bool:
    """Whether everything fits; faster than an explanation, because it ends at the first pod that does not fit."""
    run = _Trial(sort_objects(values, features))
    try:
        return all(run.pod(pod, owner).fits for pod, owner in run.pods()) and all(
            run.claim_alone(key).fits for key in run.unnamed()
        )
    except _DoesNotFit:
        return False


class _DoesNotFit(Exception):
    """Raised when a pod or claim does not fit, to end the trial."""


class _Trial(_Run):
    """A run without reasons, which take most of the time."""

    def _end(self, *what: Any, **named: Any) -> NoReturn:
        raise _DoesNotFit

    _reasons = _with_fix = _excluded = _end
