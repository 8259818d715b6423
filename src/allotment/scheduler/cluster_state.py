"""Tracks what pods are scheduled onto: nodes, ResourceSlices, DeviceClasses, DeviceTaintRules and namespaces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import Caches
from allotment.cluster.resources import DEVICE_CLASSES, NAMESPACES, NODES, SLICES, TAINT_RULES
from allotment.engine.cluster.inventory import Inventory
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceSlice
from allotment.model.trees import Tree
from allotment.node_fit.node_allocatable import NodeAllocatableDevices
from allotment.node_fit.nodes import NodeCache
from allotment.scheduler.cluster_events import ClusterEvent


class ClusterStateTracker:
    """Keeps inventory and machines up to date and emits a ClusterEvent for each relevant change."""

    def __init__(
        self, caches: Caches, inventory: Inventory, machines: NodeCache, on_event: Callable[[ClusterEvent], None]
    ) -> None:
        self._inventory = inventory
        self._machines = machines
        self._on_event = on_event
        self._namespaces = caches.trees(NAMESPACES)
        self._nodes = caches.trees(NODES)
        self._slices = caches.of(SLICES, ResourceSlice)
        self._classes = caches.of(DEVICE_CLASSES, DeviceClass)
        self._rules = caches.of(TAINT_RULES, DeviceTaintRule)
        self._accounts_devices = inventory.features.enabled("DRANodeAllocatableResources")
        self.node_allocatable = NodeAllocatableDevices()
        """Devices that use cpu, memory or huge pages of their node."""
        self.namespaces: dict[str, dict[str, str]] = {}
        """Labels of every namespace."""

    def caches(self) -> list[Cache[Any]]:
        """Return the caches that are followed."""
        return [self._namespaces, self._nodes, self._slices, self._classes, self._rules]

    def unreadable(self) -> str:
        """Return why device taints are unknown, so that no devices can be allocated; empty if they are known."""
        return self._rules.unreadable

    def subscribe(self) -> list[Callable[[], None]]:
        """Subscribe to the caches; return the functions that unsubscribe."""
        return [
            self._namespaces.on_change(self._namespace_changed),
            self._nodes.on_change(self._node_changed),
            self._classes.on_change(self._class_changed),
            self._rules.on_change(self._rule_changed),
            self._slices.on_change(self._slice_changed),
        ]

    def _namespace_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        if new is not None:
            self.namespaces[new.name] = new.labels
        elif old is not None:
            self.namespaces.pop(old.name, None)

    def _node_changed(self, old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        if new is None:
            if old is not None:
                self._machines.remove(old.name)
                self._on_event(ClusterEvent.POD_GONE)  # spread and affinity count without it
            return
        if old is not None and _same_node(old, new):
            return  # only a heartbeat of its kubelet, sent every few seconds
        self._machines.put(new.tree)
        self._on_event(ClusterEvent.NODE)

    def _class_changed(self, old: CachedItem[DeviceClass] | None, new: CachedItem[DeviceClass] | None) -> None:
        if new is not None:
            self._inventory.put_class(new.value)
            self._on_event(ClusterEvent.CLASS)
        elif old is not None:
            self._inventory.remove_class(old.name)

    def _rule_changed(self, old: CachedItem[DeviceTaintRule] | None, new: CachedItem[DeviceTaintRule] | None) -> None:
        if new is not None:
            if old is not None and old.spec == new.spec:
                return  # only its status changed
            self._inventory.put_taint_rule(new.value)
        elif old is not None:
            self._inventory.remove_taint_rule(old.name)
        self._on_event(ClusterEvent.RULE)

    def _slice_changed(self, old: CachedItem[ResourceSlice] | None, new: CachedItem[ResourceSlice] | None) -> None:
        if new is not None:
            self._inventory.put_slice(new.value)
            if self._accounts_devices:
                self.node_allocatable.put(new.value)
        elif old is not None:
            self._inventory.remove_slice(old.name)
            self.node_allocatable.remove(old.name)
        self._on_event(ClusterEvent.SLICE)


def _same_node(old: CachedItem[Tree], new: CachedItem[Tree]) -> bool:
    return (
        old.spec == new.spec
        and old.labels == new.labels
        and old.status.get("allocatable") == new.status.get("allocatable")
        and old.status.get("capacity") == new.status.get("capacity")
        and old.status.get("declaredFeatures") == new.status.get("declaredFeatures")
    )
