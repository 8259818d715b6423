"""Making the changes that a refusal tells, by hand: on trees, as the reader of the text would edit manifests.

Nothing here is shared with the code that finds and verifies changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from allotment.engine.refusal import SuggestedChange


def changed(trees: Iterable[dict[str, Any]], change: SuggestedChange) -> bool:
    """Make a change in the tree of its object; false if that is not among the trees (or nobody's to write)."""
    kind, _, full = change.object.partition(" ")
    namespace, _, name = full.rpartition("/")
    for tree in trees:
        metadata = tree["metadata"]
        if (tree["kind"], metadata["name"], metadata.get("namespace", "")) == (kind, name, namespace):
            _change(tree, [int(s) if s.isdigit() else s for s in re.findall(r"[^.\[\]]+", change.path)], change.becomes)
            return True
    return False


def _change(tree: Any, path: list[str | int], becomes: Any) -> None:
    *steps, last = path
    for step in steps:
        tree = tree.setdefault(step, {}) if isinstance(tree, dict) else tree[step]
    if becomes is None:
        del tree[last]
    elif isinstance(becomes, dict):
        there = tree.get(last) if isinstance(tree, dict) else tree[last]
        tree[last] = {**(there or {}), **becomes}
    else:
        tree[last] = becomes
