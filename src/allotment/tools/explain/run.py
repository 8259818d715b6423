"""``explain``: try the pods one after the other, as a scheduler would, and say of each what it gets or why not.

Pods are tried in the order given. What one gets the next cannot have; replicas of a workload are pods of their own,
with claims of their own where their template says so. Claims that no pod names are tried alone, at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from msgspec.structs import replace

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.diagnosis.context import places
from allotment.engine.diagnosis.diagnoser import Diagnoser
from allotment.engine.placement import Placed
from allotment.engine.refusal import CODES, Change, Diagnosis, NodeReason, Refused
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
from allotment.tools.explain.diagnosis_cache import Known
from allotment.tools.explain.extended_requests import asked as extended_resources
from allotment.tools.explain.extended_resources import plugged
from allotment.tools.explain.fixes import applied, let_in
from allotment.tools.explain.input import Input, after, sort
from allotment.tools.explain.node_eligibility import (
    KnownNode,
    excluded,
    kept_off,
    known_nodes,
    matches,
    served_node,
    why_excluded,
)
from allotment.tools.explain.obstacles import Obstacle, invalid, invalid_class, taken, told
from allotment.tools.explain.origin_mapping import (
    by_origin,
    easiest,
    not_eligible,
    owner_of,
    template_of,
    with_excluded,
    with_replicas,
)
from allotment.tools.explain.pod_claims import Ask, asked
from allotment.tools.explain.report import Answer, Explanation, GivenClaim, given_claim
from allotment.tools.orphaned_slices import left_out


def noted(answer: Answer, pod: Pod) -> Answer:
    """The answer for a pod without a node; if it would fit, with what is known of why it waits all the same."""
    return replace(answer, waits=_held(pod)) if answer.fits else answer


def _held(pod: Pod) -> str:
    if gates := [gate.name for gate in pod.spec.scheduling_gates]:
        held = f"scheduling gate{'s' * (len(gates) > 1)} {listed(gates)}"
        return f"no scheduler looks at it while it has {held}; to be removed by whoever set it"
    told = next((one for one in pod.status.conditions if one.type == "PodScheduled"), None)
    if told is not None:
        words = told.message or told.reason
        return f"its scheduler said last: {'; '.join(words.splitlines())}" if told.status == "False" and words else ""
    known = pod.metadata.uid and pod.spec.scheduler_name
    return f"scheduler {pod.spec.scheduler_name} has said nothing of it yet" if known else ""


def explain(values: Iterable[Object], features: Features, tries: int | None = None) -> Explanation:
    """Which device on which node every pod and claim gets, or why it gets none.

    ``values`` are the objects of the cluster and those asked about, decoded, in order: what stands before takes devices
    first. ``tries`` bounds the search for changes that would help, which takes longest, over all answers together.
    """
    run = _Run(sort(values, features), tries)
    answers = [noted(run.pod(pod, owner), pod) for pod, owner in run.pods()]
    answers += [run.claim_alone(key) for key in run.unnamed()]
    return Explanation(answers=tuple(answers), notes=tuple(run.notes()))


#: Kinds of excluded nodes for which is told how the pod could go there.
_WITH_CHANGE = 8


def _claim_refused(given: Input, key: ObjectKey, claim: ResourceClaim) -> Obstacle | None:
    """Why a claim or one of its classes would never be stored."""
    return invalid(given, "ResourceClaim", key) or invalid_class(given, claim.spec)


def _with_first(reasons: Diagnosis, tried: Iterable[tuple[Change, str]]) -> Diagnosis:
    """The reasons with the first change that leads to a node."""
    changes = next(((replace(change, node=node),) for change, node in tried if node), ())
    return replace(reasons, headline=replace(reasons.headline, changes=changes))


class _Run:
    """The state while pods are tried."""

    def __init__(self, given: Input, tries: int | None = None) -> None:
        self.given = given
        self.slices = [s for s in given.slices if ("ResourceSlice", s.key) not in given.refused]
        self.nodes: dict[str, KnownNode] = known_nodes(given.nodes, self.slices)
        self.inventory = Inventory.of(
            given.features,
            nodes=((name, node.facts.labels) for name, node in self.nodes.items()),
            slices=self.slices,
            classes=given.classes.values(),
            claims=given.claims.values(),
            taint_rules=given.rules,
        )
        self.allocator = Allocator(self.inventory)
        self.tables = DeviceTables(self.allocator)
        self.diagnoser = Diagnoser(self.inventory, given.claims.values(), tries)
        self.known = Known(self.diagnoser)
        self.plugins = plugged(given.nodes)
        self.commits = 0
        self.mended: dict[tuple[object, ...], Diagnosis] = {}
        self.claims = dict(given.claims)
        self.used: set[ObjectKey] = set()
        self.devices: dict[DeviceID, Device] = {
            DeviceID(s.spec.driver, s.spec.pool.name, d.name): d for s in self.slices for d in s.spec.devices or ()
        }

    # --- input ---------------------------------------------------------------------------------------------------

    def pods(self) -> list[tuple[Pod, str]]:
        """Every pod to try, with the workload that it belongs to."""
        return [(pod, owner_of(pod)) for value in self.given.workloads for pod in pods_of(value, nodes=self.nodes)]

    def unnamed(self) -> list[ObjectKey]:
        """Claims that no pod named and that are not allocated."""
        return [key for key, claim in self.claims.items() if key not in self.used and claim.status.allocation is None]

    def notes(self) -> list[str]:
        """What to know about the input."""
        found = []
        for (kind, key), errors in self.given.refused.items():
            if kind == "ResourceSlice":
                found.append(f"ResourceSlice {key} is left out, the API server refuses it: {errors[0]}")
        if self.given.gone:
            found.append(left_out(self.given.gone))
        unknown = [name for name, node in self.nodes.items() if not node.given]
        if unknown and self.given.nodes:
            found.append(f"no Node object for {first_few(unknown, 4)}: taken without labels and taints")
        return found

    # --- trying --------------------------------------------------------------------------------------------------

    def pod(self, pod: Pod, owner: str) -> Answer:
        """Try one pod and keep what it gets."""
        name = str(pod.key)
        named = [entry.resource_claim_name for entry in pod.spec.resource_claims]
        named += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
        self.used.update(ObjectKey(pod.metadata.namespace, claim) for claim in named if claim)
        eligible, out = self._nodes_for(pod)
        plugins, eligible = self._among(pod, template_of(pod, owner), eligible)
        ask = asked(pod, template_of(pod, owner), self.given, self.claims, plugins)
        if isinstance(ask, Obstacle):
            reasons = self._mended(pod, ask, template_of(pod, owner))
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        if self.nodes and self._lacks_class(ask):  # Kubernetes looks at no node
            reasons = self._reasons(tuple(ask.pending), ask, list(self.nodes), {}, pod, owner)
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        if ask.before and self._stops(ask, eligible):
            reasons = self._reasons(tuple(ask.pending), ask, eligible, out, pod, owner)
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        for claim in ask.before:
            eligible, told_ = self._where_allocated(claim, eligible)
            if told_ is not None:
                reasons = self._toward(ask, told_, pod, owner, out)
                return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        return self._place("Pod", name, owner, ask, eligible, out, pod)

    def claim_alone(self, key: ObjectKey) -> Answer:
        """Try a claim as if a pod asked for it that may run anywhere."""
        claim = self.claims[key]
        refused = _claim_refused(self.given, key, claim)
        if refused is not None:
            tried = ((way, self._claim_fitting(key, way)) for way in refused.ways)
            reasons = _with_first(refused.reasons, tried)
            return Answer(kind="ResourceClaim", name=str(key), outcome="refused", reasons=reasons)
        return self._place("ResourceClaim", str(key), "", Ask([claim]), list(self.nodes), {}, None)

    def _stops(self, ask: Ask, eligible: list[str]) -> bool:
        """Whether Kubernetes gives up for an error on a node, be it one that other claims of the pod do not reach."""
        pending = tuple(ask.pending)
        return bool(pending and self.tables.of(pending).stops & self.inventory.node_mask(eligible))

    def _among(self, pod: Pod, where: tuple[str, str], eligible: list[str]) -> tuple[frozenset[str], list[str]]:
        """What device plugins have of what the pod asks for, and the nodes where they have just that.

        A class serves a resource only on nodes whose own kubelet has none of it. Of several kinds of nodes it is the
        first on which the pod fits; those with fewest plugins come first, and speak for all if it fits on none.
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
        return next((kind for kind in ordered if self._fits_among(pod, where, *kind)), ordered[0])

    def _fits_among(self, pod: Pod, where: tuple[str, str], plugins: frozenset[str], nodes: list[str]) -> bool:
        ask = asked(pod, where, self.given, self.claims, plugins)
        if isinstance(ask, Obstacle):
            return False
        for claim in ask.before:
            nodes, _ = self._where_allocated(claim, nodes)
        pending = tuple(ask.pending)
        return bool(nodes) and (not pending or self._placed(pending, self.inventory.node_mask(nodes)) is not None)

    def _lacks_class(self, ask: Ask) -> bool:
        wanted = (request.device_class_name for claim in ask.pending for _, request in places(claim))
        return any(name not in self.given.classes for name in wanted)

    def _nodes_for(self, pod: Pod) -> tuple[list[str], dict[str, str]]:
        """The nodes that the pod may go to, and why not to others; a daemon pod is asked about its own node only."""
        served = served_node(pod)
        nodes = {served: self.nodes[served]} if served in self.nodes else self.nodes
        out = excluded(pod, nodes)
        return [node for node in nodes if node not in out], out

    def _mended(self, pod: Pod, obstacle: Obstacle, where: tuple[str, str]) -> Diagnosis:
        """With the first change after which the pod fits, if there is one. Replicas are tried once."""
        reasons = obstacle.reasons
        alike = (where[0], id(pod.spec), self.commits, reasons.headline.code, reasons.headline.summary)
        if alike not in self.mended:
            tried = ((way, self._pod_fitting(pod, way, where)) for way in obstacle.ways)
            self.mended[alike] = _with_first(reasons, tried)
        return self.mended[alike]

    def _pod_fitting(self, pod: Pod, change: Change, where: tuple[str, str]) -> str:
        """The node that the pod would get after a change; empty if none."""
        given, claims = self.given, self.claims
        if change.object == where[0]:
            pod = applied(pod, change.path.removeprefix(where[1]), change.becomes)
        elif (changed := after(given, change)) is not None:
            untouched = {k: c for k, c in claims.items() if changed.claims.get(k) is given.claims.get(k)}
            given, claims = changed, {**changed.claims, **untouched}
        else:
            return ""
        plugins, eligible = self._among(pod, where, self._nodes_for(pod)[0])
        ask = asked(pod, where, given, claims, plugins)
        if isinstance(ask, Obstacle) or ask.before or not ask.pending:
            return ""
        return self._fitting(given, ask.pending, eligible)

    def _claim_fitting(self, key: ObjectKey, change: Change) -> str:
        """The node that a claim would get after a change; empty if none."""
        given = after(self.given, change)
        claim = given.claims.get(key) if given is not None else None
        if given is None or claim is None or _claim_refused(given, key, claim) is not None:
            return ""
        return self._fitting(given, [claim], self.nodes)

    def _fitting(self, given: Input, claims: list[ResourceClaim], nodes: Iterable[str]) -> str:
        """The node among ``nodes`` that claims would get with the classes of another input; empty if none."""
        old = [self.given.classes[name] for name, c in given.classes.items() if self.given.classes.get(name) is not c]
        for class_ in old:
            self.inventory.put_class(given.classes[class_.metadata.name])
        try:
            placed = self._placed(tuple(claims), self.inventory.node_mask(nodes))
        finally:
            for class_ in old:
                self.inventory.put_class(class_)
        return placed.node if placed is not None else ""

    def _placed(self, claims: tuple[ResourceClaim, ...], among: int) -> Placed | None:
        """The first node on which claims fit; none, too, if Kubernetes gives up on all for an error on one of them."""
        if self.tables.of(claims).stops & among:
            return None
        placed = self.allocator.place(claims, among=among)
        return placed if isinstance(placed, Placed) else None

    def _where_allocated(self, claim: ResourceClaim, nodes: list[str]) -> tuple[list[str], Diagnosis | None]:
        """Nodes that reach an allocated claim's devices."""
        allocation = claim.status.allocation
        assert allocation is not None
        key = claim.key
        if len(claim.status.reserved_for) >= 256:
            return [], taken(str(key), len(claim.status.reserved_for))
        if allocation.node_selector is None:
            return nodes, None
        left = [node for node in nodes if matches(allocation.node_selector, self.nodes[node].facts)]
        if left or not nodes:
            return left, None
        where = [name for name, node in self.nodes.items() if matches(allocation.node_selector, node.facts)]
        summary = (
            f"claim {key} is allocated on {', '.join(where) or 'a node that is not known'}, where the pod may not run"
        )
        return [], told("claim-on-other-node", summary, str(key))

    def _place(
        self, kind: str, name: str, owner: str, ask: Ask, eligible: list[str], out: dict[str, str], pod: Pod | None
    ) -> Answer:
        if not eligible and self.nodes:
            rows = self._excluded(ask, eligible, out, pod, owner)
            return Answer(kind=kind, name=name, outcome="refused", reasons=not_eligible(rows), owner=owner)
        pending = tuple(ask.pending)
        if not pending:
            node = eligible[0] if eligible else ""
            return Answer(
                kind=kind,
                name=name,
                outcome="fits",
                node=node if ask.before else "",
                owner=owner,
                claims=tuple(self._given(c, ask) for c in ask.before),
                notes=() if ask.before else ("no claim, so any node will do",),
            )
        among = -1 if len(eligible) == len(self.nodes) else self.inventory.node_mask(eligible)
        placed = self._placed(pending, among)
        if placed is not None:
            claims = [
                self._commit(claim, result, pod, ask) for claim, result in zip(pending, placed.results, strict=True)
            ]
            given = (*ask.before, *claims)
            return Answer(
                kind=kind,
                name=name,
                outcome="fits",
                node=placed.node,
                owner=owner,
                claims=tuple(self._given(c, ask) for c in given),
            )
        reasons = self._reasons(pending, ask, eligible, out, pod, owner)
        return Answer(kind=kind, name=name, outcome="refused", reasons=reasons, owner=owner)

    def _reasons(
        self,
        pending: tuple[ResourceClaim, ...],
        ask: Ask,
        eligible: list[str],
        out: dict[str, str],
        pod: Pod | None,
        owner: str,
    ) -> Diagnosis:
        """Why the claims fit no node."""
        reasons = by_origin(self.known.diagnose(pending, eligible), ask.templates, ask.extended)
        if pod is not None:
            reasons = with_replicas(reasons, pod)
        if not out:
            return reasons
        return with_excluded(reasons, self._excluded(ask, eligible, out, pod, owner), self._stops(ask, eligible))

    def _excluded(
        self, ask: Ask, eligible: list[str], out: dict[str, str], pod: Pod | None, owner: str
    ) -> tuple[NodeReason, ...]:
        """Excluded nodes by what excludes them, with one that would do otherwise."""
        pending = tuple(ask.pending)
        groups: dict[str, list[str]] = {}
        for node, why in out.items():
            groups.setdefault(why, []).append(node)
        rows: list[NodeReason] = []
        for why, nodes in groups.items():
            reached = nodes
            for claim in ask.before:
                reached, _ = self._where_allocated(claim, reached)
            placed = self.allocator.place(pending, among=self.inventory.node_mask(reached)) if pending else None
            node = placed.node if isinstance(placed, Placed) else ""
            changes: tuple[Change, ...] = ()
            if node and pod is not None and len(rows) < _WITH_CHANGE:
                changes = self._way_in(pod, owner, ask, eligible, node)
            refused = Refused(
                code="node-not-eligible",
                summary=kept_off(nodes, why, node),
                node=nodes[0],
                changes=changes,
                kubernetes=CODES["node-not-eligible"].kubernetes,
            )
            rows.append(NodeReason(nodes=tuple(nodes), refused=refused))
        return tuple(rows)

    def _way_in(self, pod: Pod, owner: str, ask: Ask, eligible: list[str], node: str) -> tuple[Change, ...]:
        """What lets the pod onto a node that has its devices; nothing if Kubernetes gives up on another one then."""
        way = let_in(pod, self.nodes[node], template_of(pod, owner), bool(served_node(pod)))
        stays = [name for name in eligible if not why_excluded(way.pod, self.nodes[name])]
        return () if self._stops(ask, stays) else way.changes

    def _toward(self, ask: Ask, reasons: Diagnosis, pod: Pod, owner: str, out: Iterable[str]) -> Diagnosis:
        """With the easiest way of the pod to where its allocated claims can be used, if all others fit there, too."""
        there, pending = list(out), tuple(ask.pending)
        for claim in ask.before:
            there, _ = self._where_allocated(claim, there)
        rows = [
            NodeReason((node,), Refused("node-not-eligible", "", node, changes=self._way_in(pod, owner, ask, [], node)))
            for node in there[:_WITH_CHANGE]
            if not pending or self._placed(pending, self.inventory.node_mask([node])) is not None
        ]
        way = easiest(rows)
        if way is None:
            return reasons
        return replace(reasons, headline=replace(reasons.headline, changes=way.refused.changes))

    def _commit(self, claim: ResourceClaim, allocation: AllocationResult, pod: Pod | None, ask: Ask) -> ResourceClaim:
        """Book what a claim got; a claim tried alone holds nothing, since nobody would allocate it."""
        if pod is None:
            return replace(claim, status=ResourceClaimStatus(allocation=allocation))
        key = claim.key
        own = ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)
        user = ask.users.get(key, own)
        booked = replace(claim, status=ResourceClaimStatus(allocation=allocation, reserved_for=(user,)))
        self.claims[key] = booked
        self.inventory.allocate(key, allocation)
        self.diagnoser.hold(booked)
        self.known.forget()
        self.commits += 1
        return booked

    def _given(self, claim: ResourceClaim, ask: Ask) -> GivenClaim:
        template = ask.templates.get(claim.key, "")
        return given_claim(claim, template, any(claim is c for c in ask.before), self.devices)


def fits(values: Iterable[Object], features: Features) -> bool:
    """Whether everything fits; quicker than an explanation, as it ends at the first that does not."""
    run = _Trial(sort(values, features))
    try:
        return all(run.pod(pod, owner).fits for pod, owner in run.pods()) and all(
            run.claim_alone(key).fits for key in run.unnamed()
        )
    except _DoesNotFit:
        return False


class _DoesNotFit(Exception):
    """Ends a trial; nobody asks why."""


class _Trial(_Run):
    """A run without reasons, which are most of the work."""

    def _end(self, *what: Any, **named: Any) -> NoReturn:
        raise _DoesNotFit

    _reasons = _mended = _excluded = _end
