"""Dependents of deleted owners are collected: background, foreground and orphan."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.cluster.client import Propagation, Resource
from allotment.cluster.resources import CONFIG_MAPS, CUSTOM_KINDS, PODS, REPLICA_SETS, SECRETS
from allotment.controllers.garbage_collector import garbage
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.world import NAMESPACE, World, world


def owned(name: str, *owners: Tree, blocks: bool = True, **metadata: Any) -> Tree:
    references = [
        {
            "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"], **({"blockOwnerDeletion": True} if blocks else {}),
        }
        for owner in owners
    ]  # fmt: skip
    return {"metadata": {"name": name, "ownerReferences": references, **metadata}}


async def delete(cluster: World, resource: Resource, name: str, propagation: Propagation = "Background") -> None:
    await cluster.client.delete(resource, name, NAMESPACE, propagation=propagation)


def test_dependents_follow_their_owner_down_the_whole_tree() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            top = cluster.put(CONFIG_MAPS, {"metadata": {"name": "top"}})
            middle = cluster.put(REPLICA_SETS, owned("middle", top))
            cluster.put(PODS, owned("leaf", middle))
            cluster.put(PODS, {"metadata": {"name": "other"}})
            await cluster.settled()
            await delete(cluster, CONFIG_MAPS, "top")
            await cluster.until(lambda: cluster.names(PODS) == ["other"] and not cluster.all(REPLICA_SETS))

    idle.run(scenario())


def test_an_object_with_another_owner_stays_and_loses_the_deleted_reference() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            first, second = (cluster.put(CONFIG_MAPS, {"metadata": {"name": name}}) for name in ("first", "second"))
            cluster.put(PODS, owned("p", first, second))
            await cluster.settled()
            await delete(cluster, CONFIG_MAPS, "first")
            await cluster.until(lambda: len(cluster.get(PODS, "p")["metadata"]["ownerReferences"]) == 1)
            assert cluster.get(PODS, "p")["metadata"]["ownerReferences"][0]["name"] == "second"

    idle.run(scenario())


def test_an_owner_that_is_missing_or_has_another_uid_counts_as_deleted() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            owner = cluster.put(CONFIG_MAPS, {"metadata": {"name": "owner"}})
            stranger = {**owner, "metadata": {**owner["metadata"], "uid": "someone else"}}
            cluster.put(PODS, owned("a", stranger))
            cluster.put(PODS, owned("b", owner))
            await cluster.until(lambda: cluster.names(PODS) == ["b"])

    idle.run(scenario())


def test_an_owner_of_an_unknown_kind_is_left_alone() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            owner = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u"}}
            cluster.put(PODS, owned("a", owner))
            await cluster.settled()
            assert cluster.names(PODS) == ["a"]

    idle.run(scenario())


def test_foreground_deletion_removes_the_owner_last() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            owner = cluster.put(REPLICA_SETS, {"metadata": {"name": "owner"}})
            cluster.put(PODS, owned("held", owner, finalizers=["example.com/wait"]))
            cluster.put(PODS, owned("free", owner))
            cluster.put(PODS, owned("does-not-block", owner, blocks=False, finalizers=["example.com/wait"]))
            await cluster.settled()
            await delete(cluster, REPLICA_SETS, "owner", "Foreground")
            await cluster.until(lambda: cluster.names(PODS) == ["does-not-block", "held"])
            await cluster.settled()
            assert cluster.names(REPLICA_SETS) == ["owner"]
            held = cluster.get(PODS, "held")
            await cluster.client.update(PODS, {**held, "metadata": {**held["metadata"], "finalizers": []}})
            await cluster.until(lambda: not cluster.all(REPLICA_SETS))

    idle.run(scenario())


def test_orphans_stay_without_their_owner() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            owner = cluster.put(REPLICA_SETS, {"metadata": {"name": "owner"}})
            cluster.put(PODS, owned("p", owner))
            await cluster.settled()
            await delete(cluster, REPLICA_SETS, "owner", "Orphan")
            await cluster.until(lambda: not cluster.all(REPLICA_SETS))
            await cluster.settled()
            assert "ownerReferences" not in cluster.get(PODS, "p")["metadata"]

    idle.run(scenario())


def cycle(cluster: World, *names: str) -> None:
    """ReplicaSets of which each is owned by the one before it, and the first one by the last."""
    made = [cluster.put(REPLICA_SETS, {"metadata": {"name": name}}) for name in names]
    for number, name in enumerate(names):
        cluster.put(REPLICA_SETS, owned(name, made[number - 1], uid=made[number]["metadata"]["uid"]))


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c"), tuple("abcdefgh")])
def test_a_foreground_deletion_is_not_blocked_by_a_cycle(names: tuple[str, ...]) -> None:
    """Kubernetes' end-to-end test "should not be blocked by dependency circle"."""

    async def scenario() -> None:
        async with world(garbage) as cluster:
            cycle(cluster, *names)
            await cluster.settled()
            assert cluster.names(REPLICA_SETS) == list(names)
            await delete(cluster, REPLICA_SETS, "a", "Foreground")
            await cluster.until(lambda: not cluster.all(REPLICA_SETS))

    idle.run(scenario())


def test_a_foreground_deletion_of_two_members_of_a_cycle_is_not_blocked() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            cycle(cluster, "a", "b", "c", "d")
            await cluster.settled()
            await delete(cluster, REPLICA_SETS, "a", "Foreground")
            await delete(cluster, REPLICA_SETS, "c", "Foreground")
            await cluster.until(lambda: not cluster.all(REPLICA_SETS))

    idle.run(scenario())


def test_objects_that_block_their_own_deletion_stay_and_nothing_else_waits_for_them() -> None:
    """As in Kubernetes: a cycle is broken at a member that is not deleted yet, and here there is none."""

    async def scenario() -> None:
        async with world(garbage) as cluster:
            cycle(cluster, "self")
            cycle(cluster, "a", "b")
            cluster.put(CONFIG_MAPS, {"metadata": {"name": "owner"}})
            cluster.put(PODS, owned("p", cluster.get(CONFIG_MAPS, "owner")))
            await cluster.settled()
            for name in ("self", "a", "b"):
                await delete(cluster, REPLICA_SETS, name, "Foreground")
            await cluster.settled()
            await delete(cluster, CONFIG_MAPS, "owner")
            await cluster.until(lambda: not cluster.all(PODS))
            assert cluster.names(REPLICA_SETS) == ["a", "b", "self"]

    idle.run(scenario())


def test_an_owner_is_deleted_when_no_dependent_references_it() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            owner, other = (cluster.put(REPLICA_SETS, {"metadata": {"name": name}}) for name in ("owner", "other"))
            cluster.put(PODS, owned("p", owner, other))
            await cluster.settled()
            await delete(cluster, REPLICA_SETS, "owner", "Foreground")
            await cluster.until(lambda: cluster.names(REPLICA_SETS) == ["other"])
            assert [reference["name"] for reference in cluster.get(PODS, "p")["metadata"]["ownerReferences"]] == [
                "other"
            ]

    idle.run(scenario())


def things_stored_in(stored: str) -> Tree:
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": name, "served": True, "storage": name == stored} for name in ("v1", "v2")],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    }  # fmt: skip


def test_custom_resources_are_collected_in_a_new_version() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            cluster.put(CUSTOM_KINDS, things_stored_in("v1"))
            await cluster.settled()
            cluster.put(CUSTOM_KINDS, things_stored_in("v2"))
            await cluster.settled()
            gone = {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": "t", "uid": "gone"}}
            cluster.put(SECRETS, owned("s", gone))
            await cluster.until(lambda: not cluster.all(SECRETS))

    idle.run(scenario())


def test_custom_resources_are_collected() -> None:
    async def scenario() -> None:
        async with world(garbage) as cluster:
            things = Resource("example.com", "v1", "things", "Thing", True)
            cluster.put(CUSTOM_KINDS, things_stored_in("v1"))
            owner = cluster.put(things, {"metadata": {"name": "t"}})
            cluster.put(SECRETS, owned("s", owner))
            below = cluster.put(CONFIG_MAPS, {"metadata": {"name": "above"}})
            cluster.put(things, owned("below", below))
            await cluster.settled()
            assert cluster.names(SECRETS) == ["s"]
            await delete(cluster, things, "t")
            await delete(cluster, CONFIG_MAPS, "above")
            await cluster.until(lambda: not cluster.all(SECRETS) and not cluster.all(things))

    idle.run(scenario())
