"""``ClusterIndex``: the objects of a cluster snapshot with the cached indexes that checks use."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Final, NamedTuple, TypeVar

from allotment.engine.cluster.identity import DeviceID, PoolID
from allotment.engine.cluster.inventory import Inventory
from allotment.engine.cluster.pools import Pool, PoolRules, PoolStatus, gather_pool
from allotment.explanation import Explanation, explain
from allotment.explanation.matches import ClassMatches, matches
from allotment.explanation.next_step import Origin
from allotment.explanation.node_eligibility import eligibility_nodes, unschedulable_nodes
from allotment.explanation.outdated_pods import with_outdated_pods
from allotment.explanation.subjects import objects_to_explain, other_pods
from allotment.model.contested_claims import is_contested
from allotment.model.generated_claims import UnresolvedClaim, claim_name
from allotment.model.meta import Object, ObjectKey
from allotment.model.resource import (
    Device,
    DeviceClass,
    DeviceRequestAllocationResult,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimTemplate,
    ResourceSlice,
)
from allotment.tools.doctor.object_state import name_of, results_of, time_of
from allotment.tools.doctor.objects import Event, Lease, Node, Pod, ResourceQuota
from allotment.tools.doctor.snapshot import ClusterSnapshot

T = TypeVar("T", bound=Object)

#: The time that a controller has to process a change before a check reports it.
GRACE_PERIOD: Final = timedelta(minutes=1)
#: Trials for changes that would help, over all pending pods; as many as in `check`, so that both find the same ones.
_MAX_TRIALS: Final = 1_000


class PublishedDevice(NamedTuple):
    """A device and its slice."""

    device: Device
    slice: ResourceSlice


class ClassUser(NamedTuple):
    """A claim or template that requests a class. ``is_pending``: it is a claim that is not allocated;
    ``is_alternative``: the class is one of several alternatives (KEP-4816)."""

    name: str
    is_pending: bool
    is_alternative: bool


class ClusterIndex:
    """Indexes of an immutable snapshot, computed on first use."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
        self.features = snapshot.features

    # --- objects -----------------------------------------------------------------------------------------------------

    @cached_property
    def _by_type(self) -> Mapping[type[Object], list[Object]]:
        sorted_: defaultdict[type[Object], list[Object]] = defaultdict(list)
        for value in self.snapshot.values:
            sorted_[type(value)].append(value)
        return sorted_

    def of(self, kind: type[T]) -> Sequence[T]:
        """All objects of exactly this type."""
        return [value for value in self._by_type.get(kind, ()) if isinstance(value, kind)]

    @cached_property
    def nodes(self) -> Mapping[str, Node]:
        """Nodes by name."""
        return {node.metadata.name: node for node in self.of(Node)}

    @cached_property
    def nodes_by_state(self) -> Mapping[str, str]:
        """Nodes that take no pods because of their state, with the state, such as ``cordoned``."""
        return unschedulable_nodes(eligibility_nodes(self.nodes.values(), ()), states_only=True)

    @cached_property
    def slices(self) -> Sequence[ResourceSlice]:
        """All slices of all generations."""
        return self.of(ResourceSlice)

    @cached_property
    def classes(self) -> Mapping[str, DeviceClass]:
        """Classes by name."""
        return {class_.metadata.name: class_ for class_ in self.of(DeviceClass)}

    @cached_property
    def claims(self) -> Mapping[ObjectKey, ResourceClaim]:
        """Claims by namespace and name."""
        return {claim.key: claim for claim in self.of(ResourceClaim)}

    @cached_property
    def templates(self) -> Mapping[ObjectKey, ResourceClaimTemplate]:
        """Templates by namespace and name."""
        return {template.key: template for template in self.of(ResourceClaimTemplate)}

    @cached_property
    def rules(self) -> Sequence[DeviceTaintRule]:
        return self.of(DeviceTaintRule)

    @cached_property
    def pods(self) -> Sequence[Pod]:
        """Pods in scheduling order."""
        return self.of(Pod)

    @cached_property
    def pods_by_uid(self) -> Mapping[str, Pod]:
        """Pods by UID."""
        return {pod.metadata.uid: pod for pod in self.pods}

    @cached_property
    def pods_by_name(self) -> Mapping[str, Pod]:
        """Pods by namespace and name."""
        return {name_of(pod): pod for pod in self.pods}

    @cached_property
    def quotas(self) -> Sequence[ResourceQuota]:
        return self.of(ResourceQuota)

    @cached_property
    def leases(self) -> Sequence[Lease]:
        return self.of(Lease)

    @cached_property
    def events(self) -> Mapping[str, Sequence[Event]]:
        """Events by the UID of the involved object."""
        found: defaultdict[str, list[Event]] = defaultdict(list)
        for event in self.of(Event):
            found[event.involved_object.uid].append(event)
        return found

    # --- time --------------------------------------------------------------------------------------------------------

    def age(self, since: str | None) -> timedelta | None:
        """The duration since a timestamp of an object; None if it is unknown."""
        moment, now = time_of(since), self.snapshot.now
        return None if moment is None or now is None else max(now - moment, timedelta())

    def is_old(self, since: str | None, min_age: timedelta = GRACE_PERIOD) -> bool:
        """Whether a state has lasted at least ``min_age``; true if its age is unknown."""
        known = self.age(since)
        return known is None or known >= min_age

    # --- devices -----------------------------------------------------------------------------------------------------

    @cached_property
    def slices_by_pool(self) -> Mapping[PoolID, Sequence[ResourceSlice]]:
        """All slices of each pool, on all nodes."""
        found: defaultdict[PoolID, list[ResourceSlice]] = defaultdict(list)
        for slice_ in self.slices:
            found[PoolID(slice_.spec.driver, slice_.spec.pool.name)].append(slice_)
        return found

    @cached_property
    def pools(self) -> Mapping[PoolID, Pool]:
        """Each pool in its newest generation, with the slices of all nodes."""
        rules = PoolRules.of(self.features)
        ignored = {s.metadata.name for s in self.slices if rules.ignores(s)}
        gathered = (
            (id, gather_pool(id, [s for s in slices if s.metadata.name not in ignored], slices, rules, ignored))
            for id, slices in self.slices_by_pool.items()
        )
        return {id: pool for id, pool in gathered if pool is not None}

    @cached_property
    def usable(self) -> frozenset[PoolID]:
        """Pools whose devices schedulers can allocate."""
        return frozenset(id for id, pool in self.pools.items() if pool.status is PoolStatus.USABLE)

    @cached_property
    def newest(self) -> Sequence[ResourceSlice]:
        """The slices of the newest generation of each pool."""
        last = {id: pool.generation for id, pool in self.pools.items()}
        return [s for s in self.slices if s.spec.pool.generation == last[PoolID(s.spec.driver, s.spec.pool.name)]]

    def is_orphaned(self, slice_: ResourceSlice) -> bool:
        """Whether the node of a slice does not exist."""
        return bool(slice_.spec.node_name) and slice_.spec.node_name not in self.nodes

    @cached_property
    def devices(self) -> Mapping[DeviceID, PublishedDevice]:
        """The published devices by ID."""
        return {
            DeviceID(slice_.spec.driver, slice_.spec.pool.name, device.name): PublishedDevice(device, slice_)
            for slice_ in self.newest
            for device in slice_.spec.devices or ()
        }

    @cached_property
    def drivers(self) -> Mapping[str, Sequence[str]]:
        """The nodes with slices of each driver; empty for drivers without node-local slices."""
        found: defaultdict[str, dict[str, None]] = defaultdict(dict)
        for slice_ in self.slices:
            found[slice_.spec.driver].update({slice_.spec.node_name: None} if slice_.spec.node_name else {})
        return {driver: tuple(nodes) for driver, nodes in sorted(found.items())}

    @cached_property
    def drivers_on(self) -> Mapping[str, frozenset[str]]:
        """The drivers that publish slices for each node."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for driver, nodes in self.drivers.items():
            for node in nodes:
                found[node].add(driver)
        return {node: frozenset(names) for node, names in found.items()}

    @cached_property
    def inventory(self) -> Inventory:
        """The inventory of the engine; nodes that only slices name have only a hostname label."""
        nodes = eligibility_nodes(self.nodes.values(), self.slices)
        return Inventory.of(
            self.features, nodes=(node.facts for node in nodes.values()), slices=self.slices,
            classes=self.classes.values(), claims=self.claims.values(), taint_rules=self.rules,
        )  # fmt: skip

    @cached_property
    def matches(self) -> Mapping[str, ClassMatches]:
        """The devices that each class selects."""
        return {name: matches(class_, self.inventory, self.features) for name, class_ in self.classes.items()}

    @cached_property
    def results(self) -> Mapping[DeviceID, Sequence[tuple[ResourceClaim, DeviceRequestAllocationResult]]]:
        """Claims and results by device, including admin access but not claims that were set aside."""
        found: defaultdict[DeviceID, list[tuple[ResourceClaim, DeviceRequestAllocationResult]]] = defaultdict(list)
        for claim in self.claims.values():
            for result in () if is_contested(claim) else results_of(claim):
                found[DeviceID(result.driver, result.pool, result.device)].append((claim, result))
        return found

    @cached_property
    def class_users(self) -> Mapping[str, Sequence[ClassUser]]:
        """Claims that are not allocated, and templates, by requested class."""
        requesting: list[tuple[str, bool, ResourceClaimSpec]] = [
            (name_of(claim), True, claim.spec) for claim in self.claims.values() if claim.status.allocation is None
        ]
        requesting += ((name_of(template), False, template.spec.spec) for template in self.templates.values())
        found: defaultdict[str, dict[ClassUser, None]] = defaultdict(dict)
        for name, waits, spec in requesting:
            for request in spec.devices.requests:
                several = len(request.first_available) > 1
                classes = [(sub.device_class_name, several) for sub in request.first_available]
                classes += [(request.exactly.device_class_name, False)] if request.exactly else []
                for wanted, otherwise in classes:
                    found[wanted][ClassUser(name, waits, otherwise)] = None
        return {wanted: tuple(users) for wanted, users in found.items()}

    # --- pods --------------------------------------------------------------------------------------------------------

    @cached_property
    def pending_pods(self) -> Sequence[Pod]:
        """Pods without a node."""
        return [pod for pod in self.pods if pod.is_pending]

    def claims_of(self, pod: Pod) -> Iterator[tuple[str, ResourceClaim]]:
        """The existing claims of a pod, with their names in the pod."""
        for entry in pod.spec.resource_claims:
            try:
                name = claim_name(pod, entry)
            except UnresolvedClaim:
                continue
            claim = self.claims.get(ObjectKey(pod.metadata.namespace, name)) if name is not None else None
            if claim is not None:
                yield entry.name, claim
        extended = pod.status.extended_resource_claim_status
        if extended is not None:
            claim = self.claims.get(ObjectKey(pod.metadata.namespace, extended.resource_claim_name))
            if claim is not None:
                yield extended.resource_claim_name, claim

    @cached_property
    def extended_resources(self) -> Mapping[str, str]:
        """Extended resources that classes provide, with a class for each."""
        if not self.features.enabled("DRAExtendedResource"):
            return {}
        found = {f"deviceclass.resource.kubernetes.io/{name}": name for name in self.classes}
        return found | {
            class_.spec.extended_resource_name: name
            for name, class_ in self.classes.items()
            if class_.spec.extended_resource_name
        }

    def requests_devices(self, pod: Pod) -> bool:
        """Whether a pod has claims, or requests an extended resource that a class provides."""
        return bool(pod.spec.resource_claims) or any(
            name in self.extended_resources
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            for name in (*container.resources.requests, *container.resources.limits)
        )

    @cached_property
    def origin(self) -> Origin:
        """The objects by kind and name, for the commands that change them."""
        return Origin({f"{type(value).__name__} {value.key}": value for value in self.snapshot.values})

    @cached_property
    def explanation(self) -> Explanation:
        """The explanation of pods without a node."""
        values = objects_to_explain(self.snapshot.values, ())
        explanation = explain(values, self.features, _MAX_TRIALS, other_pods(self.snapshot.values, values))
        return with_outdated_pods(explanation, self.origin.objects)
