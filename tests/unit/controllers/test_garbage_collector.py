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


async def delete(here: World, resource: Resource, name: str, propagation: Propagation = "Background") -> None:
    await here.client.delete(resource, name, NAMESPACE, propagation=propagation)


def test_dependents_follow_their_owner_down_the_whole_tree() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            top = here.put(CONFIG_MAPS, {"metadata": {"name": "top"}})
            middle = here.put(REPLICA_SETS, owned("middle", top))
            here.put(PODS, owned("leaf", middle))
            here.put(PODS, {"metadata": {"name": "other"}})
            await here.settled()
            await delete(here, CONFIG_MAPS, "top")
            await here.until(lambda: here.names(PODS) == ["other"] and not here.all(REPLICA_SETS))

    idle.run(story())


def test_an_object_with_another_owner_stays_and_loses_the_deleted_reference() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            first, second = (here.put(CONFIG_MAPS, {"metadata": {"name": name}}) for name in ("first", "second"))
            here.put(PODS, owned("p", first, second))
            await here.settled()
            await delete(here, CONFIG_MAPS, "first")
            await here.until(lambda: len(here.get(PODS, "p")["metadata"]["ownerReferences"]) == 1)
            assert here.get(PODS, "p")["metadata"]["ownerReferences"][0]["name"] == "second"

    idle.run(story())


def test_an_owner_that_is_missing_or_has_another_uid_counts_as_deleted() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            owner = here.put(CONFIG_MAPS, {"metadata": {"name": "owner"}})
            stranger = {**owner, "metadata": {**owner["metadata"], "uid": "someone else"}}
            here.put(PODS, owned("a", stranger))
            here.put(PODS, owned("b", owner))
            await here.until(lambda: here.names(PODS) == ["b"])

    idle.run(story())


def test_an_owner_of_an_unknown_kind_is_left_alone() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            owner = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "u"}}
            here.put(PODS, owned("a", owner))
            await here.settled()
            assert here.names(PODS) == ["a"]

    idle.run(story())


def test_foreground_deletion_removes_the_owner_last() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            owner = here.put(REPLICA_SETS, {"metadata": {"name": "owner"}})
            here.put(PODS, owned("held", owner, finalizers=["example.com/wait"]))
            here.put(PODS, owned("free", owner))
            here.put(PODS, owned("does-not-block", owner, blocks=False, finalizers=["example.com/wait"]))
            await here.settled()
            await delete(here, REPLICA_SETS, "owner", "Foreground")
            await here.until(lambda: here.names(PODS) == ["does-not-block", "held"])
            await here.settled()
            assert here.names(REPLICA_SETS) == ["owner"]
            held = here.get(PODS, "held")
            await here.client.update(PODS, {**held, "metadata": {**held["metadata"], "finalizers": []}})
            await here.until(lambda: not here.all(REPLICA_SETS))

    idle.run(story())


def test_orphans_stay_without_their_owner() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            owner = here.put(REPLICA_SETS, {"metadata": {"name": "owner"}})
            here.put(PODS, owned("p", owner))
            await here.settled()
            await delete(here, REPLICA_SETS, "owner", "Orphan")
            await here.until(lambda: not here.all(REPLICA_SETS))
            await here.settled()
            assert "ownerReferences" not in here.get(PODS, "p")["metadata"]

    idle.run(story())


def cycle(here: World, *names: str) -> None:
    """ReplicaSets of which each is owned by the one before it, and the first one by the last."""
    made = [here.put(REPLICA_SETS, {"metadata": {"name": name}}) for name in names]
    for number, name in enumerate(names):
        here.put(REPLICA_SETS, owned(name, made[number - 1], uid=made[number]["metadata"]["uid"]))


@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c"), tuple("abcdefgh")])
def test_a_foreground_deletion_is_not_blocked_by_a_cycle(names: tuple[str, ...]) -> None:
    """Kubernetes' end-to-end test "should not be blocked by dependency circle"."""

    async def story() -> None:
        async with world(garbage) as here:
            cycle(here, *names)
            await here.settled()
            assert here.names(REPLICA_SETS) == list(names)
            await delete(here, REPLICA_SETS, "a", "Foreground")
            await here.until(lambda: not here.all(REPLICA_SETS))

    idle.run(story())


def test_a_foreground_deletion_of_two_members_of_a_cycle_is_not_blocked() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            cycle(here, "a", "b", "c", "d")
            await here.settled()
            await delete(here, REPLICA_SETS, "a", "Foreground")
            await delete(here, REPLICA_SETS, "c", "Foreground")
            await here.until(lambda: not here.all(REPLICA_SETS))

    idle.run(story())


def test_objects_that_block_their_own_deletion_stay_and_nothing_else_waits_for_them() -> None:
    """As in Kubernetes: a cycle is broken at a member that is not deleted yet, and here there is none."""

    async def story() -> None:
        async with world(garbage) as here:
            cycle(here, "self")
            cycle(here, "a", "b")
            here.put(CONFIG_MAPS, {"metadata": {"name": "owner"}})
            here.put(PODS, owned("p", here.get(CONFIG_MAPS, "owner")))
            await here.settled()
            for name in ("self", "a", "b"):
                await delete(here, REPLICA_SETS, name, "Foreground")
            await here.settled()
            await delete(here, CONFIG_MAPS, "owner")
            await here.until(lambda: not here.all(PODS))
            assert here.names(REPLICA_SETS) == ["a", "b", "self"]

    idle.run(story())


def test_an_owner_is_deleted_when_no_dependent_references_it() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            owner, other = (here.put(REPLICA_SETS, {"metadata": {"name": name}}) for name in ("owner", "other"))
            here.put(PODS, owned("p", owner, other))
            await here.settled()
            await delete(here, REPLICA_SETS, "owner", "Foreground")
            await here.until(lambda: here.names(REPLICA_SETS) == ["other"])
            assert [one["name"] for one in here.get(PODS, "p")["metadata"]["ownerReferences"]] == ["other"]

    idle.run(story())


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
    async def story() -> None:
        async with world(garbage) as here:
            here.put(CUSTOM_KINDS, things_stored_in("v1"))
            await here.settled()
            here.put(CUSTOM_KINDS, things_stored_in("v2"))
            await here.settled()
            gone = {"kind": "Thing", "apiVersion": "example.com/v1", "metadata": {"name": "t", "uid": "gone"}}
            here.put(SECRETS, owned("s", gone))
            await here.until(lambda: not here.all(SECRETS))

    idle.run(story())


def test_custom_resources_are_collected() -> None:
    async def story() -> None:
        async with world(garbage) as here:
            things = Resource("example.com", "v1", "things", "Thing", True)
            here.put(CUSTOM_KINDS, things_stored_in("v1"))
            owner = here.put(things, {"metadata": {"name": "t"}})
            here.put(SECRETS, owned("s", owner))
            below = here.put(CONFIG_MAPS, {"metadata": {"name": "above"}})
            here.put(things, owned("below", below))
            await here.settled()
            assert here.names(SECRETS) == ["s"]
            await delete(here, things, "t")
            await delete(here, CONFIG_MAPS, "above")
            await here.until(lambda: not here.all(SECRETS) and not here.all(things))

    idle.run(story())
