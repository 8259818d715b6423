"""The packing problem of a demand: item kinds, candidate nodes as bins, and the exact check of a machine's load.

Bins are existing nodes with their free capacity at price 0, and offers of the catalog with their GPUs in each mode that
some claim requests. Rows are a necessary condition only; `Formulation.oracle` applies the engine and the filters.
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
from allotment.node_fit.filters import run_filters
from allotment.node_fit.filters.inter_pod_affinity import inter_pod_affinity, term_matcher
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.packing.problem import BinType, CapacityRow, Pieces, Problem
from allotment.planning.formulation.candidate_nodes import (
    CandidateNode,
    ItemFit,
    check_architecture,
    check_devices,
    check_filters,
)
from allotment.planning.formulation.conflicts import clashes_inside, conflicts, max_items_per_host
from allotment.planning.formulation.oracle import MachineOracle
from allotment.planning.limits import PlanLimits
from allotment.planning.offerings.device_rows import MEMORY_SLICES, DeviceRows, device_rows
from allotment.planning.offerings.hypothetical_nodes import (
    ClaimShapes,
    HypotheticalCluster,
    NodeDevices,
    template_cluster,
)
from allotment.planning.offerings.modes import RelevantModes
from allotment.planning.offerings.offers import MICRO, InstanceOffer, offers_of, quota_limits, quotas, unlimited_offer
from allotment.planning.offerings.templates import UNDECIDED, node_tree, template
from allotment.planning.pending_pods.demand import ClusterDemand, PendingPod, required_labels, selected_labels
from allotment.planning.pending_pods.grouping import Item, ItemKind, group_items
from allotment.time_limits import check_time

ZONE: Final = "topology.kubernetes.io/zone"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
_PODS: Final = "pods"

_encode = msgspec.json.Encoder(enc_hook=str).encode


@dataclass(slots=True)
class _ItemNeeds:
    """The needs of an item on a node. ``plain``: amounts of the node's resources; ``shapes``: of claims, by number."""

    plain: tuple[int, ...]
    shapes: tuple[int, ...]
    claim_set: int


class Formulation:
    """A demand and a catalog as item kinds, candidate nodes and a packing problem. Results of checks are cached."""

    def __init__(
        self,
        demand: ClusterDemand,
        catalog: Sequence[InstanceType],
        limits: PlanLimits,
        kinds: Sequence[ItemKind] | None = None,
    ) -> None:
        """``kinds``: the item kinds of the demand, if decisions on zones or groups changed them."""
        self.demand = demand
        self.catalog = catalog
        self.limits = limits
        self.kinds = list(kinds if kinds is not None else group_items(demand))
        self.claim_shapes = ClaimShapes(demand.classes)
        self._kube = demand.features.kube
        self._machines = NodeCache(Inventory(demand.features))
        self._specs: dict[int, tuple[ResourceClaim, bytes]] = {}
        self._needs: dict[tuple[int, frozenset[str]], _ItemNeeds] = {}
        self._node_devices: dict[object, NodeDevices] = {}
        self._measured: dict[int, DeviceRows] = {}
        self._item_fits: dict[tuple[int, int], ItemFit] = {}
        self._device_fits: dict[tuple[int, tuple[int, ...]], ItemFit] = {}
        self._names = _resource_names(self.kinds)
        self._device_resources = [
            frozenset().union(*(pod.device_resources for pod in kind.representative.pods)) for kind in self.kinds
        ]
        self._conflicts = conflicts(demand, self.kinds)
        self._max_items = max_items_per_host(self.kinds)
        self._templates = self._template_cluster()
        self._current = HypotheticalCluster(_inventory(demand))
        self._modes = RelevantModes(self._templates, self.claim_shapes, limits, self._kube)
        for kind in range(len(self.kinds)):
            self.needs(kind, self._device_resources[kind])
        self.candidates: list[CandidateNode] = [*self._existing_nodes(), *self._offered_nodes()]
        self._apply_inter_pod_affinity(self.candidates)
        self.bin_candidates: list[CandidateNode] = []
        self.merged_nodes: dict[int, list[CandidateNode]] = {}
        """By bin type, the equal existing nodes that it represents; ``bin_candidates`` has the first of them."""
        self.problem = self._problem()

    # --- needs ---------------------------------------------------------------------------------------------------

    def needs(self, kind: int, missing: frozenset[str]) -> _ItemNeeds:
        """The needs of an item on a node that does not publish the ``missing`` extended resources itself."""
        key = (kind, missing)
        result = self._needs.get(key)
        if result is None:
            result = self._needs[key] = self._item_needs(self.kinds[kind].representative, missing)
        return result

    def _item_needs(self, item: Item, missing: frozenset[str]) -> _ItemNeeds:
        plain = dict.fromkeys(self._names, 0)
        plain[_PODS] = len(item.pods)
        shapes: list[int] = []
        for pod, claims in item.newly_allocated_claims():
            for name, amount in pod.requirements.requests.items():
                if name not in missing:
                    plain[name] += amount
            extended = pod.extended_resource_claim(missing & pod.device_resources, self.demand)
            requested = (*claims, extended) if extended is not None else claims
            if requested:
                key = tuple(self._spec(claim) for claim in requested)
                shapes.append(self.claim_shapes.shape_number(key, requested))
        return _ItemNeeds(tuple(plain.values()), tuple(shapes), self.claim_shapes.set_number(tuple(shapes)))

    def _spec(self, claim: ResourceClaim) -> bytes:
        result = self._specs.get(id(claim.spec))
        if result is None:
            result = self._specs[id(claim.spec)] = (claim, _encode(claim.spec))
        return result[1]

    # --- candidate nodes -----------------------------------------------------------------------------------------

    def _template_cluster(self) -> HypotheticalCluster:
        """The cluster for templates: with the slices for all nodes and the taint rules, if there are any."""
        given = self.demand.objects
        everywhere = [slice_ for slice_ in given.slices if not slice_.spec.node_name]
        self._shares_devices = not everywhere and not given.rules
        if self._shares_devices:
            return template_cluster(given.features, self)
        claims = given.claims.values() if everywhere else ()
        return HypotheticalCluster(
            Inventory.of(given.features, slices=everywhere, claims=claims, taint_rules=given.rules)
        )

    def _existing_nodes(self) -> Iterable[CandidateNode]:
        for node in self.demand.objects.nodes:
            self._machines.put(to_tree(node))
        for resident, where in self.demand.residents:
            self._machines.assign_pod(resident, where)
        for machine in list(self._machines):
            devices = NodeDevices(self._current, self._current.inventory.view(machine.name), self.claim_shapes)
            yield CandidateNode(machine.name, machine, devices, zone=machine.facts.labels.get(ZONE, ""))

    def _offered_nodes(self) -> Iterable[CandidateNode]:
        keys = _relevant_labels(self.kinds)
        each_zone = not ZONES.isdisjoint(keys) or any(kind.zone for kind in self.kinds)
        each_capacity = CAPACITY_TYPE in keys or self.limits.spot_share is not None
        for instance in self.catalog:
            for offer in offers_of(instance, self.limits, each_zone=each_zone, each_capacity=each_capacity):
                yield from self._in_each_mode(offer)

    def _in_each_mode(self, offer: InstanceOffer) -> Iterable[CandidateNode]:
        for mode in self._modes_of(offer.instance, self._modes):
            candidate = self._template(offer, mode)
            if candidate is not None:
                yield candidate

    def _modes_of(self, instance: InstanceType, modes: RelevantModes) -> tuple[str, ...]:
        if instance.accelerator is None or not instance.hardware:
            return ("",)
        return ("", *modes.of_accelerator(instance.accelerator, range(len(self.claim_shapes.shapes))))

    def _template(self, offer: InstanceOffer, mode: str) -> CandidateNode | None:
        instance = offer.instance
        name = f"{instance.key}{f'/{mode}' if mode else ''} {offer.zone} {offer.capacity_type}"
        try:
            node_template = template(instance, mode, name, self._kube, offer.zone, offer.capacity_type)
        except FleetError:
            return None
        self._machines.put(node_tree(node_template))
        machine = self._machines.by_name[name]
        for number, (requirements, resident) in enumerate(self.demand.daemons):
            if run_filters(requirements, machine) is None:
                self._machines.assign_pod(resident._replace(uid=f"{number} {name}"), name)
        labels = machine.facts.labels
        # Slices for all nodes may select by labels, so nodes with equal hardware may differ.
        key = f"{instance.hardware or 'no GPUs'}/{mode}" if self._shares_devices else name

        devices = self._node_devices.get(key)
        if devices is None:
            view = self._templates.view_of(
                key, {} if self._shares_devices else labels, lambda: template(instance, mode, key, self._kube).slices
            )
            devices = self._node_devices[key] = NodeDevices(self._templates, view, self.claim_shapes)
        return CandidateNode(name, machine, devices, offer, mode, node_template, offer.zone)

    # --- fit of a single item ------------------------------------------------------------------------------------

    def item_fit(self, kind: int, candidate: CandidateNode) -> ItemFit:
        """Whether a single item of a kind fits the otherwise empty candidate, and the reason if not."""
        zone = self.kinds[kind].zone
        if zone and candidate.zone and candidate.zone != zone:
            return ItemFit("zone", f"it is planned for zone {zone}")
        return self.item_fit_in_any_zone(kind, candidate)

    def item_fit_in_any_zone(self, kind: int, candidate: CandidateNode) -> ItemFit:
        """`item_fit` without the decisions on zones."""
        result = self._item_fits.get((kind, id(candidate)))
        if result is None:
            result = self._item_fits[kind, id(candidate)] = self._check_item(kind, candidate)
        return result

    def is_run_time_only(self, kind: int, candidate: CandidateNode) -> bool:
        """Whether the fit depends on attributes that are known only when the machine runs."""
        return self.item_fit_in_any_zone(kind, candidate).code == "run-time-only"

    def _check_item(self, kind: int, candidate: CandidateNode) -> ItemFit:
        check_time()
        item = self.kinds[kind].representative
        for pod in item.pods:
            result = check_filters(pod, candidate)
            if not result.fits:
                unknown = required_labels(pod) - self._known_labels if result.code == "affinity" else ()
                return ItemFit("affinity", f"new nodes do not have label {min(unknown)}") if unknown else result
        if kind in candidate.rejected_kinds:
            return ItemFit("neighbours", candidate.rejected_kinds[kind])
        needs = self.needs(kind, candidate.missing_resources(self._device_resources[kind]))
        for name, needed in zip(self._names, needs.plain, strict=True):
            if needed and name != _PODS and name not in candidate.machine.allocatable:
                return ItemFit("unpublished", f"no node publishes {name}")
        for name, needed, free in zip(self._names, needs.plain, self._free(candidate.machine), strict=True):
            if needed > free:
                return ItemFit(
                    "resources",
                    f"{name}: {_format_amount(name, needed)} requested, {_format_amount(name, free)} available",
                )
        if clashes_inside(self.demand, item):
            return ItemFit(
                "neighbours",
                "its pods must run on the same machine but exclude each other (anti-affinity or host ports)",
            )
        result = self.device_fit(kind, candidate)
        return result if not result.fits else check_architecture(item, candidate)

    def device_fit(self, kind: int, candidate: CandidateNode) -> ItemFit:
        """Whether a single item of a kind finds devices on the candidate; other conditions are not checked."""
        needs = self.needs(kind, candidate.missing_resources(self._device_resources[kind]))
        key = (id(candidate.devices), needs.shapes)
        result = self._device_fits.get(key)
        if result is None:
            result = self._device_fits[key] = check_devices(candidate, needs.shapes)
        return result

    @cached_property
    def _known_labels(self) -> frozenset[str]:
        """The labels of existing nodes and of node templates."""
        existing = (label for node in self.demand.objects.nodes for label in node.metadata.labels)
        offered = (labels_of(type_, hardware_of(type_) if type_.hardware else None, "any") for type_ in self.catalog)
        return frozenset(existing).union(*offered)

    def _free(self, machine: CachedNode) -> tuple[int, ...]:
        pods = machine.pods_allowed - len(machine.pods)
        return tuple(pods if name == _PODS else machine.free.get(name, 0) for name in self._names)

    def _apply_inter_pod_affinity(self, candidates: Sequence[CandidateNode]) -> None:
        """Reject candidates because of affinity and anti-affinity between running and pending pods."""
        machines = self._machines
        for number, kind in enumerate(self.kinds):
            for pod in kind.representative.pods:
                if not pod.requirements.has_pod_affinity and not machines.pods_with_affinity:
                    continue
                refused = inter_pod_affinity(pod.resident, machines, self.demand.namespaces)
                if pod.requirements.affinity and self._affinity_matches_pending(pod):
                    continue  # the affinity matches a pending pod
                for candidate in candidates:
                    refusal = refused.get(candidate.machine.index)
                    if refusal is not None:
                        candidate.rejected_kinds[number] = refusal.texts[0]

    def _affinity_matches_pending(self, pod: PendingPod) -> bool:
        tests = [term_matcher(n.term, pod.resident, self.demand.namespaces) for n in pod.requirements.affinity]
        return any(all(test(other.resident) for test in tests) for other in self.demand.pending)

    # --- the problem ---------------------------------------------------------------------------------------------

    def _problem(self) -> Problem:
        shapes = range(len(self.claim_shapes.shapes))
        bin_types: list[BinType] = []
        merged: dict[Hashable, list[CandidateNode]] = {}
        for candidate in self.candidates:
            fits = [self.item_fit(kind, candidate).fits for kind in range(len(self.kinds))]
            if not any(fits):
                continue
            if candidate.is_existing:
                same = merged.setdefault(self._merge_key(candidate, fits), [])
                same.append(candidate)
                if len(same) > 1:
                    continue
                self.merged_nodes[len(self.bin_candidates)] = same
            self.bin_candidates.append(candidate)
            bin_types.append(self._bin_type(candidate, fits, shapes))
        bin_types = [
            replace(bin_type, max_count=len(self.merged_nodes[n])) if n in self.merged_nodes else bin_type
            for n, bin_type in enumerate(bin_types)
        ]
        limits = self.limits
        return Problem(
            kinds=tuple(kind.name for kind in self.kinds),
            counts=tuple(len(kind.items) for kind in self.kinds),
            bin_types=tuple(bin_types),
            group_limits=quota_limits(limits),
            budget=None if limits.budget is None else int(limits.budget * MICRO),
        )

    def _merge_key(self, candidate: CandidateNode, fits: Sequence[bool]) -> Hashable:
        """Existing nodes with an equal key are one bin type: in a large cluster most nodes are equal."""
        machine, devices = candidate.machine, candidate.devices
        patterns = tuple(devices.pattern(shape).number for shape in range(len(self.claim_shapes.shapes)))
        missing = tuple(candidate.missing_resources(names) for names in self._device_resources)
        return (
            tuple(fits), self._free(machine), frozenset(machine.ports), missing, candidate.zone,
            devices.view.layout.number, devices.initial, patterns,
        )  # fmt: skip

    def _bin_type(self, candidate: CandidateNode, fits: Sequence[bool], shapes: Sequence[int]) -> BinType:
        rows = self._measured.get(id(candidate.devices))
        if rows is None:
            rows = self._measured[id(candidate.devices)] = device_rows(candidate.devices, shapes)
        free = self._free(candidate.machine)
        plain = [CapacityRow(name, 1, max(left, 0)) for name, left in zip(self._names, free, strict=True)]
        result: list[tuple[Pieces, ...] | None] = []
        for kind, is_fitting in enumerate(fits):
            if not is_fitting:
                result.append(None)
                continue
            needs = self.needs(kind, candidate.missing_resources(self._device_resources[kind]))
            taken: list[Pieces] = [(n,) if n else () for n in needs.plain]
            taken += [
                tuple(piece for shape in needs.shapes for piece in rows.needs[shape][row])
                for row in range(len(rows.rows))
            ]
            result.append(tuple(taken))
        max_items = tuple(
            1 if kind in self._conflicts.get(kind, ()) else limit for kind, limit in enumerate(self._max_items)
        )
        offer = candidate.offer
        return BinType(
            name=candidate.name,
            price=offer.micro_usd if offer is not None else 0,
            rows=(*plain, *rows.rows),
            needs=tuple(result),
            max_items=max_items if any(limit is not None for limit in max_items) else (),
            groups=quotas(offer, self.limits) if offer is not None else (),
        )

    @cached_property
    def oracle(self) -> MachineOracle:
        """The exact check of one machine's load: a `packing.problem.FeasibilityCheck`."""
        plain: list[list[tuple[int, ...]]] = []
        claim_sets: list[list[int]] = []
        weights: list[list[int]] = []
        for candidate in self.bin_candidates:
            item_needs = [
                self.needs(k, candidate.missing_resources(self._device_resources[k])) for k in range(len(self.kinds))
            ]
            plain.append([needs.plain for needs in item_needs])
            claim_sets.append([needs.claim_set if needs.shapes else -1 for needs in item_needs])
            weights.append([self._weight(candidate, needs) for needs in item_needs])
        free = [self._free(candidate.machine) for candidate in self.bin_candidates]
        return MachineOracle(self.bin_candidates, free, plain, claim_sets, weights, self._conflicts)

    def _weight(self, candidate: CandidateNode, needs: _ItemNeeds) -> int:
        if candidate.mode != UNDECIDED:
            return 0
        measured = self._measured[id(candidate.devices)]
        rows = [i for i, row in enumerate(measured.rows) if row.name == MEMORY_SLICES]
        return sum(max(measured.needs[shape][row], default=0) for shape in needs.shapes for row in rows)

    # --- candidates outside the limits ---------------------------------------------------------------------------

    @cached_property
    def unlimited_candidates(self) -> tuple[CandidateNode, ...]:
        """Further types and modes, regardless of limits and prices; with ``candidates`` these are all."""
        return tuple(self._unlimited_candidates())

    def _unlimited_candidates(self) -> Iterable[CandidateNode]:
        known = {
            (candidate.offer.instance.key, candidate.mode)
            for candidate in self.candidates
            if candidate.offer is not None
        }
        modes = RelevantModes(self._templates, self.claim_shapes, PlanLimits(), self._kube)
        for instance in self.catalog:
            if instance.room is None or (instance.gpus and not instance.hardware):
                continue
            for mode in self._modes_of(instance, modes):
                if (instance.key, mode) not in known:
                    candidate = self._template(unlimited_offer(instance), mode)
                    if candidate is not None:
                        candidate.zone = ""
                        yield candidate


def _resource_names(kinds: Iterable[ItemKind]) -> tuple[str, ...]:
    """The names of all resources that pods request, and ``pods``."""
    names = {name for kind in kinds for pod in kind.representative.pods for name in pod.requirements.requests}
    return (*sorted(names), _PODS)


def _relevant_labels(kinds: Iterable[ItemKind]) -> set[str]:
    """Node labels that selectors, affinity and topology constraints of pods read."""
    keys: set[str] = set()
    for kind in kinds:
        for pod in kind.representative.pods:
            keys |= selected_labels(pod)
            keys.update(n.term.topology_key for n in (*pod.requirements.affinity, *pod.requirements.anti_affinity))
            keys.update(constraint.topology_key for constraint in pod.requirements.spread)
    return keys


def _inventory(demand: ClusterDemand) -> Inventory:
    """The engine's inventory of the existing cluster."""
    objects = demand.objects
    return Inventory.of(
        objects.features,
        nodes=((node.metadata.name, node.metadata.labels) for node in objects.nodes),
        slices=[slice_ for slice_ in objects.slices if ("ResourceSlice", slice_.key) not in objects.refused],
        classes=demand.classes.values(),
        claims=objects.claims.values(),
        taint_rules=objects.rules,
    )


def _format_amount(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount}m" if amount % 1000 else str(amount // 1000)
    return str(Quantity.binary(amount)) if name in ("memory", "ephemeral-storage") else str(amount)
