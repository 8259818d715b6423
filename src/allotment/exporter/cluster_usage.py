"""The usage of all nodes; only nodes that changed are recounted."""

from __future__ import annotations

from typing import NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.layout import NodeState, NodeView
from allotment.exporter.classes import Classes
from allotment.exporter.node_usage import NodeUsage, as_unusable, count_usage
from allotment.exporter.state import ExporterState


class _CachedUsage(NamedTuple):
    """A node's usage, its inputs, and the slots of devices that other nodes can use as well."""

    view: NodeView
    usage: NodeState
    counts: NodeUsage
    far: tuple[int, ...]


class ClusterUsage:
    def __init__(self, state: ExporterState) -> None:
        self._state = state
        self._classes = Classes((), state.features)
        self._classes_changed = -1
        self._cache: dict[str, _CachedUsage] = {}

    def by_node(self) -> dict[str, NodeUsage]:
        """Return usage by node, sorted by name; devices that several nodes can use are under an empty name."""
        state, inventory = self._state, self._state.inventory
        if self._classes_changed != state.classes_version:
            self._classes = Classes(inventory.classes.values(), state.features)
            self._classes_changed = state.classes_version
            self._cache.clear()
        self._cache = {node: self._usage_of(node) for node in sorted(inventory.nodes)}
        gone = state.missing_nodes()
        found = {
            node: as_unusable(known.counts) if node in gone else known.counts for node, known in self._cache.items()
        }
        common = self._common()
        return found if common is None else {"": common, **found}

    def _usage_of(self, node: str) -> _CachedUsage:
        inventory = self._state.inventory
        view = inventory.view(node)
        usage = view.state(inventory.usage)
        known = self._cache.get(node)
        if known is not None and known.view is view and known.usage is usage:
            return known
        own: list[int] = []
        far: list[int] = []
        for slot, record in enumerate(view.records):
            if record.slice.spec.node_name == node:
                own.append(slot)
            elif view.layout.reach >> slot & 1:
                far.append(slot)
        return _CachedUsage(
            view, usage, count_usage(view, own, inventory.usage, self._classes, self._state.claims), tuple(far)
        )

    def _common(self) -> NodeUsage | None:
        """Count each device that several nodes can use once."""
        seen: set[object] = set()
        counted: set[PoolID] = set()
        common: NodeUsage | None = None
        for known in self._cache.values():
            slots = [slot for slot in known.far if known.view.records[slot].id not in seen]
            if not slots:
                continue
            records = [known.view.records[slot] for slot in slots]
            usage = count_usage(
                known.view, slots, self._state.inventory.usage, self._classes, self._state.claims, counted
            )
            seen.update(record.id for record in records)
            counted.update(PoolID(record.id.driver, record.id.pool) for record in records)
            if common is None:
                common = usage
            else:
                common.add(usage)
        return common
