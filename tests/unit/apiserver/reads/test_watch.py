"""Watches: initial events, changes, bookmarks, termination."""

from __future__ import annotations

import asyncio

import pytest

from allotment.apiserver.reads import watch
from allotment.model.trees import Tree
from tests.unit.apiserver.served import MAPS, Served, closed, config_map, events


def _types_and_names(found: list[Tree]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]


async def _change_objects(served: Served) -> None:
    await served.post(MAPS, config_map("a", {"app": "x"}))
    await served.patch(f"{MAPS}/a", {"metadata": {"labels": {"app": "y"}}})
    await served.patch(f"{MAPS}/a", {"metadata": {"labels": {"app": "x"}}})
    await served.delete(f"{MAPS}/a")


def test_changes_after_a_revision() -> None:
    async def scenario() -> None:
        served = await Served().started()
        since = served.store.revision
        await served.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
        await served.post("/api/v1/namespaces/other/configmaps", config_map("elsewhere"))
        await _change_objects(served)
        past = await events(await served.watch(f"{MAPS}?watch=1&resourceVersion={since}"), 4)
        assert _types_and_names(past) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
        revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in past]
        assert revisions == sorted(set(revisions))

    asyncio.run(scenario())


def test_changes_during_a_watch() -> None:
    async def scenario() -> None:
        served = await Served().started()
        stream = await served.watch(f"{MAPS}?watch=true&resourceVersion={served.store.revision}")
        reading = asyncio.create_task(events(stream, 4))
        await asyncio.sleep(0)
        await _change_objects(served)
        assert [kind for kind, _ in _types_and_names(await reading)] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]

    asyncio.run(scenario())


def test_objects_that_stop_matching_are_deleted() -> None:
    async def scenario() -> None:
        served = await Served().started()
        since = served.store.revision
        await _change_objects(served)
        path = f"{MAPS}?watch=1&resourceVersion={since}&labelSelector=app%3Dx"
        found = await events(await served.watch(path), 4)
        assert [kind for kind, _ in _types_and_names(found)] == ["ADDED", "DELETED", "ADDED", "DELETED"]
        assert [event["object"]["metadata"]["labels"]["app"] for event in found] == ["x"] * 4
        revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in found]
        assert revisions == sorted(set(revisions))

    asyncio.run(scenario())


@pytest.mark.parametrize("query", ["watch=1", "watch=1&resourceVersion=0"])
def test_without_a_revision_existing_objects_come_first(query: str) -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        await served.post(MAPS, config_map("b"))
        found = await events(await served.watch(f"{MAPS}?{query}"), 2)
        assert _types_and_names(found) == [("ADDED", "a"), ("ADDED", "b")]

    asyncio.run(scenario())


def test_the_end_of_initial_events_is_marked() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
        found = await events(await served.watch(f"{MAPS}?{query}"), 2)
        assert found[1] == {
            "type": "BOOKMARK",
            "object": {
                "kind": "ConfigMap",
                "apiVersion": "v1",
                "metadata": {
                    "resourceVersion": str(served.store.revision),
                    "annotations": {"k8s.io/initial-events-end": "true"},
                },
            },
        }

    asyncio.run(scenario())


def test_bookmarks_advance_an_idle_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_BOOKMARK_INTERVAL", 0.01)

    async def scenario() -> None:
        served = await Served().started()
        since = served.store.revision
        stream = await served.watch(f"{MAPS}?watch=1&resourceVersion={since}&allowWatchBookmarks=true")
        await served.post("/api/v1/namespaces", {"metadata": {"name": "other"}})
        (found,) = await events(stream, 1)
        assert found["type"] == "BOOKMARK"
        assert int(found["object"]["metadata"]["resourceVersion"]) == served.store.revision

    asyncio.run(scenario())


def test_an_expired_revision() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await _change_objects(served)
        served.store.compact(served.store.revision)
        (found,) = await events(await served.watch(f"{MAPS}?watch=1&resourceVersion=2"), 2)
        assert found["type"] == "ERROR"
        assert (found["object"]["code"], found["object"]["reason"]) == (410, "Expired")
        assert found["object"]["message"] == f"too old resource version: 2 ({served.store.revision})"

    asyncio.run(scenario())


def test_a_slow_client_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_BUFFER", 3)

    async def scenario() -> None:
        served = await Served().started()
        stream = await served.watch(f"{MAPS}?watch=1&resourceVersion={served.store.revision}")
        for number in range(9):
            await served.post(MAPS, config_map(f"m{number}"))
        found = await events(stream, 100)
        assert _types_and_names(found) == [("ADDED", "m0"), ("ADDED", "m1"), ("ADDED", "m2")]
        again = found[-1]["object"]["metadata"]["resourceVersion"]
        rest = await events(await served.watch(f"{MAPS}?watch=1&resourceVersion={again}"), 6)
        assert _types_and_names(rest)[0] == ("ADDED", "m3")

    asyncio.run(scenario())


def test_a_buffer_keeps_no_more_than_the_history() -> None:
    async def scenario() -> None:
        served = await Served().started()
        stream = await served.watch(f"{MAPS}?watch=1&resourceVersion={served.store.revision}")
        await served.post(MAPS, config_map("a"))
        served.store.compact(served.store.revision)
        await served.post(MAPS, config_map("b"))
        found = await events(stream, 100)
        assert _types_and_names(found) == [("ADDED", "a")]

    asyncio.run(scenario())


def test_a_watch_without_initial_events_starts_at_its_revision() -> None:
    async def scenario() -> None:
        served = await Served().started()
        since = served.store.revision
        await served.post(MAPS, config_map("a"))
        query = f"watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={since}"
        assert _types_and_names(await events(await served.watch(f"{MAPS}?{query}"), 1)) == [("ADDED", "a")]

    asyncio.run(scenario())


def test_a_watch_ends_at_its_timeout_and_unsubscribes() -> None:
    async def scenario() -> None:
        served = await Served().started()
        watched = served.store._subscribers  # not observable otherwise
        stream = await served.watch(f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={served.store.revision}")
        assert watched["configmaps"]
        assert await events(stream, 1) == []
        assert not watched["configmaps"]

    asyncio.run(scenario())


def test_watches_share_encoded_events() -> None:
    async def scenario() -> None:
        served = await Served().started()
        path = f"{MAPS}?watch=1&resourceVersion={served.store.revision}"
        streams = [await served.watch(path) for _ in range(2)]
        await served.post(MAPS, config_map("a"))
        lines = [await anext(stream.pieces) for stream in streams]
        assert lines[0] == lines[1]
        assert len(served.api._event_encoder._lines) == 1  # not observable otherwise
        for stream in streams:
            await closed(stream)

    asyncio.run(scenario())


def test_other_representations() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a", k="v"))
        await served.post(MAPS, config_map("b", k="v"))
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        first, second = await events(await served.watch(f"{MAPS}?watch=1", accept=table), 2)
        assert first["object"]["columnDefinitions"][0]["name"] == "Name"
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][:2] == ["b", 1]
        partial = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
        (found, _) = await events(await served.watch(f"{MAPS}?watch=1", accept=partial), 2)
        assert list(found["object"]) == ["kind", "apiVersion", "metadata"]
        assert (await served.get(f"{MAPS}?watch=1", accept="application/yaml")).code == 406

    asyncio.run(scenario())
