"""Groups pending pods into items of a packing problem: pods that must share a node are one item, equal items one kind.

Devices are local to their node, so all pods that use an unallocated claim must run on the node where it is allocated.
So must pods with affinity to each other by host (``topologyKey: kubernetes.io/hostname``).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from allotment.model.core import HOSTNAME_LABEL, PodAffinityTerm, TopologySpreadConstraint
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceClaim
from allotment.node_fit.assigned_pod import AssignedPod
from allotment.node_fit.filters.inter_pod_affinity import term_matcher
from allotment.planning.pending_pods.demand import ClusterDemand, PendingPod

_encode = msgspec.json.Encoder(enc_hook=str).encode


@dataclass(slots=True)
class Item:
    """Pods that run on one node, in the scheduler's order."""

    pods: tuple[PendingPod, ...]

    def newly_allocated_claims(self) -> list[tuple[PendingPod, tuple[ResourceClaim, ...]]]:
        """Each pod with the claims that are allocated when it is placed: those that no earlier pod uses."""
        claimed: set[ObjectKey] = set()
        result = []
        for pod in self.pods:
            own = tuple(claim for claim in pod.claims.pending if claim.key not in claimed)
            claimed.update(claim.key for claim in own)
            result.append((pod, own))
        return result


@dataclass(slots=True)
class ItemKind:
    """Equal items. ``zone``: the zone that is planned for them; empty for any."""

    number: int
    items: list[Item] = field(default_factory=list)
    zone: str = ""

    @property
    def representative(self) -> Item:
        """The first of the equal items."""
        return self.items[0]

    @property
    def name(self) -> str:
        """The workload or the first pod, for messages."""
        pod = self.representative.pods[0]
        return (pod.owner or str(pod.key)) + (f" in {self.zone}" if self.zone else "")


def group_items(demand: ClusterDemand, lost: Collection[int] = ()) -> list[ItemKind]:
    """The item kinds of a demand, in the scheduler's order.

    ``lost``: pods (by order) that cannot be placed, so that no other pod is grouped with them.
    """
    return _kinds(demand, _items(demand, lost))


def group_inseparable_items(demand: ClusterDemand) -> list[ItemKind]:
    """Like `group_items`, but only pods that cannot be on different machines are one item.

    If a pod has affinity to any of several pods, `group_items` puts it with the first of them. Pods that use one
    claim must share a node unless there are devices that several nodes can use; then only the first pod has the claim.
    """
    return _kinds(demand, _inseparable_items(demand))


def _kinds(demand: ClusterDemand, items: Iterable[Item]) -> list[ItemKind]:
    item_keys = _ItemKeys(demand)
    kinds: dict[Hashable, ItemKind] = {}
    for item in items:
        key = item_keys.of(item)
        if key not in kinds:
            kinds[key] = ItemKind(len(kinds))
        kinds[key].items.append(item)
    return list(kinds.values())


def _items(demand: ClusterDemand, lost: Collection[int]) -> Iterable[Item]:
    groups = _DisjointSets(demand.pending)
    _unite_users(demand, groups, lost)
    for pod in demand.pending:
        if pod.order in lost:
            continue
        for neighbour in pod.requirements.affinity:
            if neighbour.term.topology_key != HOSTNAME_LABEL:
                continue
            matches = term_matcher(neighbour.term, pod.resident, demand.namespaces)
            if any(matches(resident) for resident, _ in demand.residents):
                continue  # the filters decide where those are
            near = next((o for o in demand.pending if o.order not in lost and matches(o.resident)), None)
            if near is not None:
                groups.unite(near, pod)
    return [Item(tuple(pods)) for pods in groups.all()]


def _inseparable_items(demand: ClusterDemand) -> Iterable[Item]:
    pending = demand.pending
    groups = _DisjointSets(pending)
    if all(slice_.spec.node_name for slice_ in demand.objects.slices):
        _unite_users(demand, groups)
    else:
        pending = tuple(_with_first_use_only(pending))
    for pod in demand.pending:
        if len(pod.requirements.affinity) != 1:
            continue
        term = pod.requirements.affinity[0].term
        if term.topology_key != HOSTNAME_LABEL or term.match_label_keys or term.mismatch_label_keys:
            continue
        matches = term_matcher(term, pod.resident, demand.namespaces)
        if any(matches(resident) for resident, _ in demand.residents):
            continue
        others = [other for other in demand.pending if matches(other.resident)]
        is_mutual = all(
            [n.term for n in other.requirements.affinity] == [term]
            and other.resident.namespace == pod.resident.namespace
            for other in others
        )
        # If all of them have the same term, the first pod determines the host for all.
        for other in others if is_mutual else ():
            groups.unite(other, pod)
    return [Item(tuple(pending[pod.order] for pod in pods)) for pods in groups.all()]


def _with_first_use_only(pods: Iterable[PendingPod]) -> Iterable[PendingPod]:
    """The pods, with each claim only on the first pod that uses it."""
    claimed: set[ObjectKey] = set()
    for pod in pods:
        own = [claim for claim in pod.claims.pending if claim.key not in claimed]
        claimed.update(claim.key for claim in own)
        yield pod if len(own) == len(pod.claims.pending) else replace(pod, claims=replace(pod.claims, pending=own))


def _unite_users(demand: ClusterDemand, groups: _DisjointSets, lost: Collection[int] = ()) -> None:
    users: dict[ObjectKey, PendingPod] = {}
    for pod in demand.pending:
        for claim in pod.claims.pending if pod.order not in lost else ():
            groups.unite(users.setdefault(claim.key, pod), pod)


class _DisjointSets:
    """Disjoint sets of pods (union-find); sets and their members are in the order of the pods."""

    def __init__(self, pods: Sequence[PendingPod]) -> None:
        self._pods = pods
        self._parents = list(range(len(pods)))

    def _root(self, number: int) -> int:
        while self._parents[number] != number:
            self._parents[number] = self._parents[self._parents[number]]
            number = self._parents[number]
        return number

    def unite(self, pod: PendingPod, other: PendingPod) -> None:
        a, b = sorted((self._root(pod.order), self._root(other.order)))
        self._parents[b] = a

    def all(self) -> list[list[PendingPod]]:
        result: dict[int, list[PendingPod]] = {}
        for pod in self._pods:
            result.setdefault(self._root(pod.order), []).append(pod)
        return list(result.values())


class _ItemKeys:
    """Keys of equal items: the requirements of their pods, shared claims, and labels that other pods select."""

    def __init__(self, demand: ClusterDemand) -> None:
        self._specs: dict[int, tuple[ResourceClaim, bytes]] = {}
        self._labels = _selected_label_keys(demand)
        self._has_affinity = self._labels is not None

    def of(self, item: Item) -> Hashable:
        known: dict[ObjectKey, int] = {}

        def numbered(claim: ResourceClaim) -> tuple[int, bytes]:
            return known.setdefault(claim.key, len(known)), self._spec(claim)

        return tuple(
            (
                id(pod.requirements),
                pod.resident.priority,
                tuple(numbered(claim) for claim in pod.claims.pending),
                tuple(claim.key for claim in pod.claims.allocated),
                pod.gang,
                self._visible_labels(pod.resident),
            )
            for pod in item.pods
        )

    def _spec(self, claim: ResourceClaim) -> bytes:
        result = self._specs.get(id(claim.spec))
        if result is None:
            result = self._specs[id(claim.spec)] = (claim, _encode(claim.spec))
        return result[1]

    def _visible_labels(self, pod: AssignedPod) -> Hashable:
        if self._labels is None:
            return None
        return pod.namespace, tuple((key, pod.labels.get(key)) for key in self._labels)


def _selected_label_keys(demand: ClusterDemand) -> tuple[str, ...] | None:
    """Keys of pod labels that affinity or topology spread of any pod reads; None if no pod has either."""
    keys: set[str] = set()
    has_affinity = False
    requirements = {id(pod.requirements): pod.requirements for pod in demand.pending}
    requirements.update((id(resident.requirements), resident.requirements) for resident, _ in demand.residents)
    for each in requirements.values():
        terms = [
            n.term
            for n in (*each.affinity, *each.anti_affinity, *each.affinity_preferred, *each.anti_affinity_preferred)
        ]
        has_affinity = has_affinity or bool(terms or each.spread)
        selecting: list[PodAffinityTerm | TopologySpreadConstraint] = [*terms, *each.spread]
        for term in selecting:
            keys.update(term.match_label_keys)
            if term.label_selector is not None:
                keys.update(term.label_selector.match_labels)
                keys.update(requirement.key for requirement in term.label_selector.match_expressions)
        for neighbour in terms:
            keys.update(neighbour.mismatch_label_keys)
    return tuple(sorted(keys)) if has_affinity else None
