"""``RefusalReasons``: why a pod that was tried fits on no node, with changes after which it fits.

The search for changes takes most of the time of an explanation; equal pods, such as replicas, are searched once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as replace_fields
from functools import cached_property, partial
from itertools import chain
from typing import Final

from msgspec.structs import replace

from allotment.engine.diagnosis.funnel import driver_of
from allotment.engine.placement import Placed
from allotment.engine.refusal import CODES, AllocationRefusal, Diagnosis, NodeReason, SuggestedChange
from allotment.engine.remedies import FARTHEST, LossClass, distance
from allotment.explanation.fixes import EligibilityFix, make_eligible
from allotment.explanation.further_changes import (
    NO_LIMIT,
    AfterChange,
    LossLimit,
    combined_changes,
    loss_limit,
    may_lose_less,
    with_further_changes,
)
from allotment.explanation.moved_rules import MovedRules
from allotment.explanation.node_accounts import Shortage, shortage_rows, with_shortages
from allotment.explanation.node_eligibility import daemon_node, exclusion_text, why_excluded
from allotment.explanation.node_nearness import NamedHardware, by_nearness, named_hardware
from allotment.explanation.obstacles import Obstacle, with_first
from allotment.explanation.origin_mapping import easiest_fix, not_eligible, owner_of, pending_diagnosis, template_of
from allotment.explanation.placement import claim_obstacle
from allotment.explanation.references import REFERENCE_FIELDS
from allotment.explanation.stated_hardware import named_claims
from allotment.explanation.subjects import pod_spec_of
from allotment.explanation.trial_state import TrialState
from allotment.explanation.tried_pod import TriedPod
from allotment.model.core import Pod, PodSpec
from allotment.model.meta import ObjectKey
from allotment.node_fit.node_allocatable import UnknownUse

#: Number of groups of excluded nodes for which changes are searched.
_WITH_CHANGE: Final = 8


class RefusalReasons:
    """The reasons in the present state of the cluster. ``endless_owner``: the workload of the pods that use a claim,
    empty if they end by themselves. ``after``: what happens to a pod of a workload after a change; see
    `with_further_changes`."""

    def __init__(
        self,
        state: TrialState,
        endless_owner: Callable[[ObjectKey], str],
        after: Callable[[Pod, str, SuggestedChange], AfterChange],
    ) -> None:
        self._state = state
        self._placer = state.placer
        self._endless_owner = endless_owner
        self._after = after
        self._tried_obstacles: dict[tuple[object, ...], Diagnosis] = {}
        self._named_hardware: dict[int, tuple[PodSpec, NamedHardware]] = {}

    # --- obstacles on all nodes --------------------------------------------------------------------------------------

    def of_obstacle(self, pod: Pod, owner: str, obstacle: Obstacle) -> Diagnosis:
        """The reasons with the first change after which the pod fits, alone or with others, if any."""
        where, reasons = template_of(pod, owner), obstacle.reasons
        key = (where[0], id(pod.spec), self._state.version, reasons.headline.code, reasons.headline.summary)
        if key not in self._tried_obstacles:
            tried = ((way, self._placer.node_for_pod(pod, way, where)) for way in obstacle.changes)
            found = with_first(reasons, tried)
            if not found.headline.changes:
                found = with_further_changes(found, obstacle.changes, partial(self._after_obstacle, pod, owner))
            self._tried_obstacles[key] = found
        return self._tried_obstacles[key]

    def _after_obstacle(self, pod: Pod, owner: str, change: SuggestedChange) -> AfterChange:
        """The result for a pod after a change; unknown if it then names an object of other pods that must change."""
        found = self._after(pod, owner, change)
        kind = next((kind for kind, name in REFERENCE_FIELDS.items() if change.path.endswith(f".{name}")), "")
        if not kind or pod.metadata.namespace not in self._state.input.namespaces_naming(kind, str(change.becomes)):
            return found
        intended = f"{kind} {ObjectKey(pod.metadata.namespace, str(change.becomes))}"
        return AfterChange() if any(further.object == intended for further in found.further) else found

    def of_invalid_claim(self, key: ObjectKey) -> Diagnosis | None:
        """The reasons if the API server rejects a claim or one of its classes."""
        refused = claim_obstacle(self._state.input, key, self._placer.claims[key])
        if refused is None:
            return None
        return with_first(refused.reasons, ((way, self._placer.node_for_claim(key, way)) for way in refused.changes))

    # --- nodes -------------------------------------------------------------------------------------------------------

    def of_pending_claims(self, tried: TriedPod) -> Diagnosis:
        """The reasons why the pending claims fit no eligible node."""
        return self._with_excluded(tried, self._diagnosed(tried, tried.eligible))

    def of_missing_class(self, tried: TriedPod) -> Diagnosis:
        """The reasons if a class does not exist: no node is examined then, and the pod may also fit none."""
        if tried.eligible:
            return self.of_pending_claims(tried)
        found = self.of_pending_claims(tried._replace(eligible=list(self._placer.nodes), exclusions={}))
        if tried.pod is None:
            return found
        first = (change for row in found.nodes for change in row.refused.changes[:1])
        ways = {change.becomes: change for change in first if change.path.endswith(".deviceClassName")}
        without = replace(found, headline=replace(found.headline, changes=(), otherwise=()))
        return with_further_changes(without, ways.values(), partial(self._after, tried.pod, tried.owner))

    def of_shortages(self, tried: TriedPod, shortages: Mapping[str, Shortage]) -> Diagnosis:
        """The reasons if nodes have the devices but lack cpu, memory or huge pages for them."""
        assert tried.pod is not None
        rest = [node for node in tried.eligible if node not in shortages]
        others = self._diagnosed(tried, rest) if rest and tried.pending else None
        rows = shortage_rows(tried.pod, tried.where, shortages)
        return self._with_excluded(tried, with_shortages(others, rows))

    def of_exclusions(self, tried: TriedPod) -> Diagnosis:
        """The reasons if no node is eligible."""
        return not_eligible(self._with_combined(tried, self._excluded(tried)))

    def of_claims_elsewhere(self, tried: TriedPod, reasons: Diagnosis) -> Diagnosis:
        """The reasons with the easiest changes for a node where allocated claims can be used and pending ones fit."""
        none_eligible = tried._replace(eligible=())
        rows = [
            NodeReason(
                (node,),
                AllocationRefusal(
                    "node-not-eligible", "", node, changes=self._eligibility_changes(none_eligible, node)
                ),
            )
            for node in self._reachable(tried, tried.exclusions)[:_WITH_CHANGE]
            if not tried.pending or self._placer.place(tried.pending, self._mask([node])) is not None
        ]
        way = easiest_fix(rows)
        if way is None:
            return reasons
        return replace(reasons, headline=replace(reasons.headline, changes=way.refused.changes))

    def _diagnosed(self, tried: TriedPod, nodes: Sequence[str]) -> Diagnosis:
        namespace = tried.pending[0].metadata.namespace
        return self._state.diagnoses.diagnose(tried.pending, nodes, self._state.input.readers(namespace))

    def _with_excluded(self, tried: TriedPod, found: Diagnosis) -> Diagnosis:
        excluded = self._excluded(tried) if tried.exclusions else ()
        if may_lose_less(found.headline.changes):
            excluded = self._with_combined(tried, excluded, loss_limit(found.headline.changes))
        return pending_diagnosis(
            found,
            tried.pod,
            tried.requested.templates,
            tried.requested.extended,
            excluded,
            ended=bool(tried.exclusions) and self._placer.aborts(tried.requested, tried.eligible),
            endless_owner=self._endless_owner,
            nodes=self._placer.inventory.nodes,
        )

    # --- excluded nodes ----------------------------------------------------------------------------------------------

    def _excluded(self, tried: TriedPod) -> tuple[NodeReason, ...]:
        """Excluded nodes by the excluding rule, each with a node that would fit otherwise, if any."""
        groups: dict[str, list[str]] = {}
        for node, why in tried.exclusions.items():
            groups.setdefault(why, []).append(node)
        rows: list[NodeReason] = []
        for why, nodes in groups.items():
            node, changes = self._way(tried, nodes, with_changes=len(rows) < _WITH_CHANGE)
            refused = AllocationRefusal(
                code="node-not-eligible",
                summary=exclusion_text(nodes, why, node),
                node=nodes[0],
                changes=changes,
                kubernetes=CODES["node-not-eligible"].kubernetes,
            )
            rows.append(NodeReason(nodes=tuple(nodes), refused=refused))
        return tuple(rows)

    def _way(
        self, tried: TriedPod, nodes: Sequence[str], *, with_changes: bool
    ) -> tuple[str, tuple[SuggestedChange, ...]]:
        """The excluded node where the pod would fit that is nearest to its rules, and the changes that make it
        eligible; another one if there are none for it, because it is also not ready. Without any, the name is empty."""
        nearest = ""
        for group in self._by_nearness(tried, nodes):
            stating = self._stating(tried, group)
            left, found = list(group), list[tuple[str, tuple[SuggestedChange, ...]]]()
            while left and len(group) - len(left) < _WITH_CHANGE and (node := self._with_devices(stating, left)):
                nearest = nearest or node
                if tried.pod is None or not with_changes:
                    return nearest, ()
                found += [(node, changes)] if (changes := self._eligibility_changes(tried, node)) else []
                if len(changes) == 1:
                    break
                left.remove(node)
            if found:
                return min(found, key=lambda way: distance(change.remedy for change in way[1]))
        return nearest, ()

    def _by_nearness(self, tried: TriedPod, nodes: Iterable[str]) -> list[list[str]]:
        """The nodes that can use the allocated claims, in groups; the last one has all that are far from the rules."""
        if not tried.pending and not tried.requested.allocated:
            return []
        reachable = self._reachable(tried, nodes)
        if tried.pod is None:
            return [reachable]
        groups = by_nearness(tried.pod, (self._placer.nodes[name] for name in reachable), self._hardware(tried.pod))
        equal = [[node.facts.name for node in group] for group in groups]
        return [*equal[:_WITH_CHANGE], list(chain(*equal[_WITH_CHANGE:]))]

    def _with_combined(
        self, tried: TriedPod, rows: tuple[NodeReason, ...], limit: LossLimit = NO_LIMIT
    ) -> tuple[NodeReason, ...]:
        """The rows; if a rule for nodes is not all that is wrong, with the changes of the rule and of the claims that
        do not reach the ``limit``, and lose less than to drop the rule."""
        certain = (row.refused.changes for row in rows if any(c.remedy != "recover" for c in row.refused.changes))
        losses = (distance(change.remedy for change in changes).loss for changes in certain)
        limit = limit.at_most(min(losses, default=FARTHEST.loss))
        if tried.pod is None or not tried.pending or limit.nodes < LossClass.WAIT:
            return rows
        names = self._reachable(tried, chain.from_iterable(row.nodes for row in rows))
        groups = by_nearness(tried.pod, (self._placer.nodes[name] for name in names), self._hardware(tried.pod))
        nearest = combined_changes(
            ([node.facts.name for node in group] for group in groups),
            partial(self._claim_changes, tried),
            partial(self._eligibility_changes, tried),
            limit,
            partial(self._after_claim, tried),
        )
        lost = distance(change.remedy for change in nearest)
        return tuple(
            _with_changes(row, nearest)
            if nearest and nearest[0].node in row.nodes and lost < distance(c.remedy for c in row.refused.changes)
            else row
            for row in rows
        )

    def _claim_changes(self, tried: TriedPod, nodes: Sequence[str]) -> tuple[SuggestedChange, ...]:
        """The changes after which the pending claims fit on one of these nodes, whether or not it is eligible."""
        stating = self._stating(tried, nodes)
        reasons = self._diagnosed(stating, nodes)
        found = pending_diagnosis(
            reasons, tried.pod, tried.requested.templates, tried.requested.extended, endless_owner=self._endless_owner
        )
        changes = found.headline.changes
        # Other changes are those of claims that do not exist.
        return changes if stating is tried or all(change.remedy == "wait" for change in changes) else ()

    def _reachable(self, tried: TriedPod, nodes: Iterable[str]) -> list[str]:
        """The nodes that can use the devices of the allocated claims."""
        left = list(nodes)
        for claim in tried.requested.allocated:
            left, _ = self._placer.reachable_nodes(claim, left)
        return left

    def _with_devices(self, tried: TriedPod, names: Sequence[str]) -> str:
        """A node where the pending claims fit and whose resources suffice for their devices; empty if there is none."""
        if not tried.pending:
            return names[0]
        left = list(names)
        for _ in range(_WITH_CHANGE):
            placed = self._placer.allocator.place(tried.pending, among=self._mask(left)) if left else None
            if not isinstance(placed, Placed):
                return ""
            if self._has_resources(tried, placed):
                return placed.node
            left.remove(placed.node)
        return ""

    def _has_resources(self, tried: TriedPod, placed: Placed) -> bool:
        try:
            return self._state.shortage(tried.pod, placed.node, tried.with_results(placed.results)) is None
        except UnknownUse:
            return False

    def _after_claim(self, tried: TriedPod, change: SuggestedChange) -> AfterChange:
        """The result of a change of a pod's claims for a node; if the node needs the same changes as another one, it is
        preferred to others."""
        assert tried.pod is not None
        found, own = self._after(tried.pod, tried.owner, change), self._made_eligible(tried, change.node).changes
        is_equal = [further.remedy for further in found.further] == [further.remedy for further in own]
        return found._replace(further=own) if is_equal else found

    def _made_eligible(self, tried: TriedPod, node: str) -> EligibilityFix:
        assert tried.pod is not None
        is_daemon, hardware = bool(daemon_node(tried.pod)), self._hardware(tried.pod)
        return make_eligible(tried.pod, self._placer.nodes[node], tried.where, is_daemon, hardware)

    def _eligibility_changes(self, tried: TriedPod, node: str) -> tuple[SuggestedChange, ...]:
        """Changes that make a node eligible; empty if an error on another node would end the attempt."""
        way = self._made_eligible(tried, node)
        stays = [name for name in tried.eligible if not why_excluded(way.pod, self._placer.nodes[name])]
        if self._placer.aborts(tried.requested, stays):
            return ()
        return way.changes if tried.pod is None else self._moved_rules(tried, tried.pod).changes(way.changes, way.pod)

    # --- rules for nodes that state devices --------------------------------------------------------------------------

    def _stating(self, tried: TriedPod, nodes: Sequence[str]) -> TriedPod:
        """The pod with claims that state what its rules state by labels that nodes such as these do not have."""
        if tried.pod is None or not nodes or not tried.pending:
            return tried
        claims = self._moved_rules(tried, tried.pod).claims(self._made_eligible(tried, nodes[0]).pod)
        if claims == tried.pending:
            return tried
        return tried._replace(requested=replace_fields(tried.requested, pending=list(claims)))

    def _moved_rules(self, tried: TriedPod, pod: Pod) -> MovedRules:
        return MovedRules(
            pod,
            tried.pending,
            tried.requested.templates,
            self._driver_of,
            partial(self._is_own, tried),
            lambda: self._products,
        )

    def _driver_of(self, class_: str) -> str:
        found = self._state.input.classes.get(class_)
        return driver_of(found, self._state.input.features) if found is not None else ""

    def _is_own(self, tried: TriedPod, name: str) -> bool:
        """Whether a claim or template exists and is used by no other workload."""
        return name != tried.requested.extended and self._users.get(name, set()) <= {tried.where[0]}

    @cached_property
    def _users(self) -> dict[str, set[str]]:
        """The pods and workloads that name each claim and template."""
        found: dict[str, set[str]] = {}
        for value in (*self._state.input.workloads, *self._state.input.others):
            if isinstance(value, Pod):
                user = template_of(value, owner_of(value))[0]
            elif any(owner.controller for owner in value.metadata.owner_references):
                continue  # its owner is one of the others
            else:
                user = f"{type(value).__name__} {value.key}"
            for name in named_claims(pod_spec_of(value), value.metadata.namespace):
                found.setdefault(name, set()).add(user)
        return found

    def _hardware(self, pod: Pod) -> NamedHardware:
        """The hardware of the nodes that the pod's rules name; equal pods, such as replicas, have the same."""
        found = self._named_hardware.get(id(pod.spec))
        if found is None:
            hardware = named_hardware(pod, self._placer.nodes.values(), self._placer.devices.models)
            found = self._named_hardware[id(pod.spec)] = (pod.spec, hardware)
        return found[1]

    @cached_property
    def _products(self) -> frozenset[str]:
        """The models of all devices."""
        return frozenset(chain.from_iterable(self._placer.devices.models().values()))

    def _mask(self, nodes: Iterable[str]) -> int:
        return self._placer.inventory.node_mask(nodes)


def _with_changes(row: NodeReason, changes: tuple[SuggestedChange, ...]) -> NodeReason:
    """The reason with changes that help together."""
    return replace(row, refused=replace(row.refused, changes=changes))
