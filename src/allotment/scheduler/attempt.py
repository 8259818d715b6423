"""One scheduling attempt for one pod: filters and scores nodes, allocates devices, and returns the outcome as a value.

The order is Kubernetes': checks that are independent of the node (claims and classes), the filters of each node, other
pods, claims that are already allocated, and finally devices. The feasible node with the highest score wins; among
equals, the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from heapq import heapify, heappop
from typing import Final, NamedTuple

from allotment.engine.allocator import Allocator
from allotment.engine.outcome import Aborted, Allocated
from allotment.explanation.extended_resources import served_by_classes
from allotment.model.features import Features
from allotment.model.pod_groups import not_found_message
from allotment.model.resource import AllocationResult, ResourceClaim
from allotment.model.trees import Tree
from allotment.node_fit.device_table import NO_FIT, DeviceTable, DeviceTables
from allotment.node_fit.filters.inter_pod_affinity import Namespaces, inter_pod_affinity, inter_pod_affinity_scores
from allotment.node_fit.filters.ports import ports
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.resources import resources
from allotment.node_fit.filters.topology_spread import topology_spread, topology_spread_scores
from allotment.node_fit.node_allocatable import NodeAllocatableDevices, UnknownUse
from allotment.node_fit.node_table import NodeFitTable, NodeFitTables, node_indexes
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.node_fit.pod_requirements import PodRequirementsCache
from allotment.scheduler import device_readiness, extended_resources
from allotment.scheduler.claim_ledger import CachedClaim, ClaimLedger
from allotment.scheduler.device_accounts import DeviceAccounts, shared_claim_refusal
from allotment.scheduler.pod_groups import PodGroups
from allotment.scheduler.pods import MAX_CONSUMERS, QueuedPod
from allotment.scheduler.volumes.cluster_volumes import NO_VOLUMES, ClusterVolumes, VolumeChoice
from allotment.scheduler.volumes.pod_volumes import PodVolumes

#: Prefix of Kubernetes' error when device allocation aborts an attempt.
_FILTER_ERROR: Final = 'running "DynamicResources" filter plugin:'
_NODE_NAME_MISMATCH = Refusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",), cause="affinity")
_CLAIM_UNREACHABLE = Refusal(("resourceclaim not available on the node",), cause="claim")
#: A prime, so that the start positions cover all node indexes.
_STRIDE = 7919
_NO_DEVICES = Refusal(("cannot fit resource",), cause="devices")


@dataclass(slots=True)
class NodeAssignment:
    """A node and the devices that the pod's claims are allocated there."""

    node: str
    allocations: tuple[tuple[CachedClaim, AllocationResult], ...] = ()
    already_allocated: tuple[CachedClaim, ...] = ()
    """Claims that were allocated before this attempt."""
    extended: tuple[ResourceClaim, AllocationResult] | None = None
    claim_statuses: tuple[Tree, ...] = ()
    """The node's resources that the pod's devices use, for ``status.nodeAllocatableResourceClaimStatuses``."""
    volumes: VolumeChoice = NO_VOLUMES


@dataclass(slots=True)
class NoNode:
    """No node is feasible. ``prefilter_message`` is set if the attempt ended before any node was checked."""

    nodes: int
    prefilter_message: str = ""
    cause: str = ""
    refusals: dict[int, Refusal] = field(default_factory=dict)
    unavailable: tuple[CachedClaim, ...] = ()
    """Allocated claims whose devices the pod cannot use on any otherwise feasible node."""
    pending: tuple[ResourceClaim, ...] = ()
    """The claims that had to be allocated, including the one for extended resources."""
    full_claim: CachedClaim | None = None
    """A claim that has the maximum number of consumers."""

    def causes(self) -> frozenset[str]:
        """Return the causes of refusal over all nodes."""
        found = frozenset(r.cause for r in self.refusals.values())
        return found | {self.cause} if self.cause else found or frozenset({"nodes"})


@dataclass(slots=True)
class AttemptFailed:
    """The attempt ended with an error that no other node can avoid. ``text`` is Kubernetes' message."""

    text: str
    pending: tuple[ResourceClaim, ...] = ()


class _DeviceShortage(NamedTuple):
    """No node has the devices, or the pod's allocated claims cannot be used on the nodes that have them."""

    searched: list[tuple[int, DeviceTable]]
    """Device tables and the bit mask of node indexes that each was used for."""
    pending: tuple[ResourceClaim, ...]
    otherwise_feasible: int
    lacking: dict[int, Refusal]
    """Nodes without enough cpu, memory or huge pages for the devices, by index."""

    def refusal(self, place: int) -> Refusal | None:
        if place in self.lacking:
            return self.lacking[place]
        if self.otherwise_feasible >> place & 1:
            return None
        for among, devices in self.searched:
            if among >> place & 1:
                return devices.refusal(place)
        return _NO_DEVICES


Outcome = NodeAssignment | NoNode | AttemptFailed


class SchedulingAlgorithm:
    """Runs scheduling attempts and keeps the tables that consecutive attempts share."""

    def __init__(
        self, machines: NodeCache, ledger: ClaimLedger, allocator: Allocator, features: Features,
        namespaces: Namespaces, groups: PodGroups, has_competitors: Callable[[], bool] = lambda: False,
        unreadable: Callable[[], str] = lambda: "", demands: PodRequirementsCache | None = None,
        node_allocatable: NodeAllocatableDevices | None = None, volumes: ClusterVolumes | None = None,
    ) -> None:  # fmt: skip
        """``unreadable`` returns why devices cannot be allocated now, or an empty string. ``node_allocatable``: the
        devices that use cpu, memory or huge pages of their node. ``volumes``: those of the cluster, without which
        volumes restrict no pod.
        """
        self.machines = machines
        self.ledger = ledger
        self.allocator = allocator
        self.features = features
        self.namespaces = namespaces
        self.groups = groups
        self.has_competitors = has_competitors
        self.unreadable = unreadable
        self.accounts = DeviceAccounts(
            node_allocatable if node_allocatable is not None else NodeAllocatableDevices(),
            ledger,
            groups,
            demands if demands is not None else PodRequirementsCache(),
        )
        self.volumes = volumes
        self._start_offset = 0
        self.tables = NodeFitTables(machines)
        self.devices = DeviceTables(allocator)
        self.nominations: dict[str, tuple[QueuedPod, str]] = {}
        """Pods nominated to a node, by preemption or by another client; pods of lower priority do not take the room."""

    def schedule(
        self, pod: QueuedPod, claims: list[CachedClaim], unusable: Set[str] = frozenset(), only: int = -1
    ) -> Outcome:
        """Find a node and devices for a pod with its claims.

        ``unusable``: uids of claims whose devices failed to become ready. ``only``: bit mask of the node indexes to
        check.
        """
        machines = self.machines
        nodes = len(machines) if only == -1 else (only & _mask(machines)).bit_count()
        if not nodes:
            return NoNode(0)
        if self.groups.of(pod.tree) and (why := self.groups.unreadable()):
            return AttemptFailed(
                f"{_FILTER_ERROR} {why}", tuple(claim.value for claim in claims if claim.allocation is None)
            )
        if missing := self.groups.missing(pod.tree):
            return NoNode(nodes, prefilter_message=not_found_message(missing), cause="group")
        volumes: PodVolumes | None = None
        if pod.volume_claims and self.volumes is not None:
            volumes = PodVolumes(pod, self.volumes, machines)
            if volumes.obstacle:
                return NoNode(nodes, prefilter_message=volumes.obstacle, cause=volumes.cause)
        pending: list[CachedClaim] = []
        allocated: list[CachedClaim] = []
        for claim in claims:
            (allocated if claim.allocation is not None else pending).append(claim)
        if claims:
            obstacle = self._prefilter(pod, pending, allocated, nodes)
            if obstacle is not None:
                return obstacle
        nominated = machines.by_name.get(pod.nominated_node) if pod.nominated_node else None
        if nominated is not None and only >> nominated.index & 1 and only != 1 << nominated.index:
            # The nominated node is tried first: if the pod fits there, no other node is checked.
            outcome = self._find_node(pod, pending, allocated, unusable, 1 << nominated.index, volumes)
            if isinstance(outcome, NodeAssignment):
                return outcome
        return self._find_node(pod, pending, allocated, unusable, only, volumes)

    def _find_node(
        self, pod: QueuedPod, pending: list[CachedClaim], allocated: list[CachedClaim], unusable: Set[str], only: int,
        volumes: PodVolumes | None,
    ) -> Outcome:  # fmt: skip
        """Run the filters on the nodes of a bit mask."""
        machines, demand = self.machines, pod.demand
        by_devices = served_by_classes(self.allocator.inventory.classes, demand, self.features)
        table = self.tables.of(demand, by_devices)
        among = table.fits & only
        out: dict[int, Refusal] = {}
        named = demand.named_nodes()
        if named is not None:
            among &= self.allocator.inventory.node_mask(named)
        if volumes is not None:
            out.update(volumes.refusals(self._machines_at(among)))
        if demand.spread:
            uneven = topology_spread(demand, pod.resident.namespace, pod.resident.labels, machines)
            out = uneven | out
        if demand.has_pod_affinity or machines.pods_with_affinity:
            for place, refusal in inter_pod_affinity(pod.resident, machines, self.namespaces).items():
                out.setdefault(place, refusal)
        if self.nominations:
            self._respect_nominations(pod, among, by_devices, out)
        for place in out:
            among &= ~(1 << place)
        lost: dict[str, int] = {}
        for claim in allocated:
            broken = claim.uid in unusable or bool(device_readiness.of(claim.tree).failure)
            lost[claim.uid] = among & ~(0 if broken else self._nodes_using(claim, among))
            if self.accounts.is_taken(pod, claim):
                for place in node_indexes(among & ~lost[claim.uid]):
                    out[place] = shared_claim_refusal(claim)
                among &= lost[claim.uid]
        elsewhere = 0
        for places in lost.values():
            elsewhere |= places
        found = self._filter_devices(pod, table, among, elsewhere, by_devices, pending, allocated)
        if volumes is not None and isinstance(found, NodeAssignment):
            found.volumes = volumes.choice(machines.by_name[found.node])
        if not isinstance(found, _DeviceShortage):
            return found
        refusals: dict[int, Refusal] = {}
        for machine in machines:
            place = machine.index
            if not only >> place & 1:
                continue
            own = table.refusals[place]
            if named is not None and machine.name not in named:
                own = _NODE_NAME_MISMATCH
            if own is None:
                own = out.get(place) or found.refusal(place) or _CLAIM_UNREACHABLE
            refusals[place] = own
        # As upstream, a claim is unavailable only because of nodes that pass every other filter: freeing it elsewhere
        # would not help.
        unavailable = tuple(claim for claim in allocated if lost[claim.uid] & found.otherwise_feasible)
        return NoNode(len(refusals), refusals=refusals, unavailable=unavailable, pending=found.pending)

    # --- before any node is checked -----------------------------------------------------------------------------

    def _prefilter(
        self, pod: QueuedPod, pending: list[CachedClaim], allocated: list[CachedClaim], nodes: int
    ) -> NoNode | None:
        group = self.groups.of(pod.tree)
        for claim in allocated:
            if len(claim.users) >= MAX_CONSUMERS and not claim.is_reserved_for(pod.uid, group):
                return NoNode(nodes, prefilter_message="resourceclaim in use", cause="claim", full_claim=claim)
        classes = self.allocator.inventory.classes
        for claim in pending:
            if claim.key in self.ledger.in_flight:
                text = f"resource claim {claim.key} is in the process of being allocated"
                return NoNode(nodes, prefilter_message=text, cause="claim")
            missing = _missing_class(claim.value, classes)
            if missing:
                return NoNode(nodes, prefilter_message=missing, cause="class", pending=tuple(c.value for c in pending))
        return None

    # --- other pods ----------------------------------------------------------------------------------------------

    def _respect_nominations(
        self, pod: QueuedPod, among: int, by_devices: frozenset[str], out: dict[int, Refusal]
    ) -> None:
        """Refuse nodes where the pod fits only without the pods of at least its priority nominated there.

        This covers everything that pods take from each other except devices: Kubernetes reserves none for them.
        """
        nominated: dict[str, list[QueuedPod]] = {}
        for other, node in self.nominations.values():
            if other.uid != pod.uid and other.priority >= pod.priority:
                nominated.setdefault(node, []).append(other)
        for node, others in nominated.items():
            machine = self.machines.by_name.get(node)
            if machine is None or not among >> machine.index & 1 or machine.index in out:
                continue
            trial = [other for other in others if self.machines.node_of(other.uid) is None]
            for other in trial:
                self.machines.assign_pod(other.resident, node)
            refusal = self._refusal_by_pods(pod, machine, by_devices)
            for other in trial:
                self.machines.remove_pod(other.uid)
            if refusal is not None:
                out[machine.index] = refusal

    def _refusal_by_pods(self, pod: QueuedPod, machine: CachedNode, by_devices: frozenset[str]) -> Refusal | None:
        """Return the refusal caused by the pods on a node or elsewhere: ports, resources, spread, pod affinity."""
        demand = pod.demand
        refusal = ports(demand, machine) or resources(demand, machine, by_devices)
        if refusal is None and demand.spread:
            uneven = topology_spread(demand, pod.resident.namespace, pod.resident.labels, self.machines)
            refusal = uneven.get(machine.index)
        if refusal is None and (demand.has_pod_affinity or self.machines.pods_with_affinity):
            refusal = inter_pod_affinity(pod.resident, self.machines, self.namespaces).get(machine.index)
        return refusal

    # --- claims and devices --------------------------------------------------------------------------------------

    def _nodes_using(self, claim: CachedClaim, among: int) -> int:
        """Return the nodes of the mask on which an allocated claim's devices can be used."""
        only = claim.only_node()
        if only is not None and not claim.skips_operations:
            return among & self.allocator.inventory.node_mask((only,))
        if not (claim.allocation or {}).get("nodeSelector") and not claim.skips_operations:
            return among
        found = 0
        for place in node_indexes(among):
            machine = self.machines.at(place)
            if machine is not None and claim.is_usable_on(machine.facts):
                found |= 1 << place
        return found

    def _filter_devices(
        self, pod: QueuedPod, table: NodeFitTable, among: int, elsewhere: int, by_devices: frozenset[str],
        pending: list[CachedClaim], allocated: list[CachedClaim],
    ) -> NodeAssignment | AttemptFailed | _DeviceShortage:  # fmt: skip
        """Allocate devices on the best node; as in Kubernetes, devices are checked before allocated claims."""
        claims = tuple(claim.value for claim in pending)
        if by_devices:
            groups = extended_resources.node_groups(
                pod.tree, by_devices, among, self.machines, self.allocator.inventory.classes, self.features
            )
        else:
            groups = [extended_resources.NodeGroup(among, None)]
        good = 0
        tried: list[tuple[int, DeviceTable]] = []
        for group in groups:
            wanted = (*claims, group.claim) if group.claim is not None else claims
            if not wanted:
                good |= group.node_mask
                continue
            if why := self.unreadable():
                return AttemptFailed(f"{_FILTER_ERROR} {why}", wanted)
            devices = self.devices.of(wanted)
            stops = devices.errors & group.node_mask
            if stops:
                error = self.devices.error_on((stops & -stops).bit_length() - 1, wanted)
                text = error.text if error is not None else NO_FIT.texts[0]
                return AttemptFailed(f"{_FILTER_ERROR} {text}", wanted)
            good |= devices.fits & group.node_mask
            tried.append((group.node_mask, devices))
        if why := self.accounts.unpublished(allocated, self._machines_at(good)):
            return AttemptFailed(f"{_FILTER_ERROR} {why}", claims)

        def allocate(place: int) -> NodeAssignment | AttemptFailed | Refusal:
            made = next(group.claim for group in groups if group.node_mask >> place & 1)
            return self._allocate(pod, place, pending, allocated, made)

        lacking: dict[int, Refusal] = {}
        found = self._allocate_on_best(pod, table, good & ~elsewhere, claims, allocate, lacking)
        if found is not None:
            return found
        if self.accounts:  # as in Kubernetes, before nodes are refused on which an allocated claim cannot be used
            for place in node_indexes(good & elsewhere):
                found_elsewhere = allocate(place)
                if isinstance(found_elsewhere, AttemptFailed):
                    return found_elsewhere
                if isinstance(found_elsewhere, Refusal):
                    lacking[place] = found_elsewhere
                    good &= ~(1 << place)
        made = next((group.claim for group in groups if group.claim is not None), None)
        return _DeviceShortage(tried, (*claims, made) if made is not None else claims, good, lacking)

    def _allocate_on_best(
        self, pod: QueuedPod, table: NodeFitTable, good: int, claims: tuple[ResourceClaim, ...],
        allocate: Callable[[int], NodeAssignment | AttemptFailed | Refusal], lacking: dict[int, Refusal],
    ) -> NodeAssignment | AttemptFailed | None:  # fmt: skip
        """Allocate on the node with the highest score of those that do not refuse; add the others to ``lacking``."""
        while good:
            left = good
            for place in self._ranking(pod, table, good, claims):
                found = allocate(place)
                if isinstance(found, Refusal):
                    lacking[place] = found
                    left &= ~(1 << place)
                    continue
                if left != good and self._has_pod_scores(pod, claims) and isinstance(found, NodeAssignment):
                    # Some scores are relative to those of all nodes: without the refused ones, another can be best.
                    if next(self._ranking(pod, table, left, claims)) != place:
                        break
                return found
            good = left
        return None

    def _allocate(
        self, pod: QueuedPod, place: int, pending: list[CachedClaim], allocated: list[CachedClaim],
        made: ResourceClaim | None,
    ) -> NodeAssignment | AttemptFailed | Refusal:  # fmt: skip
        """Allocate devices on a node where they fit; refuse it if it lacks cpu, memory or huge pages for them.

        ``made``: the claim for extended resources on this node.
        """
        machine = self.machines.at(place)
        assert machine is not None
        claims = tuple(claim.value for claim in pending)
        wanted = (*claims, made) if made is not None else claims
        pairs: tuple[tuple[CachedClaim, AllocationResult], ...] = ()
        extended: tuple[ResourceClaim, AllocationResult] | None = None
        if wanted:
            outcome = self.allocator.allocate(machine.name, wanted, prefer_last=self.has_competitors())
            if not isinstance(outcome, Allocated):
                text = outcome.text if isinstance(outcome, Aborted) else NO_FIT.texts[0]
                return AttemptFailed(f"{_FILTER_ERROR} {text}", wanted)
            pairs = tuple(zip(pending, outcome.results[: len(pending)], strict=True))
            extended = (made, outcome.results[-1]) if made is not None else None
        statuses: tuple[Tree, ...] = ()
        if self.accounts:
            try:
                found = self.accounts.check(
                    pod, machine, [*pairs, *((claim, claim.allocation_value()) for claim in allocated)]
                )
            except UnknownUse as error:
                return AttemptFailed(f"{_FILTER_ERROR} {error}", wanted)
            if isinstance(found, Refusal):
                return found
            statuses = found
        return NodeAssignment(machine.name, pairs, tuple(allocated), extended, statuses)

    def _ranking(
        self, pod: QueuedPod, table: NodeFitTable, good: int, claims: tuple[ResourceClaim, ...]
    ) -> Iterator[int]:
        """Yield the indexes of feasible nodes, the highest score first."""
        extra = self._pod_scores(pod, good, claims)
        if extra:
            ranked = [(-table.scores[place] - extra.get(place, 0), place) for place in node_indexes(good)]
            heapify(ranked)
            while ranked:
                yield heappop(ranked)[1]
        while good and not extra:
            place = table.best(good, self._start_index())
            yield place
            good &= ~(1 << place)

    def _machines_at(self, places: int) -> Iterator[CachedNode]:
        return (machine for place in node_indexes(places) if (machine := self.machines.at(place)) is not None)

    def _start_index(self) -> int:
        """Return where to start among equal scores: varied next to other schedulers, so that both rarely choose the
        same node.
        """
        if not self.has_competitors():
            return 0
        self._start_offset += _STRIDE
        return self._start_offset % max(self.allocator.inventory.index_count, 1)

    def _pod_scores(self, pod: QueuedPod, good: int, claims: tuple[ResourceClaim, ...]) -> dict[int, int]:
        """Return the scores that depend on this pod: spread and pod affinity (weight 2 each), claim alternatives
        (weight 2).
        """
        extra: dict[int, int] = {}
        if not good & (good - 1) or not self._has_pod_scores(pod, claims):
            return extra
        candidates = list(self._machines_at(good))
        resident = pod.resident
        if pod.demand.spread:
            _weigh(
                extra,
                topology_spread_scores(
                    pod.demand, resident.namespace, resident.labels, self.machines, iter(candidates)
                ),
            )
        if pod.demand.has_pod_affinity or self.machines.pods_with_affinity:
            _weigh(extra, inter_pod_affinity_scores(resident, self.machines, self.namespaces, candidates))
        if _has_alternatives(claims):
            preferred = {m.index: self.devices.preference(claims, m.index) for m in candidates}
            most = max(preferred.values())
            if most:
                _weigh(extra, {place: 100 * value // most for place, value in preferred.items()})
        return extra

    def _has_pod_scores(self, pod: QueuedPod, claims: tuple[ResourceClaim, ...]) -> bool:
        others = pod.demand.depends_on_other_pods or bool(self.machines.pods_with_affinity)
        return others or _has_alternatives(claims)

    # --- for preemption ------------------------------------------------------------------------------------------

    def refusal_on(self, pod: QueuedPod, claims: list[CachedClaim], machine: CachedNode) -> Refusal | None:
        """Return why the pod does not fit on one node in the current state, or None if it fits."""
        outcome = self.schedule(pod, claims, only=1 << machine.index)
        if isinstance(outcome, NodeAssignment):
            return None
        if isinstance(outcome, NoNode):
            return outcome.refusals.get(machine.index, NO_FIT)
        return NO_FIT


def _mask(machines: NodeCache) -> int:
    """Return the bit mask of all nodes."""
    mask = 0
    for machine in machines:
        mask |= 1 << machine.index
    return mask


def _has_alternatives(claims: tuple[ResourceClaim, ...]) -> bool:
    return any(request.first_available for claim in claims for request in claim.spec.devices.requests)


def _weigh(extra: dict[int, int], scores: Mapping[int, int], weight: int = 2) -> None:
    for place, value in scores.items():
        extra[place] = extra.get(place, 0) + weight * value


def _missing_class(claim: ResourceClaim, classes: Mapping[str, object]) -> str:
    for request in claim.spec.devices.requests:
        if request.exactly is not None and request.exactly.device_class_name not in classes:
            return f"request {request.name}: device class {request.exactly.device_class_name} does not exist"
        for sub in request.first_available:
            if sub.device_class_name not in classes:
                return f"request {request.name}/{sub.name}: device class {sub.device_class_name} does not exist"
    return ""
