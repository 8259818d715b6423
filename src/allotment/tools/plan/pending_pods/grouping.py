"""From pods that wait to items of a packing: pods that must be on one machine are one item, equal items one kind.

Devices are local to their node. So all users of one claim that is not allocated yet must be on the node where it will
be, and so must pods that want to be near each other on a host (``topologyKey: kubernetes.io/hostname``).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from allotment.model.core import HOSTNAME_LABEL, PodAffinityTerm, TopologySpreadConstraint
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.node_fit.assigned_pod import Resident
from allotment.node_fit.filters.inter_pod_affinity import meant
from allotment.tools.plan.pending_pods.demand import Demand, Waiting

_encode = msgspec.json.Encoder(enc_hook=str).encode


@dataclass(slots=True)
class Item:
    """Pods that go together, in the scheduler's order."""

    pods: tuple[Waiting, ...]

    def first_uses(self) -> list[tuple[Waiting, tuple[ResourceClaim, ...]]]:
        """Each pod with the claims that are allocated when it is placed: those that no pod before it uses."""
        seen: set[ObjectKey] = set()
        found = []
        for pod in self.pods:
            own = tuple(claim for claim in pod.claims.pending if claim.key not in seen)
            seen.update(claim.key for claim in own)
            found.append((pod, own))
        return found


@dataclass(slots=True)
class Kind:
    """Equal items. ``zone``: where they must go, if that was decided; empty if not."""

    number: int
    items: list[Item] = field(default_factory=list)
    zone: str = ""

    @property
    def model(self) -> Item:
        """Any of them."""
        return self.items[0]

    @property
    def name(self) -> str:
        """For people: the workload, or the first pod."""
        pod = self.model.pods[0]
        return (pod.owner or str(pod.key)) + (f" in {self.zone}" if self.zone else "")


def kinds_of(demand: Demand, lost: Collection[int] = ()) -> list[Kind]:
    """The items of a demand in kinds, in the order in which the scheduler will come to them.

    ``lost``: pods (by order) that will be nowhere, so that nobody is near them.
    """
    return _kinds(demand, _items(demand, lost))


def firm_kinds_of(demand: Demand) -> list[Kind]:
    """The same, but only pods that cannot be on different machines are one item.

    Who wants to be near any of several others is near the first of them in `kinds_of`; that is a decision. Users of one
    claim must be on one node unless there are devices that can be reached from several; then only the first has it.
    """
    return _kinds(demand, _firm_items(demand))


def _kinds(demand: Demand, items: Iterable[Item]) -> list[Kind]:
    likeness = _Likeness(demand)
    kinds: dict[Hashable, Kind] = {}
    for item in items:
        key = likeness.of(item)
        if key not in kinds:
            kinds[key] = Kind(len(kinds))
        kinds[key].items.append(item)
    return list(kinds.values())


def _items(demand: Demand, lost: Collection[int]) -> Iterable[Item]:
    groups = _Groups(demand.waiting)
    _unite_users(demand, groups, lost)
    for pod in demand.waiting:
        if pod.order in lost:
            continue
        for neighbour in pod.asked.affinity:
            if neighbour.term.topology_key != HOSTNAME_LABEL:
                continue
            means = meant(neighbour.term, pod.resident, demand.namespaces)
            if any(means(resident) for resident, _ in demand.residents):
                continue  # the filters say where those are
            near = next((o for o in demand.waiting if o.order not in lost and means(o.resident)), None)
            if near is not None:
                groups.unite(near, pod)
    return [Item(tuple(pods)) for pods in groups.all()]


def _firm_items(demand: Demand) -> Iterable[Item]:
    waiting = demand.waiting
    groups = _Groups(waiting)
    if all(one.spec.node_name for one in demand.given.slices):
        _unite_users(demand, groups)
    else:
        waiting = tuple(_once_each(waiting))
    for pod in demand.waiting:
        if len(pod.asked.affinity) != 1:
            continue
        term = pod.asked.affinity[0].term
        if term.topology_key != HOSTNAME_LABEL or term.match_label_keys or term.mismatch_label_keys:
            continue
        means = meant(term, pod.resident, demand.namespaces)
        if any(means(resident) for resident, _ in demand.residents):
            continue
        others = [one for one in demand.waiting if means(one.resident)]
        alike = all(
            [n.term for n in one.asked.affinity] == [term] and one.resident.namespace == pod.resident.namespace
            for one in others
        )
        # Where all of them want the same there is one host on which the first of them is, and no second.
        for other in others if alike else ():
            groups.unite(other, pod)
    return [Item(tuple(waiting[pod.order] for pod in pods)) for pods in groups.all()]


def _once_each(pods: Iterable[Waiting]) -> Iterable[Waiting]:
    """The pods, each claim with the first of its users only."""
    seen: set[ObjectKey] = set()
    for pod in pods:
        own = [claim for claim in pod.claims.pending if claim.key not in seen]
        seen.update(claim.key for claim in own)
        yield pod if len(own) == len(pod.claims.pending) else replace(pod, claims=replace(pod.claims, pending=own))


def _unite_users(demand: Demand, groups: _Groups, lost: Collection[int] = ()) -> None:
    users: dict[ObjectKey, Waiting] = {}
    for pod in demand.waiting:
        for claim in pod.claims.pending if pod.order not in lost else ():
            groups.unite(users.setdefault(claim.key, pod), pod)


class _Groups:
    """Disjoint sets of pods; the members of each, and the sets, in the order of the pods."""

    def __init__(self, pods: Sequence[Waiting]) -> None:
        self._pods = pods
        self._above = list(range(len(pods)))

    def _top(self, number: int) -> int:
        while self._above[number] != number:
            self._above[number] = self._above[self._above[number]]
            number = self._above[number]
        return number

    def unite(self, one: Waiting, other: Waiting) -> None:
        a, b = sorted((self._top(one.order), self._top(other.order)))
        self._above[b] = a

    def all(self) -> list[list[Waiting]]:
        found: dict[int, list[Waiting]] = {}
        for pod in self._pods:
            found.setdefault(self._top(pod.order), []).append(pod)
        return list(found.values())


class _Likeness:
    """What tells items apart: what their pods ask, which claims they share, and what others may ask of their labels."""

    def __init__(self, demand: Demand) -> None:
        self._specs: dict[int, tuple[ResourceClaim, bytes]] = {}
        self._labels = _labels_that_count(demand)
        self._social = self._labels is not None

    def of(self, item: Item) -> Hashable:
        known: dict[ObjectKey, int] = {}

        def numbered(claim: ResourceClaim) -> tuple[int, bytes]:
            return known.setdefault(claim.key, len(known)), self._spec(claim)

        return tuple(
            (
                id(pod.asked),
                pod.resident.priority,
                tuple(numbered(claim) for claim in pod.claims.pending),
                tuple(claim.key for claim in pod.claims.before),
                pod.gang,
                self._visible(pod.resident),
            )
            for pod in item.pods
        )

    def _spec(self, claim: ResourceClaim) -> bytes:
        found = self._specs.get(id(claim.spec))
        if found is None:
            found = self._specs[id(claim.spec)] = (claim, _encode(claim.spec))
        return found[1]

    def _visible(self, pod: Resident) -> Hashable:
        if self._labels is None:
            return None
        return pod.namespace, tuple((key, pod.labels.get(key)) for key in self._labels)


def _labels_that_count(demand: Demand) -> tuple[str, ...] | None:
    """Keys of pods' labels that affinity or spread of anybody reads; None if nobody reads any."""
    keys: set[str] = set()
    social = False
    asked = {id(one.asked): one.asked for one in demand.waiting}
    asked.update((id(resident.demand), resident.demand) for resident, _ in demand.residents)
    for one in asked.values():
        terms = [n.term for n in (*one.affinity, *one.anti_affinity, *one.affinity_preferred, *one.anti_preferred)]
        social = social or bool(terms or one.spread)
        selecting: list[PodAffinityTerm | TopologySpreadConstraint] = [*terms, *one.spread]
        for term in selecting:
            keys.update(term.match_label_keys)
            if term.label_selector is not None:
                keys.update(term.label_selector.match_labels)
                keys.update(requirement.key for requirement in term.label_selector.match_expressions)
        for neighbour in terms:
            keys.update(neighbour.mismatch_label_keys)
    return tuple(sorted(keys)) if social else None
