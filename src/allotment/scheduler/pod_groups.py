"""The PodGroups of the cluster, for claims that are reserved for a group instead of its pods (KEP-5729, alpha).

Without the feature gate no pod has a group. With it a pod whose group does not exist is unschedulable, because it is
unknown which claims belong to the pod itself. See `groups` for scheduling the pods of a group together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import Caches
from allotment.cluster.resources import POD_GROUPS, PODS
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.scheduler.cluster_events import ClusterEvent
from allotment.scheduler.pods import QueuedPod, claim_name


class PodGroups:
    """The group of a pod, and what it means for the pod's claims."""

    def __init__(self, caches: Caches, features: Features, on_event: Callable[[ClusterEvent], None]) -> None:
        self._groups = caches.trees(POD_GROUPS) if features.enabled(pod_groups.GATE) else None
        self._placed = caches.trees(PODS).index("placed members", _placed_in)
        self._on_event = on_event

    def caches(self) -> list[Cache[Any]]:
        """Return the caches that are followed."""
        return [self._groups] if self._groups is not None else []

    def subscribe(self) -> list[Callable[[], None]]:
        """Subscribe to the caches; return the functions that unsubscribe."""
        return [cache.on_change(self._changed) for cache in self.caches()]

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if old is None or new is None or old.uid != new.uid:
            self._on_event(ClusterEvent.GROUP)

    def of(self, tree: Tree) -> str:
        """Return the name of a pod's group, whether or not the group exists; empty if the pod has none."""
        return pod_groups.group_name(tree["spec"]) if self._groups is not None else ""

    def unreadable(self) -> str:
        """Return why the groups are unknown; empty if they are known."""
        return self._groups.unreadable if self._groups is not None else ""

    def missing(self, tree: Tree) -> str:
        """Return the name of a pod's group if it does not exist; empty also while the groups are unknown."""
        name = self.of(tree) if not self.unreadable() else ""
        return name if name and self._group(tree, name) is None else ""

    def consumer(self, pod: QueuedPod, claim: ObjectKey) -> Tree:
        """Return the consumer reference that reserves a claim for a pod: the pod or its group.

        Raises LookupError with Kubernetes' text if the group does not exist.
        """
        name = self.of(pod.tree)
        if name:
            group = self._group(pod.tree, name)
            if group is None:
                raise LookupError(pod_groups.not_found_message(name))
            for entry in pod.tree["spec"].get("resourceClaims") or ():
                if claim_name(pod.tree, entry) == claim.name and pod_groups.has_claim_entry(group, entry):
                    return pod_groups.consumer_reference(group)
        return {"resource": "pods", "name": pod.key.name, "uid": pod.uid}

    def is_placed(self, pod: QueuedPod, others: Collection[QueuedPod]) -> bool:
        """Whether another pod of the same group has a node, or is one of the ``others`` that are being bound."""
        key = (pod.key.namespace, self.of(pod.tree))
        members = [item.uid for item in self._placed[key]]
        members += [other.uid for other in others if (other.key.namespace, self.of(other.tree)) == key]
        return any(uid != pod.uid for uid in members)

    def known(self) -> list[ObjectKey]:
        """Return the keys of all groups."""
        return [ObjectKey(item.namespace, item.name) for item in self._groups.items()] if self._groups else []

    def _group(self, tree: Tree, name: str) -> Tree | None:
        assert self._groups is not None
        return self._groups.tree(tree["metadata"].get("namespace", ""), name)


def _placed_in(pod: CachedItem[Any]) -> Iterator[tuple[str, str]]:
    if pod.spec.get("nodeName") and pod.status.get("phase") not in ("Succeeded", "Failed"):
        name = pod_groups.group_name(pod.spec)
        if name:
            yield pod.namespace, name
