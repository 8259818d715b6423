"""Finds slices of nodes that no longer exist: schedulers try only existing nodes, so their devices are unusable."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.model.core import Node
from allotment.model.resource import ResourceSlice
from allotment.phrases import first_few


class SliceSplit(NamedTuple):
    """Usable slices, and the missing nodes of the orphaned ones."""

    slices: tuple[ResourceSlice, ...]
    gone: tuple[str, ...] = ()


def split_orphaned(slices: Iterable[ResourceSlice], nodes: Sequence[Node]) -> SliceSplit:
    """Separate orphaned slices. Without nodes from an API server none is orphaned: files may lack Node objects."""
    if not any(node.metadata.uid for node in nodes):
        return SliceSplit(tuple(slices))
    existing = {node.metadata.name for node in nodes}
    kept: list[ResourceSlice] = []
    gone: dict[str, None] = {}
    for slice_ in slices:
        if slice_.metadata.uid and slice_.spec.node_name and slice_.spec.node_name not in existing:
            gone[slice_.spec.node_name] = None
        else:
            kept.append(slice_)
    return SliceSplit(tuple(kept), tuple(gone))


def orphaned_note(gone: Sequence[str]) -> str:
    """A note about orphaned slices that were ignored.

    >>> orphaned_note(["a"])
    'slices of node a are ignored, because the node does not exist'
    >>> orphaned_note(["a", "b"])
    'slices of nodes a, b are ignored, because the nodes do not exist'
    """
    nodes, why = ("node", "the node does not exist") if len(gone) == 1 else ("nodes", "the nodes do not exist")
    return f"slices of {nodes} {first_few(gone)} are ignored, because {why}"
