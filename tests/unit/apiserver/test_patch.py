"""Patches through the API: what becomes of the patched object, and who is told what."""

from __future__ import annotations

import asyncio

from tests.unit.apiserver.served import APPLY, MAPS, MERGE, PODS, Served, config_map, pod

JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def test_the_four_forms() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a", k="1", l="1"))
        assert (await served.patch(f"{MAPS}/a", {"data": {"k": "2", "l": None}}, MERGE)).body["data"] == {"k": "2"}
        operations = [{"op": "add", "path": "/data/m", "value": "3"}]
        assert (await served.patch(f"{MAPS}/a", operations, JSON)).body["data"] == {"k": "2", "m": "3"}
        said = await served.patch(f"{MAPS}/a", {"data": {"$patch": "replace", "n": "4"}}, STRATEGIC)
        assert said.body["data"] == {"n": "4"}
        said = await served.patch(f"{MAPS}/b?fieldManager=me", config_map("b", k="1"), APPLY)
        assert said.code == 201
        assert said.body["metadata"]["managedFields"][0]["operation"] == "Apply"
        text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\ndata:\n  l: '2'\n"
        assert (await served.patch(f"{MAPS}/b?fieldManager=me", text, APPLY)).body["data"] == {"l": "2"}

    asyncio.run(told())


def test_what_does_not_fit_is_the_patch_s_fault() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        said = await served.patch(f"{MAPS}/a?fieldValidation=Strict", {"bogus": 1})
        assert said.code == 422
        assert said.body["details"]["causes"][0]["field"] == "patch"
        assert said.message.endswith('strict decoding error: unknown field "bogus"')
        said = await served.patch(f"{MAPS}/a", {"bogus": 1})
        assert (said.code, said.warnings) == (200, ['299 - "unknown field \\"bogus\\""'])
        said = await served.patch(f"{MAPS}/a", {"data": {"k": 1}})
        assert said.code == 422
        assert "cannot unmarshal number into Go struct field ConfigMap.data of type string" in said.message

    asyncio.run(told())


def test_options_of_patches() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        said = await served.patch(f"{MAPS}/a", config_map("a"), APPLY)
        assert said.body["details"]["causes"][0]["message"] == "Required value: is required for apply patch"
        said = await served.patch(f"{MAPS}/a?force=true", {})
        assert said.body["details"]["causes"][0]["message"] == "Forbidden: may not be specified for non-apply patch"
        said = await served.patch(f"{MAPS}/a", {}, "application/json")
        assert (said.code, said.message.partition(" - ")[0]) == (
            415,
            "the body of the request was in an unknown format",
        )

    asyncio.run(told())


def test_revisions_and_names_in_a_patch() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        assert (await served.patch(f"{MAPS}/a", {"metadata": {"resourceVersion": "1"}})).code == 409
        assert (await served.patch(f"{MAPS}/a", {"metadata": {"name": "b"}})).code == 400
        for path, word in (("name", "name must be provided"), ("namespace", "does not match the namespace")):
            change = [{"op": "add", "path": f"/metadata/{path}", "value": "" if path == "name" else "other"}]
            said = await served.patch(f"{MAPS}/a", change, "application/json-patch+json")
            assert (said.code, word in said.message) == (400, True)
        assert (await served.patch(f"{MAPS}/nowhere", {"data": {}})).code == 404
        assert (await served.patch(f"{MAPS}/zz?fieldManager=me", config_map("a"), APPLY)).code == 400

    asyncio.run(told())


def test_lists_of_pods_are_merged_by_name() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(PODS, pod("p"))
        patch = {"spec": {"containers": [{"name": "main", "image": "busybox:2"}]}}
        said = await served.patch(f"{PODS}/p", patch, STRATEGIC)
        assert said.code == 200
        (container,) = said.body["spec"]["containers"]
        assert (container["image"], container["terminationMessagePath"]) == ("busybox:2", "/dev/termination-log")

    asyncio.run(told())


def test_a_claim_s_status_is_applied() -> None:
    async def told() -> None:
        served = await Served().started()
        claims = "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims"
        request = {"name": "r", "exactly": {"deviceClassName": "c"}}
        await served.post(claims, {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}})
        result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "x"}
        status = {"allocation": {"devices": {"results": [result]}}}
        said = await served.patch(f"{claims}/c/status", {"status": status})
        assert said.body["status"] == status
        applied = {
            "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},
            "status": {"devices": [{"driver": "d.example.com", "pool": "p", "device": "x", "data": {"ready": True}}]},
        }  # fmt: skip
        said = await served.patch(f"{claims}/c/status?fieldManager=driver", applied, APPLY)
        assert said.code == 200, said.body
        assert said.body["status"]["devices"][0]["data"] == {"ready": True}
        assert said.body["status"]["allocation"] == status["allocation"]
        owners = {entry["manager"]: entry.get("subresource") for entry in said.body["metadata"]["managedFields"]}
        assert owners["driver"] == "status"

    asyncio.run(told())


def test_an_apply_of_a_value_that_no_field_can_hold() -> None:
    async def told() -> None:
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

    asyncio.run(told())
