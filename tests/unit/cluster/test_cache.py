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

from allotment.cluster.cache import Cache, Index
from allotment.cluster.cached_item import CachedItem, by_node
from allotment.cluster.client import Listing, Resource
from allotment.cluster.errors import UnknownVersions, Unreachable
from allotment.cluster.resources import PODS
from allotment.model.core import Pod
from allotment.model.trees import Tree
from tests.polling import until
from tests.unit.cluster import idle
from tests.unit.cluster.idle import IdleClock
from tests.unit.cluster.memory import MemoryClient, refusal

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


def test_a_cache_has_existing_and_new_objects() -> None:
    async def scenario() -> None:
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

    idle.run(scenario())


def test_a_watch_that_ends_continues_without_a_list() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            client.drop()
            client.put(PODS, pod("a"))
            await until(lambda: names(cache) == ["a"])
            assert client.lists == 1

    idle.run(scenario())


def test_after_410_the_difference_is_notified() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        client.put(PODS, pod("stays"))
        client.put(PODS, pod("goes"))
        async with following(client) as cache:
            changes: list[tuple[str | None, str | None]] = []
            cache.on_change(lambda old, new: changes.append((old.name if old else None, new.name if new else None)))
            changes.clear()
            # The history is lost while the cache is disconnected.
            client.refuse = [Unreachable("no route"), Unreachable("no route")]
            client.drop()
            client.remove(PODS, "ns", "goes")
            client.put(PODS, pod("comes"))
            client.forget()
            await until(lambda: names(cache) == ["comes", "stays"])
            assert set(changes) == {("goes", None), (None, "comes")}
            assert len(changes) == 2
            assert client.lists == 2

    idle.run(scenario())


def test_a_broken_watch_continues_at_its_revision_and_logs_the_interruption() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        client.put(PODS, pod("a"))
        async with following(client) as cache:
            first = cache.since
            assert first <= FAST.seconds()
            client.drop()
            client.put(PODS, pod("b"))
            await until(lambda: names(cache) == ["a", "b"])
            assert cache.since == first  # a watch ended by the server is not an interruption
            client.refuse = [Unreachable("no route")] * 3
            client.break_off()
            await until(lambda: cache.since == inf)
            client.put(PODS, pod("c"))
            await until(lambda: names(cache) == ["a", "b", "c"])
            assert first < cache.since <= FAST.seconds()

    idle.run(scenario())


def test_a_restored_cluster_is_listed_again() -> None:
    async def scenario() -> None:
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
            await coming  # an impossible revision is not waited for
            # The same revisions are assigned again, to other changes.
            client.put(PODS, pod("next"))
            await until(lambda: "next" in names(cache))

    idle.run(scenario())


def test_the_list_of_a_restored_cluster_is_retried() -> None:
    class Slow(MemoryClient):
        late = False

        async def list(self, resource: Resource, namespace: str = "", **how: Any) -> Listing:
            if self.late and not how["fields"]:
                self.late = False
                for _ in range(20):
                    self.put(PODS, pod("busy"))
                raise Unreachable("response too large")
            return await super().list(resource, namespace, **how)

    async def scenario() -> None:
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

    idle.run(scenario())


def test_a_restored_cluster_is_reported_however_it_is_noticed(caplog: pytest.LogCaptureFixture) -> None:
    """Here by the list after an expired revision: the cluster was restored between both."""

    class Restored(MemoryClient):
        async def list(self, resource: Resource, namespace: str = "", **how: Any) -> Listing:
            if self.oldest and not how["fields"]:
                self.oldest = 0
                restore()
            return await super().list(resource, namespace, **how)

    client = Restored()
    client.put(PODS, pod("stays"))
    restore = client.backup()
    client.put(PODS, pod("goes"))

    async def scenario() -> None:
        async with following(client) as cache:
            client.oldest = 1000
            client.drop()
            await until(lambda: names(cache) == ["stays"])
            assert cache.restored == 1

    with caplog.at_level(logging.WARNING, "allotment"):
        idle.run(scenario())
    (line,) = [record.getMessage() for record in caplog.records if "restored" in record.getMessage()]
    assert line.startswith("pods: the resource version is now 2 but was 4, so the cluster was restored from a backup")


def test_an_own_write_is_cached_immediately_and_not_undone_by_older_events() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            changes: list[str | None] = []
            cache.on_change(lambda old, new: changes.append(new.spec.get("nodeName") if new else None))
            client.put(PODS, pod("a", "old"))
            cache.record_write(client.put(PODS, pod("a", "new")))
            assert cache.tree("ns", "a") == client.objects[PODS, "ns", "a"]
            client.put(PODS, pod("b"))
            await until(lambda: len(cache) == 2)
            assert changes == ["new", None]

    idle.run(scenario())


def test_a_late_response_does_not_restore_a_deleted_object() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            answer = client.put(PODS, pod("a"))
            client.remove(PODS, "ns", "a")
            client.put(PODS, pod("b"))
            await until(lambda: names(cache) == ["b"])
            cache.record_write(answer)
            assert names(cache) == ["b"]

    idle.run(scenario())


def test_a_recreated_object_is_notified_as_two_changes() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            first = client.put(PODS, pod("a"))
            await until(lambda: len(cache) == 1)
            changes: list[tuple[str, str]] = []

            def callback(old: CachedItem[Pod] | None, new: CachedItem[Pod] | None) -> None:
                changes.append((old.uid if old else "", new.uid if new else ""))

            cache.on_change(callback)
            changes.clear()
            client.remove(PODS, "ns", "a")
            second = client.put(PODS, pod("a"))
            cache.record_write(second)
            await asyncio.sleep(0.01)
            assert changes == [(first["metadata"]["uid"], ""), ("", second["metadata"]["uid"])]

    idle.run(scenario())


def test_an_index_follows_its_objects() -> None:
    async def scenario() -> None:
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

    idle.run(scenario())


def test_a_failing_callback_does_not_affect_the_others() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        async with following(client) as cache:

            def fails(old: object, new: object) -> None:
                raise RuntimeError("mine")

            seen: list[object] = []
            cache.on_change(fails)
            cache.on_change(lambda old, new: seen.append(new))
            client.put(PODS, pod("a"))
            await until(lambda: seen)

    idle.run(scenario())


def test_an_unserved_resource_is_empty_until_it_is_served() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        client.refuse = [refusal(404, "NotFound"), refusal(404, "NotFound")]
        client.put(PODS, pod("a"))
        async with following(client) as cache:
            assert len(cache) == 0
            await until(lambda: len(cache) == 1)

    idle.run(scenario())


def test_a_not_found_from_one_of_several_servers_deletes_nothing() -> None:
    """As during an upgrade of the control plane, server by server."""

    async def scenario() -> None:
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

    idle.run(scenario())


def test_objects_of_a_removed_resource_are_deleted() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        client.put(PODS, pod("a"))
        async with following(client) as cache:
            client.refuse = [refusal(404, "NotFound") for _ in range(1000)]
            client.drop()
            await until(lambda: len(cache) == 0)

    idle.run(scenario())


def test_a_resource_in_unknown_versions_is_unreadable_and_not_empty() -> None:
    async def scenario() -> None:
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

    idle.run(scenario())


def test_why_nothing_is_read_is_known_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "allotment.cluster.cache")

    async def scenario() -> None:
        client = MemoryClient()
        client.refuse = [refusal(403, "Forbidden", "pods is forbidden") for _ in range(20)]
        client.refuse += [refusal(404, "NotFound") for _ in range(20)]
        cache = Cache(client, PODS, Pod, clock=FAST, random=Random(1))
        task = asyncio.create_task(cache.run())
        await until(lambda: cache.not_read == "forbidden")
        assert not cache.synced.is_set(), "objects that may exist are not ignored"
        await until(lambda: cache.not_read == "not-served")
        assert cache.synced.is_set()
        await until(lambda: cache.not_read == "")
        task.cancel()

    idle.run(scenario())
    assert caplog.messages == ["pods: pods is forbidden", "the cluster does not serve pods: none are considered"]


def test_waiting_for_a_revision_includes_all_earlier_changes() -> None:
    async def scenario() -> None:
        client = MemoryClient()
        async with following(client) as cache:
            client.put(PODS, pod("theirs"))
            own = client.put(PODS, pod("mine"))
            cache.record_write(own)
            assert names(cache) == ["mine"]
            await cache.wait_for_revision(own["metadata"]["resourceVersion"])
            assert sorted(names(cache)) == ["mine", "theirs"]
            await cache.wait_for_revision(own["metadata"]["resourceVersion"])

    idle.run(scenario())


def test_an_unreachable_server_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "allotment.cluster.cache")

    async def scenario() -> None:
        client = MemoryClient()
        client.refuse = [Unreachable("no route")] * 5
        async with following(client) as cache:
            assert [record.getMessage() for record in caplog.records] == ["pods: no route"]
            client.refuse = [Unreachable("gone again")] * 3
            client.drop()
            await until(lambda: not client.refuse)
            client.put(PODS, pod("a"))
            await until(lambda: len(cache) == 1)

    idle.run(scenario())
    assert [record.getMessage() for record in caplog.records] == ["pods: no route", "pods: gone again"]


def item(name: str, *labels: str, revision: int = 1) -> CachedItem[Any]:
    metadata = {"name": name, "labels": dict.fromkeys(labels, ""), "resourceVersion": str(revision)}
    return CachedItem({"metadata": metadata})


def test_an_index_accepts_and_removes_duplicate_keys() -> None:
    items: dict[tuple[str, str], CachedItem[Any]] = {}
    index = Index[Any](lambda item: (*item.labels, *item.labels), items)

    def change(name: str, new: CachedItem[Any] | None) -> None:
        old = items.pop(("", name), None)
        if new is not None:
            items[new.key] = new
        index.change(old, new)

    change("a", item("a", "x", "y"))
    change("b", item("b", "y"))
    assert sorted(found.name for found in index["y"]) == ["a", "b"]
    change("a", item("a", "y", revision=2))
    assert "x" not in index
    assert (index.count("x"), index.count("y")) == (0, 2)
    assert {found.revision for found in index["y"]} == {1, 2}  # the current state
    change("a", item("a", revision=3))
    change("b", None)
    assert len(index) == 0
