"""Changes of objects as a unified diff of their manifests."""

from __future__ import annotations

import difflib
import json
from collections.abc import Sequence
from typing import Any

from msgspec import to_builtins

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.fixes import change_tree, path_steps
from allotment.explanation.replacement import named
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree
from allotment.watched.view import ClusterView


def manifest_diff(view: ClusterView, changes: Sequence[SuggestedChange]) -> str:
    """Return the diff of the manifests that changes change; an object that is not known is left out.

    Waiting for a pod changes nothing that is written.
    """
    found: dict[str, tuple[Tree, Tree]] = {}
    for change in changes:
        if not change.object or change.remedy == "wait":
            continue
        if change.object not in found:
            tree = _written(view, change.object)
            if tree is None:
                continue
            found[change.object] = (tree, _copy(tree))
        try:
            change_tree(found[change.object][1], path_steps(change.path), _plain(change.becomes))
        except LookupError:
            continue
    return "".join(_diff(name, before, after) for name, (before, after) in found.items())


def _written(view: ClusterView, name: str) -> Tree | None:
    kind, key = named(name)
    tree = view.tree(kind, key)
    if tree is None:
        return None
    written: Tree = _copy(tree)
    written.pop("status", None)
    written.get("metadata", {}).pop("managedFields", None)
    return written


def _diff(name: str, before: Tree, after: Tree) -> str:
    old, new = (to_yaml([_without_trailing_space(tree)]).splitlines(keepends=True) for tree in (before, after))
    return "".join(difflib.unified_diff(old, new, fromfile=name, tofile=name))


def _without_trailing_space(tree: Any) -> Any:
    """The tree with texts of several lines as a literal block can show them, instead of one line with escapes."""
    if isinstance(tree, dict):
        return {key: _without_trailing_space(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [_without_trailing_space(value) for value in tree]
    if isinstance(tree, str) and "\n" in tree:
        return "\n".join(line.expandtabs().rstrip() for line in tree.split("\n"))
    return tree


def _plain(value: Any) -> Any:
    return _copy(to_builtins(value, enc_hook=str))


def _copy(tree: Any) -> Any:
    return json.loads(json.dumps(tree))
