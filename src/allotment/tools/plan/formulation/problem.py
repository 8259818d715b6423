"""From what waits and what can be bought to a packing problem, and the truth about what one machine holds.

Bins are nodes that are there (free, each with what it has left) and offers of the catalogue with their GPUs in every
mode that some claim asks for. What rows say of them is necessary only; `Question.truth` asks the real engine and the
real filters.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import msgspec

from allotment.engine.cluster.inventory import Inventory
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.labels import ZONES, labels_of
from allotment.fleet.catalog.templates import hardware_of
from allotment.fleet.errors import FleetError
from allotment.model.quantity import Quantity
from allotment.model.resource import ResourceClaim
from allotment.model.trees import to_tree
from allotment.node_fit.filters import FILTERS, judge
from allotment.node_fit.filters.inter_pod_affinity import meant, neighbours
from allotment.node_fit.nodes import Machine, Machines
from allotment.packing.problem import BinType, CapacityRow, Pieces, Problem
from allotment.tools.plan.formulation.candidate_nodes import FITS, Alone, Place, devices, reaches
from allotment.tools.plan.formulation.conflicts import clashes_inside, conflicts, most_each
from allotment.tools.plan.formulation.oracle import Truth
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.offerings.device_rows import MEMORY_SLICES, Measured, measure
from allotment.tools.plan.offerings.hypothetical_nodes import DeviceRoom, Stage, Steps, templates
from allotment.tools.plan.offerings.modes import Modes
from allotment.tools.plan.offerings.offers import MICRO, Offer, any_offer, offers_of, quota_limits, quotas
from allotment.tools.plan.offerings.templates import UNDECIDED, node_tree, template
from allotment.tools.plan.pending_pods.demand import Demand, Waiting, asked_labels
from allotment.tools.plan.pending_pods.grouping import Item, Kind, kinds_of
from allotment.tools.plan.pending_pods.tolerations import untolerated

ZONE: Final = "topology.kubernetes.io/zone"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_ARCH: Final = "kubernetes.io/arch"
#: What images are built for unless their pods say something else.
_USUAL: Final = "amd64"
_PODS: Final = "pods"
#: Operators that a label that is not there satisfies.
_WITHOUT: Final = ("NotIn", "DoesNotExist")

_encode = msgspec.json.Encoder(enc_hook=str).encode


@dataclass(slots=True)
class _Needs:
    """What an item of a kind asks of a place that lacks certain extended resources."""

    plain: tuple[int, ...]
    shapes: tuple[int, ...]
    step: int


class Question:
    """A demand and what may be bought, as kinds, places and a problem; answers are kept."""

    def __init__(
        self, demand: Demand, catalog: Sequence[InstanceType], limits: Limits, kinds: Sequence[Kind] | None = None
    ) -> None:  # fmt: skip
        """``kinds``: those of the demand, where something was decided about them already."""
        self.demand = demand
        self.catalog = catalog
        self.limits = limits
        self.kinds = list(kinds if kinds is not None else kinds_of(demand))
        self.steps = Steps(demand.classes)
        self._kube = demand.features.kube
        self._machines = Machines(Inventory(demand.features))
        self._specs: dict[int, tuple[ResourceClaim, bytes]] = {}
        self._needs: dict[tuple[int, frozenset[str]], _Needs] = {}
        self._rooms: dict[object, DeviceRoom] = {}
        self._measured: dict[int, Measured] = {}
        self._alone: dict[tuple[int, int], Alone] = {}
        self._devices_alone: dict[tuple[int, tuple[int, ...]], Alone] = {}
        self._names = _resources(self.kinds)
        self._by_devices = [frozenset().union(*(pod.by_devices for pod in kind.model.pods)) for kind in self.kinds]
        self._conflicts = conflicts(demand, self.kinds)
        self._each = most_each(self.kinds)
        self._stage = self._template_stage()
        self._cluster = Stage(_inventory(demand))
        self._modes = Modes(self._stage, self.steps, limits, self._kube)
        for kind in range(len(self.kinds)):
            self.needs(kind, self._by_devices[kind])
        self.places: list[Place] = [*self._nodes(), *self._offers()]
        self._residents_refuse(self.places)
        self.bins: list[Place] = []
        self.nodes: dict[int, list[Place]] = {}
        """By bin, the nodes that are there and that it stands for; ``bins`` has the first of them."""
        self.problem = self._problem()

    # --- what kinds ask ------------------------------------------------------------------------------------------

    def needs(self, kind: int, lacking: frozenset[str]) -> _Needs:
        """What an item asks where the node itself lacks these extended resources."""
        key = (kind, lacking)
        found = self._needs.get(key)
        if found is None:
            found = self._needs[key] = self._ask(self.kinds[kind].model, lacking)
        return found

    def _ask(self, item: Item, lacking: frozenset[str]) -> _Needs:
        plain = dict.fromkeys(self._names, 0)
        plain[_PODS] = len(item.pods)
        shapes: list[int] = []
        for pod, claims in item.first_uses():
            for name, amount in pod.asked.requests.items():
                if name not in lacking:
                    plain[name] += amount
            made = pod.extended(lacking & pod.by_devices, self.demand)
            asked = (*claims, made) if made is not None else claims
            if asked:
                shapes.append(self.steps.shape(tuple(self._spec(claim) for claim in asked), asked))
        return _Needs(tuple(plain.values()), tuple(shapes), self.steps.of(tuple(shapes)))

    def _spec(self, claim: ResourceClaim) -> bytes:
        found = self._specs.get(id(claim.spec))
        if found is None:
            found = self._specs[id(claim.spec)] = (claim, _encode(claim.spec))
        return found[1]

    # --- places --------------------------------------------------------------------------------------------------

    def _template_stage(self) -> Stage:
        """New nodes see what the cluster publishes for all nodes, and its taint rules; mostly there is neither."""
        given = self.demand.given
        everywhere = [one for one in given.slices if not one.spec.node_name]
        self._alike = not everywhere and not given.rules
        if self._alike:
            return templates(given.features, self)
        claims = given.claims.values() if everywhere else ()
        return Stage(Inventory.of(given.features, slices=everywhere, claims=claims, taint_rules=given.rules))

    def _nodes(self) -> Iterable[Place]:
        for node in self.demand.given.nodes:
            self._machines.put(to_tree(node))
        for resident, where in self.demand.residents:
            self._machines.seat(resident, where)
        for machine in list(self._machines):
            room = DeviceRoom(self._cluster, self._cluster.inventory.view(machine.name), self.steps)
            yield Place(machine.name, machine, room, zone=machine.facts.labels.get(ZONE, ""))

    def _offers(self) -> Iterable[Place]:
        keys = _told_apart(self.kinds)
        each_zone = not ZONES.isdisjoint(keys) or any(kind.zone for kind in self.kinds)
        each_capacity = CAPACITY_TYPE in keys or self.limits.spot_share is not None
        for instance in self.catalog:
            for offer in offers_of(instance, self.limits, each_zone=each_zone, each_capacity=each_capacity):
                yield from self._ways(offer)

    def _ways(self, offer: Offer) -> Iterable[Place]:
        for mode in self._modes_of(offer.instance, self._modes):
            place = self._template(offer, mode)
            if place is not None:
                yield place

    def _modes_of(self, instance: InstanceType, modes: Modes) -> tuple[str, ...]:
        if instance.accelerator is None or not instance.hardware:
            return ("",)
        return ("", *modes.of(instance.accelerator, range(len(self.steps.shapes))))

    def _template(self, offer: Offer, mode: str) -> Place | None:
        instance = offer.instance
        name = f"{instance.key}{f'/{mode}' if mode else ''} {offer.zone} {offer.capacity_type}"
        try:
            made = template(instance, mode, name, self._kube, offer.zone, offer.capacity_type)
        except FleetError:
            return None
        self._machines.put(node_tree(made))
        machine = self._machines.by_name[name]
        for number, (asked, resident) in enumerate(self.demand.daemons):
            if judge(asked, machine) is None:
                self._machines.seat(resident._replace(uid=f"{number} {name}"), name)
        labels = machine.facts.labels
        # Slices for all nodes may look at labels, so that equal hardware is not enough to be equal.
        key = f"{instance.hardware or 'no GPUs'}/{mode}" if self._alike else name

        room = self._rooms.get(key)
        if room is None:
            view = self._stage.put(
                key, {} if self._alike else labels, lambda: template(instance, mode, key, self._kube).slices
            )
            room = self._rooms[key] = DeviceRoom(self._stage, view, self.steps)
        return Place(name, machine, room, offer, mode, made, offer.zone)

    # --- one item alone ------------------------------------------------------------------------------------------

    def alone(self, kind: int, place: Place) -> Alone:
        """Whether one item of a kind may have a place to itself, and what is in the way if not."""
        zone = self.kinds[kind].zone
        if zone and place.zone and place.zone != zone:
            return Alone("zone", f"it goes to zone {zone}")
        return self.anywhere(kind, place)

    def anywhere(self, kind: int, place: Place) -> Alone:
        """`alone`, whatever was decided about zones."""
        found = self._alone.get((kind, id(place)))
        if found is None:
            found = self._alone[kind, id(place)] = self._judge(kind, place)
        return found

    def is_unknowable(self, kind: int, place: Place) -> bool:
        """Whether nobody can know if one item of a kind may have a place."""
        return self.anywhere(kind, place).code == "run-time-only"

    def _judge(self, kind: int, place: Place) -> Alone:
        item = self.kinds[kind].model
        for pod in item.pods:
            told = _admitted(pod, place)
            if not told.fits:
                unknown = _needed_labels(pod) - self._carried if told.code == "affinity" else ()
                return Alone("affinity", f"no template carries label {min(unknown)}") if unknown else told
        if kind in place.refused:
            return Alone("neighbours", place.refused[kind])
        needs = self.needs(kind, place.lacking(self._by_devices[kind]))
        for name, needed in zip(self._names, needs.plain, strict=True):
            if needed and name != _PODS and name not in place.machine.allocatable:
                return Alone("unpublished", f"nothing publishes {name}")
        for name, needed, free in zip(self._names, needs.plain, self._left(place.machine), strict=True):
            if needed > free:
                return Alone("resources", f"{name}: {_amount(name, needed)} asked, {_amount(name, free)} there")
        if clashes_inside(self.demand, item):
            return Alone("neighbours", "its pods must be on one machine and keep apart at the same time")
        found = self.devices_alone(kind, place)
        return found if not found.fits else _built_for(item, place)

    def devices_alone(self, kind: int, place: Place) -> Alone:
        """Whether the devices of a place suffice for one item of a kind, whatever else is in the way."""
        needs = self.needs(kind, place.lacking(self._by_devices[kind]))
        key = (id(place.room), needs.shapes)
        found = self._devices_alone.get(key)
        if found is None:
            found = self._devices_alone[key] = devices(place, needs.shapes)
        return found

    @cached_property
    def _carried(self) -> frozenset[str]:
        """Labels that nodes have, or will have."""
        there = (label for node in self.demand.given.nodes for label in node.metadata.labels)
        made = (labels_of(one, hardware_of(one) if one.hardware else None, "any") for one in self.catalog)
        return frozenset(there).union(*made)

    def _left(self, machine: Machine) -> tuple[int, ...]:
        pods = machine.pods_allowed - len(machine.pods)
        return tuple(pods if name == _PODS else machine.free.get(name, 0) for name in self._names)

    def _residents_refuse(self, places: Sequence[Place]) -> None:
        """What pods that are there say of those that come, and these of them."""
        machines = self._machines
        for number, kind in enumerate(self.kinds):
            for pod in kind.model.pods:
                if not pod.asked.has_neighbours and not machines.neighbourly:
                    continue
                refused = neighbours(pod.resident, machines, self.demand.namespaces)
                if pod.asked.affinity and self._is_awaited(pod):
                    continue  # whom it must be near to is to come as well
                for place in places:
                    refusal = refused.get(place.machine.place)
                    if refusal is not None:
                        place.refused[number] = refusal.texts[0]

    def _is_awaited(self, pod: Waiting) -> bool:
        tests = [meant(n.term, pod.resident, self.demand.namespaces) for n in pod.asked.affinity]
        return any(all(test(other.resident) for test in tests) for other in self.demand.waiting)

    # --- the problem ---------------------------------------------------------------------------------------------

    def _problem(self) -> Problem:
        shapes = range(len(self.steps.shapes))
        bins: list[BinType] = []
        alike: dict[Hashable, list[Place]] = {}
        for place in self.places:
            fits = [self.alone(kind, place).fits for kind in range(len(self.kinds))]
            if not any(fits):
                continue
            if place.existing:
                same = alike.setdefault(self._likeness(place, fits), [])
                same.append(place)
                if len(same) > 1:
                    continue
                self.nodes[len(self.bins)] = same
            self.bins.append(place)
            bins.append(self._bin(place, fits, shapes))
        bins = [replace(bin, most=len(self.nodes[n])) if n in self.nodes else bin for n, bin in enumerate(bins)]
        limits = self.limits
        return Problem(
            kinds=tuple(kind.name for kind in self.kinds),
            counts=tuple(len(kind.items) for kind in self.kinds),
            bin_types=tuple(bins),
            group_limits=quota_limits(limits),
            budget=None if limits.budget is None else int(limits.budget * MICRO),
        )

    def _likeness(self, place: Place, fits: Sequence[bool]) -> Hashable:
        """Nodes that are there and equal in this are one sort of bin: in a large cluster most are."""
        machine, room = place.machine, place.room
        patterns = tuple(room.pattern(shape).number for shape in range(len(self.steps.shapes)))
        lacking = tuple(place.lacking(names) for names in self._by_devices)
        return (
            tuple(fits), self._left(machine), frozenset(machine.ports), lacking, place.zone, room.view.layout.number,
            room.initial, patterns,
        )  # fmt: skip

    def _bin(self, place: Place, fits: Sequence[bool], shapes: Sequence[int]) -> BinType:
        measured = self._measured.get(id(place.room))
        if measured is None:
            measured = self._measured[id(place.room)] = measure(place.room, shapes)
        free = self._left(place.machine)
        plain = [CapacityRow(name, 1, max(left, 0)) for name, left in zip(self._names, free, strict=True)]
        found: list[tuple[Pieces, ...] | None] = []
        for kind, fit in enumerate(fits):
            if not fit:
                found.append(None)
                continue
            needs = self.needs(kind, place.lacking(self._by_devices[kind]))
            taken: list[Pieces] = [(n,) if n else () for n in needs.plain]
            taken += [
                tuple(piece for shape in needs.shapes for piece in measured.needs[shape][row])
                for row in range(len(measured.rows))
            ]
            found.append(tuple(taken))
        each = tuple(1 if kind in self._conflicts.get(kind, ()) else most for kind, most in enumerate(self._each))
        offer = place.offer
        return BinType(
            name=place.name,
            price=offer.micro if offer is not None else 0,
            rows=(*plain, *measured.rows),
            needs=tuple(found),
            max_items=each if any(most is not None for most in each) else (),
            groups=quotas(offer, self.limits) if offer is not None else (),
        )

    @cached_property
    def truth(self) -> Truth:
        """What one machine of a bin holds, exactly: `packing.problem.Holds`."""
        plain: list[list[tuple[int, ...]]] = []
        steps: list[list[int]] = []
        weights: list[list[int]] = []
        for place in self.bins:
            asked = [self.needs(k, place.lacking(self._by_devices[k])) for k in range(len(self.kinds))]
            plain.append([needs.plain for needs in asked])
            steps.append([needs.step if needs.shapes else -1 for needs in asked])
            weights.append([self._weight(place, needs) for needs in asked])
        free = [self._left(place.machine) for place in self.bins]
        return Truth(self.bins, free, plain, steps, weights, self._conflicts)

    def _weight(self, place: Place, needs: _Needs) -> int:
        if place.mode != UNDECIDED:
            return 0
        measured = self._measured[id(place.room)]
        rows = [i for i, row in enumerate(measured.rows) if row.name == MEMORY_SLICES]
        return sum(max(measured.needs[shape][row], default=0) for shape in needs.shapes for row in rows)

    # --- beyond the limits ---------------------------------------------------------------------------------------

    @cached_property
    def beyond(self) -> tuple[Place, ...]:
        """Other types and modes, whatever limits and prices say: together with `places` all that there is to ask."""
        return tuple(self._unlimited())

    def _unlimited(self) -> Iterable[Place]:
        known = {(place.offer.instance.key, place.mode) for place in self.places if place.offer is not None}
        modes = Modes(self._stage, self.steps, Limits(), self._kube)
        for instance in self.catalog:
            if instance.room is None or (instance.gpus and not instance.hardware):
                continue
            for mode in self._modes_of(instance, modes):
                if (instance.key, mode) not in known:
                    place = self._template(any_offer(instance), mode)
                    if place is not None:
                        place.zone = ""
                        yield place


def _admitted(pod: Waiting, place: Place) -> Alone:
    """Kubernetes' filters of a node alone, and claims that are allocated already."""
    named = pod.asked.named_nodes()
    if named is not None and place.machine.name not in named:
        return Alone("affinity", "it is for another node")
    for filter in FILTERS:
        refusal = filter(pod.asked, place.machine)
        if refusal is not None:
            taint = untolerated(pod, place.machine.taints) if refusal.cause == "taint" else ""
            return Alone(refusal.cause, taint or refusal.texts[0])
    for claim in pod.claims.before:
        if not reaches(claim, place):
            return Alone("claim", f"claim {claim.key} is allocated on another node")
    return FITS


def _built_for(item: Item, place: Place) -> Alone:
    """Nobody knows what images are built for, so that a machine of another sort is taken only if the pods name it."""
    arch = place.offer.instance.arch if place.offer is not None else _USUAL
    if arch == _USUAL or all(_ARCH in asked_labels(pod) for pod in item.pods):
        return FITS
    return Alone("arch", f"{place.name.partition(' ')[0]} is {arch}, and the pod does not select {_ARCH}")


def _resources(kinds: Iterable[Kind]) -> tuple[str, ...]:
    """Names of all that pods ask of nodes, and of their number."""
    asked = {name for kind in kinds for pod in kind.model.pods for name in pod.asked.requests}
    return (*sorted(asked), _PODS)


def _told_apart(kinds: Iterable[Kind]) -> set[str]:
    """Labels of nodes that pods ask about."""
    keys: set[str] = set()
    for kind in kinds:
        for pod in kind.model.pods:
            keys |= asked_labels(pod)
            keys.update(n.term.topology_key for n in (*pod.asked.affinity, *pod.asked.anti_affinity))
            keys.update(constraint.topology_key for constraint in pod.asked.spread)
    return keys


def _needed_labels(pod: Waiting) -> set[str]:
    """Labels without which a node is nothing for a pod."""
    asked = pod.asked
    terms = asked.required.node_selector_terms if asked.required is not None else ()
    found = [{one.key for one in term.match_expressions if one.operator not in _WITHOUT} for term in terms]
    return {key for key, _ in asked.node_selector}.union(set.intersection(*found) if found else ())


def _inventory(demand: Demand) -> Inventory:
    """The cluster as it is, for the engine."""
    given = demand.given
    return Inventory.of(
        given.features,
        nodes=((node.metadata.name, node.metadata.labels) for node in given.nodes),
        slices=[one for one in given.slices if ("ResourceSlice", one.key) not in given.refused],
        classes=demand.classes.values(),
        claims=given.claims.values(),
        taint_rules=given.rules,
    )


def _amount(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return str(Quantity.binary(amount)) if name in ("memory", "ephemeral-storage") else str(amount)
