"""The PodGroups of the cluster, for claims that are reserved for a group and not for its pods (KEP-5729, alpha).

Without the gate no pod has a group. With it a pod whose group is not there finds no node at all, for nobody can tell
which of its claims are its own. That a group's pods start together or not at all is nothing that this scheduler does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item
from allotment.cluster.caches import Caches
from allotment.cluster.resources import POD_GROUPS, PODS
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.scheduler.cluster_events import Happening
from allotment.scheduler.pods import WaitingPod, claim_name


class Grouping:
    """Which group a pod is in, and what that means for its claims."""

    def __init__(self, caches: Caches, features: Features, happens: Callable[[Happening], None]) -> None:
        self._groups = caches.trees(POD_GROUPS) if features.enabled(pod_groups.GATE) else None
        self._placed = caches.trees(PODS).index("placed members", _placed_in)
        self._happens = happens

    def caches(self) -> list[Cache[Any]]:
        """What is followed."""
        return [self._groups] if self._groups is not None else []

    def follow(self) -> list[Callable[[], None]]:
        """Begin to follow; returns what ends it."""
        return [cache.on_change(self._changed) for cache in self.caches()]

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if old is None or new is None or old.uid != new.uid:
            self._happens(Happening.GROUP)

    def of(self, tree: Tree) -> str:
        """The name of a pod's group, there or not; empty if it has none."""
        return pod_groups.group_name(tree["spec"]) if self._groups is not None else ""

    def unreadable(self) -> str:
        """Why it is not known which groups there are; empty if it is."""
        return self._groups.unreadable if self._groups is not None else ""

    def missing(self, tree: Tree) -> str:
        """The name of a pod's group if that is not there; empty, too, while nobody can know."""
        name = self.of(tree) if not self.unreadable() else ""
        return name if name and self._group(tree, name) is None else ""

    def user(self, pod: WaitingPod, claim: ObjectKey) -> Tree:
        """For whom a claim is reserved when a pod uses it: the pod or its group. Raises LookupError without the group.

        The text is Kubernetes'.
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

    def is_placed(self, pod: WaitingPod, others: Collection[WaitingPod]) -> bool:
        """Whether a pod of the same group has a node, or will have: one of the ``others`` that are being bound."""
        key = (pod.key.namespace, self.of(pod.tree))
        members = [item.uid for item in self._placed[key]]
        members += [other.uid for other in others if (other.key.namespace, self.of(other.tree)) == key]
        return any(uid != pod.uid for uid in members)

    def known(self) -> list[ObjectKey]:
        """The groups that there are."""
        return [ObjectKey(item.namespace, item.name) for item in self._groups.items()] if self._groups else []

    def _group(self, tree: Tree, name: str) -> Tree | None:
        assert self._groups is not None
        return self._groups.tree(tree["metadata"].get("namespace", ""), name)


def _placed_in(pod: Item[Any]) -> Iterator[tuple[str, str]]:
    if pod.spec.get("nodeName") and pod.status.get("phase") not in ("Succeeded", "Failed"):
        name = pod_groups.group_name(pod.spec)
        if name:
            yield pod.namespace, name
