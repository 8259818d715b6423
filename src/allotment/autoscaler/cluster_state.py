"""The cluster as the autoscaler sees it: unschedulable pods, and the objects that a plan is computed from."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final

from allotment.autoscaler.reservation import unreserved
from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem, by_node
from allotment.cluster.client import Resource
from allotment.cluster.program import ProgramContext
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DAEMON_SETS,
    DEVICE_CLASSES,
    DISRUPTION_BUDGETS,
    NODES,
    POD_GROUPS,
    PODS,
    SLICES,
    STORAGE_CLASSES,
    TAINT_RULES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from allotment.cluster.typed_objects import OF_DEVICES
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.pod_groups import GATE
from allotment.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from allotment.model.workloads import DaemonSet, PodGroup

#: The inputs of a plan, with their types.
_KINDS: Final[tuple[tuple[Resource, type[Object]], ...]] = (
    *OF_DEVICES,
    (STORAGE_CLASSES, StorageClass),
    (VOLUMES, PersistentVolume),
    (VOLUME_CLAIMS, PersistentVolumeClaim),
    (DAEMON_SETS, DaemonSet),
)
#: Fields of a pod that determine which machine fits it, in addition to its containers' requests.
_REQUIREMENT_FIELDS: Final = (
    "affinity",
    "nodeSelector",
    "overhead",
    "resourceClaims",
    "resources",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
#: Kinds whose changes can make unserved pods servable.
_RETRY_KINDS: Final = (DEVICE_CLASSES, TAINT_RULES, CLAIM_TEMPLATES, STORAGE_CLASSES, VOLUMES, VOLUME_CLAIMS)


class ObservedCluster:
    def __init__(self, context: ProgramContext, features: Features) -> None:
        kinds = _KINDS
        if features.enabled(GATE):
            kinds = (*_KINDS, (POD_GROUPS, PodGroup))
        self._kinds = [(context.caches.trees(resource), type) for resource, type in kinds]
        by_resource = {cache.resource: cache for cache, _ in self._kinds}
        self.pods: Cache[Any] = by_resource[PODS]
        self.nodes: Cache[Any] = by_resource[NODES]
        self.slices: Cache[Any] = by_resource[SLICES]
        self.claims: Cache[Any] = by_resource[CLAIMS]
        self.budgets: Cache[Any] = context.caches.trees(DISRUPTION_BUDGETS)
        self.pods_by_node = self.pods.index("node", by_node)
        self.slices_by_node = self.slices.index("node", by_node)
        self._retry_caches = [by_resource[resource] for resource in _RETRY_KINDS]

    def caches(self) -> tuple[Cache[Any], ...]:
        """Return the caches that must be synced before any decision."""
        return (*(cache for cache, _ in self._kinds), self.budgets)

    def subscribe(
        self, waits: Callable[[str], None], placed: Callable[[CachedItem[Any]], None], helps: Callable[[], None],
        moves: Callable[[], None],
    ) -> list[Callable[[], None]]:  # fmt: skip
        """Register callbacks: a pod (uid) became unschedulable or changed its requirements; an unschedulable pod got a
        node; unserved pods may be servable now; nodes, slices, pods or budgets have changed. Return the functions that
        unsubscribe.
        """

        def pod_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            if new is not None and is_unschedulable(new):
                if old is None or not is_unschedulable(old) or _spec(old) != _spec(new):
                    waits(new.uid)
            elif old is not None and new is not None and new.spec.get("nodeName") and not old.spec.get("nodeName"):
                placed(new)
            moves()

        def claim_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            if old is not None or new is None:
                return
            owner = new.controller
            if owner is not None and owner.get("kind") == PODS.kind:
                waits(owner["uid"])
            else:
                helps()

        def helped(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            # Status changes come from scheduler and drivers and do not change the requirements.
            if old is None or new is None or old.spec != new.spec:
                helps()

        def moved(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            moves()

        ends = [cache.on_change(helped) for cache in self._retry_caches]
        ends += [cache.on_change(moved) for cache in (self.nodes, self.slices, self.budgets)]
        return [*ends, self.claims.on_change(claim_changed), self.pods.on_change(pod_changed)]

    def unschedulable_pods(self) -> Iterator[CachedItem[Any]]:
        """Return the pods that need a machine."""
        return (pod for pod in self.pods.items() if is_unschedulable(pod) and not self._awaits_preemption(pod))

    def plan_inputs(self, without: Container[str] = ()) -> list[tuple[CachedItem[Any], type[Object]]]:
        """Return all inputs of a plan: of the pods without a node only the unschedulable ones, except those in
        ``without`` (uids).
        """
        found: list[tuple[CachedItem[Any], type[Object]]] = []
        for cache, type in self._kinds:
            items = cache.items()
            if cache is self.pods:
                waiting = {pod.uid for pod in self.unschedulable_pods() if pod.uid not in without}
                items = [pod for pod in items if pod.uid in waiting or (_runs(pod) and not is_finished(pod))]
            found += ((item, type) for item in items)
        return found

    def _awaits_preemption(self, pod: CachedItem[Any]) -> bool:
        """Whether the scheduler has nominated a node for it on which pods are being deleted."""
        node = pod.status.get("nominatedNodeName", "")
        return bool(node) and any(other.deleting for other in self.pods_by_node[node])


def is_unschedulable(pod: CachedItem[Any]) -> bool:
    """Whether the scheduler has tried a pod and found no node for it."""
    if pod.spec.get("nodeName") or pod.deleting or pod.spec.get("schedulingGates") or is_finished(pod):
        return False
    if is_daemon(pod):  # it belongs to one existing node
        return False
    conditions = pod.status.get("conditions") or ()
    return any(
        condition["type"] == "PodScheduled"
        and condition["status"] == "False"
        and condition.get("reason") == "Unschedulable"
        for condition in conditions
    )


def requirements_key(pod: CachedItem[Any]) -> str:
    """Return a key that is equal for pods that fit the same machines, such as those of one Deployment or CronJob."""
    spec = _spec(pod)
    requirements = {field: spec[field] for field in _REQUIREMENT_FIELDS if spec.get(field)}
    for field in ("initContainers", "containers"):
        requirements[field] = [
            (container.get("resources"), container.get("restartPolicy")) for container in spec.get(field) or ()
        ]
    return json.dumps([pod.namespace, requirements], sort_keys=True)


def _spec(pod: CachedItem[Any]) -> Mapping[str, Any]:
    """Return the spec without what the autoscaler added to it."""
    spec: Mapping[str, Any] = unreserved(pod.tree)["spec"]
    return spec


def is_daemon(pod: CachedItem[Any]) -> bool:
    """Whether it belongs to a DaemonSet or is a static pod."""
    owner = pod.controller
    return owner is not None and owner.get("kind") in ("DaemonSet", "Node")


def is_finished(pod: CachedItem[Any]) -> bool:
    """Whether its containers will not run again."""
    return pod.status.get("phase") in ("Succeeded", "Failed")


def _runs(pod: CachedItem[Any]) -> bool:
    return bool(pod.spec.get("nodeName"))
