"""Deletion: immediate, graceful, blocked by finalizers, of collections."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.apiserver.deletion import pod_grace
from tests.unit.apiserver.served import MAPS, PODS, Served, config_map, pod


def test_delete_returns_a_status_with_the_uid() -> None:
    async def scenario() -> None:
        served = await Served().started()
        created = (await served.post(MAPS, config_map("a"))).body
        response = await served.delete(f"{MAPS}/a")
        assert response.body["status"] == "Success"
        assert response.body["details"] == {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]}
        assert (await served.delete(f"{MAPS}/a")).code == 404

    asyncio.run(scenario())


def test_preconditions() -> None:
    async def scenario() -> None:
        served = await Served().started()
        created = (await served.post(MAPS, config_map("a"))).body["metadata"]
        for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
            response = await served.delete(f"{MAPS}/a", {"preconditions": wrong})
            assert (response.code, response.body["reason"]) == (409, "Conflict")
        right = {"uid": created["uid"], "resourceVersion": created["resourceVersion"]}
        assert (await served.delete(f"{MAPS}/a", {"preconditions": right})).code == 200

    asyncio.run(scenario())


def test_a_scheduled_pod_gets_its_grace_period() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p", terminationGracePeriodSeconds=60))
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        response = await served.post(f"{PODS}/p/binding", binding)
        assert (response.code, response.body["status"]) == (201, "Success")
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

    asyncio.run(scenario())


def test_an_unscheduled_pod_is_deleted_immediately() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p"))
        assert (await served.delete(f"{PODS}/p")).body["kind"] == "Pod"
        assert (await served.get(f"{PODS}/p")).code == 404

    asyncio.run(scenario())


_ON_NODE = {"nodeName": "n", "terminationGracePeriodSeconds": 40}


@pytest.mark.parametrize(
    ("pod", "requested", "seconds"),
    [
        ({"spec": _ON_NODE}, None, 40),
        ({"spec": _ON_NODE}, 5, 5),
        ({"spec": _ON_NODE}, -1, 1),
        ({"spec": {"nodeName": "n"}}, None, 30),
        ({"spec": _ON_NODE, "status": {"phase": "Succeeded"}}, None, 0),
        ({"spec": {}}, 5, 0),
    ],
)
def test_pod_grace_period(pod: dict[str, Any], requested: int | None, seconds: int) -> None:
    assert pod_grace(pod, requested) == seconds


@pytest.mark.parametrize(
    ("query", "finalizers"),
    [
        ("?propagationPolicy=Foreground", ["foregroundDeletion"]),
        ("?propagationPolicy=Orphan", ["orphan"]),
        ("?orphanDependents=true", ["orphan"]),
    ],
)
def test_propagation_policies(query: str, finalizers: list[str]) -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        response = await served.delete(f"{MAPS}/a{query}")
        assert response.body["metadata"]["finalizers"] == finalizers
        assert "deletionTimestamp" in response.body["metadata"]
        assert (await served.delete(f"{MAPS}/a?propagationPolicy=Background")).body["status"] == "Success"

    asyncio.run(scenario())


def test_jobs_orphan_their_pods_by_default() -> None:
    async def scenario() -> None:
        served = await Served().started()
        jobs = "/apis/batch/v1/namespaces/shop/jobs"
        spec = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}
        assert (await served.post(jobs, {"metadata": {"name": "j"}, "spec": {"template": {"spec": spec}}})).code == 201
        assert (await served.delete(f"{jobs}/j")).body["metadata"]["finalizers"] == ["orphan"]

    asyncio.run(scenario())


def test_a_namespace_stays_until_it_is_empty() -> None:
    async def scenario() -> None:
        served = await Served().started()
        response = await served.delete("/api/v1/namespaces/shop")
        assert response.body["status"]["phase"] == "Terminating"
        body = {**response.body, "spec": {"finalizers": []}}
        assert (await served.put("/api/v1/namespaces/shop/finalize", body)).code == 200
        assert (await served.get("/api/v1/namespaces/shop")).code == 404

    asyncio.run(scenario())


def test_system_namespaces_cannot_be_deleted() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post("/api/v1/namespaces", {"metadata": {"name": "default"}})
        response = await served.delete("/api/v1/namespaces/default")
        assert response.message == 'namespaces "default" is forbidden: this namespace may not be deleted'

    asyncio.run(scenario())


def test_delete_collection() -> None:
    async def scenario() -> None:
        served = await Served().started()
        for number in range(4):
            await served.post(MAPS, config_map(f"m{number}", {"odd": str(number % 2)}))
        response = await served.delete(f"{MAPS}?labelSelector=odd%3D1&dryRun=All")
        assert [item["metadata"]["name"] for item in response.body["items"]] == ["m1", "m3"]
        await served.delete(f"{MAPS}?labelSelector=odd%3D1")
        left = (await served.get(MAPS)).body["items"]
        assert [item["metadata"]["name"] for item in left] == ["m0", "m2"]

    asyncio.run(scenario())


def test_an_eviction_deletes_the_pod() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p"))
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
        response = await served.post(f"{PODS}/p/eviction", eviction)
        assert (response.code, response.body["status"]) == (201, "Success")
        assert (await served.get(f"{PODS}/p")).code == 404

    asyncio.run(scenario())
