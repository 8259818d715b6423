"""Patches through the API: results and errors."""

from __future__ import annotations

import asyncio
import json

import pytest

from allotment.model.features import Features
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
        assert (response.code, response.message) == (415, "415: Unsupported Media Type")
        assert response.body["details"] == {}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("release", "media", "message"),
    [
        ("1.36", "application/json-patch+json", "error decoding patch: unexpected end of JSON input"),
        ("1.36", MERGE, "error decoding patch: unexpected end of JSON input"),
        ("1.36", STRATEGIC, "unexpected end of JSON input"),
        ("1.37", MERGE, "invalid JSON patch"),
        ("1.37", STRATEGIC, "invalid JSON patch"),
    ],
)
def test_a_patch_that_is_no_json(release: str, media: str, message: str) -> None:
    async def scenario() -> None:
        served = await Served(features=Features(release)).started()
        await served.post(MAPS, config_map("a"))
        response = await served.request("PATCH", f"{MAPS}/a", b"{", media)
        assert (response.code, response.message) == (400, message)

    asyncio.run(scenario())


def test_a_patch_result_that_does_not_fit_is_quoted_with_sorted_keys() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a", k="v"))
        response = await served.patch(f"{MAPS}/a", {"metadata": 1})
        written = '{"apiVersion":"v1","data":{"k":"v"},"kind":"ConfigMap","metadata":1}'
        start = f' "" is invalid: patch: Invalid value: {json.dumps(written)}: json: cannot unmarshal'
        assert response.message.startswith(start)

    asyncio.run(scenario())


def test_a_changed_uid_has_two_causes() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        response = await served.patch(f"{MAPS}/a", {"metadata": {"uid": "other"}})
        cause = {
            "reason": "FieldValueInvalid", "message": 'Invalid value: "other": field is immutable',
            "field": "metadata.uid",
        }  # fmt: skip
        assert response.body["details"]["causes"] == [cause, cause]
        assert response.message.count("field is immutable") == 1

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


@pytest.mark.parametrize("media", [MERGE, STRATEGIC])
def test_repeated_keys_of_a_patch_are_refused_or_cause_warnings(media: str) -> None:
    body = b'{"data":{"k":"1","k":"2"},"data":{"k":"3"},"q":1}'

    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        response = await served.request("PATCH", f"{MAPS}/a?fieldValidation=Strict", body, media)
        problems = ['duplicate field "data.k"', 'duplicate field "data"', 'unknown field "q"']
        assert response.code == 422
        assert response.message.endswith(f"strict decoding error: {', '.join(problems)}")
        response = await served.request("PATCH", f"{MAPS}/a", body, media)
        assert (response.code, response.body["data"]) == (200, {"k": "3"})
        assert response.warnings == [f"299 - {json.dumps(problem)}" for problem in problems]

    asyncio.run(scenario())


@pytest.mark.parametrize(("release", "what"), [("1.36", "YAML"), ("1.37", "patch")])
def test_repeated_keys_of_an_applied_object_are_refused_or_cause_warnings(release: str, what: str) -> None:
    body = b'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: "1"\n  k: "2"\n'

    async def scenario() -> None:
        served = await Served(features=Features(release)).started()
        path = f"{MAPS}/a?fieldManager=me"
        response = await served.request("PATCH", f"{path}&fieldValidation=Strict", body, APPLY)
        start, _, lines = response.message.partition("\n")
        assert (response.code, lines) == (400, '  line 6: key "k" already set in map')
        assert start == f"error strict decoding {what}: error converting YAML to JSON: yaml: unmarshal errors:"
        response = await served.request("PATCH", path, body, APPLY)
        assert (response.code, response.body["data"]) == (201, {"k": "2"})
        assert response.warnings == ['299 - "line 6: key \\"k\\" already set in map"']

    asyncio.run(scenario())
