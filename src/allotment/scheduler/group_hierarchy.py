"""PodGroups and CompositePodGroups as trees: which groups belong together, their policies, and their pods.

Pods whose groups have the same root are scheduled together. A PodGroup without a parent is its own root. A basic policy
counts as a minimum of one (one pod, or one child group).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import Caches
from allotment.cluster.resources import COMPOSITE_POD_GROUPS, POD_GROUPS, PODS
from allotment.model import pod_groups
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.scheduler.group_key import GroupKey, Level
from allotment.scheduler.pods import QueuedPod
from allotment.scheduler.release import scheduler_release

_ENDED: Final = ("Succeeded", "Failed")
#: Levels of a hierarchy that are followed; the API server allows four.
_MAX_DEPTH: Final = 8


class Group(NamedTuple):
    """A group with its child groups."""

    key: GroupKey
    tree: Tree
    children: tuple[Group, ...] = ()

    @property
    def is_composite(self) -> bool:
        return self.key.level == "compositepodgroup"

    @property
    def minimum(self) -> int:
        """The number of pods or child groups that must be schedulable."""
        gang = (self._spec.get("schedulingPolicy") or {}).get("gang")
        if not gang:
            return 1
        return int(gang.get("minGroupCount" if self.is_composite else "minCount") or 1)

    @property
    def is_gang(self) -> bool:
        return bool((self._spec.get("schedulingPolicy") or {}).get("gang"))

    @property
    def has_constraints(self) -> bool:
        return bool(self._spec.get("schedulingConstraints"))

    @property
    def topology_key(self) -> str:
        """The node label whose value all pods must share; empty if there is no such constraint."""
        constraints = (self._spec.get("schedulingConstraints") or {}).get("topology") or ()
        return str(constraints[0].get("key") or "") if constraints else ""

    @property
    def priority(self) -> int:
        return int(self._spec.get("priority") or 0)

    @property
    def preemption_policy(self) -> str:
        return str(self._spec.get("preemptionPolicy") or "PreemptLowerPriority")

    @property
    def is_disrupted_together(self) -> bool:
        """Whether its pods may only be preempted all together."""
        return (self._spec.get("disruptionMode") or {}).get("all") is not None

    @property
    def parent(self) -> str:
        return str(self._spec.get("parentCompositePodGroupName") or "")

    @property
    def _spec(self) -> Tree:
        spec: Tree = self.tree.get("spec") or {}
        return spec

    def leaves(self) -> Iterator[Group]:
        """Yield the PodGroups of the tree."""
        if not self.is_composite:
            yield self
        for child in self.children:
            yield from child.leaves()


class GroupHierarchy:
    """The groups of the cluster. ``assumed``: pods (by uid) that are being bound, shared with other components."""

    def __init__(self, caches: Caches, features: Features, assumed: Mapping[str, QueuedPod]) -> None:
        self.enabled = scheduler_release(features).schedules_groups
        self._groups: Cache[Any] | None = caches.trees(POD_GROUPS) if self.enabled else None
        self._composites: Cache[Any] | None = None
        if self.enabled and features.enabled("CompositePodGroup"):
            self._composites = caches.trees(COMPOSITE_POD_GROUPS)
        self._assumed = assumed
        self._pods = caches.trees(PODS).index("members of groups", _group_of) if self.enabled else None

    def unreadable(self) -> str:
        """Return why the groups are unknown; empty if they are known."""
        return next((cache.unreadable for cache in self.caches() if cache.unreadable), "")

    @property
    def has_composites(self) -> bool:
        """Whether CompositePodGroups are used."""
        return self._composites is not None

    def caches(self) -> list[Cache[Any]]:
        """Return the caches that are followed."""
        return [cache for cache in (self._groups, self._composites) if cache is not None]

    def subscribe(self, changed: Callable[[Tree | None, Tree | None], None]) -> list[Callable[[], None]]:
        """Call ``changed(old, new)`` for every change of a group; return the functions that unsubscribe."""

        def item_changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            changed(old.tree if old is not None else None, new.tree if new is not None else None)

        return [cache.on_change(item_changed) for cache in self.caches()]

    # --- trees -------------------------------------------------------------------------------------------------------

    def key_of(self, pod: Tree) -> GroupKey | None:
        """Return the root of a pod's hierarchy, None for a pod without a group.

        As long as a group of the hierarchy is missing, it is the highest one that is known by name.
        """
        key = self._leaf_of(pod)
        return self.root_of(key) if key is not None else None

    def _leaf_of(self, pod: Tree) -> GroupKey | None:
        name = pod_groups.group_name(pod["spec"]) if self.enabled else ""
        return GroupKey("podgroup", pod["metadata"].get("namespace", ""), name) if name else None

    def root_of(self, key: GroupKey) -> GroupKey:
        """Return the root of a group's hierarchy, as far as it is known."""
        for group in self._lineage(key):
            key = self._parent_key(group) or group.key
        return key

    def _lineage(self, key: GroupKey) -> Iterator[Group]:
        """Yield a group and its ancestors, as far as they exist."""
        for _ in range(_MAX_DEPTH):
            tree = self._tree(key)
            if tree is None:
                return
            group = Group(key, tree)
            yield group
            parent = self._parent_key(group)
            if parent is None:
                return
            key = parent

    def _parent_key(self, group: Group) -> GroupKey | None:
        if not group.parent or not self.has_composites:
            return None
        return GroupKey("compositepodgroup", group.key.namespace, group.parent)

    def tree_of(self, key: GroupKey) -> Group | None:
        """Return a group with its children; None if it does not exist."""
        return self._build(key, _MAX_DEPTH)

    def _build(self, key: GroupKey, depth: int) -> Group | None:
        tree = self._tree(key)
        if tree is None or not depth:
            return None
        children: list[Group] = []
        if key.level == "compositepodgroup":
            for child in self._children(key):
                found = self._build(child, depth - 1)
                if found is not None:
                    children.append(found)
        return Group(key, tree, tuple(children))

    def _children(self, key: GroupKey) -> list[GroupKey]:
        """Return the child groups, the oldest first."""
        found: list[tuple[str, GroupKey]] = []
        levels: tuple[tuple[Level, Cache[Any] | None], ...] = (
            ("podgroup", self._groups), ("compositepodgroup", self._composites)
        )  # fmt: skip
        for level, cache in levels:
            if cache is not None:
                for item in cache.index("child groups", _parent_of)[key.namespace, key.name]:
                    created = str(item.tree["metadata"].get("creationTimestamp") or "")
                    found.append((created, GroupKey(level, item.namespace, item.name)))
        return [child for _, child in sorted(found)]

    def _tree(self, key: GroupKey) -> Tree | None:
        cache = self._groups if key.level == "podgroup" else self._composites
        return cache.tree(key.namespace, key.name) if cache is not None else None

    def priority_of(self, pod: Tree) -> int | None:
        """Return the priority of the highest group of a pod that exists; None if there is none."""
        return next((group.priority for group in reversed(self._groups_of(pod))), None)

    def disrupted_with(self, pod: Tree) -> GroupKey | None:
        """Return the highest group of a pod whose pods may only be preempted together; None if there is none."""
        return next((group.key for group in reversed(self._groups_of(pod)) if group.is_disrupted_together), None)

    def _groups_of(self, pod: Tree) -> list[Group]:
        """Return the existing groups of a pod, the highest last."""
        key = self._leaf_of(pod)
        return list(self._lineage(key)) if key is not None else []

    # --- pods --------------------------------------------------------------------------------------------------------

    def members(self, leaf: GroupKey) -> Collection[CachedItem[Any]]:
        """Return all pods of a PodGroup that have not ended."""
        return self._pods[leaf.namespace, leaf.name] if self._pods is not None else ()

    def scheduled(self, leaf: GroupKey) -> list[CachedItem[Any]]:
        """Return the pods of a PodGroup that have a node or are being bound."""
        return [pod for pod in self.members(leaf) if pod.spec.get("nodeName") or pod.uid in self._assumed]

    def unready(self, root: Group) -> str:
        """Return why too few pods or child groups exist to schedule a hierarchy, in Kubernetes' words; empty if there
        are enough.
        """
        if self._is_ready(root):
            return ""
        if not root.is_composite:
            return "waiting for minCount pods from a gang to appear in scheduling queue"
        return f'waiting for composite pod group "{root.key.name}" tree to meet quorum'

    def _is_ready(self, group: Group) -> bool:
        if not group.is_composite:
            return len(self.members(group.key)) >= group.minimum
        return sum(map(self._is_ready, group.children)) >= group.minimum


def _group_of(pod: CachedItem[Any]) -> Iterator[tuple[str, str]]:
    if pod.status.get("phase") not in _ENDED and (name := pod_groups.group_name(pod.spec)):
        yield pod.namespace, name


def _parent_of(group: CachedItem[Any]) -> Iterator[tuple[str, str]]:
    if name := (group.tree.get("spec") or {}).get("parentCompositePodGroupName"):
        yield group.namespace, name


def is_relevant_change(old: Tree | None, new: Tree | None) -> bool:
    """Whether a change of a group can make its pods schedulable: it exists now, or its minimum is lower."""
    if old is None or new is None or old["metadata"].get("uid") != new["metadata"].get("uid"):
        return True
    before, after = (((tree.get("spec") or {}).get("schedulingPolicy") or {}).get("gang") or {} for tree in (old, new))
    return any(int(after.get(part) or 0) < int(before.get(part) or 0) for part in ("minCount", "minGroupCount"))
