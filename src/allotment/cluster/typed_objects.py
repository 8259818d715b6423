"""Typed values of a cluster's objects for the tools, kept current by caches.

Each version of an object is decoded once; an object that cannot be decoded is left out.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import Caches, all_synced
from allotment.cluster.client import Resource
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    SLICES,
    TAINT_RULES,
)
from allotment.model.core import Namespace, Node, Pod
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.model.pod_groups import are_groups_enabled
from allotment.model.quantity import QuantityError
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.trees import Tree, read_value
from allotment.model.workloads import PodGroup

log = logging.getLogger(__name__)

Kinds = Iterable[tuple[Resource, type[Object]]]

#: The kinds that determine devices, their allocations and the requests for them.
OF_DEVICES: Final[tuple[tuple[Resource, type[Object]], ...]] = (
    (NAMESPACES, Namespace),
    (NODES, Node),
    (DEVICE_CLASSES, DeviceClass),
    (SLICES, ResourceSlice),
    (TAINT_RULES, DeviceTaintRule),
    (CLAIM_TEMPLATES, ResourceClaimTemplate),
    (CLAIMS, ResourceClaim),
    (PODS, Pod),
)


def kinds_to_explain(features: Features) -> Kinds:
    """The kinds that an explanation of pending pods depends on."""
    return (*OF_DEVICES, (POD_GROUPS, PodGroup)) if are_groups_enabled(features) else OF_DEVICES


class Values:
    """Values of cached objects. ``prepared`` maps a tree before it is decoded. May be used in another thread."""

    def __init__(self, prepared: Callable[[Tree], Tree] = lambda tree: tree) -> None:
        self._prepared = prepared
        self._known: dict[tuple[type[Object], str], tuple[int, Object | None]] = {}

    def of(self, items: Iterable[tuple[CachedItem[Any], type[Object]]]) -> list[Object]:
        """The values, in order; values of other objects are dropped."""
        known: dict[tuple[type[Object], str], tuple[int, Object | None]] = {}
        for item, type in items:
            before = self._known.get((type, item.uid))
            if before is None or before[0] != item.revision:
                before = (item.revision, value_of(item, type, self._prepared(item.tree)))
            known[type, item.uid] = before
        self._known = known
        return [value for _, value in known.values() if value is not None]


class Objects:
    """The objects of some kinds; pods in scheduling order: by priority, then by age."""

    def __init__(self, caches: Caches, kinds: Kinds = OF_DEVICES) -> None:
        self._kinds = [(caches.trees(resource), type) for resource, type in kinds]
        self._values = Values()

    @property
    def caches(self) -> tuple[Cache[Any], ...]:
        """The caches of the kinds."""
        return tuple(cache for cache, _ in self._kinds)

    async def synced(self) -> None:
        """Wait until all caches have been listed once."""
        await all_synced(*self.caches)

    def on_change(self, notify: Callable[[], None]) -> Callable[[], None]:
        """Call ``notify`` after every change. Returns a function that unregisters it."""

        def changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            notify()

        ends = [cache.on_change(changed) for cache in self.caches]

        def end() -> None:
            for unregister in ends:
                unregister()

        return end

    def values(self) -> list[Object]:
        """All objects now."""
        return self._values.of(
            (item, type)
            for cache, type in self._kinds
            for item in (sorted(cache.items(), key=queue_order) if type is Pod else cache.items())
        )


def value_of(
    item: CachedItem[Any], type: type[Object], tree: Tree | None = None, decode: Callable[[Tree], Object] | None = None
) -> Object | None:
    """Decode an object, or ``tree`` instead of its own. Logs a warning and returns None if that fails, as for objects
    of an unknown newer server or malformed ones. ``decode``: instead of `read_value`."""
    if tree is None:
        tree = item.tree
    try:
        return decode(tree) if decode is not None else read_value(tree, type)
    except (msgspec.ValidationError, QuantityError) as error:
        log.warning("%s %s/%s cannot be decoded and is ignored: %s", type.__name__, item.namespace, item.name, error)
        return None


def queue_order(pod: CachedItem[Any]) -> tuple[int, str, str, str]:
    """Sort key of pods in scheduling order."""
    return (-(pod.spec.get("priority") or 0), pod.tree["metadata"].get("creationTimestamp") or "", *pod.key)
