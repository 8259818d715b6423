"""Which running machines could go: nodes with nothing on them, nodes whose pods have room elsewhere, and m nodes whose
pods n cheaper ones would hold.

Karpenter deletes, or replaces many by one; here what replaces is a plan, so that it may be several, and one machine may
give way to many small ones. Whatever is proposed has been tried as a whole: the nodes cordoned, the pods evicted, each
placed again as the scheduler places it, on what is there and on the new machines. A node that stays has its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace as with_fields
from decimal import Decimal
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from allotment.fleet.catalog import template_of
from allotment.fleet.catalog.instance_type import InstanceType, Template
from allotment.model.features import Features
from allotment.model.meta import Object, ObjectKey, Value
from allotment.model.trees import Tree, to_tree
from allotment.tools.explain.report import ClaimAllocation
from allotment.tools.plan.consolidation.disruption import (
    ConsolidationPolicy,
    EvictionBudgets,
    KeptNode,
    Reason,
    allowed_removals,
    blocker,
    local_storage,
    pods_to_move,
)
from allotment.tools.plan.consolidation.movable_pods import MovablePod
from allotment.tools.plan.consolidation.remaining_cluster import remaining_objects
from allotment.tools.plan.consolidation.rescheduling import PodTarget, SimulatedCluster, Unschedulable
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.report import PlannedMachine, ProvisioningPlan

#: Sets of nodes that are planned anew at most, unless the time ends before.
_MAX_SETS: Final = 24


class OwnedNode(Value, frozen=True):
    """A node of ours. ``usd_per_hour`` is None where its price is not known."""

    node: str
    instance: str
    usd_per_hour: Decimal | None
    zone: str = ""
    capacity_type: str = "on-demand"


class Removal(Value, frozen=True):
    """A node that can go."""

    node: str
    instance: str
    reason: Reason
    usd_per_hour: Decimal | None


class Move(Value, frozen=True):
    """A pod that is evicted, and where its successor finds a place, with which devices. ``notes``: what it loses."""

    pod: ObjectKey
    source: str
    target: str
    claims: tuple[ClaimAllocation, ...] = ()
    notes: tuple[str, ...] = ()


class Consolidation(Value, frozen=True):
    """What to do. ``saves``: USD per hour; machines whose price is not known count as nothing.

    Order matters: what is in ``add`` must be there, with its slices, before a pod is evicted.
    """

    remove: tuple[Removal, ...] = ()
    add: tuple[PlannedMachine, ...] = ()
    moves: tuple[Move, ...] = ()
    saves: Decimal = Decimal(0)
    stays: tuple[KeptNode, ...] = ()
    notes: tuple[str, ...] = ()


class PlanFunction(Protocol):
    """The cheapest machines for what waits."""

    def __call__(
        self, values: Iterable[Object], catalog: Sequence[InstanceType], limits: PlanLimits, features: Features, *,
        keep_going: Callable[[], bool],
    ) -> ProvisioningPlan:  # fmt: skip
        """As ``tools.plan.planning.plan``."""
        ...


class TemplateFunction(Protocol):
    """What a planned machine will be."""

    def __call__(self, machine: PlannedMachine, /) -> Template:
        """The node, and the slices that its driver will publish."""
        ...


class ReplacementOptions(NamedTuple):
    """What is needed to replace nodes and not only to delete them. ``build``: None for the catalogue's templates."""

    plan: PlanFunction
    catalog: Sequence[InstanceType]
    limits: PlanLimits = PlanLimits()
    template: TemplateFunction | None = None


def consolidate(
    objects: Iterable[Tree],
    ours: Iterable[OwnedNode],
    policy: ConsolidationPolicy,
    features: Features,
    *,
    keep_going: Callable[[], bool],
    kept: Mapping[str, str] | None = None,
    replacing: ReplacementOptions | None = None,
) -> Consolidation:
    """The cheapest thing to do now, which may be nothing.

    ``objects``: the cluster as the API shows it (pods, nodes, claims, templates, slices, classes, rules, namespaces,
    PodDisruptionBudgets, volumes). ``ours``: nodes that may go. ``kept``: nodes that must not go yet, with the reason
    (it came a minute ago). ``replacing``: without it nodes are only deleted.
    """
    return _Search(list(objects), ours, policy, features, keep_going, kept or {}).run(replacing)


class _Proposal(NamedTuple):
    remove: tuple[str, ...]
    add: tuple[PlannedMachine, ...]
    moves: tuple[Move, ...]


class _UnplacedPod(NamedTuple):
    pod: ObjectKey
    text: str


class _Search:
    def __init__(
        self, objects: list[Tree], ours: Iterable[OwnedNode], policy: ConsolidationPolicy, features: Features,
        keep_going: Callable[[], bool], kept: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._objects = objects
        self._cluster = SimulatedCluster(objects, features)
        self._features = features
        self._owned = {one.node: one for one in ours if one.node in self._cluster.nodes}
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
            elif (found := blocker(self._cluster, node, policy)) is not None:
                self._kept[node] = found
            elif node in self._awaited:
                text = f"pod {self._awaited[node]} is about to come"
                self._kept[node] = KeptNode(node=node, code="pod-coming", text=text)

    def _place_pending(self) -> dict[str, ObjectKey]:
        """Pods that wait take their places first: they are not in a consolidation's way, it would be in theirs."""
        coming: dict[str, ObjectKey] = {}
        self.unschedulable = sorted(self._cluster.pending, key=lambda one: one.order)
        again = self.unschedulable
        while again:
            lucky: set[ObjectKey] = set()
            for pod in again:
                found = self._cluster.place(pod)
                if isinstance(found, PodTarget):
                    coming.setdefault(found.node, pod.key)
                    lucky.add(pod.key)
            self.unschedulable = [one for one in self.unschedulable if one.key not in lucky]
            again = [one for one in self.unschedulable if one.resident.demand.waits_for_others] if lucky else []
        return coming

    # --- the search ----------------------------------------------------------------------------------------------

    def run(self, replacing: ReplacementOptions | None) -> Consolidation:
        free = [node for node in self._owned if node not in self._kept]
        empty = self._within_budget("Empty", [node for node in free if not pods_to_move(self._cluster, node)], 0)
        used = [node for node in free if node not in empty and node not in self._kept]
        deleted = self._propose_deletions(empty, used)
        best = self._if_worthwhile(deleted, tuple(empty))
        if replacing is not None:
            for chosen in self._replacement_sets(empty, used):
                if not self._keep_going():
                    break
                other = self._propose_replacement(empty, chosen, replacing)
                if other is not None and (self._saving(other), -len(other.moves)) > (
                    self._saving(best),
                    -len(best.moves),
                ):
                    best = other
        return self._to_consolidation(best, used)

    def _within_budget(self, reason: Reason, nodes: list[str], already: int) -> list[str]:
        """As many as budgets allow, the dearest first; the others stay for now."""
        most = allowed_removals(self._policy, reason, len(self._owned), self._deleting + already)
        ordered = sorted(nodes, key=lambda node: (-self._price(node), node))
        for node in ordered[most:]:
            self._kept[node] = KeptNode(
                node=node, code="budget", text=f"budgets allow {most} more nodes for {reason} now"
            )
        return ordered[:most]

    def _allowed_removals(self, already: int) -> int:
        return allowed_removals(self._policy, "Underutilized", len(self._owned), self._deleting + already)

    def _propose_deletions(self, empty: list[str], used: list[str]) -> _Proposal:
        """Take nodes away one after the other as long as all pods of all of them find places; then try it at once."""
        cluster, removed = self._cluster, list(empty)
        start = cluster.mark()
        for node in removed:
            cluster.cordon(node)
        only = self._node_indices(removed)
        evicted: list[MovablePod] = []
        most = self._allowed_removals(len(empty))
        for node in self._by_saving_per_pod(used):
            if len(removed) - len(empty) >= most:
                self._kept[node] = self._over_budget(node, most)
                continue
            if not self._keep_going():
                self._kept[node] = KeptNode(node=node, code="time", text="it was not tried, for the time had ended")
                continue
            leaving = pods_to_move(cluster, node)
            if objection := self._eviction_budgets.violation(evicted, leaving):
                self._kept[node] = KeptNode(node=node, code="pdb", text=objection)
                continue
            mark = cluster.mark()
            cluster.cordon(node)
            here = only & ~cluster.inventory.node_mask([node])
            now = [cluster.pods[uid] for uid in cluster.machines.by_name[node].pods]
            now = [one for one in now if one in leaving or one in evicted]
            stuck = self._move_pods(now, here)
            if stuck is not None:
                cluster.undo_to(mark)
                self._kept[node] = KeptNode(node=node, code="no-place", text=f"pod {stuck.pod}: {stuck.text}")
                continue
            only = here
            removed.append(node)
            evicted += leaving
        cluster.undo_to(start)
        while True:
            found = self._try_all(tuple(removed), ())
            if not isinstance(found, _UnplacedPod):
                return found
            last = removed.pop()  # with the empty nodes alone nothing is moved, so this ends
            text = f"pod {found.pod}: {found.text}"
            self._kept[last] = KeptNode(node=last, code="no-place", text=text)

    def _by_saving_per_pod(self, nodes: Iterable[str]) -> list[str]:
        """The most money for each pod that is disturbed first."""
        return sorted(nodes, key=lambda node: (-self._price(node) / (1 + len(pods_to_move(self._cluster, node))), node))

    def _over_budget(self, node: str, most: int) -> KeptNode:
        text = f"budgets allow {most} more nodes for Underutilized now"
        return KeptNode(node=node, code="budget", text=text)

    def _replacement_sets(self, empty: list[str], used: list[str]) -> list[tuple[str, ...]]:
        """Which nodes to plan anew together: as many as may be, halves of them, and each alone."""
        known = [node for node in self._by_saving_per_pod(used) if self._owned[node].usd_per_hour is not None]
        most = self._allowed_removals(len(empty))
        if not most or not known:
            return []
        sets: dict[tuple[str, ...], None] = {}
        size = min(most, len(known))
        while size > 1:
            for start in range(0, len(known), size):
                sets[self._within_eviction_budgets(known[start : start + size])] = None
            size //= 2
        for node in known:
            sets[self._within_eviction_budgets([node])] = None
        return [chosen for chosen in sets if chosen][:_MAX_SETS]

    def _within_eviction_budgets(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Those of the nodes that may go together by the pods' budgets."""
        taken: list[str] = []
        leaving: list[MovablePod] = []
        for node in nodes:
            more = pods_to_move(self._cluster, node)
            if not self._eviction_budgets.violation(leaving, more):
                taken.append(node)
                leaving += more
        return tuple(taken)

    def _propose_replacement(self, empty: list[str], chosen: tuple[str, ...], replacing: ReplacementOptions) -> _Proposal | None:
        """Plan for the pods of these nodes as if the nodes were not there; None if that is no gain."""
        removed = (*empty, *chosen)
        values = remaining_objects(self._objects, removed, self._cluster, [one.key for one in self.unschedulable])
        plan = replacing.plan(values, replacing.catalog, replacing.limits, self._features, keep_going=self._keep_going)
        before = sum((self._price(node) for node in chosen), Decimal(0))
        alone = chosen[0] if len(chosen) == 1 else ""
        if plan.unserved:
            first = plan.unserved[0]
            self._keep_single(alone, f"for pod {first.pod} there is no other machine: {first.text}")
            return None
        if plan.total > before * (1 - self._policy.min_share):
            text = f"other machines for its pods would cost {plan.total} USD/h, it costs {before}"
            self._keep_single(alone, text)
            return None
        build = replacing.template or catalog_templates(replacing.catalog, self._features.kube)
        found = self._try_all(removed, plan.machines, build)
        if isinstance(found, _UnplacedPod):
            self._keep_single(alone, f"pod {found.pod}: {found.text}")
            return None
        return self._if_worthwhile(found, tuple(empty))

    def _keep_single(self, node: str, text: str) -> None:
        if node and self._kept.get(node, KeptNode(node=node, code="no-place", text="")).code == "no-place":
            old = self._kept.get(node)
            both = f"{old.text}; {text}" if old is not None and text not in old.text else text
            self._kept[node] = KeptNode(node=node, code="no-place", text=both)

    # --- trying --------------------------------------------------------------------------------------------------

    def _try_all(
        self, removed: tuple[str, ...], added: tuple[PlannedMachine, ...], build: TemplateFunction | None = None
    ) -> _Proposal | _UnplacedPod:
        """All of it from the cluster as it is: new nodes come, old ones are cordoned, pods evicted and placed."""
        cluster = self._cluster
        mark = cluster.mark()
        try:
            for machine in added:
                assert build is not None, "machines are added only by plans"
                template = build(machine)
                cluster.add_node(to_tree(template.node, "v1", "Node"), template.slices)
            for node in removed:
                cluster.cordon(node)
            leaving = [one for node in removed for one in pods_to_move(cluster, node)]
            seats: list[tuple[MovablePod, PodTarget]] = []
            stuck = self._move_pods(leaving, self._node_indices(removed), seats)
            if stuck is not None:
                return stuck
            moves = tuple(
                Move(
                    pod=one.key, source=str(one.tree["spec"]["nodeName"]), target=place.node, claims=place.claims,
                    notes=tuple(f"what is in volume {volume} is lost" for volume in local_storage(one)),
                )
                for one, place in seats
            )  # fmt: skip
            used = {move.target for move in moves}
            return _Proposal(removed, tuple(machine for machine in added if machine.node in used), moves)
        finally:
            cluster.undo_to(mark)

    def _move_pods(
        self, pods: Iterable[MovablePod], only: int, seats: list[tuple[MovablePod, PodTarget]] | None = None
    ) -> _UnplacedPod | None:
        leaving = sorted(pods, key=lambda one: one.order)
        for pod in leaving:
            self._cluster.evict(pod)
        for pod in leaving:
            place = self._cluster.place(pod, only)
            if isinstance(place, Unschedulable):
                return _UnplacedPod(pod.key, place.text)
            if seats is not None:
                seats.append((pod, place))
        return None

    def _node_indices(self, removed: Iterable[str]) -> int:
        gone = set(removed)
        return self._cluster.inventory.node_mask(node for node in self._cluster.nodes if node not in gone)

    # --- money ---------------------------------------------------------------------------------------------------

    def _price(self, node: str) -> Decimal:
        return self._owned[node].usd_per_hour or Decimal(0)

    def _saving(self, found: _Proposal) -> Decimal:
        spent = sum((machine.usd_per_hour for machine in found.add), Decimal(0))
        return sum((self._price(node) for node in found.remove), Decimal(0)) - spent

    def _if_worthwhile(self, found: _Proposal, empty: tuple[str, ...]) -> _Proposal:
        """It, or only the empty nodes (which cost nobody anything) if the rest saves too little."""
        alone = _Proposal(empty, (), ())
        more = self._saving(found) - self._saving(alone)
        if not found.moves or more >= self._policy.min_saving:
            return found
        for node in found.remove:
            if node not in empty:
                text = f"it would save {more} USD/h, less than {self._policy.min_saving}"
                self._kept.setdefault(node, KeptNode(node=node, code="too-little", text=text))
        return alone

    def _to_consolidation(self, best: _Proposal, used: Sequence[str]) -> Consolidation:
        removals = []
        for node in best.remove:
            owned = self._owned[node]
            reason: Reason = "Underutilized" if pods_to_move(self._cluster, node) else "Empty"
            removals.append(Removal(node=node, instance=owned.instance, reason=reason, usd_per_hour=owned.usd_per_hour))
            self._kept.pop(node, None)
        for node in used:
            if node not in best.remove:
                text = "something else saves more now"
                self._kept.setdefault(node, KeptNode(node=node, code="later", text=text))
        unknown = [one.node for one in removals if one.usd_per_hour is None]
        notes = (f"prices not known, counted as nothing: {', '.join(unknown)}",) if unknown else ()
        return Consolidation(
            remove=tuple(removals),
            add=tuple(_with_moved_pods(machine, best.moves) for machine in best.add),
            moves=best.moves,
            saves=self._saving(best),
            stays=tuple(self._kept[node] for node in self._owned if node in self._kept),
            notes=notes,
        )


def catalog_templates(catalog: Sequence[InstanceType], kube: str) -> TemplateFunction:
    """What planned machines of a catalogue will be."""
    known = {one.key: one for one in catalog}

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
    """A planned machine with those on it who really come."""
    come = {move.pod for move in moves if move.target == machine.node}
    return replace(machine, seats=tuple(seat for seat in machine.seats if seat.pod in come))
