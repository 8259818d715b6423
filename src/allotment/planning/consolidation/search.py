"""Searches for nodes to remove: empty nodes, nodes whose pods fit elsewhere, and nodes that cheaper ones can replace.

Karpenter deletes nodes, or replaces many by one. Here the replacement is a plan, so that it can have several machines,
and many small ones can replace a large one. Every proposal is simulated as a whole: the nodes are cordoned, the pods
evicted, and each is rescheduled with the scheduler's rules on the remaining and the new nodes. Every node that is kept
has a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as with_fields
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from allotment.explanation.report import ClaimAllocation
from allotment.fleet.catalog import template_of
from allotment.fleet.catalog.instance_type import InstanceType, Template
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey, Value
from allotment.model.trees import Tree, to_tree
from allotment.phrases import counted
from allotment.planning.consolidation.disruption import (
    ConsolidationPolicy,
    EvictionBudgets,
    KeptNode,
    Reason,
    allowed_removals,
    blocker,
    local_storage,
    pods_to_move,
)
from allotment.planning.consolidation.movable_pods import MovablePod
from allotment.planning.consolidation.remaining_cluster import remaining_objects
from allotment.planning.consolidation.rescheduling import PodTarget, SimulatedCluster, Unschedulable
from allotment.planning.limits import PlanLimits
from allotment.planning.report import PlannedMachine, ProvisioningPlan

#: The maximum number of node sets for which replacements are planned.
_MAX_SETS: Final = 24


class OwnedNode(Value, frozen=True):
    """A node that may be removed. ``usd_per_hour``: None if its price is unknown."""

    node: str
    instance: str
    usd_per_hour: Decimal | None
    zone: str = ""
    capacity_type: str = "on-demand"


class Removal(Value, frozen=True):
    """A node to remove."""

    node: str
    instance: str
    reason: Reason
    usd_per_hour: Decimal | None


class Move(Value, frozen=True):
    """A pod to evict, and the node and devices of its replacement. ``notes``: data that is lost."""

    pod: ObjectKey
    source: str
    target: str
    claims: tuple[ClaimAllocation, ...] = ()
    notes: tuple[str, ...] = ()


class Consolidation(Value, frozen=True):
    """A consolidation. ``saves``: in USD per hour; machines with an unknown price count as 0.

    The machines in ``add`` must exist with their slices before any pod is evicted.
    """

    remove: tuple[Removal, ...] = ()
    add: tuple[PlannedMachine, ...] = ()
    moves: tuple[Move, ...] = ()
    saves: Decimal = Decimal(0)
    stays: tuple[KeptNode, ...] = ()
    notes: tuple[str, ...] = ()


class PlanFunction(Protocol):
    """Plans the cheapest machines for pending pods."""

    def __call__(
        self, values: Iterable[Object], catalog: Sequence[InstanceType], limits: PlanLimits, features: Features, *,
        keep_going: Callable[[], bool],
    ) -> ProvisioningPlan:  # fmt: skip
        """See ``planning.planner.plan``."""
        ...


class TemplateFunction(Protocol):
    """Returns the template of a planned machine."""

    def __call__(self, machine: PlannedMachine, /) -> Template:
        """The node and the slices that its drivers will publish."""
        ...


class ReplacementOptions(NamedTuple):
    """Options for replacing nodes. ``template``: None for the catalog's templates."""

    plan: PlanFunction
    catalog: Sequence[InstanceType]
    limits: PlanLimits = PlanLimits()
    template: TemplateFunction | None = None


def consolidate(
    objects: Iterable[Tree],
    owned: Iterable[OwnedNode],
    policy: ConsolidationPolicy,
    features: Features,
    *,
    keep_going: Callable[[], bool],
    kept: Mapping[str, str] | None = None,
    replacing: ReplacementOptions | None = None,
) -> Consolidation:
    """The consolidation that saves the most, which may be empty.

    ``objects``: the cluster as the API server returns it (pods, nodes, claims, templates, slices, classes, taint rules,
    namespaces, PodDisruptionBudgets, volumes). ``owned``: nodes that may be removed. ``kept``: nodes that must not be
    removed yet, with the reason (recently created). ``replacing``: None to only delete nodes.
    """
    return _Search(list(objects), owned, policy, features, keep_going, kept or {}).run(replacing)


class _Proposal(NamedTuple):
    remove: tuple[str, ...]
    add: tuple[PlannedMachine, ...]
    moves: tuple[Move, ...]


class _UnplacedPod(NamedTuple):
    pod: ObjectKey
    text: str


class _Search:
    def __init__(
        self, objects: list[Tree], owned: Iterable[OwnedNode], policy: ConsolidationPolicy, features: Features,
        keep_going: Callable[[], bool], kept: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._objects = objects
        self._cluster = SimulatedCluster(objects, features)
        self._features = features
        self._owned = {pod.node: pod for pod in owned if pod.node in self._cluster.nodes}
        self._policy = policy
        self._keep_going = keep_going
        self._eviction_budgets = EvictionBudgets(
            (tree for tree in objects if tree.get("kind") == "PodDisruptionBudget"), self._cluster.pods.values()
        )
        self._kept: dict[str, KeptNode] = {}
        self._awaited = self._place_pending()
        self._deleting = sum(1 for node in self._owned if "deletionTimestamp" in self._cluster.nodes[node]["metadata"])
        for node in self._owned:
            if node in kept:
                self._kept[node] = KeptNode(node=node, code="kept", text=kept[node])
            elif (result := blocker(self._cluster, node, policy)) is not None:
                self._kept[node] = result
            elif node in self._awaited:
                text = f"pending pod {self._awaited[node]} is planned for it"
                self._kept[node] = KeptNode(node=node, code="pod-coming", text=text)

    def _place_pending(self) -> dict[str, ObjectKey]:
        """Place pending pods first, so that a consolidation does not take their capacity; returns a pod by node."""
        awaited: dict[str, ObjectKey] = {}
        self.unschedulable = sorted(self._cluster.pending, key=lambda pod: pod.order)
        retryable = self.unschedulable
        while retryable:
            placed: set[ObjectKey] = set()
            for pod in retryable:
                result = self._cluster.place(pod)
                if isinstance(result, PodTarget):
                    awaited.setdefault(result.node, pod.key)
                    placed.add(pod.key)
            self.unschedulable = [pod for pod in self.unschedulable if pod.key not in placed]
            retryable = (
                [pod for pod in self.unschedulable if pod.resident.requirements.may_fit_after_other_pods]
                if placed
                else []
            )
        return awaited

    # --- the search ----------------------------------------------------------------------------------------------

    def run(self, replacing: ReplacementOptions | None) -> Consolidation:
        removable = [node for node in self._owned if node not in self._kept]
        empty = self._within_budget("Empty", [node for node in removable if not pods_to_move(self._cluster, node)], 0)
        in_use = [node for node in removable if node not in empty and node not in self._kept]
        deleted = self._propose_deletions(empty, in_use)
        best = self._if_worthwhile(deleted, tuple(empty))
        if replacing is not None:
            for node_set in self._replacement_sets(empty, in_use):
                if not self._keep_going():
                    break
                other = self._propose_replacement(empty, node_set, replacing)
                if other is not None and (self._saving(other), -len(other.moves)) > (
                    self._saving(best),
                    -len(best.moves),
                ):
                    best = other
        return self._to_consolidation(best, in_use)

    def _within_budget(self, reason: Reason, nodes: list[str], already: int) -> list[str]:
        """The most expensive nodes, as many as budgets allow; the others are kept for now."""
        limit = allowed_removals(self._policy, reason, len(self._owned), self._deleting + already)
        ordered = sorted(nodes, key=lambda node: (-self._price(node), node))
        for node in ordered[limit:]:
            self._kept[node] = self._over_budget(node, reason, limit)
        return ordered[:limit]

    def _allowed_removals(self, already: int) -> int:
        return allowed_removals(self._policy, "Underutilized", len(self._owned), self._deleting + already)

    def _propose_deletions(self, empty: list[str], in_use: list[str]) -> _Proposal:
        """Add nodes one by one while the pods of all of them fit elsewhere; then simulate all removals together."""
        cluster, removed = self._cluster, list(empty)
        start = cluster.mark()
        for node in removed:
            cluster.cordon(node)
        node_mask = self._node_indices(removed)
        evicted: list[MovablePod] = []
        limit = self._allowed_removals(len(empty))
        for node in self._by_saving_per_pod(in_use):
            if len(removed) - len(empty) >= limit:
                self._kept[node] = self._over_budget(node, "Underutilized", limit)
                continue
            if not self._keep_going():
                self._kept[node] = KeptNode(node=node, code="time", text="not checked within the time limit")
                continue
            leaving = pods_to_move(cluster, node)
            if violation := self._eviction_budgets.violation(evicted, leaving):
                self._kept[node] = KeptNode(node=node, code="pdb", text=violation)
                continue
            mark = cluster.mark()
            cluster.cordon(node)
            nodes_left = node_mask & ~cluster.inventory.node_mask([node])
            pods = [cluster.pods[uid] for uid in cluster.machines.by_name[node].pods]
            pods = [pod for pod in pods if pod in leaving or pod in evicted]
            unplaced = self._move_pods(pods, nodes_left)
            if unplaced is not None:
                cluster.undo_to(mark)
                self._kept[node] = KeptNode(node=node, code="no-place", text=f"pod {unplaced.pod}: {unplaced.text}")
                continue
            node_mask = nodes_left
            removed.append(node)
            evicted += leaving
        cluster.undo_to(start)
        while True:
            result = self._try_all(tuple(removed), ())
            if not isinstance(result, _UnplacedPod):
                return result
            last = removed.pop()  # removing only empty nodes moves no pods, so this ends
            text = f"pod {result.pod}: {result.text}"
            self._kept[last] = KeptNode(node=last, code="no-place", text=text)

    def _by_saving_per_pod(self, nodes: Iterable[str]) -> list[str]:
        """Nodes by saving per moved pod, the highest first."""
        return sorted(nodes, key=lambda node: (-self._price(node) / (1 + len(pods_to_move(self._cluster, node))), node))

    def _over_budget(self, node: str, reason: Reason, limit: int) -> KeptNode:
        nodes = counted(limit, "more node")
        text = f"disruption budgets currently allow at most {nodes} to be disrupted for reason {reason}"
        return KeptNode(node=node, code="budget", text=text)

    def _replacement_sets(self, empty: list[str], in_use: list[str]) -> list[tuple[str, ...]]:
        """The node sets to replace together: as many as allowed, then halves of these, then single nodes."""
        known = [node for node in self._by_saving_per_pod(in_use) if self._owned[node].usd_per_hour is not None]
        limit = self._allowed_removals(len(empty))
        if not limit or not known:
            return []
        sets: dict[tuple[str, ...], None] = {}
        size = min(limit, len(known))
        while size > 1:
            for start in range(0, len(known), size):
                sets[self._within_eviction_budgets(known[start : start + size])] = None
            size //= 2
        for node in known:
            sets[self._within_eviction_budgets([node])] = None
        return [node_set for node_set in sets if node_set][:_MAX_SETS]

    def _within_eviction_budgets(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """The nodes that PodDisruptionBudgets allow to be removed together."""
        taken: list[str] = []
        leaving: list[MovablePod] = []
        for node in nodes:
            more = pods_to_move(self._cluster, node)
            if not self._eviction_budgets.violation(leaving, more):
                taken.append(node)
                leaving += more
        return tuple(taken)

    def _propose_replacement(
        self, empty: list[str], node_set: tuple[str, ...], replacing: ReplacementOptions
    ) -> _Proposal | None:
        """Plan machines for the pods of these nodes without the nodes; None if that saves too little or fails."""
        removed = (*empty, *node_set)
        values = remaining_objects(self._objects, removed, self._cluster, [pod.key for pod in self.unschedulable])
        plan = replacing.plan(values, replacing.catalog, replacing.limits, self._features, keep_going=self._keep_going)
        before = sum((self._price(node) for node in node_set), Decimal(0))
        single = node_set[0] if len(node_set) == 1 else ""
        if plan.unserved:
            first = plan.unserved[0]
            self._keep_single(single, f"no other machine fits pod {first.pod}: {first.text}")
            return None
        if plan.total > before * (1 - self._policy.min_share):
            text = f"other machines for its pods would cost {plan.total} USD/h; this node costs {before} USD/h"
            self._keep_single(single, text)
            return None
        build = replacing.template or catalog_templates(replacing.catalog, self._features.kube)
        result = self._try_all(removed, plan.machines, build)
        if isinstance(result, _UnplacedPod):
            self._keep_single(single, f"pod {result.pod}: {result.text}")
            return None
        return self._if_worthwhile(result, tuple(empty))

    def _keep_single(self, node: str, text: str) -> None:
        if node and self._kept.get(node, KeptNode(node=node, code="no-place", text="")).code == "no-place":
            kept_node = self._kept.get(node)
            combined = f"{kept_node.text}; {text}" if kept_node is not None and text not in kept_node.text else text
            self._kept[node] = KeptNode(node=node, code="no-place", text=combined)

    # --- simulation ----------------------------------------------------------------------------------------------

    def _try_all(
        self, removed: tuple[str, ...], added: tuple[PlannedMachine, ...], build: TemplateFunction | None = None
    ) -> _Proposal | _UnplacedPod:
        """Simulate a proposal from the current state: add nodes, cordon the removed ones, evict and place the pods."""
        cluster = self._cluster
        mark = cluster.mark()
        try:
            for machine in added:
                assert build is not None, "machines are added only by plans"
                template = build(machine)
                cluster.add_node(to_tree(template.node, "v1", "Node"), template.slices)
            for node in removed:
                cluster.cordon(node)
            leaving = [pod for node in removed for pod in pods_to_move(cluster, node)]
            targets: list[tuple[MovablePod, PodTarget]] = []
            unplaced = self._move_pods(leaving, self._node_indices(removed), targets)
            if unplaced is not None:
                return unplaced
            moves = tuple(
                Move(
                    pod=pod.key, source=str(pod.tree["spec"]["nodeName"]), target=target.node, claims=target.claims,
                    notes=tuple(f"the data in volume {volume} is lost" for volume in local_storage(pod)),
                )
                for pod, target in targets
            )  # fmt: skip
            in_use = {move.target for move in moves}
            return _Proposal(removed, tuple(machine for machine in added if machine.node in in_use), moves)
        finally:
            cluster.undo_to(mark)

    def _move_pods(
        self, pods: Iterable[MovablePod], node_mask: int, targets: list[tuple[MovablePod, PodTarget]] | None = None
    ) -> _UnplacedPod | None:
        leaving = sorted(pods, key=lambda pod: pod.order)
        for pod in leaving:
            self._cluster.evict(pod)
        for pod in leaving:
            target = self._cluster.place(pod, node_mask)
            if isinstance(target, Unschedulable):
                return _UnplacedPod(pod.key, target.text)
            if targets is not None:
                targets.append((pod, target))
        return None

    def _node_indices(self, removed: Iterable[str]) -> int:
        gone = set(removed)
        return self._cluster.inventory.node_mask(node for node in self._cluster.nodes if node not in gone)

    # --- cost ----------------------------------------------------------------------------------------------------

    def _price(self, node: str) -> Decimal:
        return self._owned[node].usd_per_hour or Decimal(0)

    def _saving(self, result: _Proposal) -> Decimal:
        spent = sum((machine.usd_per_hour for machine in result.add), Decimal(0))
        return sum((self._price(node) for node in result.remove), Decimal(0)) - spent

    def _if_worthwhile(self, result: _Proposal, empty: tuple[str, ...]) -> _Proposal:
        """The proposal, or only its empty nodes (which move no pods) if the rest saves too little."""
        single = _Proposal(empty, (), ())
        more = self._saving(result) - self._saving(single)
        if not result.moves or more >= self._policy.min_saving:
            return result
        for node in result.remove:
            if node not in empty:
                text = f"removing it would save {more} USD/h, less than the minimum of {self._policy.min_saving} USD/h"
                self._kept.setdefault(node, KeptNode(node=node, code="too-little", text=text))
        return single

    def _to_consolidation(self, best: _Proposal, in_use: Sequence[str]) -> Consolidation:
        removals = []
        for node in best.remove:
            owned = self._owned[node]
            reason: Reason = "Underutilized" if pods_to_move(self._cluster, node) else "Empty"
            removals.append(Removal(node=node, instance=owned.instance, reason=reason, usd_per_hour=owned.usd_per_hour))
            self._kept.pop(node, None)
        for node in in_use:
            if node not in best.remove:
                text = "another consolidation currently saves more"
                self._kept.setdefault(node, KeptNode(node=node, code="later", text=text))
        unknown = [pod.node for pod in removals if pod.usd_per_hour is None]
        notes = (f"the prices of these nodes are unknown and counted as 0: {', '.join(unknown)}",) if unknown else ()
        return Consolidation(
            remove=tuple(removals),
            add=tuple(_with_moved_pods(machine, best.moves) for machine in best.add),
            moves=best.moves,
            saves=self._saving(best),
            stays=tuple(self._kept[node] for node in self._owned if node in self._kept),
            notes=notes,
        )


def catalog_templates(catalog: Sequence[InstanceType], kube: str) -> TemplateFunction:
    """A function that returns the templates of planned machines of a catalog."""
    known = {pod.key: pod for pod in catalog}

    def build(machine: PlannedMachine, /) -> Template:
        template = template_of(
            known[machine.instance], machine.form.partition("/")[2], machine.node, zone=machine.zone,
            capacity_type=machine.capacity_type, kube=kube,
        )  # fmt: skip
        metadata = template.node.metadata
        node = replace(
            template.node,
            metadata=replace(metadata, labels={**machine.labels, **metadata.labels}),
            spec=replace(template.node.spec, taints=(*template.node.spec.taints, *machine.taints)),
        )
        return with_fields(template, node=node)

    return build


def _with_moved_pods(machine: PlannedMachine, moves: Sequence[Move]) -> PlannedMachine:
    """A planned machine with only the pods that the simulation placed on it."""
    moved = {move.pod for move in moves if move.target == machine.node}
    return replace(machine, placements=tuple(placement for placement in machine.placements if placement.pod in moved))
