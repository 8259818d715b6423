"""A cluster as its scheduler sees it, in which pods can be moved by way of trial: taken off their nodes, placed again.

What a pod gets is decided as the scheduler decides it: the same filters, the same order of nodes, the engine for its
claims. A claim that was made for a pod goes with it and is made again; one that is named stays allocated as long as
anybody else uses it, and is free when the last user has left (KEP-4381). Every trial can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec.structs import replace

from allotment.engine.allocator import Allocator
from allotment.engine.cluster.identity import DeviceID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.outcome import Allocated
from allotment.engine.refusal import Diagnosis
from allotment.engine.search.verdict import NoFit, Solution, Undecided
from allotment.model.core import Pod
from allotment.model.features import Features
from allotment.model.meta import ObjectKey, Value
from allotment.model.resource import (
    AllocationResult,
    Device,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.model.trees import Tree, read_value
from allotment.node_fit.device_table import NO_FIT, given_up
from allotment.node_fit.filters.inter_pod_affinity import neighbour_scores, neighbours
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.topology_spread import spread, spread_scores
from allotment.node_fit.node_table import Table, Tables, places_in
from allotment.node_fit.nodes import Machine, Machines
from allotment.node_fit.pod_requirements import admits
from allotment.tools.explain.extended_resources import extended_claim
from allotment.tools.explain.report import ClaimAllocation, claim_allocation
from allotment.tools.plan.consolidation.movable_pods import KnownClaim, MovablePod, MovablePodReader, identity, key_of

V = TypeVar("V", bound=Value)

_FINISHED: Final = ("Succeeded", "Failed")
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_CLAIM_ELSEWHERE: Final = Refusal(("resourceclaim not available on the node",), cause="claim")
_VOLUME: Final = Refusal(("node(s) had volume node affinity conflict",), cause="volume")


class PodTarget(NamedTuple):
    """Where a pod goes, and what its claims get there."""

    node: str
    claims: tuple[ClaimAllocation, ...] = ()


class Unschedulable(NamedTuple):
    """No node would do; ``text`` as a scheduler says it."""

    text: str


class SimulatedCluster:
    """The cluster. Changes are kept in order, so that they can be undone down to a mark."""

    def __init__(self, objects: Iterable[Tree], features: Features) -> None:
        """``objects``: as the API shows them, each with its kind; kinds that do not matter are left out."""
        by_kind: dict[str, list[Tree]] = {}
        for tree in objects:
            by_kind.setdefault(str(tree.get("kind", "")), []).append(tree)
        self.features = features
        self.namespaces: dict[str, Mapping[str, str]] = {
            tree["metadata"]["name"]: tree["metadata"].get("labels") or {} for tree in by_kind.get("Namespace", ())
        }
        inventory = self.inventory = Inventory(features)
        self.machines = Machines(inventory)
        self.nodes: dict[str, Tree] = {}
        self.devices: dict[DeviceID, Device] = {}
        self._pools: dict[tuple[str, str], str] = {}
        for tree in by_kind.get("Node", ()):
            self.nodes[tree["metadata"]["name"]] = tree
            self.machines.put(tree)
        for rule in _read(by_kind.get("DeviceTaintRule", ()), DeviceTaintRule):
            inventory.put_taint_rule(rule)
        for device_class in _read(by_kind.get("DeviceClass", ()), DeviceClass):
            inventory.put_class(device_class)
        for slice_ in _read(by_kind.get("ResourceSlice", ()), ResourceSlice):
            self._publish(slice_)
        templates = {
            key_of(tree): read_value(tree, ResourceClaimTemplate) for tree in by_kind.get("ResourceClaimTemplate", ())
        }
        self.claims: dict[ObjectKey, KnownClaim] = {}
        for claim in _read(by_kind.get("ResourceClaim", ()), ResourceClaim):
            key = ObjectKey(claim.metadata.namespace, claim.metadata.name)
            self.claims[key] = KnownClaim(claim, {user.uid for user in claim.status.reserved_for})
            if claim.status.allocation is not None:
                inventory.allocate(key, claim.status.allocation)
        volumes = {tree["metadata"]["name"]: tree for tree in by_kind.get("PersistentVolume", ())}
        volume_claims = {key_of(tree): tree for tree in by_kind.get("PersistentVolumeClaim", ())}
        self._reader = MovablePodReader(self.claims, templates, volumes, volume_claims)
        self.allocator = Allocator(inventory)
        self._tables = Tables(self.machines)
        self._undo: list[Callable[[], None]] = []
        self.pods: dict[str, MovablePod] = {}
        self._claims_held: dict[str, tuple[ObjectKey, ...]] = {}
        """Claims by pod that are for it alone and have devices now."""
        self.pods_on: dict[str, list[MovablePod]] = {name: [] for name in self.nodes}
        """Pods by node as they are in the cluster, whatever is tried."""
        self.pending: list[MovablePod] = []
        for tree in by_kind.get("Pod", ()):
            self._add_pod(tree)

    def _publish(self, slice_: ResourceSlice) -> None:
        self.inventory.put_slice(slice_)
        if slice_.spec.node_name:
            self._pools[slice_.spec.driver, slice_.spec.pool.name] = slice_.spec.node_name
        for device in slice_.spec.devices or ():
            self.devices[DeviceID(slice_.spec.driver, slice_.spec.pool.name, device.name)] = device

    # --- pods ----------------------------------------------------------------------------------------------------

    def _add_pod(self, tree: Tree) -> None:
        phase = (tree.get("status") or {}).get("phase", "")
        if phase in _FINISHED:
            return
        node = tree["spec"].get("nodeName") or ""
        pod = self._reader.read(tree)
        self.pods[pod.resident.uid] = pod
        self._claims_held[pod.resident.uid] = pod.current_claims
        if node:
            self.machines.seat(pod.resident, node)
            self.pods_on.setdefault(node, []).append(pod)
        elif not tree["spec"].get("schedulingGates") and not pod.resident.terminating:
            self.pending.append(pod)

    # --- trying --------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """Where to come back to."""
        return len(self._undo)

    def undo_to(self, mark: int) -> None:
        """Undo everything since a mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def cordon(self, node: str) -> None:
        """No pod may come to a node any more."""
        tree = self.nodes[node]
        self.machines.put({**tree, "spec": {**(tree.get("spec") or {}), "unschedulable": True}})
        self._undo.append(lambda: self.machines.put(tree))

    def add_node(self, node: Tree, slices: Iterable[ResourceSlice]) -> None:
        """A node comes, with what its drivers publish."""
        name = node["metadata"]["name"]
        published = tuple(slices)
        self.nodes[name] = node
        self.machines.put(node)
        for slice_ in published:
            self._publish(slice_)

        def undo() -> None:
            for slice_ in published:
                self.inventory.remove_slice(slice_.metadata.name)
            self.machines.remove(name)
            del self.nodes[name]

        self._undo.append(undo)

    def evict(self, pod: MovablePod) -> None:
        """A pod leaves its node; its own claims are deleted, named ones without other users are given back."""
        uid = pod.resident.uid
        node = self.machines.unseat(uid)
        if node is not None:
            self._undo.append(lambda: _discard(self.machines.seat(pod.resident, node)))
        for key in self._claims_held.get(uid, ()):
            if key in self.claims and self.claims[key].allocation is not None:
                self._allocate(key, None)
        self._set_claims_held(uid, ())
        for key in pod.named_claims:
            claim = self.claims.get(key)
            if claim is None or uid not in claim.users:
                continue
            self._set_users(claim, claim.users - {uid})
            if not claim.users and claim.allocation is not None:
                self._allocate(key, None)

    def place(self, pod: MovablePod, only: int = -1) -> PodTarget | Unschedulable:
        """Put a pod where the scheduler would; nothing changes if there is no such place. ``only``: places, as bits."""
        chosen = self._choose(pod, only)
        if isinstance(chosen, Unschedulable):
            return chosen
        node, results = chosen
        given: list[ClaimAllocation] = []
        for claim, key, template, result in results:
            if key not in self.claims:
                self._create_claim(key, claim)
            self._allocate(key, result)
            given.append(claim_allocation(self.claims[key].value, template, False, self.devices))
        fresh = {key for _, key, _, _ in results}
        self._set_claims_held(pod.resident.uid, tuple(key for _, key, _, _ in results if key not in pod.named_claims))
        for key in pod.named_claims:
            named = self.claims[key]
            if key not in fresh:
                given.append(claim_allocation(named.value, "", True, self.devices))
            self._set_users(named, named.users | {pod.resident.uid})
        self.machines.seat(pod.resident, node)
        self._undo.append(lambda: _discard(self.machines.unseat(pod.resident.uid)))
        return PodTarget(node, tuple(given))

    def node_of_pool(self, driver: str, pool: str) -> str:
        """The node whose own devices a pool has; empty if they can be reached from others, too."""
        return self._pools.get((driver, pool), "")

    def _allocate(self, key: ObjectKey, allocation: AllocationResult | None) -> None:
        claim = self.claims[key]
        before = claim.value
        if before.status.allocation is not None:
            self.inventory.free(key)
        if allocation is not None:
            self.inventory.allocate(key, allocation)
        claim.value = replace(before, status=replace(before.status, allocation=allocation))

        def undo() -> None:
            if allocation is not None:
                self.inventory.free(key)
            if before.status.allocation is not None:
                self.inventory.allocate(key, before.status.allocation)
            claim.value = before

        self._undo.append(undo)

    def _create_claim(self, key: ObjectKey, claim: ResourceClaim) -> None:
        self.claims[key] = KnownClaim(claim)
        self._undo.append(lambda: _discard(self.claims.pop(key)))

    def _set_claims_held(self, uid: str, keys: tuple[ObjectKey, ...]) -> None:
        before = self._claims_held.get(uid, ())
        self._claims_held[uid] = keys
        self._undo.append(lambda: self._claims_held.__setitem__(uid, before))

    def _set_users(self, claim: KnownClaim, users: set[str]) -> None:
        before, claim.users = claim.users, users
        self._undo.append(lambda: setattr(claim, "users", before))

    # --- choosing, in the scheduler's order of things -------------------------------------------------------------

    def _choose(
        self, pod: MovablePod, only: int
    ) -> tuple[str, list[tuple[ResourceClaim, ObjectKey, str, AllocationResult]]] | Unschedulable:
        if pod.obstacle:
            return Unschedulable(pod.obstacle)
        machines, demand, resident = self.machines, pod.resident.demand, pod.resident
        pending = [(claim, pod.own_claim_key(claim), template) for claim, template in pod.own_claims]
        allocated: list[AllocationResult] = []
        for key in pod.named_claims:
            value = self.claims[key].value
            if value.status.allocation is None:
                pending.append((value, key, ""))
            else:
                allocated.append(value.status.allocation)
        by_devices = self._device_resources(demand.extended)
        table = self._tables.of(demand, by_devices)
        out: dict[int, Refusal] = {}
        if demand.spread:
            out.update(spread(demand, resident.namespace, resident.labels, machines))
        if demand.has_neighbours or machines.neighbourly:
            for place, refusal in neighbours(resident, machines, self.namespaces).items():
                out.setdefault(place, refusal)
        among = table.fits & only
        for place in out:
            among &= ~(1 << place)
        for place in places_in(among):
            facts = self._machine_at(place).facts
            if not all(admits(selector, facts) for selector in pod.volumes):
                out[place] = _VOLUME
            elif not all(a.node_selector is None or admits(a.node_selector, facts) for a in allocated):
                out[place] = _CLAIM_ELSEWHERE
        for place in out:
            among &= ~(1 << place)
        good = 0
        asked: dict[int, list[tuple[ResourceClaim, ObjectKey, str]]] = {}
        for lacking, group in self._by_missing_resources(among, by_devices).items():
            wanted = list(pending)
            if lacking:
                claim = self._extended_resource_claim(pod, lacking)
                if isinstance(claim, Diagnosis):
                    continue
                if claim is not None:
                    wanted.append((claim, ObjectKey(pod.key.namespace, claim.metadata.name), ""))
            values = tuple(claim for claim, _, _ in wanted)
            work = self.allocator.cache_for(values) if values else None
            for place in places_in(group):
                verdict = work.verdict(self.inventory.view(self._machine_at(place).name)) if work is not None else None
                if verdict is None or isinstance(verdict, Solution):
                    good |= 1 << place
                    asked[place] = wanted
                elif isinstance(verdict, Undecided):
                    out[place] = given_up(verdict)
                elif not isinstance(verdict, NoFit):  # Kubernetes ends the attempt for all nodes
                    return Unschedulable("its claims end the scheduler's attempt with an error")
        if not good:
            return Unschedulable(self._failure_text(table, only, out))
        machine = self._machine_at(self._best_node(pod, table, good))
        wanted = asked[machine.place]
        if not wanted:
            return machine.name, []
        outcome = self.allocator.allocate(machine.name, tuple(claim for claim, _, _ in wanted))
        if not isinstance(outcome, Allocated):
            return Unschedulable("its claims end the scheduler's attempt with an error")
        return machine.name, [
            (claim, key, template, result)
            for (claim, key, template), result in zip(wanted, outcome.results, strict=True)
        ]

    def _best_node(self, pod: MovablePod, table: Table, good: int) -> int:
        resident, demand, machines = pod.resident, pod.resident.demand, self.machines
        if not (demand.social or machines.neighbourly) or not good & (good - 1):
            return table.best(good)
        extra: dict[int, int] = {}
        candidates = [self._machine_at(place) for place in places_in(good)]
        wishes = [spread_scores(demand, resident.namespace, resident.labels, machines, iter(candidates))]
        wishes.append(neighbour_scores(resident, machines, self.namespaces, candidates))
        for scores in wishes:
            for place, value in scores.items():
                extra[place] = extra.get(place, 0) + 2 * value
        return max(places_in(good), key=lambda place: (table.scores[place] + extra.get(place, 0), -place))

    def _machine_at(self, place: int) -> Machine:
        machine = self.machines.at(place)
        assert machine is not None, "only places of nodes are asked about"
        return machine

    def _device_resources(self, extended: Iterable[str]) -> frozenset[str]:
        """Extended resources that some class serves (KEP-5004)."""
        if not self.features.enabled("DRAExtendedResource"):
            return frozenset()
        classes = self.inventory.classes
        names = {c.spec.extended_resource_name for c in classes.values()}
        return frozenset(
            n for n in extended if n in names or (n.startswith(_IMPLICIT) and n.removeprefix(_IMPLICIT) in classes)
        )

    def _by_missing_resources(self, among: int, by_devices: frozenset[str]) -> dict[frozenset[str], int]:
        """Places by the resources that must be claimed there, since the node itself has none."""
        if not by_devices:
            return {frozenset(): among}
        found: dict[frozenset[str], int] = {}
        for place in places_in(among):
            lacking = frozenset(n for n in by_devices if self._machine_at(place).allocatable.get(n, 0) <= 0)
            found[lacking] = found.get(lacking, 0) | 1 << place
        return found

    def _extended_resource_claim(self, pod: MovablePod, lacking: frozenset[str]) -> ResourceClaim | Diagnosis | None:
        names = ("name", "resources", "restartPolicy")
        spec = {
            part: [{k: c[k] for k in names if c.get(k) is not None} for c in pod.tree["spec"].get(part) or ()]
            for part in ("initContainers", "containers")
        }
        pod = read_value({"metadata": identity(pod.tree["metadata"]), "spec": spec}, Pod)
        plugins = frozenset(
            n for c in (*pod.spec.init_containers, *pod.spec.containers)
            for n in (*c.resources.requests, *c.resources.limits) if n not in lacking
        )  # fmt: skip
        return extended_claim(pod, self.inventory.classes, self.features, plugins)

    def _failure_text(self, table: Table, only: int, out: Mapping[int, Refusal]) -> str:
        """Like a scheduler's event: how many nodes say what."""
        counts: dict[str, int] = {}
        nodes = 0
        for machine in self.machines:
            if not only >> machine.place & 1:
                continue
            nodes += 1
            refusal = table.refusals[machine.place] or out.get(machine.place) or NO_FIT
            for text in refusal.texts:
                counts[text] = counts.get(text, 0) + 1
        if not nodes:
            return "there is no other node"
        return f"0/{nodes} other nodes would do: " + ", ".join(f"{n} {text}" for text, n in sorted(counts.items()))


def _read(trees: Sequence[Tree], type_: type[V]) -> list[V]:
    return [read_value(tree, type_) for tree in trees]


def _discard(_: object) -> None:
    """For undoing: the answer does not matter."""
