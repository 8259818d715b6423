"""Patches through the API: results and errors."""

from __future__ import annotations

import asyncio

from tests.unit.apiserver.served import APPLY, MAPS, MERGE, PODS, Served, config_map, pod

JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def test_the_four_patch_types() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a", k="1", l="1"))
        assert (await served.patch(f"{MAPS}/a", {"data": {"k": "2", "l": None}}, MERGE)).body["data"] == {"k": "2"}
        operations = [{"op": "add", "path": "/data/m", "value": "3"}]
        assert (await served.patch(f"{MAPS}/a", operations, JSON)).body["data"] == {"k": "2", "m": "3"}
        response = await served.patch(f"{MAPS}/a", {"data": {"$patch": "replace", "n": "4"}}, STRATEGIC)
        assert response.body["data"] == {"n": "4"}
        response = await served.patch(f"{MAPS}/b?fieldManager=me", config_map("b", k="1"), APPLY)
        assert response.code == 201
        assert response.body["metadata"]["managedFields"][0]["operation"] == "Apply"
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  l: '2'\n"
        assert (await served.patch(f"{MAPS}/b?fieldManager=me", text, APPLY)).body["data"] == {"l": "2"}

    asyncio.run(scenario())


def test_results_that_violate_the_schema_are_rejected() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        response = await served.patch(f"{MAPS}/a?fieldValidation=Strict", {"bogus": 1})
        assert response.code == 422
        assert response.body["details"]["causes"][0]["field"] == "patch"
        assert response.message.endswith('strict decoding error: unknown field "bogus"')
        response = await served.patch(f"{MAPS}/a", {"bogus": 1})
        assert (response.code, response.warnings) == (200, ['299 - "unknown field \\"bogus\\""'])
        response = await served.patch(f"{MAPS}/a", {"data": {"k": 1}})
        assert response.code == 422
        assert "cannot unmarshal number into Go struct field ConfigMap.data of type string" in response.message

    asyncio.run(scenario())


def test_patch_options() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        response = await served.patch(f"{MAPS}/a", config_map("a"), APPLY)
        assert response.body["details"]["causes"][0]["message"] == "Required value: is required for apply patch"
        response = await served.patch(f"{MAPS}/a?force=true", {})
        assert response.body["details"]["causes"][0]["message"] == "Forbidden: may not be specified for non-apply patch"
        response = await served.patch(f"{MAPS}/a", {}, "application/json")
        assert (response.code, response.message.partition(" - ")[0]) == (
            415,
            "the body of the request was in an unknown format",
        )

    asyncio.run(scenario())


def test_revisions_and_names_in_a_patch() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        assert (await served.patch(f"{MAPS}/a", {"metadata": {"resourceVersion": "1"}})).code == 409
        assert (await served.patch(f"{MAPS}/a", {"metadata": {"name": "b"}})).code == 400
        for path, word in (("name", "name must be provided"), ("namespace", "does not match the namespace")):
            change = [{"op": "add", "path": f"/metadata/{path}", "value": "" if path == "name" else "other"}]
            response = await served.patch(f"{MAPS}/a", change, "application/json-patch+json")
            assert (response.code, word in response.message) == (400, True)
        assert (await served.patch(f"{MAPS}/nowhere", {"data": {}})).code == 404
        assert (await served.patch(f"{MAPS}/zz?fieldManager=me", config_map("a"), APPLY)).code == 400

    asyncio.run(scenario())


def test_container_lists_are_merged_by_name() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p"))
        patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
        response = await served.patch(f"{PODS}/p", patch, STRATEGIC)
        assert response.code == 200
        (container,) = response.body["spec"]["containers"]
        assert (container["image"], container["terminationMessagePath"]) == ("busybox:2", "/dev/termination-log")

    asyncio.run(scenario())


def test_apply_to_a_claim_status() -> None:
    async def scenario() -> None:
        served = await Served().started()
        claims = "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims"
        request = {"name": "r", "exactly": {"deviceClassName": "c"}}
        await served.post(claims, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
        result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
        status = {"allocation": {"devices": {"results": [result]}}}
        response = await served.patch(f"{claims}/c/status", {"status": status})
        assert response.body["status"] == status
        applied = {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
            "status": {"devices": [{"driver": "d.example.com", "pool": "p", "device": "x", "data": {"ready": True}}]},
        }  # fmt: skip
        response = await served.patch(f"{claims}/c/status?fieldManager=driver", applied, APPLY)
        assert response.code == 200, response.body
        assert response.body["status"]["devices"][0]["data"] == {"ready": True}
        assert response.body["status"]["allocation"] == status["allocation"]
        owners = {entry["manager"]: entry.get("subresource") for entry in response.body["metadata"]["managedFields"]}
        assert owners["driver"] == "status"

    asyncio.run(scenario())


def test_apply_of_a_value_out_of_range() -> None:
    async def scenario() -> None:
        served = await Served().started()
        secrets = "/api/v1/namespaces/shop/secrets"
        applied = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "abc"}}
        refused = await served.patch(f"{secrets}/s?fieldManager=me", applied, APPLY)
        assert refused.code == 500
        assert refused.message == (
            "failed to convert new object (/s; /v1, Kind=Secret) to proper version: unable to convert unstructured "
            "object to /v1, Kind=Secret: error decoding from json: illegal base64 data at input byte 0"
        )
        deployment = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "d", "namespace": "shop"},
            "spec": {"replicas": 1.5},
        }
        path = "/apis/apps/v1/namespaces/shop/deployments/d?fieldManager=me"
        refused = await served.patch(path, deployment, APPLY)
        assert refused.message.startswith("failed to convert new object (shop/d; apps/v1, Kind=Deployment) to proper")
        assert refused.message.endswith("Kind=Deployment: cannot convert float64 to int32")

    asyncio.run(scenario())
