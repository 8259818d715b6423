"""Create and update."""

from __future__ import annotations

import asyncio
import json

from tests.unit.apiserver.served import APPLY, CLAIMS, MAPS, PODS, Served, config_map, pod


def test_server_set_fields() -> None:
    async def scenario() -> None:
        served = await Served().started()
        meta = {"name": "a", "uid": "mine", "creationTimestamp": "2000-01-01T00:00:00Z", "deletionTimestamp": None}
        response = await served.post(MAPS, {"metadata": meta, "data": {"k": "v"}})
        assert response.code == 201
        found = response.body["metadata"]
        assert found["namespace"] == "shop"
        assert found["uid"] != "mine"
        assert found["creationTimestamp"] == "2026-01-02T03:04:05Z"
        assert list(response.body) == ["kind", "apiVersion", "metadata", "data"]
        assert (await served.get(f"{MAPS}/a")).body == response.body

    asyncio.run(scenario())


def test_generated_names_are_truncated() -> None:
    async def scenario() -> None:
        served = await Served().started()
        response = await served.post(MAPS, {"metadata": {"generateName": "n" * 80}})
        name = response.body["metadata"]["name"]
        assert name.startswith("n" * 58)
        assert len(name) == 63

    asyncio.run(scenario())


def test_create_requires_an_active_namespace() -> None:
    async def scenario() -> None:
        served = await Served().started()
        response = await served.post("/api/v1/namespaces/nowhere/configmaps", config_map("a"))
        assert (response.code, response.message) == (404, 'namespaces "nowhere" not found')
        await served.delete("/api/v1/namespaces/shop")
        response = await served.post(MAPS, config_map("a"))
        assert response.code == 403
        assert response.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"

    asyncio.run(scenario())


def test_a_write_without_changes_keeps_the_revision() -> None:
    async def scenario() -> None:
        served = await Served().started()
        made = (await served.post(MAPS, config_map("a", k="v"))).body
        served.clock.wait(60)
        before = served.store.revision
        for response in (
            await served.put(f"{MAPS}/a", made),
            await served.put(f"{MAPS}/a", config_map("a", k="v")),
            await served.patch(f"{MAPS}/a", {"data": {"k": "v"}}),
        ):
            assert response.code == 200
            assert response.body == made
        assert served.store.revision == before

    asyncio.run(scenario())


def test_uid_and_resource_version_preconditions() -> None:
    async def scenario() -> None:
        served = await Served().started()
        first = (await served.post(MAPS, config_map("a", k="1"))).body
        assert (await served.put(f"{MAPS}/a", config_map("a", k="2"))).code == 200
        stale = await served.put(f"{MAPS}/a", {**first, "data": {"k": "3"}})
        assert (stale.code, stale.body["reason"]) == (409, "Conflict")
        assert stale.message.endswith("please apply your changes to the latest version and try again")
        other = config_map("a", k="3")
        other["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
        assert (await served.put(f"{MAPS}/a", other)).code == 409
        assert (await served.get(f"{MAPS}/a")).body["data"] == {"k": "2"}

    asyncio.run(scenario())


def test_a_dry_run_stores_nothing() -> None:
    async def scenario() -> None:
        served = await Served().started()
        before = served.store.revision
        response = await served.post(f"{MAPS}?dryRun=All", config_map("a"))
        assert response.code == 201
        assert "resourceVersion" not in response.body["metadata"]
        assert (await served.patch(f"{MAPS}/b?dryRun=All&fieldManager=me", config_map("b"), APPLY)).code == 201
        assert served.store.revision == before

    asyncio.run(scenario())


def test_status_and_spec_are_written_separately() -> None:
    async def scenario() -> None:
        served = await Served().started()
        made = (await served.post(PODS, pod("p"))).body
        assert made["status"]["phase"] == "Pending"
        assert made["metadata"]["generation"] == 1
        response = await served.patch(f"{PODS}/p", {"status": {"phase": "Running"}})
        assert response.body["status"]["phase"] == "Pending"
        response = await served.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}})
        assert response.body["status"]["phase"] == "Running"
        assert "nodeName" not in response.body["spec"]
        response = await served.patch(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 9}})
        assert response.body["metadata"]["generation"] == 2
        assert response.body["status"]["phase"] == "Running"

    asyncio.run(scenario())


def test_the_generation_of_a_deployment_counts_annotations() -> None:
    async def scenario() -> None:
        served = await Served().started()
        path = "/apis/apps/v1/namespaces/shop/deployments"
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        await served.post(path, {"metadata": {"name": "d"}, "spec": spec})
        response = await served.patch(f"{path}/d", {"metadata": {"labels": {"x": "y"}}})
        assert response.body["metadata"]["generation"] == 1
        response = await served.patch(f"{path}/d", {"metadata": {"annotations": {"x": "y"}}})
        assert response.body["metadata"]["generation"] == 2
        response = await served.patch(f"{path}/d/status", {"metadata": {"annotations": {"x": "z"}}})
        assert response.body["metadata"]["annotations"] == {"x": "z"}
        assert response.body["metadata"]["generation"] == 2

    asyncio.run(scenario())


def test_removing_the_last_finalizer_deletes_the_object() -> None:
    async def scenario() -> None:
        served = await Served().started()
        held = config_map("a")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await served.post(MAPS, held)
        gone = await served.delete(f"{MAPS}/a")
        assert gone.body["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:05Z"
        assert (await served.delete(f"{MAPS}/a")).body == gone.body
        more = await served.patch(f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/two"]}})
        assert more.code == 422
        last = await served.patch(f"{MAPS}/a", {"metadata": {"finalizers": []}})
        assert last.code == 200
        assert last.body["metadata"]["resourceVersion"] == gone.body["metadata"]["resourceVersion"]
        assert (await served.get(f"{MAPS}/a")).code == 404

    asyncio.run(scenario())


def test_managed_fields_are_recorded() -> None:
    async def scenario() -> None:
        served = await Served().started()
        response = await served.post(MAPS, config_map("a", k="v"), user_agent="kubectl/v1.36 (linux)")
        entry = response.body["metadata"]["managedFields"][0]
        assert (entry["manager"], entry["operation"]) == ("kubectl", "Update")
        assert entry["fieldsV1"] == {"f:data": {".": {}, "f:k": {}}}
        response = await served.patch(f"{MAPS}/a?fieldManager=me", {"data": {"l": "w"}})
        assert [entry["manager"] for entry in response.body["metadata"]["managedFields"]] == ["kubectl", "me"]

    asyncio.run(scenario())


def test_rules_do_not_change_stored_objects() -> None:
    """Patched objects share unchanged parts with the stored one, and defaults are set in place."""

    async def scenario() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p"))
        entry = served.store.get("pods", "shop", "p")
        assert entry is not None
        before = json.dumps(entry.tree)
        await served.patch(f"{PODS}/p", {"metadata": {"labels": {"a": "b"}}})
        await served.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})
        client = served.client()
        from allotment.cluster.resources import PODS as KIND

        tree = await client.get(KIND, "p", "shop")
        await client.update(KIND, {**tree, "metadata": {**tree["metadata"], "labels": {"a": "c"}}})
        assert json.dumps(entry.tree) == before
        assert json.loads(entry.json) == entry.tree

    asyncio.run(scenario())


def test_claims_are_the_same_in_every_version() -> None:
    async def scenario() -> None:
        served = await Served().started()
        old = CLAIMS.replace("/v1/", "/v1beta1/")
        request = {"name": "gpu", "deviceClassName": "gpu.example.com"}
        response = await served.post(old, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
        assert response.code == 201
        assert response.warnings == [
            '299 - "resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"'
        ]
        assert response.body["apiVersion"] == "resource.k8s.io/v1beta1"
        assert response.body["spec"]["devices"]["requests"][0]["allocationMode"] == "ExactCount"
        new = (await served.get(f"{CLAIMS}/c")).body
        assert new["spec"]["devices"]["requests"][0]["exactly"]["count"] == 1
        patched = await served.patch(f"{old}/c", {"metadata": {"labels": {"a": "b"}}})
        assert patched.body["spec"] == response.body["spec"]
        assert (await served.get(f"{CLAIMS}/c")).body["spec"] == new["spec"]

    asyncio.run(scenario())


def test_an_autoscaler_is_the_same_in_both_versions() -> None:
    async def scenario() -> None:
        served = await Served().started()
        first = "/apis/autoscaling/v1/namespaces/shop/horizontalpodautoscalers"
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        spec = {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70}
        annotations = {"autoscaling.alpha.kubernetes.io/metrics": "no list"}
        response = await served.post(first, {"metadata": {"name": "web", "annotations": annotations}, "spec": spec})
        assert response.code == 201, response.body
        assert response.body["spec"]["targetCPUUtilizationPercentage"] == 70
        second = (await served.get(first.replace("v1", "v2") + "/web")).body
        assert second["apiVersion"] == "autoscaling/v2"
        resource = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
        assert second["spec"]["metrics"] == [{"type": "Resource", "resource": resource}]
        response = await served.patch(f"{first}/web", {"spec": {"targetCPUUtilizationPercentage": 80}})
        assert response.body["spec"]["targetCPUUtilizationPercentage"] == 80
        table = "application/json;as=Table;v=v1;g=meta.k8s.io"
        assert (await served.get(first, accept=table)).body["rows"][0]["cells"][0] == "web"
        assert (await served.get(first.replace("v1", "v2"), accept=table)).code == 200

    asyncio.run(scenario())
