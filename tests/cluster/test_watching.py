"""Watching: every change once and in order, from a revision on, and the error when that revision is too old."""

from __future__ import annotations

import asyncio
from random import Random

import pytest

from allotment.cluster.cache import Cache
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError
from allotment.cluster.object_watch import states
from allotment.cluster.resources import CONFIG_MAPS
from allotment.model.trees import Tree
from tests.cluster.backends import Backend, ScenarioInput, watch_events
from tests.cluster.objects import config_map
from tests.polling import until


def test_changes_are_delivered_once_and_in_order(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        start = (await given.client.list(CONFIG_MAPS, given.namespace)).revision
        async with watch_events(given.client, CONFIG_MAPS, given.namespace, revision=start, labels="of=us") as seen:
            for name in "ab":
                await given.client.create(CONFIG_MAPS, config_map(name, labels={"of": "us"}), given.namespace)
            for number in range(20):
                await given.client.patch(CONFIG_MAPS, "a", {"data": {"n": str(number)}}, given.namespace)
            await given.client.delete(CONFIG_MAPS, "a", given.namespace)
            await until(lambda: any(event.type == "DELETED" for event in seen))
        events = [event for event in seen if event.type != "BOOKMARK"]
        changes = [(event.type, event.object["metadata"]["name"]) for event in events]
        assert changes == [("ADDED", "a"), ("ADDED", "b"), *[("MODIFIED", "a")] * 20, ("DELETED", "a")]
        revisions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
        assert revisions == sorted(set(revisions))
        assert [event.object["data"]["n"] for event in events if event.type == "MODIFIED"] == [
            str(number) for number in range(20)
        ]
        assert {(event.object["kind"], event.object["apiVersion"]) for event in events} == {("ConfigMap", "v1")}

        # From the middle: only later changes.
        async with watch_events(
            given.client, CONFIG_MAPS, given.namespace, revision=str(revisions[10]), labels="of=us"
        ) as seen:
            await until(lambda: any(event.type == "DELETED" for event in seen))
        assert [event for event in seen if event.type != "BOOKMARK"] == events[11:]

    backend.run(scenario)


def test_an_object_that_starts_or_stops_matching_is_added_or_deleted(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        created = await given.client.create(CONFIG_MAPS, config_map("a"), given.namespace)
        start = created["metadata"]["resourceVersion"]
        async with watch_events(given.client, CONFIG_MAPS, given.namespace, revision=start, labels="of=us") as seen:
            for label in ("us", "them"):
                await given.client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"of": label}}}, given.namespace)
            await until(lambda: any(event.type == "DELETED" for event in seen))
        assert [event.type for event in seen if event.type != "BOOKMARK"] == ["ADDED", "DELETED"]

    backend.run(scenario)


def test_a_watch_from_an_expired_revision_is_410(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        await given.client.create(CONFIG_MAPS, config_map("a"), given.namespace)
        await given.forget()
        with pytest.raises(StatusError) as raised:
            async for _ in given.client.watch(CONFIG_MAPS, given.namespace, revision="1"):
                pass
        assert (raised.value.code, raised.value.reason) in ((410, "Expired"), (410, "Gone"))

    backend.run(scenario)


def test_a_cache_lists_again_after_410(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        await given.client.create(CONFIG_MAPS, config_map("kept", x="1"), given.namespace)
        await given.client.create(CONFIG_MAPS, config_map("leaves"), given.namespace)
        cache: Cache[Tree] = Cache(
            given.client, CONFIG_MAPS, clock=Clock(20), random=Random(), namespace=given.namespace,
            fields="metadata.name!=kube-root-ca.crt",
        )  # fmt: skip
        changes: list[tuple[str, str]] = []
        cache.on_change(lambda old, new: changes.append((old.name if old else "", new.name if new else "")))

        async def followed(scenario: str) -> None:
            running = asyncio.create_task(cache.run(), name=scenario)
            try:
                async with asyncio.timeout(200):
                    if scenario == "first":
                        await cache.synced.wait()
                        await given.client.create(CONFIG_MAPS, config_map("new"), given.namespace)
                        await until(lambda: cache.item(given.namespace, "new"))
                    else:
                        await until(lambda: cache.item(given.namespace, "later"))
            finally:
                running.cancel()
                await asyncio.wait([running])

        await followed("first")
        assert sorted(item.name for item in cache.items()) == ["kept", "leaves", "new"]
        # While the cache does not watch, objects change, and their history is lost.
        await given.client.delete(CONFIG_MAPS, "leaves", given.namespace)
        changed = await given.client.patch(CONFIG_MAPS, "kept", {"data": {"x": "2"}}, given.namespace)
        await given.client.create(CONFIG_MAPS, config_map("later"), given.namespace)
        await given.forget()
        changes.clear()
        await followed("second")
        assert sorted(item.name for item in cache.items()) == ["kept", "later", "new"]
        assert sorted(changes) == [("", "later"), ("kept", "kept"), ("leaves", "")]
        kept = cache.item(given.namespace, "kept")
        assert kept is not None
        assert kept.tree == changed

    backend.run(scenario)


def test_the_states_of_one_object(backend: Backend) -> None:
    async def scenario(given: ScenarioInput) -> None:
        seen: list[Tree | None] = []

        async def follow() -> None:
            async for state in states(given.client, CONFIG_MAPS, given.namespace, "a"):
                seen.append(state)
                if len(seen) == 3:
                    return

        following = asyncio.create_task(follow())
        await until(lambda: len(seen) == 1)
        created = await given.client.create(CONFIG_MAPS, config_map("a"), given.namespace)
        await until(lambda: len(seen) == 2)
        await given.client.delete(CONFIG_MAPS, "a", given.namespace)
        await following
        assert seen == [None, created, None]

    backend.run(scenario)
