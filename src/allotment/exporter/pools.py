"""Pools as drivers have published them: whether Kubernetes uses them, and what it does not use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from allotment.engine.cluster.identity import PoolID
from allotment.engine.cluster.pools import PoolStatus
from allotment.exporter.cardinality_limits import label
from allotment.exporter.state import State
from allotment.model.resource import ResourceSlice
from allotment.tools.free import kind_of


class PoolReport(NamedTuple):
    """One pool. ``node``: of which it is, empty where several reach it; ``unusable``: its devices by product, where
    Kubernetes ignores it."""

    id: PoolID
    node: str
    status: PoolStatus
    current: int
    old: int
    unusable: Counter[str]


def pools(state: State) -> Iterator[PoolReport]:
    """Every pool."""
    for id, by_name in state.pools.items():
        slices = list(by_name.values())
        newest = max(one.spec.pool.generation for one in slices)
        current = [one for one in slices if one.spec.pool.generation == newest]
        named = {one.spec.node_name or "" for one in current}
        node = named.pop() if len(named) == 1 else ""
        status = _status(state, id, node, current)
        devices = (device for one in current for device in one.spec.devices or ())
        unusable = Counter(() if status is PoolStatus.USABLE else (label(kind_of(device)) for device in devices))
        yield PoolReport(id, node, status, len(current), len(slices) - len(current), unusable)


def _status(state: State, id: PoolID, node: str, current: list[ResourceSlice]) -> PoolStatus:
    if any(one.spec.pool.resource_slice_count != len(current) for one in current):
        return PoolStatus.INCOMPLETE
    # Whether slices contradict each other is the same wherever they are seen together.
    for name in (node,) if node else state.inventory.nodes:
        view = state.inventory.view(name)
        if view.failure:
            return PoolStatus.INVALID
        for pool in view.pools:
            if pool.id == id:
                return pool.status
    return PoolStatus.USABLE
