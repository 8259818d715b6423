"""A cluster's objects as the values that tools work on, kept current by caches: an object that has not changed is read
once.

Pods stand in the order in which a scheduler takes them: by priority, then by age.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from allotment.cluster.cache import Cache, Caches, Item, all_synced
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
from allotment.model.trees import read_value

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


class Objects:
    """The objects of some kinds."""

    def __init__(self, caches: Caches, kinds: Kinds = OF_DEVICES) -> None:
        self._kinds = [(caches.trees(resource), type) for resource, type in kinds]
        self._known: dict[str, tuple[int, Object | None]] = {}

    @property
    def caches(self) -> tuple[Cache[Any], ...]:
        """What they are read from."""
        return tuple(cache for cache, _ in self._kinds)

    async def synced(self) -> None:
        """Wait until all of them have been listed once."""
        await all_synced(*self.caches)

    def on_change(self, tell: Callable[[], None]) -> Callable[[], None]:
        """Be told that anything has changed. Returns what ends it."""

        def changed(old: Item[Any] | None, new: Item[Any] | None) -> None:
            tell()

        ends = [cache.on_change(changed) for cache in self.caches]

        def end() -> None:
            for one in ends:
                one()

        return end

    def values(self) -> list[Object]:
        """All of them now. What cannot be read is left out, and told once in the log."""
        found: list[Object] = []
        known: dict[str, tuple[int, Object | None]] = {}
        for cache, type in self._kinds:
            items = cache.items()
            for item in sorted(items, key=queue_order) if type is Pod else items:
                before = self._known.get(item.uid)
                if before is None or before[0] != item.revision:
                    before = (item.revision, _read(item, type))
                known[item.uid] = before
                if before[1] is not None:
                    found.append(before[1])
        self._known = known
        return found


def _read(item: Item[Any], type: type[Object]) -> Object | None:
    try:
        return read_value(item.tree, type)
    except (msgspec.ValidationError, QuantityError) as error:
        log.warning("%s %s/%s is left out, for it cannot be read: %s", type.__name__, item.namespace, item.name, error)
        return None


def queue_order(pod: Item[Any]) -> tuple[int, str, str, str]:
    """For sorting pods as a scheduler takes them."""
    return (-(pod.spec.get("priority") or 0), pod.tree["metadata"].get("creationTimestamp") or "", *pod.key)
