"""``explain``: allocates the claims of pods one after the other, as a scheduler would, and explains each result.

Pods are tried in the given order, and devices allocated to one pod are not available to the next. Replicas of a
workload are separate pods, with separate claims if they use a template. Claims that no pod uses are tried at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import cached_property, partial

from msgspec.structs import replace

from allotment.engine.cluster.identity import DeviceID
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
from allotment.node_fit.node_allocatable import UnknownUse
from allotment.phrases import first_few, listed
from allotment.tools.explain.diagnosis_cache import DiagnosisCache
from allotment.tools.explain.extended_requests import extended_resources as extended_resources
from allotment.tools.explain.fixes import make_eligible
from allotment.tools.explain.gang_trial import DoesNotFit, group_answers
from allotment.tools.explain.gangs import Domain, Gang, gangs_of, group_key, group_missing_answer
from allotment.tools.explain.input import ExplainInput, Readers, reads_everything, sort_objects, with_change
from allotment.tools.explain.node_accounts import (
    Allocations,
    NodeAccounts,
    Shortage,
    shared_reason,
    shortage_rows,
    unknown_reason,
    with_shortages,
)
from allotment.tools.explain.node_eligibility import EligibilityNode, daemon_node, exclusion_text, why_excluded
from allotment.tools.explain.obstacles import Obstacle, with_first
from allotment.tools.explain.origin_mapping import (
    easiest_fix,
    has_endless_owner,
    not_eligible,
    owner_of,
    pending_diagnosis,
    template_of,
)
from allotment.tools.explain.placement import ClaimPlacer, claim_obstacle
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
        return f"last message of the scheduler: {'; '.join(message.splitlines())}"
    known = pod.metadata.uid and pod.spec.scheduler_name
    return f"scheduler {pod.spec.scheduler_name} has not reported on the pod yet" if known else ""


def explain(
    values: Iterable[Object],
    features: Features,
    tries: int | None = None,
    others: Iterable[Pod] = (),
    *,
    default_namespace: str = "default",
    readers: Readers = reads_everything,
) -> Explanation:
    """The devices that every pod and claim gets, or the reason why it gets none.

    ``values`` are the decoded objects of the cluster and those to explain; earlier ones get devices first. ``tries``
    limits the trials for changes that would help, which take most of the time, over all answers together. ``others``:
    pods of the cluster that are not explained; they count as members of their groups, and as users of their nodes.
    ``default_namespace``: that of new objects whose file names none. ``readers``: who reads the answers about the pods
    of a namespace; objects that the reader may not see are not named.
    """
    run = _Run(sort_objects(values, features, others, default_namespace, readers), tries)
    answers = list(run.answers())
    answers += [run.claim_alone(key) for key in run.unnamed()]
    return Explanation(answers=tuple(answers), notes=tuple(run.notes()))


#: Number of groups of excluded nodes for which changes are searched.
_WITH_CHANGE = 8
#: Number of remedies that are verified by a new trial of a whole gang; each takes as long as reading the cluster.
_MAX_VERIFICATIONS = 8


def _allocations(requested: PodClaims) -> list[tuple[ResourceClaim, AllocationResult]]:
    """The allocations of a pod's claims that are allocated already."""
    return [(c, c.status.allocation) for c in requested.allocated if c.status.allocation is not None]


class _Run:
    """The state of an explanation."""

    def __init__(self, input: ExplainInput, tries: int | None = None) -> None:
        self.without_reasons = False
        """Whether `DoesNotFit` is raised instead of looking for reasons, which take most of the time."""
        self.domain = Domain()
        """Where the pods of the group that is being tried may run."""
        self.input = input
        self.placer = ClaimPlacer(input)
        self.accounts = NodeAccounts(input)
        self.diagnoser = Diagnoser(self.placer.inventory, input.claims.values(), tries)
        self.cache = DiagnosisCache(self.diagnoser)
        self.commits = 0
        self.undo: list[Callable[[], None]] = []
        """What takes back each recorded allocation; only recorded if pods are scheduled together."""
        self.gangs: dict[ObjectKey, Gang] = {}
        self.verifications = 0 if tries == 0 else _MAX_VERIFICATIONS
        self.fixed: dict[tuple[object, ...], Diagnosis] = {}
        self.used: set[ObjectKey] = set()
        self.devices: dict[DeviceID, Device] = {
            DeviceID(s.spec.driver, s.spec.pool.name, d.name): d
            for s in self.placer.slices
            for d in s.spec.devices or ()
        }

    # --- input ---------------------------------------------------------------------------------------------------

    def pods(self) -> list[tuple[Pod, str]]:
        """The pods to try, with their workloads."""
        return [
            (pod, owner_of(pod)) for value in self.input.workloads for pod in pods_of(value, nodes=self.placer.nodes)
        ]

    @property
    def claims(self) -> Mapping[ObjectKey, ResourceClaim]:
        """The claims as they are now."""
        return self.placer.claims

    @property
    def nodes(self) -> dict[str, EligibilityNode]:
        """The nodes of the cluster."""
        return self.placer.nodes

    def unnamed(self) -> list[ObjectKey]:
        """Claims that no pod uses and that are not allocated."""
        return [
            key for key, claim in self.placer.claims.items() if key not in self.used and claim.status.allocation is None
        ]

    def notes(self) -> list[str]:
        """Notes about the input."""
        found = []
        for (kind, key), errors in self.input.refused.items():
            if kind == "ResourceSlice":
                found.append(f"ResourceSlice {key} is ignored, because the API server rejects it: {errors[0]}")
        if self.input.missing_nodes:
            found.append(orphaned_note(self.input.missing_nodes))
        unknown = [name for name, node in self.placer.nodes.items() if not node.has_object]
        if unknown and self.input.nodes:
            found.append(f"no Node object for {first_few(unknown, 4)}; assuming no labels and no taints")
        return found

    # --- trying --------------------------------------------------------------------------------------------------

    def answers(self) -> Iterator[Answer]:
        """Try all pods; those of a group together, when its first one is reached."""
        pods = self.pods()
        self.gangs = gangs_of(pods, self.input.others, self.input.groups, self.input.features)
        tried: set[ObjectKey] = set()
        for pod, owner in pods:
            key = group_key(pod) if self.gangs and not pod.spec.node_name else None
            if key is None:
                yield with_waiting_reason(self.pod(pod, owner), pod)
            elif key not in tried:
                tried.add(key)
                yield from self._group(self.gangs[key])

    def _group(self, gang: Gang) -> Iterator[Answer]:
        """The answers for the pods of a group that are explained."""
        if gang.group is None:
            found = [group_missing_answer(member, gang.key, self.input.groups) for member in gang.members]
        else:
            found = group_answers(self, gang)
        for member, answer in zip(gang.members, found, strict=True):
            if member.is_explained:
                waiting = with_waiting_reason(answer, member.pod)
                held = gang.gates if waiting.fits and not member.pod.spec.scheduling_gates else ""
                notes = (*answer.notes, *gang.notes)
                yield replace(waiting, group=f"PodGroup {gang.key}", waits=held or waiting.waits, notes=notes)

    def mark(self) -> int:
        """The present state, for `revert`."""
        return len(self.undo)

    def revert(self, mark: int) -> None:
        """Take back all allocations since then."""
        while len(self.undo) > mark:
            self.undo.pop()()

    def after(self, changes: Sequence[SuggestedChange], gang: Gang) -> Iterable[str]:
        """The names of the pods of a gang that fit together after changes. Only the first few are tried."""
        if not self.verifications:
            return
        self.verifications -= 1
        changed = replace_fields(self.input, claims=dict(self.placer.claims))
        members = gang.members
        for change in changes:
            try:
                members = tuple(member.changed(change) for member in members)
                if not any(member.where[0] == change.object for member in members):
                    found = with_change(changed, change)
                    if found is None:
                        return
                    changed = found
            except LookupError:
                return
        trial = _Run(changed)
        trial.without_reasons = True
        trial.gangs = {gang.key: gang._replace(members=members)}
        try:
            answers = group_answers(trial, trial.gangs[gang.key])
        except DoesNotFit:
            return
        yield from (answer.name for answer in answers if answer.fits)

    def pod(self, pod: Pod, owner: str) -> Answer:
        """Try one pod and record its allocations."""
        name = str(pod.key)
        named = [entry.resource_claim_name for entry in pod.spec.resource_claims]
        named += [status.resource_claim_name for status in pod.status.resource_claim_statuses]
        self.used.update(ObjectKey(pod.metadata.namespace, claim) for claim in named if claim)
        eligible, exclusions = self.placer.eligible_nodes(pod)
        if self.domain.rule:
            exclusions = self.domain.exclusions(self.placer.nodes) | exclusions
            eligible = [node for node in eligible if node not in exclusions]
        plugins, eligible = self.placer.plugin_resources(pod, template_of(pod, owner), eligible)
        requested = pod_claims(pod, template_of(pod, owner), self.input, self.placer.claims, plugins)
        if isinstance(requested, Obstacle):
            reasons = self._with_fix(pod, requested, template_of(pod, owner))
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        if self.placer.nodes and self.placer.lacks_class(requested):  # Kubernetes examines no node
            reasons = self._reasons(tuple(requested.pending), requested, list(self.placer.nodes), {}, pod, owner)
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        if requested.allocated and self.placer.aborts(requested, eligible):
            reasons = self._reasons(tuple(requested.pending), requested, eligible, exclusions, pod, owner)
            return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        taken = next((claim for claim in requested.allocated if self.accounts.is_taken(pod, claim)), None)
        if taken is not None:
            return Answer(kind="Pod", name=name, outcome="refused", reasons=shared_reason(taken), owner=owner)
        for claim in requested.allocated:
            eligible, unreachable = self.placer.reachable_nodes(claim, eligible)
            if unreachable is not None:
                reasons = self._with_way_to_claims(requested, unreachable, pod, owner, exclusions)
                return Answer(kind="Pod", name=name, outcome="refused", reasons=reasons, owner=owner)
        try:
            return self._place("Pod", name, owner, requested, eligible, exclusions, pod)
        except UnknownUse as error:
            return Answer(kind="Pod", name=name, outcome="refused", reasons=unknown_reason(error), owner=owner)

    def claim_alone(self, key: ObjectKey) -> Answer:
        """Try a claim as if it belonged to a pod that may run on any node."""
        claim = self.placer.claims[key]
        refused = claim_obstacle(self.input, key, claim)
        if refused is not None:
            tried = ((way, self.placer.node_for_claim(key, way)) for way in refused.changes)
            reasons = with_first(refused.reasons, tried)
            return Answer(kind="ResourceClaim", name=str(key), outcome="refused", reasons=reasons)
        return self._place("ResourceClaim", str(key), "", PodClaims([claim]), list(self.placer.nodes), {}, None)

    def _end_without_reasons(self) -> None:
        if self.without_reasons:
            raise DoesNotFit

    def _with_fix(self, pod: Pod, obstacle: Obstacle, where: tuple[str, str]) -> Diagnosis:
        """The reasons with the first change after which the pod fits, if any. Replicas are tried once."""
        self._end_without_reasons()
        reasons = obstacle.reasons
        key = (where[0], id(pod.spec), self.commits, reasons.headline.code, reasons.headline.summary)
        if key not in self.fixed:
            tried = ((way, self.placer.node_for_pod(pod, way, where)) for way in obstacle.changes)
            self.fixed[key] = with_first(reasons, tried)
        return self.fixed[key]

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
        if not eligible and self.placer.nodes:
            rows = self._excluded(requested, eligible, exclusions, pod, owner)
            return Answer(kind=kind, name=name, outcome="refused", reasons=not_eligible(rows), owner=owner)
        pending = tuple(requested.pending)
        if not pending:
            node, short = self._first_with_resources(pod, eligible, requested)
            if short:
                reasons = self._with_shortages(pending, requested, eligible, exclusions, pod, owner, short)
                return Answer(kind=kind, name=name, outcome="refused", reasons=reasons, owner=owner)
            return Answer(
                kind=kind,
                name=name,
                outcome="fits",
                node=node if requested.allocated else "",
                owner=owner,
                claims=tuple(self._claim_allocation(c, requested) for c in requested.allocated),
                notes=() if requested.allocated else ("no claims, so any node fits",),
            )
        among = -1 if len(eligible) == len(self.placer.nodes) else self.placer.inventory.node_mask(eligible)
        placed = self.placer.place(pending, among)
        shortages: dict[str, Shortage] = {}
        while placed is not None:
            pairs = tuple(zip(pending, placed.results, strict=True))
            lacking = self._shortage(pod, placed.node, requested, pairs)
            if lacking is None:
                break
            shortages[placed.node] = lacking
            left = [node for node in eligible if node not in shortages]
            placed = self.placer.place(pending, self.placer.inventory.node_mask(left)) if left else None
        if placed is not None:
            if pod is not None:
                self._count(pod, placed.node, (*_allocations(requested), *pairs))
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
        if shortages:
            reasons = self._with_shortages(pending, requested, eligible, exclusions, pod, owner, shortages)
        else:
            reasons = self._reasons(pending, requested, eligible, exclusions, pod, owner)
        return Answer(kind=kind, name=name, outcome="refused", reasons=reasons, owner=owner)

    # --- resources of the node that devices use ----------------------------------------------------------------------

    def _count(self, pod: Pod, node: str, allocations: Allocations) -> None:
        """Count what a pod uses of its node."""
        self.accounts.add(pod, node, allocations)
        if self.gangs:
            self.undo.append(partial(self.accounts.remove, pod, node, allocations))

    def _shortage(
        self, pod: Pod | None, node: str, requested: PodClaims, placed: Allocations = ()
    ) -> Shortage | None:  # fmt: skip
        """What a pod lacks on a node for its devices; nothing if it has this node already."""
        if pod is None or pod.spec.node_name or not self.accounts:
            return None
        return self.accounts.shortage(pod, node, (*_allocations(requested), *placed))

    def _first_with_resources(
        self, pod: Pod | None, eligible: list[str], requested: PodClaims
    ) -> tuple[str, dict[str, Shortage]]:
        """The first node with enough resources for a pod whose claims are allocated, or what each node lacks."""
        short: dict[str, Shortage] = {}
        for node in eligible:
            lacking = self._shortage(pod, node, requested)
            if lacking is None:
                if pod is not None and not pod.spec.node_name and self.accounts:
                    self._count(pod, node, _allocations(requested))
                return node, {}
            short[node] = lacking
        return "", short

    def _with_shortages(
        self, pending: tuple[ResourceClaim, ...], requested: PodClaims, eligible: list[str],
        exclusions: dict[str, str], pod: Pod | None, owner: str, shortages: dict[str, Shortage],
    ) -> Diagnosis:  # fmt: skip
        """The reasons if nodes have the devices but lack cpu, memory or huge pages for them."""
        assert pod is not None
        rest = [node for node in eligible if node not in shortages]
        others = self._reasons(pending, requested, rest, exclusions, pod, owner) if rest and pending else None
        return with_shortages(others, shortage_rows(pod, template_of(pod, owner), shortages))

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
        self._end_without_reasons()
        return pending_diagnosis(
            self.cache.diagnose(pending, eligible, self.input.readers(pending[0].metadata.namespace)),
            pod,
            requested.templates,
            requested.extended,
            self._excluded(requested, eligible, exclusions, pod, owner) if exclusions else (),
            ended=bool(exclusions) and self.placer.aborts(requested, eligible),
            is_endless=self._is_endless,
        )

    @cached_property
    def _endless_pods(self) -> frozenset[ObjectKey]:
        """The pods that do not end by themselves."""
        pods = (pod for pod in (*(pod for pod, _ in self.pods()), *self.input.others) if has_endless_owner(pod))
        return frozenset(pod.key for pod in pods)

    def _is_endless(self, claim: ObjectKey) -> bool:
        """Whether a pod that uses a claim does not end by itself."""
        users = self.placer.claims[claim].status.reserved_for if claim in self.placer.claims else ()
        return any(ObjectKey(claim.namespace, user.name) in self._endless_pods for user in users)

    def _excluded(
        self, requested: PodClaims, eligible: list[str], exclusions: dict[str, str], pod: Pod | None, owner: str
    ) -> tuple[NodeReason, ...]:
        """Excluded nodes by the excluding rule, each with a node that would fit otherwise, if any."""
        self._end_without_reasons()
        pending = tuple(requested.pending)
        groups: dict[str, list[str]] = {}
        for node, why in exclusions.items():
            groups.setdefault(why, []).append(node)
        rows: list[NodeReason] = []
        for why, nodes in groups.items():
            reached = nodes
            for claim in requested.allocated:
                reached, _ = self.placer.reachable_nodes(claim, reached)
            placed = (
                self.placer.allocator.place(pending, among=self.placer.inventory.node_mask(reached))
                if pending
                else None
            )
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
        way = make_eligible(pod, self.placer.nodes[node], template_of(pod, owner), bool(daemon_node(pod)))
        stays = [name for name in eligible if not why_excluded(way.pod, self.placer.nodes[name])]
        return () if self.placer.aborts(requested, stays) else way.changes

    def _with_way_to_claims(
        self, requested: PodClaims, reasons: Diagnosis, pod: Pod, owner: str, exclusions: Iterable[str]
    ) -> Diagnosis:
        """The reasons with the easiest changes for a node where allocated claims can be used and pending ones fit."""
        reachable, pending = list(exclusions), tuple(requested.pending)
        for claim in requested.allocated:
            reachable, _ = self.placer.reachable_nodes(claim, reachable)
        rows = [
            NodeReason(
                (node,),
                AllocationRefusal(
                    "node-not-eligible", "", node, changes=self._eligibility_changes(pod, owner, requested, [], node)
                ),
            )
            for node in reachable[:_WITH_CHANGE]
            if not pending or self.placer.place(pending, self.placer.inventory.node_mask([node])) is not None
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
        if self.gangs:
            self.undo.append(partial(self._release, booked, self.placer.claims.get(key)))
        self.placer.claims[key] = booked
        self.placer.inventory.allocate(key, allocation)
        self.diagnoser.add_allocated(booked)
        self._changed()
        return booked

    def _release(self, booked: ResourceClaim, before: ResourceClaim | None) -> None:
        """Take back an allocation. ``before``: the claim as it was, None if it did not exist."""
        key = booked.key
        self.placer.claims.pop(key)
        if before is not None:
            self.placer.claims[key] = before
        self.placer.inventory.free(key)
        self.diagnoser.remove_allocated(booked)
        self._changed()

    def _changed(self) -> None:
        self.cache.clear()
        self.commits += 1

    def _claim_allocation(self, claim: ResourceClaim, requested: PodClaims) -> ClaimAllocation:
        template = requested.templates.get(claim.key, "")
        return claim_allocation(claim, template, any(claim is c for c in requested.allocated), self.devices)


def fits(values: Iterable[Object], features: Features) -> bool:
    """Whether everything fits; faster than an explanation, because it ends at the first pod that does not fit."""
    run = _Run(sort_objects(values, features))
    run.without_reasons = True
    try:
        return all(answer.fits for answer in run.answers()) and all(run.claim_alone(key).fits for key in run.unnamed())
    except DoesNotFit:
        return False
