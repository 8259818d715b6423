"""Custom resources are converted between versions by webhooks."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.model.trees import Tree
from tests.unit.apiserver.served import Served, events
from tests.webhook_server import WebhookServer, webhook_server

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
V1, V2 = (f"/apis/x.io/{version}/namespaces/shop/bars" for version in ("v1", "v2"))


def definition(config: Tree | None, *, storage: str = "v1", served: tuple[str, ...] = ("v1", "v2")) -> Tree:
    """``spec.hostPort`` of v1 is ``spec.host`` and ``spec.port`` (default 80) in v2."""
    v1 = {"hostPort": {"type": "string"}}
    v2 = {"host": {"type": "string", "minLength": 2}, "port": {"type": "string", "default": "80"}}
    versions = [
        {
            "name": name,
            "served": name in served,
            "storage": name == storage,
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {
                        "spec": {"type": "object", "properties": properties},
                        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                    },
                }
            },
        }
        for name, properties in (("v1", v1), ("v2", v2))
    ]
    spec: Tree = {"group": "x.io", "scope": "Namespaced", "names": {"plural": "bars", "kind": "Bar"}}
    if config is not None:
        webhook = {"conversionReviewVersions": ["v1"], "clientConfig": config}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return {"metadata": {"name": "bars.x.io"}, "spec": {**spec, "versions": versions}}


def converted(tree: Tree, wanted: str) -> Tree:
    result: Tree = copy.deepcopy(tree)
    result["apiVersion"] = wanted
    spec = result.get("spec") or {}
    if wanted == "x.io/v2" and "hostPort" in spec:
        spec["host"], _, spec["port"] = spec.pop("hostPort").partition(":")
    elif wanted == "x.io/v1" and "host" in spec:
        spec["hostPort"] = f"{spec.pop('host')}:{spec.pop('port')}"
    result["metadata"].setdefault("annotations", {})["converted"] = "yes"
    return result


def convert(review: Tree) -> Tree:
    request = review["request"]
    objects = [converted(tree, request["desiredAPIVersion"]) for tree in request["objects"]]
    response = {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}}
    return {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response}


@contextmanager
def webhook(folder: Path) -> Iterator[WebhookServer]:
    with webhook_server(folder) as server:
        server.handlers["/convert"] = convert
        yield server


@asynccontextmanager
async def served_with(config: Tree | None, **options: Any) -> AsyncIterator[Served]:
    served = await Served().started()
    response = await served.post(DEFINITIONS, definition(config, **options))
    assert (response.code, response.warnings) == (201, [])
    yield served
    await served.api.outbound.close()


def bar(version: str, name: str, **spec: str) -> Tree:
    return {"apiVersion": f"x.io/{version}", "kind": "Bar", "metadata": {"name": name}, "spec": spec}


def test_objects_are_stored_in_one_version_and_read_in_each(tmp_path: Path) -> None:
    async def scenario(server: WebhookServer) -> None:
        async with served_with(server.config("/convert")) as served:
            assert (await served.post(V1, bar("v1", "a", hostPort="db:5432"))).code == 201
            assert server.received == [], "the storage version needs no conversion"
            created = await served.post(V2, bar("v2", "b", host="web"))
            assert (created.code, created.body["spec"]) == (201, {"host": "web", "port": "80"})
            assert created.body["metadata"]["annotations"] == {"converted": "yes"}
            assert served.store.get("bars.x.io", "shop", "b").tree["spec"] == {"hostPort": "web:80"}  # type: ignore[union-attr]
            found = await served.get(f"{V2}/a")
            assert (found.body["apiVersion"], found.body["spec"]) == ("x.io/v2", {"host": "db", "port": "5432"})
            assert (await served.get(f"{V1}/b")).body["spec"] == {"hostPort": "web:80"}
            listed = (await served.get(V2)).body
            assert [item["spec"]["host"] for item in listed["items"]] == ["db", "web"]
            assert listed["apiVersion"] == "x.io/v2"
            client = served.client()
            resource = Resource("x.io", "v2", "bars", "Bar", True)
            assert (await client.get(resource, "a", "shop"))["spec"]["host"] == "db"
            assert [tree["spec"]["host"] for tree in (await client.list(resource)).items] == ["db", "web"]

    with webhook(tmp_path) as server:
        asyncio.run(scenario(server))
        review = server.received[0]
        assert review.target == "/convert?timeout=30s"
        assert review.body["apiVersion"] == "apiextensions.k8s.io/v1"
        assert review.body["request"]["desiredAPIVersion"] == "x.io/v1"
        assert len(server.received) <= 3, "results are kept as long as an object is unchanged"


def test_writes_in_another_version_change_the_stored_object(tmp_path: Path) -> None:
    async def scenario(server: WebhookServer) -> None:
        async with served_with(server.config("/convert")) as served:
            await served.post(V1, bar("v1", "a", hostPort="db:5432"))
            patched = await served.patch(f"{V2}/a", {"spec": {"host": "cache"}})
            assert (patched.body["spec"], patched.body["metadata"]["generation"]) == (
                {"host": "cache", "port": "5432"},
                2,
            )
            assert (await served.get(f"{V1}/a")).body["spec"] == {"hostPort": "cache:5432"}
            status = await served.patch(f"{V2}/a/status", {"status": {"phase": "Ready"}, "spec": {"host": "ignored"}})
            assert (status.body["spec"]["host"], status.body["status"]) == ("cache", {"phase": "Ready"})
            refused = await served.patch(f"{V2}/a", {"spec": {"host": "x"}})
            assert refused.code == 422, refused
            assert "spec.host" in refused.message
            apply = {**bar("v2", "a", port="1"), "metadata": {"name": "a"}}
            applied = await served.patch(
                f"{V2}/a?fieldManager=me&force=true", json.dumps(apply).encode(), "application/apply-patch+yaml"
            )
            assert applied.body["spec"] == {"host": "cache", "port": "1"}
            assert (await served.get(f"{V1}/a")).body["spec"] == {"hostPort": "cache:1"}
            assert (await served.delete(f"{V2}/a")).code == 200

    with webhook(tmp_path) as server:
        asyncio.run(scenario(server))


def test_watches_show_the_version_of_their_path(tmp_path: Path) -> None:
    async def scenario(server: WebhookServer) -> None:
        async with served_with(server.config("/convert")) as served:
            await served.post(V1, bar("v1", "a", hostPort="db:5432"))
            stream = await served.watch(f"{V2}?watch=true&resourceVersion=0")
            await served.post(V1, bar("v1", "b", hostPort="web:80"))
            seen = await events(stream, 2)
            assert [event["object"]["spec"]["host"] for event in seen] == ["db", "web"]
            assert {event["object"]["apiVersion"] for event in seen} == {"x.io/v2"}

    with webhook(tmp_path) as server:
        asyncio.run(scenario(server))


def test_objects_of_an_earlier_storage_version_are_converted_when_read(tmp_path: Path) -> None:
    async def scenario(server: WebhookServer) -> None:
        async with served_with(server.config("/convert")) as served:
            await served.post(V1, bar("v1", "a", hostPort="db:5432"))
            changed = definition(server.config("/convert"), storage="v2")["spec"]
            assert (await served.patch(f"{DEFINITIONS}/bars.x.io", {"spec": changed})).code == 200
            assert (await served.get(f"{V2}/a")).body["spec"] == {"host": "db", "port": "5432"}
            assert (await served.get(f"{V1}/a")).body["spec"] == {"hostPort": "db:5432"}
            await served.patch(f"{V1}/a", {"metadata": {"labels": {"migrated": "yes"}}})
            stored = served.store.get("bars.x.io", "shop", "a")
            assert stored is not None
            assert (stored.tree["apiVersion"], stored.tree["spec"]) == ("x.io/v2", {"host": "db", "port": "5432"})

    with webhook(tmp_path) as server:
        asyncio.run(scenario(server))


def test_without_a_webhook_only_the_version_changes() -> None:
    async def scenario() -> None:
        async with served_with(None, storage="v2", served=("v1",)) as served:  # the storage version is not served
            await served.post(V1, bar("v1", "a", hostPort="db:5432"))
            assert (await served.get(f"{V1}/a")).body["apiVersion"] == "x.io/v1"
            assert (await served.get(V2)).code == 404
            stored = served.store.get("bars.x.io", "shop", "a")
            assert stored is not None
            assert stored.tree["apiVersion"] == "x.io/v2"
            changed = definition(None)["spec"]
            await served.patch(f"{DEFINITIONS}/bars.x.io", {"spec": changed})
            assert (await served.get(f"{V1}/a")).body["apiVersion"] == "x.io/v1"
            assert (await served.get(V2)).body["items"][0]["apiVersion"] == "x.io/v2"

    asyncio.run(scenario())


def test_an_unreachable_webhook_is_reported_as_by_kubernetes() -> None:
    failed = (
        'conversion webhook for x.io/{}, Kind=Bar failed: Post "https://127.0.0.1:9/conv?timeout=30s": '
        "dial tcp 127.0.0.1:9: connect: connection refused"
    )

    async def scenario() -> None:
        async with served_with({"url": "https://127.0.0.1:9/conv"}) as served:
            created = await served.post(V1, bar("v1", "a", hostPort="db:5432"))
            assert created.code == 201
            refused = await served.post(V2, bar("v2", "b", host="web"))
            assert refused.body == {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": failed.format("v2"), "code": 500,
            }  # fmt: skip
            revision = created.body["metadata"]["resourceVersion"]
            corrupt = (
                "StorageError: corrupt object, Code: 7, Key: {}/x.io/bars/shop/a, ResourceVersion: 0, "
                f"AdditionalErrorMsg: object not decodable revision={revision}: {failed.format('v1')}"
            )
            found = await served.get(f"{V2}/a")
            assert (found.code, found.message) == (500, f"Internal error occurred: {corrupt.format('')}")
            assert found.body["details"] == {"causes": [{"message": corrupt.format("")}]}
            listed = await served.get(V2)
            assert (listed.code, listed.message) == (
                429,
                (
                    "storage is (re)initializing: failed to list <unspecified>: failed to read one or more bars.x.io "
                    f"from the storage: {corrupt.format('/registry')}"
                ),
            )
            assert ("retry-after", "1") in listed.headers
            [event] = await events(await served.watch(f"{V2}?watch=true&resourceVersion=0"), 1)
            assert event["type"] == "ERROR"
            assert (await served.get(V1)).code == 200

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"response": None}, "failed: no response provided"),
        ({"kind": "Other"}, ("failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got "
                            "apiextensions.k8s.io/v1, Kind=Other")),
        ({"response": {"uid": "1"}}, "failed: expected response.uid="),
        ({"result": {"status": "Failed", "message": "too old"}}, "failed: too old"),
        ({"result": {}}, "failed: response.result.status was '', not 'Success'"),
        ({"convertedObjects": []}, "returned 0 objects, expected 1"),
        ({"object": {"apiVersion": "x.io/v1"}}, ("returned invalid object at index 0: invalid groupVersion (expected "
                                                "x.io/v2, received x.io/v1)")),
        ({"object": {"kind": "Foo"}}, "returned invalid object at index 0: invalid kind (expected Bar, received Foo)"),
        ({"object": {"metadata": {"name": "b", "namespace": "shop"}}}, ("returned invalid object: must have the same "
                                                                       "name: a != b")),
        ({"object": {"metadata": None}}, "returned invalid metadata: missing metadata in converted object"),
    ],
)  # fmt: skip
def test_invalid_answers_of_a_webhook_are_reported_as_by_kubernetes(tmp_path: Path, change: Tree, problem: str) -> None:
    def answer(review: Tree) -> Tree:
        valid = convert(review)
        response = valid["response"]
        for name, value in change.items():
            if name == "object":
                response["convertedObjects"][0] |= value
            elif name in response:
                response[name] = value
            else:
                valid[name] = value
        return valid

    async def scenario(server: WebhookServer) -> None:
        async with served_with(server.config("/convert")) as served:
            await served.post(V1, bar("v1", "a", hostPort="db:5432"))
            found = await served.get(f"{V2}/a")
            assert found.code == 500
            assert f"conversion webhook for x.io/v1, Kind=Bar {problem}" in found.message

    with webhook(tmp_path) as server:
        server.handlers["/convert"] = answer
        asyncio.run(scenario(server))


@pytest.mark.parametrize(
    ("conversion", "field", "message"),
    [
        ({"webhook": {"clientConfig": {}}}, "webhookClientConfig",
         "Forbidden: should not be set when strategy is not set to Webhook"),
        ({"strategy": "Webhook"}, "webhookClientConfig", "Required value: required when strategy is set to Webhook"),
        ({"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}},
         "webhookClientConfig", "Required value: exactly one of url or service is required"),
        ({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://a"}, "conversionReviewVersions": ["v1"]}},
         "webhookClientConfig.url",
         'Invalid value: "http": \'https\' is the only allowed URL scheme; desired format: https://host[/path]'),
        ({"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://a"}, "conversionReviewVersions": ["v9"]}},
         "conversionReviewVersions", 'Invalid value: ["v9"]: must include at least one of v1, v1beta1'),
    ],
)  # fmt: skip
def test_invalid_conversions_are_refused_as_by_kubernetes(conversion: Tree, field: str, message: str) -> None:
    async def scenario() -> None:
        served = await Served().started()
        body = definition(None)
        body["spec"]["conversion"] = conversion
        refused = await served.post(DEFINITIONS, body)
        assert refused.code == 422
        causes = {cause["field"]: cause["message"] for cause in refused.body["details"]["causes"]}
        assert causes[f"spec.conversion.{field}"] == message

    asyncio.run(scenario())


def test_field_selectors_read_the_version_of_their_path(tmp_path: Path) -> None:
    async def scenario(server: WebhookServer) -> None:
        async with served_with(server.config("/convert")) as served:
            body = definition(server.config("/convert"))["spec"]
            body["versions"][0]["selectableFields"] = [{"jsonPath": ".spec.hostPort"}]
            body["versions"][1]["selectableFields"] = [{"jsonPath": ".spec.host"}, {"jsonPath": ".spec.port"}]
            assert (await served.patch(f"{DEFINITIONS}/bars.x.io", {"spec": body})).code == 200
            await served.post(V1, bar("v1", "a", hostPort="db:5432"))
            await served.post(V2, bar("v2", "b", host="web"))

            async def names(path: str) -> list[str]:
                return [item["metadata"]["name"] for item in (await served.get(path)).body["items"]]

            assert await names(f"{V1}?fieldSelector=spec.hostPort=db:5432") == ["a"]
            assert await names(f"{V2}?fieldSelector=spec.host=web,spec.port=80") == ["b"]
            refused = await served.get(f"{V2}?fieldSelector=spec.hostPort=x")
            assert (refused.code, refused.message.endswith("field label not supported: spec.hostPort")) == (400, True)
            listing = await served.client().list(Resource("x.io", "v2", "bars", "Bar", True), fields="spec.host=db")
            assert [tree["metadata"]["name"] for tree in listing.items] == ["a"]

            stream = await served.watch(f"{V2}?watch=true&resourceVersion=0&fieldSelector=spec.host=db")
            await served.patch(f"{V2}/b", {"spec": {"host": "db"}})
            await served.patch(f"{V1}/a", {"spec": {"hostPort": "web:5432"}})
            seen = [(event["type"], event["object"]["metadata"]["name"]) for event in await events(stream, 3)]
            assert seen == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]
            assert (await served.delete(f"{V2}?fieldSelector=spec.host=web")).code == 200
            assert await names(V1) == ["b"]

    with webhook(tmp_path) as server:
        asyncio.run(scenario(server))
