"""The tallies of all nodes; only those of nodes that something happened to are made anew."""

from __future__ import annotations

from typing import NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.layout import NodeState, NodeView
from allotment.exporter.classes import Classes
from allotment.exporter.node_usage import Tally, tally, unusable
from allotment.exporter.state import State


class _Known(NamedTuple):
    """A tally, of what it is, and the slots of devices that other nodes reach as well."""

    view: NodeView
    usage: NodeState
    tally: Tally
    far: tuple[int, ...]


class Tallies:
    """See the module."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._classes = Classes((), state.features)
        self._classes_changed = -1
        self._known: dict[str, _Known] = {}

    def all(self) -> dict[str, Tally]:
        """By node, in the order of names; those of devices that several nodes reach are under an empty name."""
        state, inventory = self._state, self._state.inventory
        if self._classes_changed != state.classes_changed:
            self._classes = Classes(inventory.classes.values(), state.features)
            self._classes_changed = state.classes_changed
            self._known.clear()
        self._known = {node: self._of(node) for node in sorted(inventory.nodes)}
        gone = state.gone()
        found = {node: unusable(known.tally) if node in gone else known.tally for node, known in self._known.items()}
        common = self._common()
        return found if common is None else {"": common, **found}

    def _of(self, node: str) -> _Known:
        inventory = self._state.inventory
        view = inventory.view(node)
        usage = view.state(inventory.usage)
        known = self._known.get(node)
        if known is not None and known.view is view and known.usage is usage:
            return known
        own: list[int] = []
        far: list[int] = []
        for slot, record in enumerate(view.records):
            if record.slice.spec.node_name == node:
                own.append(slot)
            elif view.layout.reach >> slot & 1:
                far.append(slot)
        return _Known(view, usage, tally(view, own, inventory.usage, self._classes, self._state.claims), tuple(far))

    def _common(self) -> Tally | None:
        """Each device that several nodes reach is counted where it is seen first."""
        seen: set[object] = set()
        counted: set[PoolID] = set()
        common: Tally | None = None
        for known in self._known.values():
            slots = [slot for slot in known.far if known.view.records[slot].id not in seen]
            if not slots:
                continue
            records = [known.view.records[slot] for slot in slots]
            one = tally(known.view, slots, self._state.inventory.usage, self._classes, self._state.claims, counted)
            seen.update(record.id for record in records)
            counted.update(PoolID(record.id.driver, record.id.pool) for record in records)
            if common is None:
                common = one
            else:
                common.add(one)
        return common
