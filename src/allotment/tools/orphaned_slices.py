"""Slices of nodes that are gone: a scheduler tries the nodes that there are, so nothing of them can be had."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from allotment.model.core import Node
from allotment.model.resource import ResourceSlice
from allotment.phrases import first_few


class SliceSplit(NamedTuple):
    """Slices of which something can be had, and the nodes that only others name."""

    slices: tuple[ResourceSlice, ...]
    gone: tuple[str, ...] = ()


def split_orphaned(slices: Iterable[ResourceSlice], nodes: Sequence[Node]) -> SliceSplit:
    """Tell them apart. Only a server knows all of its nodes; to what somebody wrote by hand nodes may be missing."""
    if not any(node.metadata.uid for node in nodes):
        return SliceSplit(tuple(slices))
    there = {node.metadata.name for node in nodes}
    kept: list[ResourceSlice] = []
    gone: dict[str, None] = {}
    for one in slices:
        if one.metadata.uid and one.spec.node_name and one.spec.node_name not in there:
            gone[one.spec.node_name] = None
        else:
            kept.append(one)
    return SliceSplit(tuple(kept), tuple(gone))


def orphaned_note(gone: Sequence[str]) -> str:
    """What to know of an answer from which such slices were left out.

    >>> orphaned_note(["a"])
    'slices of a are left out, for there is no such node'
    """
    return f"slices of {first_few(gone)} are left out, for there is no such node"
