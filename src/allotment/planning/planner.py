"""``plan``: the cheapest machines for the pending pods, with a verified placement for every pod.

Pending pods become the items of a packing problem (`grouping`), instance types its bins (`formulation`). The packing
is then verified pod by pod with the scheduler's rules (`placement`), so that plans are sound: with the planned nodes'
slices, the scheduler can bind every planned pod to its node. The lower bound is independent of decisions made here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Final, TypeAlias

from msgspec import structs

from allotment.explanation.report import ClaimAllocation
from allotment.fleet.catalog.allocatable import disk_of
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.fleet.catalog.labels import SETTERS
from allotment.fleet.catalog.price_dates import date_range
from allotment.model.core import HOSTNAME_LABEL
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.packing.problem import KeepGoing, Packing, Problem, Progress
from allotment.phrases import counted, first_few
from allotment.planning.formulation.conflicts import is_one_per_host
from allotment.planning.formulation.problem import Formulation
from allotment.planning.limits import PlanLimits
from allotment.planning.offerings.offers import MICRO, quotas
from allotment.planning.pending_pods.demand import ClusterDemand, PendingPod, read_demand, selected_labels
from allotment.planning.pending_pods.grouping import Item, ItemKind, group_inseparable_items
from allotment.planning.placement.assignment import Assignment, assign_pods
from allotment.planning.placement.group_splitting import split_groups
from allotment.planning.placement.planned_nodes import NodeNames, PlannedNode, node_for_item, planned_nodes
from allotment.planning.placement.unserved_pods import UnservedReason, unplaced_reason, unserved_pods, unserved_reason
from allotment.planning.placement.zones import assign_zones
from allotment.planning.reasons.type_verdicts import group_verdicts
from allotment.planning.report import PlannedMachine, PodPlacement, ProvisioningPlan, UnservedPod


def notes_on(types: Sequence[InstanceType], placed: Iterable[PendingPod]) -> Iterator[str]:
    """Notes about the planned types and the pods that are placed on their machines."""
    estimated = [type_.key for type_ in types if type_.room is not None and type_.room.estimated]
    if estimated:
        yield f"the allocatable CPU and memory of {', '.join(estimated)} are estimated"
    pods = list(placed)
    disks = [type_.key for type_ in types if disk_of(type_).estimated]
    if disks and any("ephemeral-storage" in pod.requirements.requests for pod in pods):
        yield (
            f"the allocatable ephemeral-storage of {', '.join(disks)} is estimated; set ephemeral_gib in your own "
            "catalog"
        )
    borderline = [type_.key for type_ in types if type_.memory_bound]
    if borderline:
        yield (
            f"the GPU memory of {', '.join(borderline)} is not the value that the driver reports; claims for nearly "
            "all of it may not fit"
        )
    for setter, labels in _labels_by_setter(pods).items():
        pronoun = "it" if len(labels) == 1 else "them"
        yield f"{', '.join(sorted(labels))}: only {setter} sets {pronoun} on nodes"
    when = date_range(type_.as_of for type_ in types)
    if when:
        yield f"prices as of {when}"


def _labels_by_setter(pods: Iterable[PendingPod]) -> Mapping[str, set[str]]:
    """Labels that pods select, by the component that sets them, which may not be installed."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        for label in selected_labels(pod):
            setter = SETTERS.get(label.partition("/")[0])
            if setter is not None:
                found.setdefault(setter, set()).add(label)
    return found


def plan(
    values: Iterable[Object],
    catalog: Sequence[InstanceType],
    limits: PlanLimits,
    features: Features,
    *,
    keep_going: KeepGoing,
    seed: int = 0,
    progress: Progress | None = None,
    reasons: bool = True,
) -> ProvisioningPlan:
    """The cheapest machines for the pending pods among ``values``, found until ``keep_going`` returns False.

    ``reasons``: whether to fill in ``choices``, the verdicts.
    """
    demand = read_demand(values, features)
    found = plan_demand(demand, catalog, limits, keep_going=keep_going, seed=seed, progress=progress)
    return structs.replace(found, choices=group_verdicts(demand, catalog, limits, features)) if reasons else found


def plan_demand(
    demand: ClusterDemand,
    catalog: Sequence[InstanceType],
    limits: PlanLimits,
    *,
    keep_going: KeepGoing,
    seed: int = 0,
    progress: Progress | None = None,
) -> ProvisioningPlan:
    """`plan` for a demand that is already read, without ``choices``."""
    return _Planner(demand, catalog, limits, keep_going, seed, progress).plan()


#: Codes of unserved pods whose placement cannot be predicted, and what it depends on.
_NOT_GUARANTEED: Final = (
    ("run-time-only", "attributes that are known only after the machines have started"),
    ("order", "the order in which the scheduler retries pods"),
)

#: A packing, the assignment of its pods, and the unserved items by identity.
_Result: TypeAlias = tuple[Packing, Assignment, dict[int, tuple[Item, UnservedReason]]]


class _Planner:
    def __init__(
        self, demand: ClusterDemand, catalog: Sequence[InstanceType], limits: PlanLimits, keep_going: KeepGoing,
        seed: int, progress: Progress | None,
    ) -> None:  # fmt: skip
        self.demand = demand
        self.catalog = catalog
        self.limits = limits
        self._options = (keep_going, seed, progress)
        self.zoneless, excluded = split_groups(demand, catalog, limits)
        """The formulation without decisions on zones."""
        kinds = assign_zones(self.zoneless)
        self.formulation = self.zoneless if kinds is None else Formulation(demand, catalog, limits, kinds)
        items = [item for kind in self.formulation.kinds for item in kind.items]
        self._excluded = {id(i): (i, excluded[i.pods[0].order]) for i in items if i.pods[0].order in excluded}
        self.unserved: dict[int, tuple[Item, UnservedReason]] = dict(self._excluded)
        """Items that the plan does not place, by identity."""
        self._max_spot: int | None = None
        """The maximum number of spot machines, set once a plan exceeded the spot share."""

    def plan(self) -> ProvisioningPlan:
        while True:
            packing = self._pack()
            unserved_before = set(self.unserved)
            found = packing, self._assign(packing), dict(self.unserved)
            if self._exceeds_spot_share(found[1]) or self._drop_incomplete_gangs(found[1]):
                continue
            if self.unserved.keys() - unserved_before:
                found = self._replan_without_failed(found)
            packing, assignment, self.unserved = found
            return self._to_plan(packing, assignment)

    def _replan_without_failed(self, found: _Result) -> _Result:
        """Plan again without the pods that could not be placed; returns the cheaper of both results."""
        packing = self._pack()
        better = packing, self._assign(packing), dict(self.unserved)
        if self._exceeds_spot_share(better[1]) or self._drop_incomplete_gangs(better[1]):
            return found
        fewer = len(better[1].placements) < len(found[1].placements)
        return found if fewer or _cost(better[1]) >= _cost(found[1]) else better

    # --- packing -------------------------------------------------------------------------------------------------

    def _items_to_pack(self, kind: int) -> list[Item]:
        return [item for item in self.formulation.kinds[kind].items if id(item) not in self.unserved]

    def _pack(self) -> Packing:
        """A packing of all items that are not unserved; adds the unpacked ones to these."""
        packing = self._solve(self.formulation.problem)
        for kind, count in packing.unpacked:
            reason = unserved_reason(self.formulation, kind)
            # The last items of a kind are pending for the shortest time.
            for item in self._items_to_pack(kind)[-count:]:
                self.unserved[id(item)] = (item, reason)
        return packing

    def _exceeds_spot_share(self, assignment: Assignment) -> bool:
        """Whether there are more spot machines than their share allows; if so, the next packing allows fewer."""
        share = self.limits.spot_share
        offers = [node.candidate.offer for node in assignment.nodes if node.candidate.offer is not None]
        spot = sum(offer.capacity_type == "spot" for offer in offers)
        before, spot_before = self.limits.existing_machines
        if share is None or not spot or spot_before + spot <= (before + len(offers)) * share:
            return False
        self._max_spot = max(min(int((before + len(offers)) * share) - spot_before, spot - 1), 0)
        self.unserved = dict(self._excluded)
        return True

    def _solve(self, problem: Problem) -> Packing:
        from allotment.packing.solve import solve

        counts = tuple(len(self._items_to_pack(kind)) for kind in range(len(self.formulation.kinds)))
        if not any(counts):
            return Packing((), 0, 0)
        if not problem.bin_types:
            return Packing((), 0, 0, tuple((kind, n) for kind, n in enumerate(counts) if n))
        if self._max_spot is not None:
            problem = replace(problem, group_limits=(*problem.group_limits, ("spot", self._max_spot)))
        keep_going, seed, progress = self._options
        return solve(
            replace(problem, counts=counts), self.formulation.oracle, keep_going=keep_going, seed=seed,
            progress=progress,
        )  # fmt: skip

    # --- placement -----------------------------------------------------------------------------------------------

    def _assign(self, packing: Packing) -> Assignment:
        names = NodeNames(node.metadata.name for node in self.demand.objects.nodes)
        self._names = names
        nodes = planned_nodes(self.formulation, packing.bins, names)
        in_gangs = {id(item) for item, reason in self.unserved.values() if reason.code == "gang"}
        # Schedulers that support gangs do not start a part of one.
        items = [[item for item in kind.items if id(item) not in in_gangs] for kind in self.formulation.kinds]
        assignment = assign_pods(self.formulation, nodes, items, self.unserved.keys() - in_gangs, self._provision)
        for kind in self.formulation.kinds:
            for item in kind.items:
                rejection = assignment.rejections.get(id(item))
                if rejection is None and id(item) not in in_gangs:
                    self.unserved.pop(id(item), None)  # it fits on capacity that was planned for another item
                elif rejection is not None and (id(item) not in self.unserved or rejection.cause == "order"):
                    self.unserved[id(item)] = (item, unplaced_reason(self.formulation, kind.number, rejection))
        return assignment

    def _provision(
        self, kind: int, item: Item, nodes: Sequence[PlannedNode], zones: Collection[str]
    ) -> PlannedNode | None:
        """The cheapest additional machine for one item that the limits allow, in none of ``zones``."""
        if not zones:
            found = self._cheapest_node(self.formulation, kind, nodes, zones)
            if found is not None:
                return found
        # Try again without the decisions on zones.
        zoneless = self.zoneless
        number = next(k.number for k in zoneless.kinds if any(other is item for other in k.items))
        found = self._cheapest_node(zoneless, number, nodes, zones)
        candidates = {candidate.name: candidate for candidate in self.formulation.candidates}
        if found is None or found.candidate.name not in candidates:
            return None
        return replace(found, candidate=candidates[found.candidate.name], expected=Counter({kind: 1}))

    def _cheapest_node(
        self, formulation: Formulation, kind: int, nodes: Sequence[PlannedNode], excluded_zones: Collection[str]
    ) -> PlannedNode | None:
        """The cheapest additional machine for one item of a kind that the limits allow; None if there is none."""
        limits = self.limits
        new = [node for node in nodes if node.is_new]
        spent = sum(node.candidate.offer.micro_usd for node in new if node.candidate.offer is not None)
        counts = Counter(q for node in new if node.candidate.offer for q in quotas(node.candidate.offer, limits))
        allowed = dict(formulation.problem.group_limits)
        best: int | None = None
        for number, candidate in enumerate(formulation.bin_candidates):
            if (
                candidate.offer is None
                or candidate.zone in excluded_zones
                or not formulation.item_fit(kind, candidate).fits
            ):
                continue
            if not formulation.oracle(number, ((kind, 1),)):
                continue
            if any(counts[q] >= allowed[q] for q in quotas(candidate.offer, limits) if q in allowed):
                continue
            if limits.budget is not None and spent + candidate.offer.micro_usd > limits.budget * MICRO:
                continue
            if candidate.offer.capacity_type == "spot" and limits.spot_share is not None:
                continue
            if (
                best is None
                or candidate.offer.micro_usd < (formulation.bin_candidates[best].offer or candidate.offer).micro_usd
            ):
                best = number
        return None if best is None else node_for_item(formulation, best, kind, self._names)

    def _drop_incomplete_gangs(self, assignment: Assignment) -> bool:
        """Mark all items of gangs that are not placed completely as unserved; returns whether there were any."""
        gangs = {pod.gang for item, _ in self.unserved.values() for pod in item.pods if pod.gang}
        gangs |= self.demand.broken_gangs
        found = False
        for kind in self.formulation.kinds:
            for item in kind.items:
                gang = next((pod.gang for pod in item.pods if pod.gang in gangs), "")
                if gang and id(item) not in self.unserved:
                    text = f"gang {gang} starts only as a whole, and not all of its pods can be placed"
                    self.unserved[id(item)] = (item, UnservedReason("gang", text))
                    found = True
        if found:
            # The capacity that they release may be enough for others.
            in_gangs = {key: value for key, value in self.unserved.items() if value[1].code == "gang"}
            self.unserved = self._excluded | in_gangs
        return found

    # --- report --------------------------------------------------------------------------------------------------

    def _to_plan(self, packing: Packing, assignment: Assignment) -> ProvisioningPlan:
        pods = {pod.order: pod for pod in self.demand.pending}
        by_node: dict[str, list[PodPlacement]] = {}
        existing: list[PodPlacement] = []
        new = [node for node in assignment.nodes if node.is_new]
        new_names = {node.name for node in new}
        for order in sorted(assignment.placements):
            node_name, claims = assignment.placements[order]
            placement = _placement(pods[order], node_name, claims)
            if node_name in new_names:
                by_node.setdefault(node_name, []).append(placement)
            else:
                existing.append(placement)
        machines = tuple(self._machine(node, tuple(by_node.get(node.name, ()))) for node in new)
        total = sum((machine.usd_per_hour for machine in machines), Decimal(0))
        unserved = [*self.demand.unserved]
        for item, reason in self.unserved.values():
            unserved += unserved_pods(item, reason, assignment.placements)
        on_new = [pods[order] for order, (name, _) in assignment.placements.items() if name in new_names]
        order_of = {pod.key: pod.order for pod in self.demand.pending}
        unserved.sort(key=lambda pod: order_of.get(pod.pod, -1))
        return ProvisioningPlan(
            machines=machines,
            existing=tuple(existing),
            unserved=tuple(unserved),
            total=total,
            bound=self._bound(packing, assignment),
            notes=tuple(self._notes(new, unserved, on_new, len(assignment.late))),
        )

    def _machine(self, node: PlannedNode, placements: tuple[PodPlacement, ...]) -> PlannedMachine:
        offer = node.candidate.offer
        assert offer is not None
        assert offer.price is not None
        made = node.template(self.demand.features.kube)
        room = offer.instance.room
        return PlannedMachine(
            node=node.name,
            instance=offer.instance.key,
            form=made.form,
            zone=offer.zone,
            capacity_type=offer.capacity_type,
            usd_per_hour=offer.price,
            labels=made.node.metadata.labels,
            taints=made.node.spec.taints,
            placements=placements,
            layout=node.layout,
            drivers=tuple(dict.fromkeys(slice_.spec.driver for slice_ in made.slices)),
            cpu_milli=room.cpu_milli if room is not None else 0,
            memory=room.memory_mib << 20 if room is not None else 0,
        )

    def _bound(self, packing: Packing, assignment: Assignment) -> Decimal:
        """A lower bound on the cost of the placed pods that is independent of the planner's decisions."""
        from allotment.packing.solve import lower_bound

        inseparable = self._inseparable_formulation()
        problem = inseparable.problem
        counts = [
            sum(any(p.order not in assignment.placements for p in item.pods) for item in k.items)
            for k in inseparable.kinds
        ]
        unplaced = tuple((kind, n) for kind, n in enumerate(counts) if n)
        if tuple(counts) == problem.counts:
            return Decimal(0)
        # The planner's maximum number of items per node is a decision; the pods' constraints may allow more.
        one_per_host = tuple(
            1 if is_one_per_host(self.demand, kind.representative) else None for kind in inseparable.kinds
        )
        max_items = [
            one_per_host if any(one_per_host) and HOSTNAME_LABEL in candidate.machine.facts.labels else ()
            for candidate in inseparable.bin_candidates
        ]
        if (
            inseparable is self.formulation
            and unplaced == packing.unpacked
            and [bin_type.max_items for bin_type in problem.bin_types] == max_items
        ):
            bound = packing.bound
        else:
            bin_types = tuple(
                replace(bin_type, max_items=limits)
                for bin_type, limits in zip(problem.bin_types, max_items, strict=True)
            )
            bound = lower_bound(replace(problem, bin_types=bin_types), unplaced)
        return Decimal(max(bound, _single_kind_bound(problem, counts))) / MICRO

    def _inseparable_formulation(self) -> Formulation:
        """The formulation in which an item has only pods that cannot be on different machines."""
        kinds = group_inseparable_items(self.demand)
        if _item_keys(kinds) == _item_keys(self.zoneless.kinds):
            return self.zoneless
        return Formulation(self.demand, self.catalog, self.limits, kinds)

    def _notes(
        self, new: Sequence[PlannedNode], unserved: Sequence[UnservedPod], placed: Iterable[PendingPod], late: int
    ) -> Iterable[str]:  # fmt: skip
        yield from self.demand.notes
        for code, cause in _NOT_GUARANTEED:
            unknown = sum(pod.code == code for pod in unserved)
            if unknown:
                pods = counted(unknown, "pod")
                pronoun = "it" if unknown == 1 else "they"
                yield (
                    f"the placement of {pods} depends on {cause}; {pronoun} may use capacity that is planned for other "
                    "pods"
                )
        undecided = {
            candidate.offer.instance.key if candidate.offer is not None else candidate.name
            for candidate in self.formulation.candidates
            if any(
                self.formulation.item_fit(kind.number, candidate).code == "undecided" for kind in self.formulation.kinds
            )
        }
        if undecided:
            yield (
                f"the search for devices reached its step limit on {first_few(sorted(undecided), 3)}; the lower bound "
                "assumes that the pods do not fit there"
            )
        if late:
            pods = counted(late, "pod fits", "pods fit")
            yield (
                f"{pods} only after other pods are placed; this was verified with a retry after each placement and "
                "with one after all placements"
            )
        types = {
            node.candidate.offer.instance.key: node.candidate.offer.instance for node in new if node.candidate.offer
        }
        yield from notes_on(tuple(types.values()), placed)


def _cost(assignment: Assignment) -> int:
    return sum(node.candidate.offer.micro_usd for node in assignment.nodes if node.candidate.offer is not None)


def _item_keys(kinds: Iterable[ItemKind]) -> set[tuple[int, ...]]:
    return {tuple(id(pod) for pod in item.pods) for kind in kinds for item in kind.items}


def _single_kind_bound(problem: Problem, unserved_before: Sequence[int]) -> int:
    """The highest price, over all packed kinds, of the cheapest machine that can hold one of its items."""
    prices: list[int] = []
    for kind, count in enumerate(problem.counts):
        if count > unserved_before[kind]:
            prices.append(
                min((bin_type.price for bin_type in problem.bin_types if bin_type.needs[kind] is not None), default=0)
            )
    return max(prices, default=0)


def _placement(pod: PendingPod, node: str, claims: tuple[ClaimAllocation, ...]) -> PodPlacement:
    return PodPlacement(
        pod=pod.key, node=node, owner=pod.owner, claims=claims, cpu_milli=pod.requirements.requests.get("cpu", 0),
        memory=pod.requirements.requests.get("memory", 0),
    )  # fmt: skip
