"""Discovery and OpenAPI documents, compared with recorded ones of the real server."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from allotment.apiserver.api_description import Documents
from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.apiserver.http_messages import Request, Response
from allotment.apiserver.kinds.kind import ServedKind
from allotment.model.features import Features
from allotment.model.fields import TypeShape
from tests.unit.apiserver.served import Served

AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)
CLAIMS = ServedKind(
    "resource.k8s.io", ("v1", "v1beta2", "v1beta1"), "ResourceClaim", "resourceclaims", True, "resourceclaim",
    subresources=("status",), release="1.36",
)  # fmt: skip
#: Not listed: component statuses, proxies to nodes, pods and services.
NOT_SERVED = {"componentstatuses", "nodes/proxy", "pods/proxy", "services/proxy"}


@pytest.fixture(scope="module")
def kinds() -> list[ServedKind]:
    built_in = [kind for kind in built_in_kinds(Features(kube="1.36")) if kind.group != CLAIMS.group]
    return [*built_in, CLAIMS]


@pytest.fixture(scope="module")
def documents(kinds: list[ServedKind]) -> Documents:
    return Documents(kinds, release="1.36", server="127.0.0.1:6443")


def get(documents: Documents, path: str, query: str = "", **headers: str) -> Response:
    lower = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = documents.respond(Request("GET", path, query, lower))
    assert answer is not None
    return answer


def tree(response: Response) -> Any:
    return json.loads(response.body)


def header(response: Response, name: str) -> str:
    return dict(response.headers).get(name, "")


def recorded(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def test_resource_lists_match_the_recorded_ones(shared: Callable[[str], Path], documents: Documents) -> None:
    compared = 0
    for row in recorded(shared("vectors/apiserver/10-discovery.jsonl.gz")):
        body = row["response"].get("body") or {}
        if body.get("kind") != "APIResourceList" or "resource.k8s.io" in body["groupVersion"]:
            continue
        served = [entry for entry in body["resources"] if entry["name"] not in NOT_SERVED]
        assert tree(get(documents, row["request"]["path"])) == {**body, "resources": served}
        compared += len(served)
    assert compared > 60


def test_aggregated_discovery_matches_the_recorded_one(shared: Callable[[str], Path], documents: Documents) -> None:
    compared = 0
    for row in recorded(shared("vectors/apiserver/10-discovery.jsonl.gz")):
        body = row["response"].get("body") or {}
        if body.get("kind") != "APIGroupDiscoveryList":
            continue
        answer = get(documents, row["request"]["path"], accept=row["request"]["headers"]["Accept"])
        for name in ("cache-control", "content-type", "vary"):
            assert header(answer, name) == row["response"]["headers"][name]
        own = {item["metadata"].get("name", ""): item for item in tree(answer)["items"]}
        for item in body["items"]:
            name = item["metadata"].get("name", "")
            if name in own and name not in ("resource.k8s.io", "scheduling.k8s.io", ""):
                assert own[name] == item
                compared += 1
    assert compared > 12


def test_versions_of_a_group_are_listed_by_preference(documents: Documents) -> None:
    group = tree(get(documents, "/apis/resource.k8s.io"))
    assert [entry["version"] for entry in group["versions"]] == ["v1", "v1beta2", "v1beta1"]
    assert group["preferredVersion"] == {"groupVersion": "resource.k8s.io/v1", "version": "v1"}
    names = [entry["name"] for entry in tree(get(documents, "/apis"))["groups"]]
    assert "apps" in names
    assert "" not in names


def test_plain_and_aggregated_discovery_agree(documents: Documents) -> None:
    for item in tree(get(documents, "/apis", accept=AGGREGATED))["items"]:
        for version in item["versions"]:
            path = f"/apis/{item['metadata']['name']}/{version['version']}"
            plain = {entry["name"]: entry["verbs"] for entry in tree(get(documents, path))["resources"]}
            aggregated = {}
            for entry in version["resources"]:
                aggregated[entry["resource"]] = entry["verbs"]
                for sub in entry.get("subresources", ()):
                    aggregated[f"{entry['resource']}/{sub['subresource']}"] = sub["verbs"]
            assert aggregated == plain


def test_an_unchanged_document_is_not_sent_again(documents: Documents) -> None:
    first = get(documents, "/apis", accept=AGGREGATED)
    etag = header(first, "etag")
    assert etag == f'"{hashlib.sha512(first.body).hexdigest().upper()}"'
    again = get(documents, "/apis", accept=AGGREGATED, if_none_match=etag)
    assert (again.code, again.body, header(again, "etag")) == (304, b"", etag)
    assert get(documents, "/apis", accept=AGGREGATED, if_none_match='"OLD"').code == 200


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("", "APIGroupList"), ("*/*", "APIGroupList"), ("application/json", "APIGroupList"),
        ("application/json, */*", "APIGroupList"), (AGGREGATED, "APIGroupDiscoveryList"),
        ("application/json,application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "APIGroupList"),
        ("application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList,application/json", "APIGroupList"),
    ],
)  # fmt: skip
def test_the_first_acceptable_media_type_is_served(documents: Documents, accept: str, kind: str) -> None:
    assert tree(get(documents, "/apis", accept=accept))["kind"] == kind


def test_missing_documents_are_not_found(documents: Documents, shared: Callable[[str], Path]) -> None:
    for row in recorded(shared("vectors/apiserver/10-discovery.jsonl.gz")):
        path = row["request"]["path"]
        if path in ("/apis/nope.example.com", "/apis/nope.example.com/v1", "/api/v2"):
            answer = get(documents, path)
            assert answer.code == 404
            expected = row["response"]
            assert answer.body.decode() == expected.get("body_text", answer.body.decode())
            assert "body" not in expected or tree(answer) == expected["body"]
    assert get(documents, "/openapi/v3/apis/nope/v1").code == 404
    assert documents.respond(Request("GET", "/healthz")) is None
    assert documents.respond(Request("GET", "/api/v1/pods/x/log")) is None


def test_the_version_is_one_that_clients_can_read(documents: Documents) -> None:
    version = tree(get(documents, "/version"))
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"].startswith("v1.36.2")


def test_openapi_documents_have_their_hash_in_the_url(documents: Documents) -> None:
    index = tree(get(documents, "/openapi/v3"))["paths"]
    url = index["apis/resource.k8s.io/v1"]["serverRelativeURL"]
    path, _, query = url.partition("?")
    right = get(documents, path, query)
    assert (right.code, header(right, "cache-control")) == (200, "public, immutable")
    assert header(right, "etag") == f'"{query.removeprefix("hash=")}"'
    assert get(documents, path).body == right.body
    assert header(get(documents, path), "cache-control") == "no-cache, private"
    wrong = get(documents, path, "hash=DEADBEEF")
    assert (wrong.code, header(wrong, "location"), wrong.body) == (301, url, b"")
    assert get(documents, path, if_none_match=header(right, "etag")).code == 304


def references(value: Any) -> set[str]:
    if isinstance(value, dict):
        schemas = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return schemas.union(*map(references, value.values()))
    return set().union(*map(references, value)) if isinstance(value, list) else set()


def test_every_reference_resolves(documents: Documents) -> None:
    seen = 0
    assert "version" in tree(get(documents, "/openapi/v3"))["paths"]
    for path in tree(get(documents, "/openapi/v3"))["paths"]:
        document = tree(get(documents, f"/openapi/v3/{path}"))
        known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
        assert references(document) <= known
        seen += len(known)
    assert seen > 400
    older = tree(get(documents, "/openapi/v2"))
    assert references(older) <= {f"#/definitions/{name}" for name in older["definitions"]}


def test_the_fields_that_kubectl_reads_are_present(documents: Documents) -> None:
    for api, plural in (("api/v1", "pods"), ("apis/resource.k8s.io/v1beta1", "resourceclaims")):
        path = f"/{api}/namespaces/{{namespace}}/{plural}/{{name}}"
        patch = tree(get(documents, f"/openapi/v3/{api}"))["paths"][path]["patch"]
        assert "fieldValidation" in {parameter["name"] for parameter in patch["parameters"]}
        assert patch["x-kubernetes-group-version-kind"]["kind"] in ("Pod", "ResourceClaim")
        assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


def test_schemas_match_the_recorded_ones(shared: Callable[[str], Path], documents: Documents) -> None:
    def facts(schema: dict[str, Any]) -> Any:
        """The parts of a schema that affect clients: without texts and zero defaults."""
        plain = {
            name: value for name, value in schema.items()
            if name not in ("description", "allOf", "default", "x-kubernetes-unions", "properties")
        }  # fmt: skip
        plain |= facts(schema["allOf"][0]) if "allOf" in schema else {}
        if schema.get("default") not in (None, "", 0, False, {}):
            plain["default"] = schema["default"]
        if plain.get("x-kubernetes-map-type") == "granular":  # the default
            del plain["x-kubernetes-map-type"]
        if schema.get("type") == "array":
            plain.setdefault("x-kubernetes-list-type", "atomic")
        for name in ("items", "additionalProperties"):
            if isinstance(schema.get(name), dict):
                plain[name] = facts(schema[name])
        return plain

    compared = 0
    for own, file_name in (
        ("api/v1", "api__v1"), ("apis/apps/v1", "apis__apps__v1"),
        ("apis/resource.k8s.io/v1", "apis__resource.k8s.io__v1"), ("apis/batch/v1", "apis__batch__v1"),
    ):  # fmt: skip
        with gzip.open(shared(f"vectors/apiserver/openapi/v3-{file_name}.json.gz"), "rt") as file:
            expected = json.load(file)["components"]["schemas"]
        schemas = tree(get(documents, f"/openapi/v3/{own}"))["components"]["schemas"]
        for name, schema in schemas.items():
            if name not in expected or "properties" not in schema:
                continue
            assert set(schema["properties"]) == set(expected[name]["properties"]), name
            assert schema.get("required", []) == expected[name].get("required", []), name
            if name.endswith("List"):
                continue
            for field, property in schema["properties"].items():
                assert facts(property) == facts(expected[name]["properties"][field]), f"{name}.{field}"
                compared += 1
    assert compared > 1000


def test_a_custom_kind_is_described_by_its_own_schema(kinds: list[ServedKind]) -> None:
    spec = {"type": "object", "description": "What to do."}
    schema = {"type": "object", "properties": {"spec": spec}}
    widget = ServedKind(
        "stable.example.com", ("v1",), "Widget", "widgets", True, "widget", ("wd",), subresources=("scale", "status"),
        shapes={"v1": TypeShape("struct", "Widget")}, schemas={"v1": schema},
    )  # fmt: skip
    documents = Documents([*kinds, widget], release="1.36")
    document = tree(get(documents, "/openapi/v3/apis/stable.example.com/v1"))
    served = document["components"]["schemas"]["com.example.stable.v1.Widget"]
    assert served["properties"]["spec"] == spec
    assert served["x-kubernetes-group-version-kind"] == [
        {"group": "stable.example.com", "version": "v1", "kind": "Widget"}
    ]
    item = document["paths"]["/apis/stable.example.com/v1/namespaces/{namespace}/widgets/{name}"]
    assert "application/strategic-merge-patch+json" not in item["patch"]["requestBody"]["content"]
    discovered = tree(get(documents, "/apis", accept=AGGREGATED))["items"][-1]["versions"][0]["resources"][0]
    assert discovered["responseKind"] == {"group": "stable.example.com", "version": "v1", "kind": "Widget"}
    assert [sub["responseKind"]["kind"] for sub in discovered["subresources"]] == ["Scale", "Widget"]


def test_documents_of_unchanged_kinds_are_reused(kinds: list[ServedKind]) -> None:
    before = Documents(kinds, release="1.36")
    get(before, "/openapi/v3")
    after = Documents(
        [*kinds, CLAIMS._replace(group="other.example.com", versions=("v1",), schemas={"v1": {}})],
        release="1.36",
        previous=before,
    )
    get(after, "/openapi/v3")
    assert after._documents["openapi apps/v1"] is before._documents["openapi apps/v1"]
    assert "openapi other.example.com/v1" in after._documents


def test_documents_are_served_in_the_accepted_media_type() -> None:
    async def scenario() -> None:
        served = await Served().started()
        version = await served.get("/version", accept="application/yaml")
        assert version.code == 406
        assert b"406: Not Acceptable" in version.body
        refused = await served.get("/version", accept="text/html")
        assert (refused.code, refused.message) == (
            406,
            "406: Not Acceptable\n\nAvailable representations: application/json",
        )
        listed = await served.get("/apis/apps/v1", accept="application/yaml")
        assert listed.body.startswith(b"apiVersion: v1\ngroupVersion: apps/v1\n")
        refused = await served.get("/apis/apps/v1", accept="text/html")
        assert refused.message.startswith("406: Not Acceptable\n\nAvailable representations: application/json, ")
        assert (await served.get("/apis/apps/v1", accept="*/*")).body["kind"] == "APIResourceList"

    asyncio.run(scenario())
