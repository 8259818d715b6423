"""Readiness of a machine: its node is ready, and each driver has published as many complete pools as planned.

Until then its template counts as supply, because half of a driver's slices would make a plan order the other half.
Pools are counted, not devices: the real devices may differ from the template, and then they take precedence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from allotment.model.resource import ResourceSlice
from allotment.model.trees import Tree


def pools_of(slices: Iterable[ResourceSlice]) -> dict[str, int]:
    """Return the number of pools by driver."""
    pools = {(slice_.spec.driver, slice_.spec.pool.name) for slice_ in slices}
    return dict(Counter(driver for driver, _ in pools))


def missing_part(node: Tree | None, slices: Iterable[Tree], wanted: Mapping[str, int]) -> str:
    """Return what a machine still lacks; empty if it is ready. ``slices``: those of its node.

    ``wanted``: complete pools by driver.
    """
    if node is None:
        return "no node has registered"
    if not is_ready(node):
        return "its node is not ready"
    found = Counter(driver for driver, _ in _complete(slices))
    for driver, number in sorted(wanted.items()):
        if found[driver] < number:
            return f"{driver} has published {found[driver]} of {number} complete pools"
    return ""


def is_ready(node: Tree) -> bool:
    """Whether a node is ready and has no not-ready taint."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
    taints = (node.get("spec") or {}).get("taints") or ()
    return ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


def _complete(slices: Iterable[Tree]) -> set[tuple[str, str]]:
    """Return driver and name of the pools that have all slices of their newest generation."""
    newest: dict[tuple[str, str], tuple[int, int, int]] = {}
    for slice_ in slices:
        spec = slice_["spec"]
        pool = spec["pool"]
        key = (spec["driver"], pool["name"])
        generation = pool.get("generation", 0)
        known = newest.get(key, (-1, 0, 0))
        if generation > known[0]:
            newest[key] = (generation, 1, pool["resourceSliceCount"])
        elif generation == known[0]:
            newest[key] = (generation, known[1] + 1, known[2])
    return {key for key, (_, found, announced) in newest.items() if found == announced}
