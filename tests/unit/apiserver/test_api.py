"""The API as a whole: authorization, routing, representations, robustness against arbitrary requests."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.http_messages import Peer, Response, Streaming
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.local_client import LocalClient
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CONFIG_MAPS
from tests.unit.apiserver.served import ADMIN, APPLY, CLAIMS, MAPS, PODS, Served, closed, config_map, pod
from tests.unit.apiserver.streams.nodes import Nodes

ANONYMOUS: Any = None


def test_of_the_pages_of_kubelets_only_metrics_are_served() -> None:
    async def scenario() -> list[tuple[int, bytes]]:
        served = await Served(kubelets=Nodes()).started()
        for name, labels in (("a", {"served": "true"}), ("b", {})):
            await served.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        answers = []
        for method, path in (
            ("GET", "a/proxy/metrics"), ("GET", "b/proxy/metrics"), ("GET", "c/proxy/metrics"),
            ("GET", "a/proxy/stats"), ("POST", "a/proxy/metrics"), ("GET", "a/proxy"),
        ):  # fmt: skip
            answer = await served.send(method, f"/api/v1/nodes/{path}")
            assert isinstance(answer, Response)
            answers.append((answer.code, answer.body))
        return answers

    page, *refused = asyncio.run(scenario())
    assert page == (200, b"of a\n")
    assert {code for code, _ in refused} == {404}
    assert json.loads(refused[1][1])["message"] == 'nodes "c" not found'


def test_authentication_and_authorization() -> None:
    async def scenario() -> None:
        served = await Served().started()
        answer = await served.send("GET", "/api/v1/pods", peer=ANONYMOUS)
        assert isinstance(answer, Response)
        assert json.loads(answer.body)["message"] == (
            'pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" '
            "at the cluster scope"
        )
        answer = await served.send("GET", "/api", peer=ANONYMOUS)
        assert isinstance(answer, Response)
        assert (answer.code, json.loads(answer.body)["message"]) == (
            403,
            'forbidden: User "system:anonymous" cannot get path "/api"',
        )
        answer = await served.send("GET", "/api/v1/pods", headers={"authorization": "Bearer nope"}, peer=ANONYMOUS)
        assert isinstance(answer, Response)
        assert answer.code == 401
        eve = Peer("eve", ())
        answer = await served.send("DELETE", f"{PODS}/p", peer=eve)
        assert isinstance(answer, Response)
        assert json.loads(answer.body)["message"] == (
            'pods "p" is forbidden: User "eve" cannot delete resource "pods" in API group "" in the namespace "shop"'
        )

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("method", "path", "code", "message"),
    [
        ("GET", "/api/v1/namespaces/shop/gizmos", 404, "the server could not find the requested resource"),
        ("GET", f"{MAPS}/a/b/c", 404, "the server could not find the requested resource"),
        ("GET", f"{MAPS}/a/status", 404, "the server could not find the requested resource"),
        ("GET", "/apis/nope.example.com/v1/gizmos", 404, "404 page not found\n"),
        ("GET", "/nowhere", 404, "404 page not found\n"),
        ("POST", f"{MAPS}/a", 405, "the server does not allow this method on the requested resource"),
        ("DELETE", "/api/v1/configmaps", 405, "the server does not allow this method on the requested resource"),
        ("PUT", MAPS, 405, "the server does not allow this method on the requested resource"),
        ("PROPFIND", MAPS, 405, "the server does not allow this method on the requested resource"),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405,
         "the server does not allow this method on the requested resource"),
    ],
)  # fmt: skip
def test_unknown_paths_and_methods(method: str, path: str, code: int, message: str) -> None:
    async def scenario() -> None:
        response = await (await Served().started()).request(method, path)
        assert (
            response.code,
            response.body["message"] if isinstance(response.body, dict) else response.body.decode(),
        ) == (code, message)

    asyncio.run(scenario())


def test_non_resource_paths() -> None:
    async def scenario() -> None:
        served = await Served().started()
        assert (await served.get("/healthz")).body == b"ok"
        assert (await served.get("/readyz?verbose")).body.endswith(b"readyz check passed\n")
        assert "/apis/resource.k8s.io/v1" in (await served.get("/")).body["paths"]
        assert (await served.get("/version")).body["gitVersion"].startswith("v1.36")
        assert (await served.get("/apis/resource.k8s.io/v1")).body["kind"] == "APIResourceList"
        assert b'apiserver_storage_objects{resource="namespaces"} 1' in (await served.get("/metrics")).body

    asyncio.run(scenario())


def test_response_representations() -> None:
    async def scenario() -> None:
        served = await Served().started()
        made = (await served.post(MAPS, config_map("a", k="1"))).body
        path = f"{MAPS}/a"
        for accept in ("", "*/*", "application/json", "text/html, application/json", "application/*;q=0.1"):
            assert (await served.get(path, accept=accept)).body == made
        text = (await served.get(path, accept="application/yaml")).body.decode()
        assert text.startswith('apiVersion: v1\ndata:\n  k: "1"\nkind: ConfigMap\n')
        partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        assert (await served.get(path, accept=partial)).body == {
            "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made["metadata"],
        }  # fmt: skip
        table = (await served.get(MAPS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")).body
        assert table["kind"] == "Table"
        assert table["rows"][0]["cells"][0] == "a"
        for accept in ("text/html", "application/json;as=Table;v=v9;g=meta.k8s.io"):
            assert (await served.get(path, accept=accept)).code == 406
        newer = "application/json;as=Table;v=v9;g=meta.k8s.io,application/json"
        assert (await served.get(path, accept=newer)).body == made

    asyncio.run(scenario())


def test_include_object_of_table_rows() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a", k="1"))
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        for include, kind in (("", "PartialObjectMetadata"), ("Object", "ConfigMap"), ("None", "")):
            response = await served.get(f"{MAPS}?includeObject={include}", accept=accept)
            assert (response.body["rows"][0]["object"] or {}).get("kind", "") == kind
        assert (await served.get(f"{MAPS}?includeObject=Foo", accept=accept)).code == 400

    asyncio.run(scenario())


def test_stored_bytes_are_returned_unchanged() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        entry = served.store.get("configmaps", "shop", "a")
        answer = await served.send("GET", f"{MAPS}/a")
        assert isinstance(answer, Response)
        assert entry is not None
        assert answer.body is entry.json

    asyncio.run(scenario())


def test_scale() -> None:
    async def scenario() -> None:
        served = await Served().started()
        sets = "/apis/apps/v1/namespaces/shop/deployments"
        template = {"metadata": {"labels": {"app": "w"}}, "spec": pod("x")["spec"]}
        selector = {"matchLabels": {"app": "w"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}
        spec = {"replicas": 2, "selector": selector, "template": template}
        assert (await served.post(sets, {"metadata": {"name": "w"}, "spec": spec})).code == 201
        found = (await served.get(f"{sets}/w/scale")).body
        assert (found["kind"], found["spec"], found["status"]["selector"]) == ("Scale", {"replicas": 2}, "app=w,app")
        response = await served.patch(f"{sets}/w/scale", {"spec": {"replicas": 5}})
        assert response.body["spec"] == {"replicas": 5}
        assert (await served.get(f"{sets}/w")).body["spec"]["replicas"] == 5
        stale = {**found, "spec": {"replicas": 1}}
        assert (await served.put(f"{sets}/w/scale", stale)).code == 409
        response = await served.patch(f"{sets}/w/scale", {"spec": {"replicas": -1}})
        assert response.message == (
            'Scale.autoscaling "w" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
        )

    asyncio.run(scenario())


def test_reviews_and_tokens() -> None:
    async def scenario() -> None:
        served = await Served().started()
        review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
        response = await served.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
        assert (response.code, response.body["status"]["allowed"]) == (201, True)
        response = await served.post("/api/v1/namespaces/shop/serviceaccounts/default/token", {"spec": {}})
        token = response.body["status"]["token"]
        answer = await served.send("GET", PODS, headers={"authorization": f"Bearer {token}"}, peer=ANONYMOUS)
        assert isinstance(answer, Response)
        assert "system:serviceaccount:shop:default" in json.loads(answer.body)["message"]

    asyncio.run(scenario())


def test_a_failed_store_is_reported_as_unavailable() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.store.close()
        response = await served.post(MAPS, config_map("a"))
        assert (response.code, response.body["reason"]) == (503, "ServiceUnavailable")
        assert (await served.get(MAPS)).code == 200

    asyncio.run(scenario())


_PATHS = st.sampled_from(
    [MAPS, f"{MAPS}/a", f"{PODS}/p/binding", f"{PODS}/p/eviction", f"{PODS}/p/log", CLAIMS, f"{CLAIMS}/c/status",
     "/api/v1/namespaces/shop", "/apis/apps/v1/namespaces/shop/deployments/w/scale", "/openapi/v3", "/api", "/%ff/%00",
     "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"]
)  # fmt: skip
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "name", "kind", "op", "path", "value", "x"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)
_MEDIA = st.sampled_from(
    ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "application/json-patch+json",
     "application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml", "x/y",
     ""]
)  # fmt: skip
_QUERY = st.sampled_from(
    ["", "dryRun=All&fieldManager=f", "limit=1&continue=%00", "labelSelector=a%20in%20(", "watch=1&timeoutSeconds=1",
     "fieldValidation=Strict", "resourceVersion=-1", "gracePeriodSeconds=0", "fieldSelector=%5C", "force=1"]
)  # fmt: skip


@given(
    st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]), _PATHS, _QUERY, _MEDIA,
    st.binary(max_size=30) | _JSON.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(["", "text/x", "*/*"]),
)  # fmt: skip
def test_no_request_causes_an_internal_error(
    method: str, path: str, query: str, media: str, body: bytes, accept: str
) -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(MAPS, config_map("a"))
        await served.post(PODS, pod("p"))
        headers = {"content-type": media, "accept": accept}
        answer = await served.send(method, f"{path}?{query}", body, headers, ADMIN)
        if isinstance(answer, Streaming):
            await closed(answer)
            return
        assert isinstance(answer, Response)
        if answer.code == 500:
            assert b'"reason":"InternalError"' not in answer.body, answer.body

    asyncio.run(scenario())


def _rule(*verbs: str, resource: str) -> dict[str, Any]:
    return {"verbs": list(verbs), "apiGroups": ["", "coordination.k8s.io"], "resources": [resource]}


async def _grant(served: Served, user: str, *rules: dict[str, Any]) -> Peer:
    """A user with only these rules in the namespace."""
    group = "rbac.authorization.k8s.io"
    where = f"/apis/{group}/v1/namespaces/shop"
    assert (await served.post(f"{where}/roles", {"metadata": {"name": user}, "rules": list(rules)})).code == 201
    reference = {"apiGroup": group, "kind": "Role", "name": user}
    subjects = [{"kind": "User", "apiGroup": group, "name": user}]
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
    assert (await served.post(f"{where}/rolebindings", binding)).code == 201
    return Peer(user, ())


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_upserts_require_the_create_permission(method: str) -> None:
    async def scenario() -> None:
        served = await Served().started()
        ann = await _grant(served, "ann", _rule("update", "patch", resource="leases"))
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
        where = "/apis/coordination.k8s.io/v1/namespaces/shop/leases/l?fieldManager=me"
        headers = {"content-type": APPLY if method == "PATCH" else "application/json"}
        body = json.dumps(lease).encode()
        answer = await served.send(method, where, body, headers, peer=ann)
        assert isinstance(answer, Response)
        assert answer.code == 403
        assert 'cannot create resource "leases"' in json.loads(answer.body)["message"]
        answer = await served.send(method, where, body, headers)
        assert isinstance(answer, Response)
        assert answer.code == 201
        answer = await served.send(method, where, answer.body if method == "PUT" else body, headers, peer=ann)
        assert isinstance(answer, Response)
        assert answer.code == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("query", "verb", "allowed"),
    [
        ("", "list", False),
        ("fieldSelector=metadata.name%3Dmine", "list", True),
        ("fieldSelector=metadata.namespace%3Dshop,metadata.name%3D%3Dmine", "list", True),
        ("fieldSelector=metadata.name!%3Dmine", "list", False),
        ("fieldSelector=metadata.name%3Dother", "list", False),
        ("fieldSelector=metadata.name%3Da/b", "list", False),
        ("fieldSelector=metadata.name%3D%5C", "list", False),
        ("fieldSelector=metadata.name%3Dmine&watch=true", "watch", False),
        ("fieldSelector=metadata.name%3Dmine&w%61tch=true", "watch", False),
        ("fieldSelector=metadata.name%3Dmine&watch", "watch", False),
        ("fieldSelector=metadata.name%3Dmine&watch=0", "list", True),
    ],
)
def test_list_by_name_is_authorized_for_that_name(query: str, verb: str, allowed: bool) -> None:
    async def scenario() -> None:
        served = await Served().started()
        ann = await _grant(served, "ann", {**_rule("list", resource="configmaps"), "resourceNames": ["mine"]})
        await served.post(MAPS, config_map("mine"))
        await served.post(MAPS, config_map("other"))
        answer = await served.send("GET", f"{MAPS}?{query}", peer=ann)
        assert isinstance(answer, Response), answer
        found = json.loads(answer.body)
        if allowed:
            assert [item["metadata"]["name"] for item in found["items"]] == ["mine"]
        else:
            assert answer.code == 403
            assert f'User "ann" cannot {verb} resource "configmaps"' in found["message"]
        client = LocalClient(served.api, User("ann"), "test")
        listed = await client.list(CONFIG_MAPS, "shop", fields="metadata.name=mine")
        assert [tree["metadata"]["name"] for tree in listed.items] == ["mine"]
        with pytest.raises(StatusError, match='cannot list resource "configmaps"'):
            await client.list(CONFIG_MAPS, "shop")

    asyncio.run(scenario())


def test_delete_collection_is_not_authorized_by_name() -> None:
    """kube-apiserver takes the name from a field selector for get, list and watch, not for deletecollection."""

    async def scenario() -> None:
        served = await Served().started()
        rule = {**_rule("deletecollection", resource="configmaps"), "resourceNames": ["mine"]}
        ann = await _grant(served, "ann", rule)
        answer = await served.send("DELETE", f"{MAPS}?fieldSelector=metadata.name%3Dmine", peer=ann)
        assert isinstance(answer, Response)
        assert answer.code == 403

    asyncio.run(scenario())


def test_exec_requires_the_create_permission() -> None:
    async def scenario() -> None:
        served = await Served().started()
        ann = await _grant(served, "ann", _rule("get", resource="pods/exec"))
        await served.post(PODS, pod("p"))
        answer = await served.send("GET", f"{PODS}/p/exec?command=ls&stdout=true", peer=ann)
        assert isinstance(answer, Response)
        assert 'cannot create resource "pods/exec"' in json.loads(answer.body)["message"]

    asyncio.run(scenario())


def test_error_responses_wait_for_durability(tmp_path: Path) -> None:
    """A client that got "not found" must not find the object after a crash."""

    async def scenario() -> None:
        served = await Served(tmp_path / "db").started()
        await served.post(MAPS, config_map("a"))
        durable: list[int] = []
        served.store.subscribe("configmaps", lambda change: durable.append(change.revision))
        deletion = asyncio.create_task(served.delete(f"{MAPS}/a"))
        await asyncio.sleep(0)
        assert not durable
        assert (await served.get(f"{MAPS}/a")).code == 404
        assert durable
        await deletion
        await served.store.close()

    asyncio.run(scenario())


def test_warnings_are_truncated() -> None:
    async def scenario() -> None:
        served = await Served().started()
        unknown_fields = {f"field{number:04}{'x' * 300}": 1 for number in range(1000)}
        response = await served.post(MAPS, {**config_map("a"), **unknown_fields})
        assert response.code == 201
        assert len(response.warnings) == 16
        assert sum(map(len, response.warnings)) < 5000

    asyncio.run(scenario())
