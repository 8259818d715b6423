"""``plan``: the cheapest machines for what waits, and every pod on one of them, proven.

What waits becomes items of a packing (`grouping`), what can be bought bins (`question`); the solver answers, and the
answer is seated pod by pod as the scheduler will do it (`seating`). What comes out is sound: with the planned nodes'
slices every planned pod is bound to its node. The bound is of the rows alone: nothing that is decided here is in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final, TypeAlias

from msgspec import structs

from allotment.fleet.catalog.allocatable import disk_of
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.labels import SETTERS
from allotment.fleet.catalog.price_dates import dated
from allotment.model.core import HOSTNAME_LABEL
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.packing.problem import KeepGoing, Packing, Problem, Progress
from allotment.phrases import counted, first_few
from allotment.tools.explain.report import GivenClaim
from allotment.tools.plan.formulation.conflicts import is_alone
from allotment.tools.plan.formulation.problem import Question
from allotment.tools.plan.limits import Limits
from allotment.tools.plan.offerings.offers import MICRO, quotas
from allotment.tools.plan.pending_pods.demand import Demand, Waiting, asked_labels, demand_of
from allotment.tools.plan.pending_pods.grouping import Item, Kind, firm_kinds_of
from allotment.tools.plan.placement.assignment import Seated, seat
from allotment.tools.plan.placement.group_splitting import parted
from allotment.tools.plan.placement.planned_nodes import Berth, Names, berths_of, single
from allotment.tools.plan.placement.unserved_pods import Why, not_seated, refused, why
from allotment.tools.plan.placement.zones import in_zones
from allotment.tools.plan.reasons.type_verdicts import choices
from allotment.tools.plan.report import Plan, PlannedMachine, Seat, Unserved


def notes_on(types: Sequence[InstanceType], seated: Iterable[Waiting]) -> Iterator[str]:
    """About the types that are bought, and the pods that come on machines of theirs."""
    estimated = [one.key for one in types if one.room is not None and one.room.estimated]
    if estimated:
        yield f"cpu and memory that {_have(estimated)} for pods are estimated"
    pods = list(seated)
    disks = [one.key for one in types if disk_of(one).estimated]
    if disks and any("ephemeral-storage" in pod.asked.requests for pod in pods):
        yield f"ephemeral-storage that {_have(disks)} for pods is estimated: ephemeral_gib of a catalogue says yours"
    borderline = [one.key for one in types if one.memory_bound]
    if borderline:
        yield f"GPU memory of {', '.join(borderline)} is not its driver's figure: claims near it are borderline"
    for setter, labels in _set_by(pods).items():
        yield f"{', '.join(sorted(labels))}: a node has it only where {setter} sets it"
    when = dated(one.as_of for one in types)
    if when:
        yield f"prices are of {when}"


def _have(names: Sequence[str]) -> str:
    return f"{', '.join(names)} {'has' if len(names) == 1 else 'have'}"


def _set_by(pods: Iterable[Waiting]) -> Mapping[str, set[str]]:
    """Labels that pods ask, by who would set them, where that one may not be there."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        for label in asked_labels(pod):
            setter = SETTERS.get(label.partition("/")[0])
            if setter is not None:
                found.setdefault(setter, set()).add(label)
    return found


def plan(
    values: Iterable[Object],
    catalog: Sequence[InstanceType],
    limits: Limits,
    features: Features,
    *,
    keep_going: KeepGoing,
    seed: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
    reasons: bool = True,
) -> Plan:
    """The cheapest machines for the pods among ``values`` that wait, found until ``keep_going`` ends.

    ``seconds``: about how long that will be. ``reasons``: why every type was taken or not, as ``choices``.
    """
    demand = demand_of(values, features)
    found = plan_for(demand, catalog, limits, keep_going=keep_going, seed=seed, seconds=seconds, progress=progress)
    return structs.replace(found, choices=choices(demand, catalog, limits, features)) if reasons else found


def plan_for(
    demand: Demand,
    catalog: Sequence[InstanceType],
    limits: Limits,
    *,
    keep_going: KeepGoing,
    seed: int = 0,
    seconds: float | None = None,
    progress: Progress | None = None,
) -> Plan:
    """`plan` for a demand that was read already."""
    return _Planning(demand, catalog, limits, keep_going, seed, seconds, progress).plan()


#: Of whom nothing can be promised, by code, and what it hangs on.
_HANGS: Final = (
    ("run-time-only", "on what is known only when machines run"),
    ("order", "on the order in which pods are tried again"),
)

#: A packing, how it was seated, and who is in no plan, by identity.
_Found: TypeAlias = tuple[Packing, Seated, dict[int, tuple[Item, Why]]]


class _Planning:
    def __init__(
        self, demand: Demand, catalog: Sequence[InstanceType], limits: Limits, keep_going: KeepGoing, seed: int,
        seconds: float | None, progress: Progress | None,
    ) -> None:  # fmt: skip
        self.demand = demand
        self.catalog = catalog
        self.limits = limits
        self._options = (keep_going, seed, seconds, progress)
        self.relaxed, left_out = parted(demand, catalog, limits)
        """Nothing decided yet but who is together."""
        kinds = in_zones(self.relaxed)
        self.question = self.relaxed if kinds is None else Question(demand, catalog, limits, kinds)
        items = [item for kind in self.question.kinds for item in kind.items]
        self._left_out = {id(i): (i, left_out[i.pods[0].order]) for i in items if i.pods[0].order in left_out}
        self.gone: dict[int, tuple[Item, Why]] = dict(self._left_out)
        """Items that are in no plan, by identity."""
        self._spot: int | None = None
        """How many machines may be spot, once a share of them was too many."""

    def plan(self) -> Plan:
        while True:
            packing = self._packing()
            left = set(self.gone)
            found = packing, self._seated(packing), dict(self.gone)
            if self._too_much_spot(found[1]) or self._break_gangs(found[1]):
                continue
            if self.gone.keys() - left:
                found = self._without_those_that_failed(found)
            packing, seated, self.gone = found
            return self._told(packing, seated)

    def _without_those_that_failed(self, found: _Found) -> _Found:
        """Machines were chosen for pods that found no place on them in the end; others may do for the rest."""
        again = self._packing()
        better = again, self._seated(again), dict(self.gone)
        if self._too_much_spot(better[1]) or self._break_gangs(better[1]):
            return found
        fewer = len(better[1].seats) < len(found[1].seats)
        return found if fewer or _cost(better[1]) >= _cost(found[1]) else better

    # --- packing -------------------------------------------------------------------------------------------------

    def _left(self, kind: int) -> list[Item]:
        return [item for item in self.question.kinds[kind].items if id(item) not in self.gone]

    def _packing(self) -> Packing:
        """A packing of all items that are not gone; what it leaves is gone then."""
        packing = self._solved(self.question.problem)
        for kind, count in packing.unpacked:
            reason = why(self.question, kind)
            # The last of a kind have waited least.
            for item in self._left(kind)[-count:]:
                self.gone[id(item)] = (item, reason)
        return packing

    def _too_much_spot(self, seated: Seated) -> bool:
        """Spot machines only as far as their share of all machines goes; if there are more, fewer are allowed next."""
        share = self.limits.spot_share
        offers = [berth.place.offer for berth in seated.berths if berth.place.offer is not None]
        spot = sum(offer.capacity_type == "spot" for offer in offers)
        before, spot_before = self.limits.standing
        if share is None or not spot or spot_before + spot <= (before + len(offers)) * share:
            return False
        self._spot = max(min(int((before + len(offers)) * share) - spot_before, spot - 1), 0)
        self.gone = dict(self._left_out)
        return True

    def _solved(self, problem: Problem) -> Packing:
        from allotment.packing.solve import solve

        counts = tuple(len(self._left(kind)) for kind in range(len(self.question.kinds)))
        if not any(counts):
            return Packing((), 0, 0)
        if not problem.bin_types:
            return Packing((), 0, 0, tuple((kind, n) for kind, n in enumerate(counts) if n))
        if self._spot is not None:
            problem = replace(problem, group_limits=(*problem.group_limits, ("spot", self._spot)))
        keep_going, seed, seconds, progress = self._options
        return solve(
            replace(problem, counts=counts), self.question.truth, keep_going=keep_going, seed=seed, seconds=seconds,
            progress=progress,
        )  # fmt: skip

    # --- seating -------------------------------------------------------------------------------------------------

    def _seated(self, packing: Packing) -> Seated:
        names = Names(node.metadata.name for node in self.demand.given.nodes)
        self._names = names
        berths = berths_of(self.question, packing.bins, names)
        parted = {id(item) for item, reason in self.gone.values() if reason.code == "gang"}
        # Whoever knows of gangs does not let a part of one start.
        items = [[item for item in kind.items if id(item) not in parted] for kind in self.question.kinds]
        seated = seat(self.question, berths, items, self.gone.keys() - parted, self._buy)
        for kind in self.question.kinds:
            for item in kind.items:
                refusal = seated.words.get(id(item))
                if refusal is None and id(item) not in parted:
                    self.gone.pop(id(item), None)  # it found a place that was meant for somebody else
                elif refusal is not None and (id(item) not in self.gone or refusal.cause == "order"):
                    self.gone[id(item)] = (item, not_seated(self.question, kind.number, refusal))
        return seated

    def _buy(self, kind: int, item: Item, berths: Sequence[Berth], zones: Collection[str]) -> Berth | None:
        """The cheapest machine for one item alone that limits still allow; in another zone, if zones are given."""
        if not zones:
            found = self._cheapest(self.question, kind, berths, zones)
            if found is not None:
                return found
        # What was decided of zones is forgotten.
        free = self.relaxed
        number = next(k.number for k in free.kinds if any(one is item for one in k.items))
        found = self._cheapest(free, number, berths, zones)
        places = {place.name: place for place in self.question.places}
        if found is None or found.place.name not in places:
            return None
        return replace(found, place=places[found.place.name], expected=Counter({kind: 1}))

    def _cheapest(
        self, question: Question, kind: int, berths: Sequence[Berth], without: Collection[str]
    ) -> Berth | None:
        limits = self.limits
        new = [berth for berth in berths if berth.new]
        spent = sum(berth.place.offer.micro for berth in new if berth.place.offer is not None)
        counts = Counter(q for berth in new if berth.place.offer for q in quotas(berth.place.offer, limits))
        allowed = dict(question.problem.group_limits)
        best: int | None = None
        for number, place in enumerate(question.bins):
            if place.offer is None or place.zone in without or not question.alone(kind, place).fits:
                continue
            if not question.truth(number, ((kind, 1),)):
                continue
            if any(counts[q] >= allowed[q] for q in quotas(place.offer, limits) if q in allowed):
                continue
            if limits.budget is not None and spent + place.offer.micro > limits.budget * MICRO:
                continue
            if place.offer.capacity_type == "spot" and limits.spot_share is not None:
                continue
            if best is None or place.offer.micro < (question.bins[best].offer or place.offer).micro:
                best = number
        return None if best is None else single(question, best, kind, self._names)

    def _break_gangs(self, seated: Seated) -> bool:
        """Gangs that are not seated whole are in no plan; whether there was one."""
        gangs = {pod.gang for item, _ in self.gone.values() for pod in item.pods if pod.gang}
        gangs |= self.demand.broken
        found = False
        for kind in self.question.kinds:
            for item in kind.items:
                gang = next((pod.gang for pod in item.pods if pod.gang in gangs), "")
                if gang and id(item) not in self.gone:
                    text = f"gang {gang} starts as a whole or not at all, and not all of it finds a place"
                    self.gone[id(item)] = (item, Why("gang", text))
                    found = True
        if found:
            # What they leave may be enough for others.
            gone = {key: value for key, value in self.gone.items() if value[1].code == "gang"}
            self.gone = self._left_out | gone
        return found

    # --- telling -------------------------------------------------------------------------------------------------

    def _told(self, packing: Packing, seated: Seated) -> Plan:
        pods = {pod.order: pod for pod in self.demand.waiting}
        by_node: dict[str, list[Seat]] = {}
        existing: list[Seat] = []
        new = [berth for berth in seated.berths if berth.new]
        bought = {berth.name for berth in new}
        for order in sorted(seated.seats):
            node, claims = seated.seats[order]
            seat = _seat(pods[order], node, claims)
            if node in bought:
                by_node.setdefault(node, []).append(seat)
            else:
                existing.append(seat)
        machines = tuple(self._machine(berth, tuple(by_node.get(berth.name, ()))) for berth in new)
        total = sum((machine.usd_per_hour for machine in machines), Decimal(0))
        unserved = [*self.demand.unserved]
        for item, reason in self.gone.values():
            unserved += refused(item, reason, seated.seats)
        arrivals = [pods[order] for order, (node, _) in seated.seats.items() if node in bought]
        place = {pod.key: pod.order for pod in self.demand.waiting}
        unserved.sort(key=lambda one: place.get(one.pod, -1))
        return Plan(
            machines=machines,
            existing=tuple(existing),
            unserved=tuple(unserved),
            total=total,
            bound=self._bound(packing, seated),
            notes=tuple(self._notes(new, unserved, arrivals, len(seated.late))),
        )

    def _machine(self, berth: Berth, seats: tuple[Seat, ...]) -> PlannedMachine:
        offer = berth.place.offer
        assert offer is not None
        assert offer.price is not None
        made = berth.template(self.demand.features.kube)
        room = offer.instance.room
        return PlannedMachine(
            node=berth.name,
            instance=offer.instance.key,
            form=made.form,
            zone=offer.zone,
            capacity_type=offer.capacity_type,
            usd_per_hour=offer.price,
            labels=made.node.metadata.labels,
            taints=made.node.spec.taints,
            seats=seats,
            layout=berth.layout,
            drivers=tuple(dict.fromkeys(one.spec.driver for one in made.slices)),
            cpu_milli=room.cpu_milli if room is not None else 0,
            memory=room.memory_mib << 20 if room is not None else 0,
        )

    def _bound(self, packing: Packing, seated: Seated) -> Decimal:
        """What the same pods cost at least, with nothing decided but what they and the limits say."""
        from allotment.packing.solve import lower_bound

        firm = self._firm()
        problem = firm.problem
        counts = [sum(any(p.order not in seated.seats for p in item.pods) for item in k.items) for k in firm.kinds]
        left = tuple((kind, n) for kind, n in enumerate(counts) if n)
        if tuple(counts) == problem.counts:
            return Decimal(0)
        # How many of a kind a node should have was decided here; what was asked for may allow more.
        alone = tuple(1 if is_alone(self.demand, kind.model) else None for kind in firm.kinds)
        each = [alone if any(alone) and HOSTNAME_LABEL in place.machine.facts.labels else () for place in firm.bins]
        if firm is self.question and left == packing.unpacked and [bin.max_items for bin in problem.bin_types] == each:
            bound = packing.bound
        else:
            bins = tuple(replace(bin, each=most) for bin, most in zip(problem.bin_types, each, strict=True))
            bound = lower_bound(replace(problem, bins=bins), left)
        return Decimal(max(bound, _dearest(problem, counts))) / MICRO

    def _firm(self) -> Question:
        """The question in which only those pods are one item that cannot be on different machines."""
        kinds = firm_kinds_of(self.demand)
        if _items(kinds) == _items(self.relaxed.kinds):
            return self.relaxed
        return Question(self.demand, self.catalog, self.limits, kinds)

    def _notes(
        self, new: Sequence[Berth], unserved: Sequence[Unserved], arrivals: Iterable[Waiting], late: int
    ) -> Iterable[str]:  # fmt: skip
        yield from self.demand.notes
        for code, what in _HANGS:
            unknown = sum(one.code == code for one in unserved)
            if unknown:
                pods = counted(unknown, "pod hangs", "pods hang")
                yield f"{pods} {what}, and may then take what is planned for others"
        undecided = {
            place.offer.instance.key if place.offer is not None else place.name
            for place in self.question.places
            if any(self.question.alone(kind.number, place).code == "undecided" for kind in self.question.kinds)
        }
        if undecided:
            yield f"search for devices given up on {first_few(sorted(undecided), 3)}; the bound counts it as not fitting"
        if late:
            pods = counted(late, "pod is", "pods are")
            yield f"{pods} let in only by others that come; proven if tried again at once, or when all had their turn"
        types = {berth.place.offer.instance.key: berth.place.offer.instance for berth in new if berth.place.offer}
        yield from notes_on(tuple(types.values()), arrivals)


def _cost(seated: Seated) -> int:
    return sum(berth.place.offer.micro for berth in seated.berths if berth.place.offer is not None)


def _items(kinds: Iterable[Kind]) -> set[tuple[int, ...]]:
    return {tuple(id(pod) for pod in item.pods) for kind in kinds for item in kind.items}


def _dearest(problem: Problem, left: Sequence[int]) -> int:
    """Some machine that holds it must be there for each kind: the cheapest such one of the kind that costs most."""
    prices: list[int] = []
    for kind, count in enumerate(problem.counts):
        if count > left[kind]:
            prices.append(min((bin.price for bin in problem.bin_types if bin.needs[kind] is not None), default=0))
    return max(prices, default=0)


def _seat(pod: Waiting, node: str, claims: tuple[GivenClaim, ...]) -> Seat:
    return Seat(
        pod=pod.key, node=node, owner=pod.owner, claims=claims, cpu_milli=pod.asked.requests.get("cpu", 0),
        memory=pod.asked.requests.get("memory", 0),
    )  # fmt: skip
