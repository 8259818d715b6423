"""A cache follows the cluster: lists once, resumes, lists again after 410, and believes its program's own writes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from random import Random
from typing import Any

import pytest

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem, by_node
from allotment.cluster.client import Listing, Resource
from allotment.cluster.errors import UnknownVersions, Unreachable
from allotment.cluster.resources import PODS
from allotment.model.core import Pod
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient, refusal
from tests.waiting import until

FAST = IdleClock(speed=200)


def pod(name: str, node: str = "", **metadata: object) -> Tree:
    return {"metadata": {"namespace": "ns", "name": name, **metadata}, "spec": {"nodeName": node} if node else {}}


@asynccontextmanager
async def following(client: MemoryClient) -> AsyncIterator[Cache[Pod]]:
    cache = Cache(client, PODS, Pod, clock=FAST, random=Random(1))
    task = asyncio.create_task(cache.run())
    await cache.synced.wait()
    yield cache
    task.cancel()


def names(cache: Cache[Pod]) -> list[str]:
    return sorted(item.name for item in cache.items())


def test_a_cache_has_what_was_there_and_what_comes() -> None:
    async def story() -> None:
        client = MemoryClient()
        client.put(PODS, pod("a"))
        async with following(client) as cache:
            assert names(cache) == ["a"]
            client.put(PODS, pod("b", "n1"))
            await until(lambda: len(cache) == 2)
            found = cache.get("ns", "b")
            assert found is not None
            assert found.spec.node_name == "n1"
            client.remove(PODS, "ns", "a")
            await until(lambda: names(cache) == ["b"])

    idle.run(story())


def test_a_watch_that_ends_goes_on_without_another_list() -> None:
    async def story() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            client.drop()
            client.put(PODS, pod("a"))
            await until(lambda: names(cache) == ["a"])
            assert client.lists == 1

    idle.run(story())


def test_after_410_the_difference_is_told() -> None:
    async def story() -> None:
        client = MemoryClient()
        client.put(PODS, pod("stays"))
        client.put(PODS, pod("goes"))
        async with following(client) as cache:
            told: list[tuple[str | None, str | None]] = []
            cache.on_change(lambda old, new: told.append((old.name if old else None, new.name if new else None)))
            told.clear()
            # While nobody listens, the history is lost.
            client.refuse = [Unreachable("no route"), Unreachable("no route")]
            client.drop()
            client.remove(PODS, "ns", "goes")
            client.put(PODS, pod("comes"))
            client.forget()
            await until(lambda: names(cache) == ["comes", "stays"])
            assert set(told) == {("goes", None), (None, "comes")}
            assert len(told) == 2
            assert client.lists == 2

    idle.run(story())


def test_a_watch_that_broke_goes_on_where_it_was_and_says_since_when() -> None:
    async def story() -> None:
        client = MemoryClient()
        client.put(PODS, pod("a"))
        async with following(client) as cache:
            first = cache.since
            assert first <= FAST.seconds()
            client.drop()
            client.put(PODS, pod("b"))
            await until(lambda: names(cache) == ["a", "b"])
            assert cache.since == first  # a server ends watches, and that is no break
            client.refuse = [Unreachable("no route")] * 3
            client.break_off()
            await until(lambda: cache.since == inf)
            client.put(PODS, pod("c"))
            await until(lambda: names(cache) == ["a", "b", "c"])
            assert first < cache.since <= FAST.seconds()

    idle.run(story())


def test_a_cluster_that_was_restored_from_a_backup_is_read_anew() -> None:
    async def story() -> None:
        client = MemoryClient()
        client.put(PODS, pod("stays"))
        client.put(PODS, pod("changes", "old"))
        client.put(PODS, pod("comes again"))
        restore = client.backup()
        client.put(PODS, pod("changes", "new"))
        client.remove(PODS, "ns", "comes again")
        client.put(PODS, pod("goes"))
        client.put(PODS, pod("goes"))
        async with following(client) as cache:
            assert names(cache) == ["changes", "goes", "stays"]
            coming = asyncio.create_task(cache.wait_for_revision("1000"))
            restore()
            await until(lambda: names(cache) == ["changes", "comes again", "stays"])
            changed = cache.item("ns", "changes")
            assert changed is not None
            assert changed.spec == {"nodeName": "old"}
            await coming  # nobody waits for what will never be
            # Its revisions come once more, and this time for something else.
            client.put(PODS, pod("next"))
            await until(lambda: "next" in names(cache))

    idle.run(story())


def test_a_restored_cluster_is_read_anew_however_far_it_has_come_until_it_can_be_read() -> None:
    class Slow(MemoryClient):
        late = False

        async def list(self, resource: Resource, namespace: str = "", **how: Any) -> Listing:
            if self.late and not how["fields"]:
                self.late = False
                for _ in range(20):
                    self.put(PODS, pod("busy"))
                raise Unreachable("too much to tell")
            return await super().list(resource, namespace, **how)

    async def story() -> None:
        client = Slow()
        client.put(PODS, pod("changes", "old"))
        restore = client.backup()
        client.put(PODS, pod("changes", "new"))
        client.put(PODS, pod("goes"))
        client.put(PODS, pod("changes", "newest"))
        async with following(client) as cache:
            client.late = True
            restore()
            await until(lambda: "busy" in names(cache))
            assert names(cache) == ["busy", "changes"]
            changed = cache.item("ns", "changes")
            assert changed is not None
            assert changed.spec == {"nodeName": "old"}

    idle.run(story())


def test_an_own_write_is_known_at_once_and_older_news_do_not_undo_it() -> None:
    async def story() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            told: list[str | None] = []
            cache.on_change(lambda old, new: told.append(new.spec.get("nodeName") if new else None))
            client.put(PODS, pod("a", "old"))
            cache.record_write(client.put(PODS, pod("a", "new")))
            assert cache.tree("ns", "a") == client.objects[PODS, "ns", "a"]
            client.put(PODS, pod("b"))
            await until(lambda: len(cache) == 2)
            assert told == ["new", None]

    idle.run(story())


def test_a_late_answer_does_not_bring_back_what_is_gone() -> None:
    async def story() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            answer = client.put(PODS, pod("a"))
            client.remove(PODS, "ns", "a")
            client.put(PODS, pod("b"))
            await until(lambda: names(cache) == ["b"])
            cache.record_write(answer)
            assert names(cache) == ["b"]

    idle.run(story())


def test_what_went_and_came_again_under_its_name_is_told_as_two_changes() -> None:
    async def story() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            first = client.put(PODS, pod("a"))
            await until(lambda: len(cache) == 1)
            told: list[tuple[str, str]] = []

            def callback(old: CachedItem[Pod] | None, new: CachedItem[Pod] | None) -> None:
                told.append((old.uid if old else "", new.uid if new else ""))

            cache.on_change(callback)
            told.clear()
            client.remove(PODS, "ns", "a")
            second = client.put(PODS, pod("a"))
            cache.record_write(second)
            await asyncio.sleep(0.01)
            assert told == [(first["metadata"]["uid"], ""), ("", second["metadata"]["uid"])]

    idle.run(story())


def test_an_index_follows_its_objects() -> None:
    async def story() -> None:
        client = MemoryClient()
        client.put(PODS, pod("a", "n1"))
        async with following(client) as cache:
            index = cache.index("by node", by_node)
            client.put(PODS, pod("b", "n1"))
            client.put(PODS, pod("c"))
            await until(lambda: len(cache) == 3)
            assert sorted(item.name for item in index["n1"]) == ["a", "b"]
            client.remove(PODS, "ns", "a")
            client.put(PODS, pod("b", "n2"))
            await until(lambda: not index["n1"])
            assert [item.name for item in index["n2"]] == ["b"]
            assert list(index) == ["n2"]

    idle.run(story())


def test_a_callback_that_fails_blinds_nobody() -> None:
    async def story() -> None:
        client = MemoryClient()
        async with following(client) as cache:

            def fails(old: object, new: object) -> None:
                raise RuntimeError("mine")

            seen: list[object] = []
            cache.on_change(fails)
            cache.on_change(lambda old, new: seen.append(new))
            client.put(PODS, pod("a"))
            await until(lambda: seen)

    idle.run(story())


def test_what_the_cluster_does_not_serve_is_empty_until_it_does() -> None:
    async def story() -> None:
        client = MemoryClient()
        client.refuse = [refusal(404, "NotFound"), refusal(404, "NotFound")]
        client.put(PODS, pod("a"))
        async with following(client) as cache:
            assert len(cache) == 0
            await until(lambda: len(cache) == 1)

    idle.run(story())


def test_what_was_served_is_not_forgotten_because_one_server_of_several_does_not_know_it() -> None:
    """As while a control plane is upgraded, server by server."""

    async def story() -> None:
        client = MemoryClient()
        client.put(PODS, pod("a"))
        async with following(client) as cache:
            came: list[str] = []
            cache.on_change(lambda old, new: came.append(new.name if old is None and new is not None else "changed"))
            client.refuse = [refusal(404, "NotFound") for _ in range(5)]
            client.drop()
            await until(lambda: not client.refuse)
            client.put(PODS, pod("b"))
            await until(lambda: len(cache) == 2)
            assert came == ["a", "b"]

    idle.run(story())


def test_what_nobody_serves_any_more_is_gone() -> None:
    async def story() -> None:
        client = MemoryClient()
        client.put(PODS, pod("a"))
        async with following(client) as cache:
            client.refuse = [refusal(404, "NotFound") for _ in range(1000)]
            client.drop()
            await until(lambda: len(cache) == 0)

    idle.run(story())


def test_what_is_served_in_unknown_versions_is_not_taken_for_none() -> None:
    async def story() -> None:
        client = MemoryClient()
        unknown = [UnknownVersions("pods", "served only in v2") for _ in range(1000)]
        client.refuse = [*unknown]
        async with following(client) as cache:
            assert (len(cache), cache.unreadable) == (0, "pods cannot be read: served only in v2")
            client.refuse = []
            client.put(PODS, pod("a"))
            await until(lambda: len(cache) == 1)
            assert cache.unreadable == ""
            client.refuse = [*unknown]
            client.drop()
            await until(lambda: cache.unreadable)
            before = len(client.refuse)
            await until(lambda: len(client.refuse) < before - 20)
            assert names(cache) == ["a"], "what was read is the best that is known"
            assert cache.since == inf
            client.refuse = [refusal(404, "NotFound")]
            await until(lambda: not client.refuse and not cache.unreadable)

    idle.run(story())


def test_whoever_wrote_something_can_wait_until_all_that_came_before_it_is_known() -> None:
    async def story() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            client.put(PODS, pod("theirs"))
            mine = client.put(PODS, pod("mine"))
            cache.record_write(mine)
            assert names(cache) == ["mine"]
            await cache.wait_for_revision(mine["metadata"]["resourceVersion"])
            assert sorted(names(cache)) == ["mine", "theirs"]
            await cache.wait_for_revision(mine["metadata"]["resourceVersion"])

    idle.run(story())


def test_that_a_server_is_gone_is_said_once_until_it_has_come_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "allotment.cluster.cache")

    async def story() -> None:
        client = MemoryClient()
        client.refuse = [Unreachable("no route")] * 5
        async with following(client) as cache:
            assert [record.getMessage() for record in caplog.records] == ["pods: no route"]
            client.refuse = [Unreachable("gone again")] * 3
            client.drop()
            await until(lambda: not client.refuse)
            client.put(PODS, pod("a"))
            await until(lambda: len(cache) == 1)

    idle.run(story())
    assert [record.getMessage() for record in caplog.records] == ["pods: no route", "pods: gone again"]
