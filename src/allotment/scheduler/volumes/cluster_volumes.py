"""The claims, volumes and storage classes of the cluster as the next decision sees them.

That includes decisions whose writes are in progress: volumes that are reserved for a claim, and nodes that are selected
for claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import Caches
from allotment.cluster.resources import (
    CSI_CAPACITIES,
    CSI_DRIVERS,
    CSI_NODES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from allotment.model.features import Features
from allotment.model.pod_volume_claims import claim_names
from allotment.model.trees import Tree
from allotment.node_fit.volume_matching import SELECTED_NODE, annotations_of, class_of, reserved_for
from allotment.scheduler.cluster_events import ClusterEvent
from allotment.scheduler.pods import QueuedPod

Key = tuple[str, str]


class VolumeChoice(NamedTuple):
    """The volumes that claims get on a node: existing ones, with their claims, and claims to provision one for."""

    bindings: tuple[tuple[Tree, Tree], ...] = ()
    provisions: tuple[Tree, ...] = ()


NO_VOLUMES: Final = VolumeChoice()


class ClusterVolumes:
    """The volumes of the cluster. ``on_event`` is called for changes that can make pods schedulable."""

    def __init__(self, caches: Caches, features: Features, on_event: Callable[[ClusterEvent], None]) -> None:
        self._on_event = on_event
        self.requires_drivers = features.since("1.37")
        """Whether a node without a CSI driver is refused if the driver requires that (gate VolumeLimitScaling)."""
        self._pods = caches.trees(PODS)
        self._claims = caches.trees(VOLUME_CLAIMS)
        self._volumes = caches.trees(VOLUMES)
        self._classes = caches.trees(STORAGE_CLASSES)
        self._csi_nodes = caches.trees(CSI_NODES)
        self._csi_drivers = caches.trees(CSI_DRIVERS)
        self._capacities = caches.trees(CSI_CAPACITIES)
        self._users = self._pods.index("volume claims", _claims_of)
        self._by_class = self._volumes.index("class", lambda volume: (class_of(volume.tree),))
        self._reserved: dict[str, Tree] = {}
        self._selected: dict[Key, str] = {}
        self._retry: Callable[[str], None] = lambda uid: None
        self._changed: Callable[[], None] = lambda: None

    def caches(self) -> list[Cache[Any]]:
        """Return the caches that are followed."""
        return [
            self._claims, self._volumes, self._classes, self._csi_nodes, self._csi_drivers, self._capacities,
        ]  # fmt: skip

    def subscribe(self, retry: Callable[[str], None], changed: Callable[[], None]) -> list[Callable[[], None]]:
        """Subscribe to the caches; return the functions that unsubscribe.

        ``retry`` retries the pod with a uid, because one of its claims changed; ``changed`` wakes the bindings that
        wait for volumes.
        """
        self._retry, self._changed = retry, changed
        others = [cache.on_change(self._other_changed) for cache in self.caches()[2:]]
        return [
            self._claims.on_change(self._claim_changed), self._volumes.on_change(self._volume_changed),
            self._pods.on_change(self._pod_changed), *others,
        ]  # fmt: skip

    # --- what decisions read -----------------------------------------------------------------------------------------

    def claim(self, namespace: str, name: str) -> Tree | None:
        """Return a claim, with the node that was selected for it."""
        tree = self._claims.tree(namespace, name)
        node = self._selected.get((namespace, name))
        return _with_node(tree, node) if tree is not None and node is not None else tree

    def volume(self, name: str) -> Tree | None:
        """Return a volume, with the claim for which it was reserved."""
        return self._reserved.get(name) or self._volumes.tree("", name)

    def of_class(self, name: str) -> list[Tree]:
        """Return the volumes of a class, by name."""
        found = [self._reserved.get(item.name, item.tree) for item in self._by_class[name]]
        return sorted(found, key=lambda volume: str(volume["metadata"]["name"]))

    def storage_class(self, name: str) -> Tree | None:
        """Return a StorageClass."""
        return self._classes.tree("", name) if name else None

    def users(self, claim: Key) -> Iterator[str]:
        """Yield the uids of all pods with a claim."""
        for pod in self._users[claim]:
            yield pod.uid

    def pod(self, namespace: str, name: str) -> Tree | None:
        """Return a pod."""
        return self._pods.tree(namespace, name)

    def has_pod(self, pod: QueuedPod) -> bool:
        """Whether a pod still exists."""
        item = self._pods.item(pod.key.namespace, pod.key.name)
        return item is not None and item.uid == pod.uid

    def drivers_on(self, node: str) -> dict[str, int | None] | None:
        """Return the CSI drivers on a node with their limits; None if the node has not reported any."""
        tree = self._csi_nodes.tree("", node)
        if tree is None:
            return None
        drivers = tree["spec"].get("drivers") or ()
        return {driver["name"]: (driver.get("allocatable") or {}).get("count") for driver in drivers}

    def driver(self, name: str) -> Tree | None:
        """Return a CSIDriver."""
        return self._csi_drivers.tree("", name)

    @property
    def has_limits(self) -> bool:
        """Whether any node or driver can restrict the nodes of CSI volumes."""
        return bool(len(self._csi_nodes) or len(self._csi_drivers))

    def capacities(self) -> Iterator[Tree]:
        """Yield all CSIStorageCapacities."""
        for item in self._capacities.items():
            yield item.tree

    # --- decisions in progress ---------------------------------------------------------------------------------------

    def plan(self, choice: VolumeChoice, node: str) -> None:
        """Book a decision, so that the next one sees it."""
        for volume, claim in choice.bindings:
            self._reserved[volume["metadata"]["name"]] = reserved_for(volume, claim)
        for claim in choice.provisions:
            self._selected[_key(claim)] = node

    def end_plan(self, choice: VolumeChoice) -> None:
        """Forget a decision that is written or reverted."""
        for volume, _ in choice.bindings:
            self._reserved.pop(volume["metadata"]["name"], None)
        for claim in choice.provisions:
            self._selected.pop(_key(claim), None)

    def written_claim(self, claim: Tree) -> Tree | None:
        """Return a claim as it is stored; None if it was deleted."""
        found = self._claims.tree(*_key(claim))
        return found if found is not None and found["metadata"]["uid"] == claim["metadata"]["uid"] else None

    def written_volume(self, name: str) -> Tree | None:
        """Return a volume as it is stored."""
        return self._volumes.tree("", name)

    def record_claim(self, tree: Tree) -> None:
        """Record the response to a write of a claim."""
        self._claims.record_write(tree)

    def record_volume(self, tree: Tree) -> None:
        """Record the response to a write of a volume."""
        self._volumes.record_write(tree)

    # --- changes -----------------------------------------------------------------------------------------------------

    def _claim_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            for uid in self.users(new.key):
                self._retry(uid)
        self._changed()

    def _volume_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and (old is None or _properties(old) != _properties(new)):
            self._on_event(ClusterEvent.VOLUME)
        self._changed()

    def _pod_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is None and old is not None and old.spec.get("volumes"):
            self._changed()

    def _other_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None:
            self._on_event(ClusterEvent.STORAGE)


def _claims_of(pod: CachedItem[Any]) -> Iterator[Key]:
    for name, _ in claim_names(pod.tree):
        yield pod.namespace, name


def _properties(volume: CachedItem[Any]) -> tuple[object, ...]:
    """The properties of a volume with which it can be chosen for a claim, and by pods that already have it."""
    spec = volume.spec
    free = volume.status.get("phase") == "Available" and not spec.get("claimRef")
    return free, spec.get("nodeAffinity"), spec.get("capacity"), volume.labels


def _key(claim: Tree) -> Key:
    return claim["metadata"].get("namespace", ""), claim["metadata"]["name"]


def _with_node(claim: Tree, node: str) -> Tree:
    annotations = {**annotations_of(claim), SELECTED_NODE: node}
    return {**claim, "metadata": {**claim["metadata"], "annotations": annotations}}
