"""A cluster's objects as the values that tools work on, kept current by caches: an object that has not changed is read
once, and one that cannot be read costs only itself.
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
    PODS,
    SLICES,
    TAINT_RULES,
)
from allotment.model.core import Namespace, Node, Pod
from allotment.model.meta import Object
from allotment.model.quantity import QuantityError
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from allotment.model.trees import Tree, read_value

log = logging.getLogger(__name__)

Kinds = Iterable[tuple[Resource, type[Object]]]

#: What says which devices there are, who has them and who asks for them.
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


class Values:
    """Values of cached objects. ``prepared``: their trees as they are to be read. May be used beside the event loop."""

    def __init__(self, prepared: Callable[[Tree], Tree] = lambda tree: tree) -> None:
        self._prepared = prepared
        self._known: dict[tuple[type[Object], str], tuple[int, Object | None]] = {}

    def of(self, items: Iterable[tuple[CachedItem[Any], type[Object]]]) -> list[Object]:
        """The values, in order; those that were not asked for are forgotten."""
        known: dict[tuple[type[Object], str], tuple[int, Object | None]] = {}
        for item, type in items:
            before = self._known.get((type, item.uid))
            if before is None or before[0] != item.revision:
                before = (item.revision, value_of(item, type, self._prepared(item.tree)))
            known[type, item.uid] = before
        self._known = known
        return [value for _, value in known.values() if value is not None]


class Objects:
    """The objects of some kinds, pods in the order in which a scheduler takes them: by priority, then by age."""

    def __init__(self, caches: Caches, kinds: Kinds = OF_DEVICES) -> None:
        self._kinds = [(caches.trees(resource), type) for resource, type in kinds]
        self._values = Values()

    @property
    def caches(self) -> tuple[Cache[Any], ...]:
        """What they are read from."""
        return tuple(cache for cache, _ in self._kinds)

    async def synced(self) -> None:
        """Wait until all of them have been listed once."""
        await all_synced(*self.caches)

    def on_change(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Be told that anything has changed. Returns what ends it."""

        def changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
            tell()

        ends = [cache.on_change(changed) for cache in self.caches]

        def end() -> None:
            for one in ends:
                one()

        return end

    def values(self) -> list[Object]:
        """All of them now."""
        return self._values.of(
            (item, type)
            for cache, type in self._kinds
            for item in (sorted(cache.items(), key=queue_order) if type is Pod else cache.items())
        )


def value_of(item: CachedItem[Any], type: type[Object], tree: Tree | None = None) -> Object | None:
    """The value of an object, of its ``tree`` if that is to be another; None, and a line in the log, if it cannot be
    read: by a newer server than we know, or by hand."""
    try:
        return read_value(item.tree if tree is None else tree, type)
    except (msgspec.ValidationError, QuantityError) as error:
        log.warning("%s %s/%s cannot be decoded and is ignored: %s", type.__name__, item.namespace, item.name, error)
        return None


def queue_order(pod: CachedItem[Any]) -> tuple[int, str, str, str]:
    """For sorting pods as a scheduler takes them."""
    return (-(pod.spec.get("priority") or 0), pod.tree["metadata"].get("creationTimestamp") or "", *pod.key)
