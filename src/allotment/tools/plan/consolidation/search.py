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
from allotment.tools.explain.report import GivenClaim
from allotment.tools.plan.consolidation.disruption import (
    Guards,
    Policy,
    Reason,
    Stays,
    allowed,
    local_storage,
    movable,
    obstacle,
)
from allotment.tools.plan.consolidation.movable_pods import Lodger
from allotment.tools.plan.consolidation.remaining_cluster import without
from allotment.tools.plan.consolidation.rescheduling import House, NoPlace, Place
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.report import Plan, PlannedMachine

#: Sets of nodes that are planned anew at most, unless the time ends before.
_TRIES: Final = 24


class Owned(Value, frozen=True):
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
    claims: tuple[GivenClaim, ...] = ()
    notes: tuple[str, ...] = ()


class Consolidation(Value, frozen=True):
    """What to do. ``saves``: USD per hour; machines whose price is not known count as nothing.

    Order matters: what is in ``add`` must be there, with its slices, before a pod is evicted.
    """

    remove: tuple[Removal, ...] = ()
    add: tuple[PlannedMachine, ...] = ()
    moves: tuple[Move, ...] = ()
    saves: Decimal = Decimal(0)
    stays: tuple[Stays, ...] = ()
    notes: tuple[str, ...] = ()


class Planner(Protocol):
    """The cheapest machines for what waits."""

    def __call__(
        self, values: Iterable[Object], catalog: Sequence[InstanceType], limits: Limits, features: Features, *,
        keep_going: Callable[[], bool],
    ) -> Plan:  # fmt: skip
        """As ``tools.plan.planning.plan``."""
        ...


class Builder(Protocol):
    """What a planned machine will be."""

    def __call__(self, machine: PlannedMachine, /) -> Template:
        """The node, and the slices that its driver will publish."""
        ...


class Replacing(NamedTuple):
    """What is needed to replace nodes and not only to delete them. ``build``: None for the catalogue's templates."""

    plan: Planner
    catalog: Sequence[InstanceType]
    limits: Limits = Limits()
    build: Builder | None = None


def consolidate(
    objects: Iterable[Tree],
    ours: Iterable[Owned],
    policy: Policy,
    features: Features,
    *,
    keep_going: Callable[[], bool],
    kept: Mapping[str, str] | None = None,
    replacing: Replacing | None = None,
) -> Consolidation:
    """The cheapest thing to do now, which may be nothing.

    ``objects``: the cluster as the API shows it (pods, nodes, claims, templates, slices, classes, rules, namespaces,
    PodDisruptionBudgets, volumes). ``ours``: nodes that may go. ``kept``: nodes that must not go yet, with the reason
    (it came a minute ago). ``replacing``: without it nodes are only deleted.
    """
    return _Search(list(objects), ours, policy, features, keep_going, kept or {}).run(replacing)


class _Found(NamedTuple):
    remove: tuple[str, ...]
    add: tuple[PlannedMachine, ...]
    moves: tuple[Move, ...]


class _Stuck(NamedTuple):
    pod: ObjectKey
    text: str


class _Search:
    def __init__(
        self, objects: list[Tree], ours: Iterable[Owned], policy: Policy, features: Features,
        keep_going: Callable[[], bool], kept: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._objects = objects
        self._house = House(objects, features)
        self._features = features
        self._ours = {one.node: one for one in ours if one.node in self._house.nodes}
        self._policy = policy
        self._keep_going = keep_going
        self._guards = Guards(
            (tree for tree in objects if tree.get("kind") == "PodDisruptionBudget"), self._house.lodgers.values()
        )
        self._stays: dict[str, Stays] = {}
        self._coming = self._settle()
        self._going = sum(1 for node in self._ours if "deletionTimestamp" in self._house.nodes[node]["metadata"])
        for node in self._ours:
            if node in kept:
                self._stays[node] = Stays(node=node, code="kept", text=kept[node])
            elif (found := obstacle(self._house, node, policy)) is not None:
                self._stays[node] = found
            elif node in self._coming:
                text = f"pod {self._coming[node]} is about to come"
                self._stays[node] = Stays(node=node, code="pod-coming", text=text)

    def _settle(self) -> dict[str, ObjectKey]:
        """Pods that wait take their places first: they are not in a consolidation's way, it would be in theirs."""
        coming: dict[str, ObjectKey] = {}
        self.homeless = sorted(self._house.waiting, key=lambda one: one.order)
        again = self.homeless
        while again:
            lucky: set[ObjectKey] = set()
            for lodger in again:
                found = self._house.place(lodger)
                if isinstance(found, Place):
                    coming.setdefault(found.node, lodger.key)
                    lucky.add(lodger.key)
            self.homeless = [one for one in self.homeless if one.key not in lucky]
            again = [one for one in self.homeless if one.resident.demand.waits_for_others] if lucky else []
        return coming

    # --- the search ----------------------------------------------------------------------------------------------

    def run(self, replacing: Replacing | None) -> Consolidation:
        free = [node for node in self._ours if node not in self._stays]
        empty = self._within("Empty", [node for node in free if not movable(self._house, node)], 0)
        used = [node for node in free if node not in empty and node not in self._stays]
        deleted = self._delete(empty, used)
        best = self._worth(deleted, tuple(empty))
        if replacing is not None:
            for chosen in self._sets(empty, used):
                if not self._keep_going():
                    break
                other = self._replace(empty, chosen, replacing)
                if other is not None and (self._saves(other), -len(other.moves)) > (
                    self._saves(best),
                    -len(best.moves),
                ):
                    best = other
        return self._told(best, used)

    def _within(self, reason: Reason, nodes: list[str], already: int) -> list[str]:
        """As many as budgets allow, the dearest first; the others stay for now."""
        most = allowed(self._policy, reason, len(self._ours), self._going + already)
        ordered = sorted(nodes, key=lambda node: (-self._price(node), node))
        for node in ordered[most:]:
            self._stays[node] = Stays(
                node=node, code="budget", text=f"budgets allow {most} more nodes for {reason} now"
            )
        return ordered[:most]

    def _room(self, already: int) -> int:
        return allowed(self._policy, "Underutilized", len(self._ours), self._going + already)

    def _delete(self, empty: list[str], used: list[str]) -> _Found:
        """Take nodes away one after the other as long as all pods of all of them find places; then try it at once."""
        house, removed = self._house, list(empty)
        start = house.mark()
        for node in removed:
            house.cordon(node)
        only = self._places(removed)
        evicted: list[Lodger] = []
        most = self._room(len(empty))
        for node in self._by_worth(used):
            if len(removed) - len(empty) >= most:
                self._stays[node] = self._over_budget(node, most)
                continue
            if not self._keep_going():
                self._stays[node] = Stays(node=node, code="time", text="it was not tried, for the time had ended")
                continue
            leaving = movable(house, node)
            if objection := self._guards.objection(evicted, leaving):
                self._stays[node] = Stays(node=node, code="pdb", text=objection)
                continue
            mark = house.mark()
            house.cordon(node)
            here = only & ~house.inventory.node_mask([node])
            now = [house.lodgers[uid] for uid in house.machines.by_name[node].pods]
            now = [one for one in now if one in leaving or one in evicted]
            stuck = self._move(now, here)
            if stuck is not None:
                house.back_to(mark)
                self._stays[node] = Stays(node=node, code="no-place", text=f"pod {stuck.pod}: {stuck.text}")
                continue
            only = here
            removed.append(node)
            evicted += leaving
        house.back_to(start)
        while True:
            found = self._at_once(tuple(removed), ())
            if not isinstance(found, _Stuck):
                return found
            last = removed.pop()  # with the empty nodes alone nothing is moved, so this ends
            text = f"pod {found.pod}: {found.text}"
            self._stays[last] = Stays(node=last, code="no-place", text=text)

    def _by_worth(self, nodes: Iterable[str]) -> list[str]:
        """The most money for each pod that is disturbed first."""
        return sorted(nodes, key=lambda node: (-self._price(node) / (1 + len(movable(self._house, node))), node))

    def _over_budget(self, node: str, most: int) -> Stays:
        text = f"budgets allow {most} more nodes for Underutilized now"
        return Stays(node=node, code="budget", text=text)

    def _sets(self, empty: list[str], used: list[str]) -> list[tuple[str, ...]]:
        """Which nodes to plan anew together: as many as may be, halves of them, and each alone."""
        known = [node for node in self._by_worth(used) if self._ours[node].usd_per_hour is not None]
        most = self._room(len(empty))
        if not most or not known:
            return []
        sets: dict[tuple[str, ...], None] = {}
        size = min(most, len(known))
        while size > 1:
            for start in range(0, len(known), size):
                sets[self._guarded(known[start : start + size])] = None
            size //= 2
        for node in known:
            sets[self._guarded([node])] = None
        return [chosen for chosen in sets if chosen][:_TRIES]

    def _guarded(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Those of the nodes that may go together by the pods' budgets."""
        taken: list[str] = []
        leaving: list[Lodger] = []
        for node in nodes:
            more = movable(self._house, node)
            if not self._guards.objection(leaving, more):
                taken.append(node)
                leaving += more
        return tuple(taken)

    def _replace(self, empty: list[str], chosen: tuple[str, ...], replacing: Replacing) -> _Found | None:
        """Plan for the pods of these nodes as if the nodes were not there; None if that is no gain."""
        removed = (*empty, *chosen)
        values = without(self._objects, removed, self._house, [one.key for one in self.homeless])
        plan = replacing.plan(values, replacing.catalog, replacing.limits, self._features, keep_going=self._keep_going)
        before = sum((self._price(node) for node in chosen), Decimal(0))
        alone = chosen[0] if len(chosen) == 1 else ""
        if plan.unserved:
            first = plan.unserved[0]
            self._not_replaced(alone, f"for pod {first.pod} there is no other machine: {first.text}")
            return None
        if plan.total > before * (1 - self._policy.least_share):
            text = f"other machines for its pods would cost {plan.total} USD/h, it costs {before}"
            self._not_replaced(alone, text)
            return None
        build = replacing.build or templates(replacing.catalog, self._features.kube)
        found = self._at_once(removed, plan.machines, build)
        if isinstance(found, _Stuck):
            self._not_replaced(alone, f"pod {found.pod}: {found.text}")
            return None
        return self._worth(found, tuple(empty))

    def _not_replaced(self, node: str, text: str) -> None:
        if node and self._stays.get(node, Stays(node=node, code="no-place", text="")).code == "no-place":
            old = self._stays.get(node)
            both = f"{old.text}; {text}" if old is not None and text not in old.text else text
            self._stays[node] = Stays(node=node, code="no-place", text=both)

    # --- trying --------------------------------------------------------------------------------------------------

    def _at_once(
        self, removed: tuple[str, ...], added: tuple[PlannedMachine, ...], build: Builder | None = None
    ) -> _Found | _Stuck:
        """All of it from the cluster as it is: new nodes come, old ones are cordoned, pods evicted and placed."""
        house = self._house
        mark = house.mark()
        try:
            for machine in added:
                assert build is not None, "machines are added only by plans"
                template = build(machine)
                house.build(to_tree(template.node, "v1", "Node"), template.slices)
            for node in removed:
                house.cordon(node)
            leaving = [one for node in removed for one in movable(house, node)]
            seats: list[tuple[Lodger, Place]] = []
            stuck = self._move(leaving, self._places(removed), seats)
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
            return _Found(removed, tuple(machine for machine in added if machine.node in used), moves)
        finally:
            house.back_to(mark)

    def _move(
        self, lodgers: Iterable[Lodger], only: int, seats: list[tuple[Lodger, Place]] | None = None
    ) -> _Stuck | None:
        leaving = sorted(lodgers, key=lambda one: one.order)
        for lodger in leaving:
            self._house.evict(lodger)
        for lodger in leaving:
            place = self._house.place(lodger, only)
            if isinstance(place, NoPlace):
                return _Stuck(lodger.key, place.text)
            if seats is not None:
                seats.append((lodger, place))
        return None

    def _places(self, removed: Iterable[str]) -> int:
        gone = set(removed)
        return self._house.inventory.node_mask(node for node in self._house.nodes if node not in gone)

    # --- money ---------------------------------------------------------------------------------------------------

    def _price(self, node: str) -> Decimal:
        return self._ours[node].usd_per_hour or Decimal(0)

    def _saves(self, found: _Found) -> Decimal:
        spent = sum((machine.usd_per_hour for machine in found.add), Decimal(0))
        return sum((self._price(node) for node in found.remove), Decimal(0)) - spent

    def _worth(self, found: _Found, empty: tuple[str, ...]) -> _Found:
        """It, or only the empty nodes (which cost nobody anything) if the rest saves too little."""
        alone = _Found(empty, (), ())
        more = self._saves(found) - self._saves(alone)
        if not found.moves or more >= self._policy.least_saving:
            return found
        for node in found.remove:
            if node not in empty:
                text = f"it would save {more} USD/h, less than {self._policy.least_saving}"
                self._stays.setdefault(node, Stays(node=node, code="too-little", text=text))
        return alone

    def _told(self, best: _Found, used: Sequence[str]) -> Consolidation:
        removals = []
        for node in best.remove:
            owned = self._ours[node]
            reason: Reason = "Underutilized" if movable(self._house, node) else "Empty"
            removals.append(Removal(node=node, instance=owned.instance, reason=reason, usd_per_hour=owned.usd_per_hour))
            self._stays.pop(node, None)
        for node in used:
            if node not in best.remove:
                text = "something else saves more now"
                self._stays.setdefault(node, Stays(node=node, code="later", text=text))
        unknown = [one.node for one in removals if one.usd_per_hour is None]
        notes = (f"prices not known, counted as nothing: {', '.join(unknown)}",) if unknown else ()
        return Consolidation(
            remove=tuple(removals),
            add=tuple(_with_seats(machine, best.moves) for machine in best.add),
            moves=best.moves,
            saves=self._saves(best),
            stays=tuple(self._stays[node] for node in self._ours if node in self._stays),
            notes=notes,
        )


def templates(catalog: Sequence[InstanceType], kube: str) -> Builder:
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


def _with_seats(machine: PlannedMachine, moves: Sequence[Move]) -> PlannedMachine:
    """A planned machine with those on it who really come."""
    come = {move.pod for move in moves if move.target == machine.node}
    return replace(machine, seats=tuple(seat for seat in machine.seats if seat.pod in come))
