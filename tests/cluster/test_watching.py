"""Watching: every change once and in order, from where one stopped, and what is told when that is too long ago."""

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
from tests.cluster.backends import Backend, Here, watching
from tests.cluster.objects import config_map
from tests.waiting import until


def test_changes_come_once_and_in_order(backend: Backend) -> None:
    async def story(here: Here) -> None:
        start = (await here.client.list(CONFIG_MAPS, here.namespace)).revision
        async with watching(here.client, CONFIG_MAPS, here.namespace, revision=start, labels="of=us") as seen:
            for name in "ab":
                await here.client.create(CONFIG_MAPS, config_map(name, labels={"of": "us"}), here.namespace)
            for number in range(20):
                await here.client.patch(CONFIG_MAPS, "a", {"data": {"n": str(number)}}, here.namespace)
            await here.client.delete(CONFIG_MAPS, "a", here.namespace)
            await until(lambda: any(event.type == "DELETED" for event in seen))
        events = [event for event in seen if event.type != "BOOKMARK"]
        told = [(event.type, event.object["metadata"]["name"]) for event in events]
        assert told == [("ADDED", "a"), ("ADDED", "b"), *[("MODIFIED", "a")] * 20, ("DELETED", "a")]
        revisions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
        assert revisions == sorted(set(revisions))
        assert [event.object["data"]["n"] for event in events if event.type == "MODIFIED"] == [
            str(number) for number in range(20)
        ]
        assert {(event.object["kind"], event.object["apiVersion"]) for event in events} == {("ConfigMap", "v1")}

        # From the middle: what came after, and nothing else.
        async with watching(
            here.client, CONFIG_MAPS, here.namespace, revision=str(revisions[10]), labels="of=us"
        ) as seen:
            await until(lambda: any(event.type == "DELETED" for event in seen))
        assert [event for event in seen if event.type != "BOOKMARK"] == events[11:]

    backend.run(story)


def test_what_begins_or_ceases_to_be_selected_is_added_or_deleted(backend: Backend) -> None:
    async def story(here: Here) -> None:
        made = await here.client.create(CONFIG_MAPS, config_map("a"), here.namespace)
        start = made["metadata"]["resourceVersion"]
        async with watching(here.client, CONFIG_MAPS, here.namespace, revision=start, labels="of=us") as seen:
            for label in ("us", "them"):
                await here.client.patch(CONFIG_MAPS, "a", {"metadata": {"labels": {"of": label}}}, here.namespace)
            await until(lambda: any(event.type == "DELETED" for event in seen))
        assert [event.type for event in seen if event.type != "BOOKMARK"] == ["ADDED", "DELETED"]

    backend.run(story)


def test_a_watch_from_too_long_ago_is_410(backend: Backend) -> None:
    async def story(here: Here) -> None:
        await here.client.create(CONFIG_MAPS, config_map("a"), here.namespace)
        await here.forget()
        with pytest.raises(StatusError) as raised:
            async for _ in here.client.watch(CONFIG_MAPS, here.namespace, revision="1"):
                pass
        assert (raised.value.code, raised.value.reason) in ((410, "Expired"), (410, "Gone"))

    backend.run(story)


def test_a_cache_follows_and_catches_up_after_410(backend: Backend) -> None:
    async def story(here: Here) -> None:
        await here.client.create(CONFIG_MAPS, config_map("kept", x="1"), here.namespace)
        await here.client.create(CONFIG_MAPS, config_map("leaves"), here.namespace)
        cache: Cache[Tree] = Cache(
            here.client, CONFIG_MAPS, clock=Clock(20), random=Random(), namespace=here.namespace,
            fields="metadata.name!=kube-root-ca.crt",
        )  # fmt: skip
        changes: list[tuple[str, str]] = []
        cache.on_change(lambda old, new: changes.append((old.name if old else "", new.name if new else "")))

        async def followed(story: str) -> None:
            running = asyncio.create_task(cache.run(), name=story)
            try:
                async with asyncio.timeout(200):
                    if story == "first":
                        await cache.synced.wait()
                        await here.client.create(CONFIG_MAPS, config_map("new"), here.namespace)
                        await until(lambda: cache.item(here.namespace, "new"))
                    else:
                        await until(lambda: cache.item(here.namespace, "later"))
            finally:
                running.cancel()
                await asyncio.wait([running])

        await followed("first")
        assert sorted(item.name for item in cache.items()) == ["kept", "leaves", "new"]
        # While nobody follows, the world goes on, and its history is lost.
        await here.client.delete(CONFIG_MAPS, "leaves", here.namespace)
        changed = await here.client.patch(CONFIG_MAPS, "kept", {"data": {"x": "2"}}, here.namespace)
        await here.client.create(CONFIG_MAPS, config_map("later"), here.namespace)
        await here.forget()
        changes.clear()
        await followed("second")
        assert sorted(item.name for item in cache.items()) == ["kept", "later", "new"]
        assert sorted(changes) == [("", "later"), ("kept", "kept"), ("leaves", "")]
        kept = cache.item(here.namespace, "kept")
        assert kept is not None
        assert kept.tree == changed

    backend.run(story)


def test_the_states_of_one_object(backend: Backend) -> None:
    async def story(here: Here) -> None:
        seen: list[Tree | None] = []

        async def follow() -> None:
            async for state in states(here.client, CONFIG_MAPS, here.namespace, "a"):
                seen.append(state)
                if len(seen) == 3:
                    return

        following = asyncio.create_task(follow())
        await until(lambda: len(seen) == 1)
        made = await here.client.create(CONFIG_MAPS, config_map("a"), here.namespace)
        await until(lambda: len(seen) == 2)
        await here.client.delete(CONFIG_MAPS, "a", here.namespace)
        await following
        assert seen == [None, made, None]

    backend.run(story)
