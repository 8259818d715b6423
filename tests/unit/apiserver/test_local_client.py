"""The in-process client of the API."""

from __future__ import annotations

import asyncio
import time

import pytest

from allotment.apiserver.local_client import TimeSlice
from allotment.cluster.client import WatchEvent
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, PODS
from tests.unit.apiserver.served import MAPS, Served, config_map, pod


def test_reads_share_the_stored_trees() -> None:
    async def scenario() -> None:
        served = await Served().started()
        client = served.client()
        made = await client.create(CONFIG_MAPS, config_map("a", {"x": "1"}, k="v"), "shop")
        assert await client.get(CONFIG_MAPS, "a", "shop") is made
        await client.create(CONFIG_MAPS, config_map("b"), "shop")
        listing = await client.list(CONFIG_MAPS, "shop")
        assert listing.items[0] is made
        assert listing.revision == str(served.store.revision)
        assert [item["metadata"]["name"] for item in (await client.list(CONFIG_MAPS, labels="x=1")).items] == ["a"]
        found = await client.list(CONFIG_MAPS, "shop", fields="metadata.name=b")
        assert [item["metadata"]["name"] for item in found.items] == ["b"]
        assert (await served.get(f"{MAPS}/a")).body == made

    asyncio.run(scenario())


def test_changing_a_submitted_object_does_not_change_the_stored_one() -> None:
    async def scenario() -> None:
        served = await Served().started()
        client = served.client()
        tree = config_map("a", k="v")
        made = await client.create(CONFIG_MAPS, tree, "shop")
        tree["data"]["k"] = "w"
        assert made["data"] == {"k": "v"}
        patch = {"data": {"l": "x"}}
        patched = await client.patch(CONFIG_MAPS, "a", patch, "shop")
        patch["data"]["l"] = "y"
        assert patched["data"] == {"k": "v", "l": "x"}

    asyncio.run(scenario())


def test_writes() -> None:
    async def scenario() -> None:
        served = await Served().started()
        client = served.client("me")
        made = await client.create(CONFIG_MAPS, config_map("a", k="1"), "shop")
        assert made["metadata"]["managedFields"][0]["manager"] == "me"
        changed = await client.update(CONFIG_MAPS, {**made, "data": {"k": "2"}})
        with pytest.raises(StatusError) as refused:
            await client.update(CONFIG_MAPS, {**made, "data": {"k": "3"}})
        assert refused.value.reason == "Conflict"
        operations = [{"op": "replace", "path": "/data/k", "value": "4"}]
        assert (await client.patch(CONFIG_MAPS, "a", operations, "shop", kind="json"))["data"] == {"k": "4"}
        applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "5"}}
        with pytest.raises(StatusError):
            await served.client("you").patch(CONFIG_MAPS, "a", applied, "shop", kind="apply")
        forced = await served.client("you").patch(CONFIG_MAPS, "a", applied, "shop", kind="apply", force=True)
        assert forced["data"] == {"k": "5"}
        with pytest.raises(StatusError):
            await client.delete(CONFIG_MAPS, "a", "shop", revision=changed["metadata"]["resourceVersion"])
        await client.delete(CONFIG_MAPS, "a", "shop", uid=made["metadata"]["uid"])
        with pytest.raises(StatusError) as refused:
            await client.get(CONFIG_MAPS, "a", "shop")
        assert refused.value.code == 404

    asyncio.run(scenario())


def test_unknown_fields_are_rejected() -> None:
    async def scenario() -> None:
        served = await Served().started()
        with pytest.raises(StatusError, match='strict decoding error: unknown field "dat"'):
            await served.client().create(CONFIG_MAPS, {"metadata": {"name": "a"}, "dat": {}}, "shop")

    asyncio.run(scenario())


def test_virtual_resources_and_subresources() -> None:
    async def scenario() -> None:
        served = await Served().started()
        client = served.client()
        await client.create(PODS, pod("p"), "shop")
        bound = await client.create(
            PODS,
            {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}},
            "shop",
            name="p",
            subresource="binding",
        )
        assert bound["status"] == "Success"
        assert (await client.get(PODS, "p", "shop"))["spec"]["nodeName"] == "n1"
        status = {"status": {"phase": "Running"}}
        running = await client.patch(PODS, "p", status, "shop", kind="strategic", subresource="status")
        assert running["status"]["phase"] == "Running"
        assert running["status"]["conditions"][0]["type"] == "PodScheduled"
        await client.create(PODS, {"metadata": {"name": "p"}}, "shop", name="p", subresource="eviction")
        gone = await client.get(PODS, "p", "shop")
        assert gone["metadata"]["deletionGracePeriodSeconds"] == 30
        await client.delete(PODS, "p", "shop", grace_seconds=0)
        assert (await client.list(PODS)).items == []
        template = {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"]}
        spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await client.create(DEPLOYMENTS, {"metadata": {"name": "d"}, "spec": spec}, "shop")
        scale = await client.get(DEPLOYMENTS, "d", "shop", subresource="scale")
        scale = await client.update(DEPLOYMENTS, {**scale, "spec": {"replicas": 3}}, subresource="scale")
        assert scale["spec"] == {"replicas": 3}
        assert (await client.get(DEPLOYMENTS, "d", "shop"))["spec"]["replicas"] == 3

    asyncio.run(scenario())


def test_a_watch_continues_a_list() -> None:
    async def scenario() -> None:
        served = await Served().started()
        client = served.client()
        listing = await client.list(CONFIG_MAPS, "shop")
        await client.create(CONFIG_MAPS, config_map("a"), "shop")
        await client.delete(CONFIG_MAPS, "a", "shop")
        seen: list[WatchEvent] = []
        async for event in client.watch(CONFIG_MAPS, "shop", revision=listing.revision):
            seen.append(event)
            if event.type == "DELETED":
                break
        assert [event.type for event in seen] == ["ADDED", "DELETED"]
        assert seen[0].object["kind"] == "ConfigMap"
        served.store.compact(served.store.revision)
        with pytest.raises(StatusError) as refused:
            await anext(client.watch(CONFIG_MAPS, "shop", revision=listing.revision))
        assert refused.value.code == 410

    asyncio.run(scenario())


def test_other_versions_of_claims() -> None:
    async def scenario() -> None:
        served = await Served().started()
        client = served.client()
        request = {"name": "r", "exactly": {"deviceClassName": "c"}}
        await client.create(CLAIMS, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}, "shop")
        old = await client.get(CLAIMS._replace(version="v1beta1"), "c", "shop")
        assert old["spec"]["devices"]["requests"][0]["deviceClassName"] == "c"

    asyncio.run(scenario())


def test_a_client_with_a_time_slice_does_not_wait_for_durability(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        served = await Served().started()
        program = served.client(time_slice=TimeSlice())
        revision = (await program.list(CONFIG_MAPS, "shop")).revision

        async def never(revision: int | None = None) -> None:
            await asyncio.get_running_loop().create_future()

        monkeypatch.setattr(served.store, "durable", never)
        async with asyncio.timeout(50):
            await program.create(CONFIG_MAPS, config_map("a"), "shop")
            watch = program.watch(CONFIG_MAPS, "shop", revision=revision)
            assert (await anext(watch)).object["metadata"]["name"] == "a"
            await program.patch(CONFIG_MAPS, "a", {"data": {"k": "v"}}, "shop")
            assert (await anext(watch)).object["data"] == {"k": "v"}
            await program.delete(CONFIG_MAPS, "a", "shop")
            assert (await anext(watch)).type == "DELETED"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await served.client().create(CONFIG_MAPS, config_map("b"), "shop")

    asyncio.run(scenario())


def test_a_busy_client_yields_to_other_tasks() -> None:
    async def scenario() -> None:
        served = await Served().started()
        program = served.client(time_slice=TimeSlice())
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        others = asyncio.create_task(count())
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            await program.patch(NAMESPACES, "shop", {"metadata": {"labels": {"at": str(time.monotonic_ns())}}})
        assert turns > 3
        others.cancel()

    asyncio.run(scenario())
