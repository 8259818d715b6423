"""Deleting: at once, after a grace, held by finalizers, many at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.apiserver.deletion import pod_grace
from tests.unit.apiserver.served import MAPS, PODS, Served, config_map, pod


def test_what_is_gone_is_told_by_its_uid() -> None:
    async def told() -> None:
        served = await Served().started()
        made = (await served.post(MAPS, config_map("a"))).body
        said = await served.delete(f"{MAPS}/a")
        assert said.body["status"] == "Success"
        assert said.body["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
        assert (await served.delete(f"{MAPS}/a")).code == 404

    asyncio.run(told())


def test_preconditions() -> None:
    async def told() -> None:
        served = await Served().started()
        made = (await served.post(MAPS, config_map("a"))).body["metadata"]
        for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
            said = await served.delete(f"{MAPS}/a", {"preconditions": wrong})
            assert (said.code, said.body["reason"]) == (409, "Conflict")
        right = {"uid": made["uid"], "resourceVersion": made["resourceVersion"]}
        assert (await served.delete(f"{MAPS}/a", {"preconditions": right})).code == 200

    asyncio.run(told())


def test_a_pod_on_a_node_is_given_time() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p", terminationGracePeriodSeconds=60))
        said = await served.post(f"{PODS}/p/binding", {"target": {"kind": "Node", "name": "n1"}})
        assert (said.code, said.body["status"]) == (201, "Success")
        gone = (await served.delete(f"{PODS}/p")).body["metadata"]
        assert gone["deletionTimestamp"] == "2026-01-02T03:05:05Z"
        assert gone["deletionGracePeriodSeconds"] == 60
        assert gone["generation"] == 2
        later = (await served.delete(f"{PODS}/p?gracePeriodSeconds=90")).body["metadata"]
        assert later == gone, "a grace is not prolonged"
        sooner = (await served.delete(f"{PODS}/p?gracePeriodSeconds=10")).body["metadata"]
        assert sooner["deletionTimestamp"] == "2026-01-02T03:04:15Z"
        assert (await served.delete(f"{PODS}/p?gracePeriodSeconds=0")).code == 200
        assert (await served.get(f"{PODS}/p")).code == 404

    asyncio.run(told())


def test_a_pod_without_a_node_goes_at_once() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p"))
        assert (await served.delete(f"{PODS}/p")).body["kind"] == "Pod"
        assert (await served.get(f"{PODS}/p")).code == 404

    asyncio.run(told())


_ON_NODE = {"nodeName": "n", "terminationGracePeriodSeconds": 40}


@pytest.mark.parametrize(
    ("pod", "asked", "seconds"),
    [
        ({"spec": _ON_NODE}, None, 40),
        ({"spec": _ON_NODE}, 5, 5),
        ({"spec": _ON_NODE}, -1, 1),
        ({"spec": {"nodeName": "n"}}, None, 30),
        ({"spec": _ON_NODE, "status": {"phase": "Succeeded"}}, None, 0),
        ({"spec": {}}, 5, 0),
    ],
)
def test_the_grace_of_pods(pod: dict[str, Any], asked: int | None, seconds: int) -> None:
    assert pod_grace(pod, asked) == seconds


@pytest.mark.parametrize(
    ("query", "finalizers"),
    [
        ("?propagationPolicy=Foreground", ["foregroundDeletion"]),
        ("?propagationPolicy=Orphan", ["orphan"]),
        ("?orphanDependents=true", ["orphan"]),
    ],
)
def test_dependents_are_treated_as_wished(query: str, finalizers: list[str]) -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        said = await served.delete(f"{MAPS}/a{query}")
        assert said.body["metadata"]["finalizers"] == finalizers
        assert "deletionTimestamp" in said.body["metadata"]
        assert (await served.delete(f"{MAPS}/a?propagationPolicy=Background")).body["status"] == "Success"

    asyncio.run(told())


def test_jobs_leave_their_pods_unless_told() -> None:
    async def told() -> None:
        served = await Served().started()
        jobs = "/apis/batch/v1/namespaces/shop/jobs"
        spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
        assert (await served.post(jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}})).code == 201
        assert (await served.delete(f"{jobs}/j")).body["metadata"]["finalizers"] == ["orphan"]

    asyncio.run(told())


def test_a_namespace_stays_until_it_is_empty() -> None:
    async def told() -> None:
        served = await Served().started()
        said = await served.delete("/api/v1/namespaces/shop")
        assert said.body["status"]["phase"] == "Terminating"
        body = {**said.body, "spec": {"finalizers": []}}
        assert (await served.put("/api/v1/namespaces/shop/finalize", body)).code == 200
        assert (await served.get("/api/v1/namespaces/shop")).code == 404

    asyncio.run(told())


def test_a_cluster_keeps_its_own_namespaces() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        said = await served.delete("/api/v1/namespaces/default")
        assert said.message == 'namespaces "default" is forbidden: this namespace may not be deleted'

    asyncio.run(told())


def test_many_at_once() -> None:
    async def told() -> None:
        served = await Served().started()
        for number in range(4):
            await served.post(MAPS, config_map(f"m{number}", {"odd": str(number % 2)}))
        said = await served.delete(f"{MAPS}?labelSelector=odd%3D1&dryRun=All")
        assert [item["metadata"]["name"] for item in said.body["items"]] == ["m1", "m3"]
        await served.delete(f"{MAPS}?labelSelector=odd%3D1")
        left = (await served.get(MAPS)).body["items"]
        assert [item["metadata"]["name"] for item in left] == ["m0", "m2"]

    asyncio.run(told())


def test_an_eviction_deletes() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p"))
        said = await served.post(f"{PODS}/p/eviction", {"apiVersion": "policy/v1", "kind": "Eviction"})
        assert (said.code, said.body["status"]) == (201, "Success")
        assert (await served.get(f"{PODS}/p")).code == 404

    asyncio.run(told())
