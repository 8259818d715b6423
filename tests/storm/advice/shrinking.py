"""Reduces a world while the same criterion is not met in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.storm.advice.holders import released
from tests.storm.advice.worlds import World, manifests

#: Maximum number of reductions that are tried.
_MAX_TRIES = 60


def shrunk(world: World, fails: Callable[[World], bool]) -> World:
    """The smallest world found that still fails: without some of its nodes and of the pods that hold devices."""
    tries = 0
    progress = True
    while progress:
        progress = False
        for smaller in _reductions(world):
            if tries == _MAX_TRIES:
                return world
            tries += 1
            if fails(smaller):
                world, progress = smaller, True
                break
    return world


def _reductions(world: World) -> Iterator[World]:
    for tree in world.of_kind("Node"):
        yield without_node(world, tree["metadata"]["name"])
    for tree in world.cluster:
        if tree["kind"] == "ResourceClaim" and tree.get("status"):
            yield released(world, f"{tree['metadata']['namespace']}/{tree['metadata']['name']}")
    for tree in world.of_kind("DeviceClass"):
        yield world._replace(cluster=tuple(other for other in world.cluster if other is not tree))


def without_node(world: World, node: str) -> World:
    """The world without a node, its slices, and the pods on it with their claims."""
    claims = [
        f"{tree['metadata']['namespace']}/{tree['metadata']['name']}"
        for tree in world.of_kind("ResourceClaim")
        for result in (tree.get("status") or {}).get("allocation", {}).get("devices", {}).get("results", ())[:1]
        if result["pool"] == node
    ]
    smaller = released(world, *claims) if claims else world
    kept = (
        tree
        for tree in smaller.cluster
        if not (tree["kind"] == "Node" and tree["metadata"]["name"] == node)
        and not (tree["kind"] == "ResourceSlice" and tree["spec"].get("nodeName") == node)
    )
    return smaller._replace(cluster=tuple(kept), noise=tuple(item for item in world.noise if item.node != node))


def as_file(world: World, heading: str) -> str:
    """The world as a file for ``allot explain -f``, with a comment on top."""
    comment = "".join(f"# {line}\n" for line in heading.splitlines())
    return f"{comment}---\n{manifests((*world.cluster, *world.own))}"
