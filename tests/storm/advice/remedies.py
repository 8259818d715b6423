"""Makes the changes that a diagnosis suggests in a world, as its users, its administrators and time would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

from allotment.engine.refusal import SuggestedChange
from allotment.model.decoding import decode_all
from allotment.model.loading import load_text
from allotment.model.trees import Tree
from tests.manifest_changes import apply_change
from tests.storm.advice.clusters import CORDONED, NOT_READY, set_slice_count
from tests.storm.advice.holders import released
from tests.storm.advice.worlds import World, key_of, manifests

#: The claims in the text of a remedy; of several, the change names no object.
_CLAIM: Final = re.compile(r"[a-z0-9-]+/[a-z0-9-]+(?=[,) ]|$)")


def with_remedy(world: World, changes: Sequence[SuggestedChange]) -> World | None:
    """The world after changes; None if they are no changes of its objects."""
    world = world.copy()
    for change in changes:
        changed = _with_change(world, change)
        if changed is None:
            return None
        world = changed
    return world


def _with_change(world: World, change: SuggestedChange) -> World | None:
    if change.remedy == "wait":
        claims = _CLAIM.findall(change.text)
        return released(world, *claims) if claims else None
    if change.remedy == "driver":
        pool = change.text.partition("pool ")[2].partition(";")[0].split("/")[-1]
        set_slice_count(world, pool, 0)
        return world
    if change.remedy == "recover":
        _remove_taint(world.cluster, f"Node {change.node}", NOT_READY)
        return world
    if not change.object:
        return None
    trees = [json.loads(json.dumps(tree)) if key_of(tree) == change.object else tree for tree in world.own]
    if apply_change(trees, change):
        return world._replace(own=tuple(trees))
    cluster = [json.loads(json.dumps(tree)) if key_of(tree) == change.object else tree for tree in world.cluster]
    if not apply_change(cluster, change):
        return None
    if change.remedy == "uncordon":
        _remove_taint(cluster, change.object, CORDONED)
    return world._replace(cluster=tuple(cluster))


def _remove_taint(trees: Iterable[Tree], node: str, removed: Tree) -> None:
    """Remove a taint of a node."""
    for tree in trees:
        if key_of(tree) == node:
            tree["spec"]["taints"] = [taint for taint in tree["spec"]["taints"] if taint != removed]


def problems(world: World) -> list[str]:
    """The problems of a strict reader with the objects of the pod's author, as text; empty if they can be applied."""
    loaded = load_text(manifests(world.own), "remedy.yaml")
    return [str(problem) for problem in (*loaded.problems, *decode_all(loaded.documents).problems)]
