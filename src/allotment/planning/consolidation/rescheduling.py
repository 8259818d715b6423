"""A simulated cluster in which pods can be evicted and rescheduled, with undo.

Pods are placed as the scheduler places them: with its filters, its node order, and the engine for claims. A claim
generated for a pod is deleted with it and generated again; a named claim stays allocated while another pod uses it, and
is deallocated when the last consumer is gone (KEP-4381).
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
from allotment.explanation.extended_resources import extended_claim
from allotment.explanation.report import ClaimAllocation, claim_allocation
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
from allotment.node_fit.device_table import NO_FIT, undecided_refusal
from allotment.node_fit.filters.inter_pod_affinity import inter_pod_affinity, inter_pod_affinity_scores
from allotment.node_fit.filters.refusal import Refusal
from allotment.node_fit.filters.topology_spread import topology_spread, topology_spread_scores
from allotment.node_fit.node_table import NodeFitTable, NodeFitTables, node_indexes
from allotment.node_fit.nodes import CachedNode, NodeCache
from allotment.node_fit.pod_requirements import selector_matches
from allotment.planning.consolidation.movable_pods import KnownClaim, MovablePod, MovablePodReader, identity, key_of

V = TypeVar("V", bound=Value)

_FINISHED: Final = ("Succeeded", "Failed")
_IMPLICIT: Final = "deviceclass.resource.kubernetes.io/"
_CLAIM_ELSEWHERE: Final = Refusal(("resourceclaim not available on the node",), cause="claim")
_VOLUME: Final = Refusal(("node(s) had volume node affinity conflict",), cause="volume")


class PodTarget(NamedTuple):
    """The node of a pod, and the allocations of its claims there."""

    node: str
    claims: tuple[ClaimAllocation, ...] = ()


class Unschedulable(NamedTuple):
    """No node fits the pod; ``text`` in the form of a scheduler event."""

    text: str


class SimulatedCluster:
    """A cluster state. Changes are recorded in order, so that they can be undone back to a mark."""

    def __init__(self, objects: Iterable[Tree], features: Features) -> None:
        """``objects``: as the API server returns them, each with its kind; irrelevant kinds are ignored."""
        by_kind: dict[str, list[Tree]] = {}
        for tree in objects:
            by_kind.setdefault(str(tree.get("kind", "")), []).append(tree)
        self.features = features
        self.namespaces: dict[str, Mapping[str, str]] = {
            tree["metadata"]["name"]: tree["metadata"].get("labels") or {} for tree in by_kind.get("Namespace", ())
        }
        inventory = self.inventory = Inventory(features)
        self.machines = NodeCache(inventory)
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
        self._tables = NodeFitTables(self.machines)
        self._undo: list[Callable[[], None]] = []
        self.pods: dict[str, MovablePod] = {}
        self._claims_held: dict[str, tuple[ObjectKey, ...]] = {}
        """By pod UID, the allocated claims that are only for this pod."""
        self.pods_on: dict[str, list[MovablePod]] = {name: [] for name in self.nodes}
        """The pods by node in the real cluster, regardless of simulated changes."""
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
            self.machines.assign_pod(pod.resident, node)
            self.pods_on.setdefault(node, []).append(pod)
        elif not tree["spec"].get("schedulingGates") and not pod.resident.terminating:
            self.pending.append(pod)

    # --- changes -------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """A mark of the current state, for `undo_to`."""
        return len(self._undo)

    def undo_to(self, mark: int) -> None:
        """Undo everything since a mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def cordon(self, node: str) -> None:
        """Make a node unschedulable."""
        tree = self.nodes[node]
        self.machines.put({**tree, "spec": {**(tree.get("spec") or {}), "unschedulable": True}})
        self._undo.append(lambda: self.machines.put(tree))

    def add_node(self, node: Tree, slices: Iterable[ResourceSlice]) -> None:
        """Add a node with the slices that its drivers publish."""
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
        """Remove a pod from its node; its own claims are deleted, named ones without other users deallocated."""
        uid = pod.resident.uid
        node = self.machines.remove_pod(uid)
        if node is not None:
            self._undo.append(lambda: _discard(self.machines.assign_pod(pod.resident, node)))
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

    def place(self, pod: MovablePod, node_mask: int = -1) -> PodTarget | Unschedulable:
        """Place a pod as the scheduler would, or change nothing if no node fits. ``node_mask``: bits by node index."""
        chosen = self._choose(pod, node_mask)
        if isinstance(chosen, Unschedulable):
            return chosen
        node, results = chosen
        allocations: list[ClaimAllocation] = []
        for claim, key, template, result in results:
            if key not in self.claims:
                self._create_claim(key, claim)
            self._allocate(key, result)
            allocations.append(claim_allocation(self.claims[key].value, template, False, self.devices.get))
        allocated_now = {key for _, key, _, _ in results}
        self._set_claims_held(pod.resident.uid, tuple(key for _, key, _, _ in results if key not in pod.named_claims))
        for key in pod.named_claims:
            named = self.claims[key]
            if key not in allocated_now:
                allocations.append(claim_allocation(named.value, "", True, self.devices.get))
            self._set_users(named, named.users | {pod.resident.uid})
        self.machines.assign_pod(pod.resident, node)
        self._undo.append(lambda: _discard(self.machines.remove_pod(pod.resident.uid)))
        return PodTarget(node, tuple(allocations))

    def node_of_pool(self, driver: str, pool: str) -> str:
        """The node of a pool's devices; empty if other nodes can use them too."""
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

    # --- scheduling ----------------------------------------------------------------------------------------------

    def _choose(
        self, pod: MovablePod, node_mask: int
    ) -> tuple[str, list[tuple[ResourceClaim, ObjectKey, str, AllocationResult]]] | Unschedulable:
        if pod.obstacle:
            return Unschedulable(pod.obstacle)
        machines, demand, resident = self.machines, pod.resident.requirements, pod.resident
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
        rejections: dict[int, Refusal] = {}
        if demand.spread:
            rejections.update(topology_spread(demand, resident.namespace, resident.labels, machines))
        if demand.has_pod_affinity or machines.pods_with_affinity:
            for index, refusal in inter_pod_affinity(resident, machines, self.namespaces).items():
                rejections.setdefault(index, refusal)
        eligible = table.fits & node_mask
        for index in rejections:
            eligible &= ~(1 << index)
        for index in node_indexes(eligible):
            facts = self._machine_at(index).facts
            if not all(selector_matches(selector, facts) for selector in pod.volumes):
                rejections[index] = _VOLUME
            elif not all(a.node_selector is None or selector_matches(a.node_selector, facts) for a in allocated):
                rejections[index] = _CLAIM_ELSEWHERE
        for index in rejections:
            eligible &= ~(1 << index)
        feasible = 0
        claims_by_node: dict[int, list[tuple[ResourceClaim, ObjectKey, str]]] = {}
        for missing, group in self._by_missing_resources(eligible, by_devices).items():
            claims = list(pending)
            if missing:
                claim = self._extended_resource_claim(pod, missing)
                if isinstance(claim, Diagnosis):
                    continue
                if claim is not None:
                    claims.append((claim, ObjectKey(pod.key.namespace, claim.metadata.name), ""))
            values = tuple(claim for claim, _, _ in claims)
            work = self.allocator.cache_for(values) if values else None
            for index in node_indexes(group):
                verdict = work.verdict(self.inventory.view(self._machine_at(index).name)) if work is not None else None
                if verdict is None or isinstance(verdict, Solution):
                    feasible |= 1 << index
                    claims_by_node[index] = claims
                elif isinstance(verdict, Undecided):
                    rejections[index] = undecided_refusal(verdict)
                elif not isinstance(verdict, NoFit):  # an error ends the attempt for all nodes
                    return Unschedulable("its claims cause an error in the scheduling attempt")
        if not feasible:
            return Unschedulable(self._failure_text(table, node_mask, rejections))
        machine = self._machine_at(self._best_node(pod, table, feasible))
        claims = claims_by_node[machine.index]
        if not claims:
            return machine.name, []
        outcome = self.allocator.allocate(machine.name, tuple(claim for claim, _, _ in claims))
        if not isinstance(outcome, Allocated):
            return Unschedulable("its claims cause an error in the scheduling attempt")
        return machine.name, [
            (claim, key, template, result)
            for (claim, key, template), result in zip(claims, outcome.results, strict=True)
        ]

    def _best_node(self, pod: MovablePod, table: NodeFitTable, feasible: int) -> int:
        resident, demand, machines = pod.resident, pod.resident.requirements, self.machines
        if not (demand.depends_on_other_pods or machines.pods_with_affinity) or not feasible & (feasible - 1):
            return table.best(feasible)
        extra_scores: dict[int, int] = {}
        candidates = [self._machine_at(index) for index in node_indexes(feasible)]
        score_maps = [topology_spread_scores(demand, resident.namespace, resident.labels, machines, iter(candidates))]
        score_maps.append(inter_pod_affinity_scores(resident, machines, self.namespaces, candidates))
        for scores in score_maps:
            for index, value in scores.items():
                extra_scores[index] = extra_scores.get(index, 0) + 2 * value
        return max(node_indexes(feasible), key=lambda index: (table.scores[index] + extra_scores.get(index, 0), -index))

    def _machine_at(self, index: int) -> CachedNode:
        machine = self.machines.at(index)
        assert machine is not None, "every index is that of a node"
        return machine

    def _device_resources(self, extended: Iterable[str]) -> frozenset[str]:
        """The extended resources that a DeviceClass provides (KEP-5004)."""
        if not self.features.enabled("DRAExtendedResource"):
            return frozenset()
        classes = self.inventory.classes
        names = {c.spec.extended_resource_name for c in classes.values()}
        return frozenset(
            n for n in extended if n in names or (n.startswith(_IMPLICIT) and n.removeprefix(_IMPLICIT) in classes)
        )

    def _by_missing_resources(self, eligible: int, by_devices: frozenset[str]) -> dict[frozenset[str], int]:
        """Node indices by the extended resources that claims must provide, as the node does not publish them."""
        if not by_devices:
            return {frozenset(): eligible}
        groups: dict[frozenset[str], int] = {}
        for index in node_indexes(eligible):
            missing = frozenset(n for n in by_devices if self._machine_at(index).allocatable.get(n, 0) <= 0)
            groups[missing] = groups.get(missing, 0) | 1 << index
        return groups

    def _extended_resource_claim(self, pod: MovablePod, missing: frozenset[str]) -> ResourceClaim | Diagnosis | None:
        names = ("name", "resources", "restartPolicy")
        spec = {
            part: [{k: c[k] for k in names if c.get(k) is not None} for c in pod.tree["spec"].get(part) or ()]
            for part in ("initContainers", "containers")
        }
        value = read_value({"metadata": identity(pod.tree["metadata"]), "spec": spec}, Pod)
        plugin_resources = frozenset(
            n for c in (*value.spec.init_containers, *value.spec.containers)
            for n in (*c.resources.requests, *c.resources.limits) if n not in missing
        )  # fmt: skip
        return extended_claim(value, self.inventory.classes, self.features, plugin_resources)

    def _failure_text(self, table: NodeFitTable, node_mask: int, rejections: Mapping[int, Refusal]) -> str:
        """The text of a scheduler event: the number of nodes by reason."""
        counts: dict[str, int] = {}
        nodes = 0
        for machine in self.machines:
            if not node_mask >> machine.index & 1:
                continue
            nodes += 1
            refusal = table.refusals[machine.index] or rejections.get(machine.index) or NO_FIT
            for text in refusal.texts:
                counts[text] = counts.get(text, 0) + 1
        if not nodes:
            return "there are no other nodes"
        return f"0/{nodes} other nodes are available: " + ", ".join(f"{n} {text}" for text, n in sorted(counts.items()))


def _read(trees: Sequence[Tree], type_: type[V]) -> list[V]:
    return [read_value(tree, type_) for tree in trees]


def _discard(_: object) -> None:
    """Discards the result of an expression in an undo function."""
