"""Applies the changes that a refusal suggests to manifests, as a user would.

It shares no code with the module that finds and verifies changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from allotment.engine.refusal import SuggestedChange


def apply_change(trees: Iterable[dict[str, Any]], change: SuggestedChange) -> bool:
    """Apply a change to its object; return False if the object is not among the trees, or is not written by users."""
    kind, _, full = change.object.partition(" ")
    namespace, _, name = full.rpartition("/")
    for tree in trees:
        metadata = tree["metadata"]
        if (tree["kind"], metadata["name"], metadata.get("namespace", "")) == (kind, name, namespace):
            steps = re.findall(r'\["([^"]+)"\]|([^.\[\]]+)', change.path)
            path = [quoted or (int(plain) if plain.isdigit() else plain) for quoted, plain in steps]
            _change(tree, path, change.becomes)
            return True
    return False


def _change(tree: Any, path: list[str | int], becomes: Any) -> None:
    *steps, last = path
    for step in steps:
        tree = tree.setdefault(step, {}) if isinstance(tree, dict) else tree[step]
    if becomes is None:
        del tree[last]
    elif isinstance(becomes, dict):
        existing = tree.get(last) if isinstance(tree, dict) else tree[last]
        tree[last] = {**(existing or {}), **becomes}
    else:
        tree[last] = becomes
