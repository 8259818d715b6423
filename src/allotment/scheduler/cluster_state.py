"""What pods are placed on: nodes, what drivers publish, classes, rules and namespaces, followed as they change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item
from allotment.cluster.caches import Caches
from allotment.cluster.resources import DEVICE_CLASSES, NAMESPACES, NODES, SLICES, TAINT_RULES
from allotment.engine.cluster.inventory import Inventory
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceSlice
from allotment.model.trees import Tree
from allotment.node_fit.nodes import Machines
from allotment.scheduler.cluster_events import Happening


class Surroundings:
    """Keeps inventory and machines current and says what happened."""

    def __init__(
        self, caches: Caches, inventory: Inventory, machines: Machines, happens: Callable[[Happening], None]
    ) -> None:
        self._inventory = inventory
        self._machines = machines
        self._happens = happens
        self._namespaces = caches.trees(NAMESPACES)
        self._nodes = caches.trees(NODES)
        self._slices = caches.of(SLICES, ResourceSlice)
        self._classes = caches.of(DEVICE_CLASSES, DeviceClass)
        self._rules = caches.of(TAINT_RULES, DeviceTaintRule)
        self.namespaces: dict[str, dict[str, str]] = {}
        """Labels of every namespace."""

    def caches(self) -> list[Cache[Any]]:
        """What is followed."""
        return [self._namespaces, self._nodes, self._slices, self._classes, self._rules]

    def unreadable(self) -> str:
        """Why it is not known which devices are tainted, and so which may be given to pods; empty if it is."""
        return self._rules.unreadable

    def follow(self) -> list[Callable[[], None]]:
        """Begin to follow; returns what ends it."""
        return [
            self._namespaces.on_change(self._namespace_changed),
            self._nodes.on_change(self._node_changed),
            self._classes.on_change(self._class_changed),
            self._rules.on_change(self._rule_changed),
            self._slices.on_change(self._slice_changed),
        ]

    def _namespace_changed(self, old: Item[Tree] | None, new: Item[Tree] | None) -> None:
        if new is not None:
            self.namespaces[new.name] = new.labels
        elif old is not None:
            self.namespaces.pop(old.name, None)

    def _node_changed(self, old: Item[Tree] | None, new: Item[Tree] | None) -> None:
        if new is None:
            if old is not None:
                self._machines.remove(old.name)
                self._happens(Happening.POD_GONE)  # spread and affinity count without it
            return
        if old is not None and _same_node(old, new):
            return  # its kubelet says that it is alive, every few seconds
        self._machines.put(new.tree)
        self._happens(Happening.NODE)

    def _class_changed(self, old: Item[DeviceClass] | None, new: Item[DeviceClass] | None) -> None:
        if new is not None:
            self._inventory.put_class(new.value)
            self._happens(Happening.CLASS)
        elif old is not None:
            self._inventory.remove_class(old.name)

    def _rule_changed(self, old: Item[DeviceTaintRule] | None, new: Item[DeviceTaintRule] | None) -> None:
        if new is not None:
            if old is not None and old.spec == new.spec:
                return  # only its status
            self._inventory.put_taint_rule(new.value)
        elif old is not None:
            self._inventory.remove_taint_rule(old.name)
        self._happens(Happening.RULE)

    def _slice_changed(self, old: Item[ResourceSlice] | None, new: Item[ResourceSlice] | None) -> None:
        if new is not None:
            self._inventory.put_slice(new.value)
        elif old is not None:
            self._inventory.remove_slice(old.name)
        self._happens(Happening.SLICE)


def _same_node(old: Item[Tree], new: Item[Tree]) -> bool:
    return (
        old.spec == new.spec
        and old.labels == new.labels
        and old.status.get("allocatable") == new.status.get("allocatable")
        and old.status.get("capacity") == new.status.get("capacity")
    )
