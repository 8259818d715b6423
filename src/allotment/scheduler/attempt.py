"""One attempt to place a pod: pure, on the state of this moment, with an answer that is a value.

The order is Kubernetes': what holds for all nodes (claims and classes), the filters of each node, other pods, claims
that have devices already, and last the devices. Among the nodes that are left the best score wins, of equals the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from allotment.engine.allocator import Allocator
from allotment.engine.outcome import Aborted, Allocated
from allotment.model.features import Features
from allotment.model.pod_groups import not_found_message
from allotment.model.resource import AllocationResult, ResourceClaim
from allotment.node_fit.device_table import NO_FIT, DeviceTable, DeviceTables
from allotment.node_fit.filters.inter_pod_affinity import Namespaces, neighbour_scores, neighbours
from allotment.node_fit.filters.ports import ports
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.resources import room
from allotment.node_fit.filters.topology_spread import spread, spread_scores
from allotment.node_fit.node_table import Table, Tables, places_in
from allotment.node_fit.nodes import Machine, Machines
from allotment.scheduler import device_readiness, extended_resources
from allotment.scheduler.claim_ledger import KnownClaim, Ledger
from allotment.scheduler.pod_groups import Grouping
from allotment.scheduler.pods import MOST_USERS, WaitingPod
from allotment.tools.explain.extended_resources import served_by_classes

#: How Kubernetes begins the error of an attempt that devices have stopped.
_PLUGIN: Final = 'running "DynamicResources" filter plugin:'
_NOT_NAMED = Refusal(("node(s) didn't satisfy plugin(s) [NodeAffinity]",), cause="affinity")
_ELSEWHERE = Refusal(("resourceclaim not available on the node",), cause="claim")
#: A prime, so that turns come to all places.
_STRIDE = 7919
_CANNOT_SERVE = Refusal(("cannot fit resource",), cause="devices")


@dataclass(slots=True)
class Chosen:
    """A node, and what its devices the pod's claims get there."""

    node: str
    allocations: tuple[tuple[KnownClaim, AllocationResult], ...] = ()
    allocated: tuple[KnownClaim, ...] = ()
    """Claims that have their devices already."""
    extended: tuple[ResourceClaim, AllocationResult] | None = None


@dataclass(slots=True)
class NoNode:
    """No node would do. ``before`` is set when no node was looked at."""

    nodes: int
    before: str = ""
    cause: str = ""
    refusals: dict[int, Refusal] = field(default_factory=dict)
    unavailable: tuple[KnownClaim, ...] = ()
    """Claims whose devices cannot be used by the pod where they are."""
    pending: tuple[ResourceClaim, ...] = ()
    """What would have had to be allocated, also for extended resources."""
    full: KnownClaim | None = None
    """A claim that has as many users as it may have."""

    def causes(self) -> frozenset[str]:
        """Why not, for all nodes together."""
        found = frozenset(r.cause for r in self.refusals.values())
        return found | {self.cause} if self.cause else found or frozenset({"nodes"})


@dataclass(slots=True)
class Failed:
    """The attempt ended with an error, whatever other nodes could have offered. ``text`` is Kubernetes'."""

    text: str
    pending: tuple[ResourceClaim, ...] = ()


class _Short(NamedTuple):
    """No node has the devices, or those that have them are out of reach of other claims."""

    tried: list[tuple[int, DeviceTable]]
    """Where devices were looked for, by bit mask of places."""
    pending: tuple[ResourceClaim, ...]
    otherwise_good: int

    def refusal(self, place: int) -> Refusal | None:
        if self.otherwise_good >> place & 1:
            return None
        for among, devices in self.tried:
            if among >> place & 1:
                return devices.refusal(place)
        return _CANNOT_SERVE


Outcome = Chosen | NoNode | Failed


class Attempts:
    """What attempts need, kept from one to the next."""

    def __init__(
        self, machines: Machines, ledger: Ledger, allocator: Allocator, features: Features, namespaces: Namespaces,
        groups: Grouping, has_rivals: Callable[[], bool] = lambda: False,
        unreadable: Callable[[], str] = lambda: "",
    ) -> None:  # fmt: skip
        """``unreadable``: why no devices can be given now; empty if they can."""
        self.machines = machines
        self.ledger = ledger
        self.allocator = allocator
        self.features = features
        self.namespaces = namespaces
        self.groups = groups
        self.has_rivals = has_rivals
        self.unreadable = unreadable
        self._turns = 0
        self.tables = Tables(machines)
        self.devices = DeviceTables(allocator)
        self.nominations: dict[str, tuple[WaitingPod, str]] = {}
        """Pods that were promised a place, and where, by preemption or by others: nobody of less priority takes it."""

    def attempt(
        self, pod: WaitingPod, claims: list[KnownClaim], unusable: Set[str] = frozenset(), only: int = -1
    ) -> Outcome:
        """Try a pod with its claims. ``unusable`` are claims (uids) whose devices have failed to get ready.

        ``only`` is a bit mask of the places to look at.
        """
        machines = self.machines
        if not len(machines):
            return NoNode(0)
        if self.groups.of(pod.tree) and (why := self.groups.unreadable()):
            return Failed(f"{_PLUGIN} {why}", tuple(claim.value for claim in claims if claim.allocation is None))
        if missing := self.groups.missing(pod.tree):
            return NoNode(len(machines), before=not_found_message(missing), cause="group")
        pending: list[KnownClaim] = []
        allocated: list[KnownClaim] = []
        for claim in claims:
            (allocated if claim.allocation is not None else pending).append(claim)
        if claims:
            obstacle = self._obstacle(pod, pending, allocated)
            if obstacle is not None:
                return obstacle
        nominated = machines.by_name.get(pod.nominated) if pod.nominated else None
        if nominated is not None and only == -1:
            # First of all, and alone: where it fits, nobody asks what others have, or what is wrong with them.
            outcome = self._among(pod, pending, allocated, unusable, 1 << nominated.place)
            if isinstance(outcome, Chosen):
                return outcome
        return self._among(pod, pending, allocated, unusable, only)

    def _among(
        self, pod: WaitingPod, pending: list[KnownClaim], allocated: list[KnownClaim], unusable: Set[str], only: int
    ) -> Outcome:
        """Look at the places of a bit mask."""
        machines, demand = self.machines, pod.demand
        by_devices = served_by_classes(self.allocator.inventory.classes, demand, self.features)
        table = self.tables.of(demand, by_devices)
        among = table.fits & only
        out: dict[int, Refusal] = {}
        named = demand.named_nodes()
        if named is not None:
            among &= self.allocator.inventory.node_mask(named)
        if demand.spread:
            out.update(spread(demand, pod.resident.namespace, pod.resident.labels, machines))
        if demand.has_neighbours or machines.neighbourly:
            for place, refusal in neighbours(pod.resident, machines, self.namespaces).items():
                out.setdefault(place, refusal)
        if self.nominations:
            self._respect_nominations(pod, among, by_devices, out)
        for place in out:
            among &= ~(1 << place)
        lost: dict[str, int] = {}
        for claim in allocated:
            broken = claim.uid in unusable or bool(device_readiness.of(claim.tree).failure)
            lost[claim.uid] = among & ~(0 if broken else self._usable(claim, among))
        elsewhere = 0
        for places in lost.values():
            elsewhere |= places
        found = self._devices(pod, table, among, elsewhere, by_devices, pending, allocated)
        if not isinstance(found, _Short):
            return found
        refusals: dict[int, Refusal] = {}
        for machine in machines:
            place = machine.place
            own = table.refusals[place]
            if named is not None and machine.name not in named:
                own = _NOT_NAMED
            if own is None:
                own = out.get(place) or found.refusal(place) or _ELSEWHERE
            refusals[place] = own
        # A claim counts as in the way only where everything else is there (as upstream: others it would not help).
        unavailable = tuple(claim for claim in allocated if lost[claim.uid] & found.otherwise_good)
        return NoNode(len(machines), refusals=refusals, unavailable=unavailable, pending=found.pending)

    # --- before any node -----------------------------------------------------------------------------------------

    def _obstacle(self, pod: WaitingPod, pending: list[KnownClaim], allocated: list[KnownClaim]) -> NoNode | None:
        nodes = len(self.machines)
        group = self.groups.of(pod.tree)
        for claim in allocated:
            if len(claim.users) >= MOST_USERS and not claim.is_reserved_for(pod.uid, group):
                return NoNode(nodes, before="resourceclaim in use", cause="claim", full=claim)
        classes = self.allocator.inventory.classes
        for claim in pending:
            if claim.key in self.ledger.in_flight:
                text = f"resource claim {claim.key} is in the process of being allocated"
                return NoNode(nodes, before=text, cause="claim")
            missing = _missing_class(claim.value, classes)
            if missing:
                return NoNode(nodes, before=missing, cause="class", pending=tuple(c.value for c in pending))
        return None

    # --- other pods ----------------------------------------------------------------------------------------------

    def _respect_nominations(
        self, pod: WaitingPod, among: int, by_devices: frozenset[str], out: dict[int, Refusal]
    ) -> None:
        """A node must do for the pod also when those are there that were promised a place and come before it.

        That is so for all that pods are to each other, and not for devices: Kubernetes keeps none for them.
        """
        promised: dict[str, list[WaitingPod]] = {}
        for other, node in self.nominations.values():
            if other.uid != pod.uid and other.priority >= pod.priority:
                promised.setdefault(node, []).append(other)
        for node, others in promised.items():
            machine = self.machines.by_name.get(node)
            if machine is None or not among >> machine.place & 1 or machine.place in out:
                continue
            trial = [other for other in others if self.machines.node_of(other.uid) is None]
            for other in trial:
                self.machines.seat(other.resident, node)
            refusal = self._beside(pod, machine, by_devices)
            for other in trial:
                self.machines.unseat(other.uid)
            if refusal is not None:
                out[machine.place] = refusal

    def _beside(self, pod: WaitingPod, machine: Machine, by_devices: frozenset[str]) -> Refusal | None:
        """What the pods on a node, and elsewhere, say to one more."""
        demand = pod.demand
        refusal = ports(demand, machine) or room(demand, machine, by_devices)
        if refusal is None and demand.spread:
            uneven = spread(demand, pod.resident.namespace, pod.resident.labels, self.machines)
            refusal = uneven.get(machine.place)
        if refusal is None and (demand.has_neighbours or self.machines.neighbourly):
            refusal = neighbours(pod.resident, self.machines, self.namespaces).get(machine.place)
        return refusal

    # --- claims and devices --------------------------------------------------------------------------------------

    def _usable(self, claim: KnownClaim, among: int) -> int:
        """Of these places those from which an allocated claim's devices can be used."""
        only = claim.only_node()
        if only is not None:
            return among & self.allocator.inventory.node_mask((only,))
        if not (claim.allocation or {}).get("nodeSelector"):
            return among
        found = 0
        for place in places_in(among):
            machine = self.machines.at(place)
            if machine is not None and claim.reaches(machine.facts):
                found |= 1 << place
        return found

    def _devices(
        self, pod: WaitingPod, table: Table, among: int, elsewhere: int, by_devices: frozenset[str],
        pending: list[KnownClaim], allocated: list[KnownClaim],
    ) -> Chosen | Failed | _Short:  # fmt: skip
        """Kubernetes asks for devices first and only then whether other claims of the pod can be used there."""
        claims = tuple(claim.value for claim in pending)
        if by_devices:
            groups = extended_resources.groups(
                pod.tree, by_devices, among, self.machines, self.allocator.inventory.classes, self.features
            )
        else:
            groups = [extended_resources.Group(among, None)]
        good = 0
        tried: list[tuple[int, DeviceTable]] = []
        for group in groups:
            wanted = (*claims, group.claim) if group.claim is not None else claims
            if not wanted:
                good |= group.among
                continue
            if why := self.unreadable():
                return Failed(f"{_PLUGIN} {why}", wanted)
            devices = self.devices.of(wanted)
            stops = devices.stops & group.among
            if stops:
                error = self.devices.error_on((stops & -stops).bit_length() - 1, wanted)
                text = error.text if error is not None else NO_FIT.texts[0]
                return Failed(f"{_PLUGIN} {text}", wanted)
            good |= devices.fits & group.among
            tried.append((group.among, devices))
        made = next((group.claim for group in groups if group.claim is not None), None)
        otherwise_good, good = good, good & ~elsewhere
        if not good:
            return _Short(tried, (*claims, made) if made is not None else claims, otherwise_good)
        place = self._best(pod, table, good, claims)
        machine = self.machines.at(place)
        assert machine is not None
        made = next(group.claim for group in groups if group.among >> place & 1)
        wanted = (*claims, made) if made is not None else claims
        if not wanted:
            return Chosen(machine.name, allocated=tuple(allocated))
        outcome = self.allocator.allocate(machine.name, wanted, prefer_last=self.has_rivals())
        if not isinstance(outcome, Allocated):
            text = outcome.text if isinstance(outcome, Aborted) else NO_FIT.texts[0]
            return Failed(f"{_PLUGIN} {text}", wanted)
        pairs = tuple(zip(pending, outcome.results[: len(pending)], strict=True))
        return Chosen(machine.name, pairs, tuple(allocated), (made, outcome.results[-1]) if made is not None else None)

    def _best(self, pod: WaitingPod, table: Table, good: int, claims: tuple[ResourceClaim, ...]) -> int:
        """The place to take, of those that would do."""
        extra = self._wishes(pod, good, claims)
        if not extra:
            return table.best(good, self._start())
        return max(places_in(good), key=lambda place: (table.scores[place] + extra.get(place, 0), -place))

    def _start(self) -> int:
        """Where to begin to look: beside rivals each time elsewhere, so that they rarely meet us on the same node."""
        if not self.has_rivals():
            return 0
        self._turns += _STRIDE
        return self._turns % max(self.allocator.inventory.index_count, 1)

    def _wishes(self, pod: WaitingPod, good: int, claims: tuple[ResourceClaim, ...]) -> dict[int, int]:
        """Scores that hold for this pod alone: spread and neighbours (weight 2 each), alternatives of claims (2)."""
        extra: dict[int, int] = {}
        alternatives = any(request.first_available for claim in claims for request in claim.spec.devices.requests)
        if not (alternatives or pod.demand.social or self.machines.neighbourly) or not good & (good - 1):
            return extra
        candidates = [m for place in places_in(good) if (m := self.machines.at(place)) is not None]
        resident = pod.resident
        if pod.demand.spread:
            _weigh(
                extra, spread_scores(pod.demand, resident.namespace, resident.labels, self.machines, iter(candidates))
            )
        if pod.demand.has_neighbours or self.machines.neighbourly:
            _weigh(extra, neighbour_scores(resident, self.machines, self.namespaces, candidates))
        if alternatives:
            preferred = {m.place: self.devices.preference(claims, m.place) for m in candidates}
            most = max(preferred.values())
            if most:
                _weigh(extra, {place: 100 * value // most for place, value in preferred.items()})
        return extra

    # --- for preemption ------------------------------------------------------------------------------------------

    def refusal_on(self, pod: WaitingPod, claims: list[KnownClaim], machine: Machine) -> Refusal | None:
        """Whether the pod would do on one node, as things are."""
        outcome = self.attempt(pod, claims, only=1 << machine.place)
        if isinstance(outcome, Chosen):
            return None
        if isinstance(outcome, NoNode):
            return outcome.refusals.get(machine.place, NO_FIT)
        return NO_FIT


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
