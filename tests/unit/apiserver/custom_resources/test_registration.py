"""Custom kinds are served while their definitions are stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.polling import until
from tests.unit.apiserver.served import FEATURES, Ids, Served, events

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/shop/widgets"


def _definition() -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {}, "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.count"},
        },
    }  # fmt: skip
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "widgets.example.com"}, "spec": spec}


async def _is_absent(served: Served, path: str) -> bool:
    return (await served.get(path)).code == 404


def test_a_kind_is_served_from_creation_to_deletion_of_its_definition() -> None:
    async def scenario() -> None:
        served = await Served().started()
        assert (await served.get(WIDGETS)).code == 404
        assert (await served.post(DEFINITIONS, _definition())).code == 201
        response = await served.post(
            WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        )
        assert response.code == 201
        response = await served.patch(f"{WIDGETS}/w", {"spec": {"size": 5, "unknown": 1}})
        assert (response.body["spec"], response.body["metadata"]["generation"]) == ({"size": 5}, 2)
        response = await served.patch(f"{WIDGETS}/w", {"spec": {}}, "application/strategic-merge-patch+json")
        assert response.code == 415
        response = await served.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 7}})
        assert response.body["spec"] == {"replicas": 7}
        scale = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w", "namespace": "shop"}}
        response = await served.put(f"{WIDGETS}/w/scale", {**scale, "spec": {"replicas": 7}})
        assert response.code == 200, "a Scale without a resourceVersion is accepted, though an object without is not"
        response = await served.get(WIDGETS)
        assert response.body["items"][0]["kind"] == "Widget", "custom resources have apiVersion and kind, also in lists"
        assert response.body["items"][0]["spec"]["size"] == 7
        groups = (await served.get("/apis")).body["groups"]
        assert "example.com" in [group["name"] for group in groups]
        assert (await served.delete(f"{DEFINITIONS}/widgets.example.com")).code == 200
        await until(lambda: _is_absent(served, WIDGETS))
        assert not served.store.list("widgets.example.com")
        assert (await served.get("/apis/example.com/v1")).code == 404

    asyncio.run(scenario())


def test_a_definition_with_finalizers_deletes_its_objects_once_they_are_removed() -> None:
    async def scenario() -> None:
        served = await Served().started()
        definition = _definition()
        definition["metadata"]["finalizers"] = ["example.com/hold"]
        await served.post(DEFINITIONS, definition)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        assert (await served.post(WIDGETS, widget)).code == 201
        await served.delete(f"{DEFINITIONS}/widgets.example.com")
        await served.patch(f"{DEFINITIONS}/widgets.example.com", {"metadata": {"finalizers": None}})
        await until(lambda: _is_absent(served, f"{DEFINITIONS}/widgets.example.com"))
        assert not served.store.list("widgets.example.com")

    asyncio.run(scenario())


def test_stored_definitions_are_served_after_a_restart() -> None:
    async def scenario() -> None:
        served = await Served().started()
        await served.post(DEFINITIONS, _definition())
        from allotment.apiserver.api import Api

        restarted = Api(
            served.store, served.api.catalog.built_in, clock=served.clock, ids=Ids(), features=FEATURES,
            access=served.api.access,
        )  # fmt: skip
        assert [kind.kind for kind in restarted.catalog.custom] == ["Widget"]

    asyncio.run(scenario())


def test_a_default_that_a_definition_gets_later_is_applied_on_reads() -> None:
    async def scenario() -> None:
        served = await Served().started()
        assert (await served.post(DEFINITIONS, _definition())).code == 201
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
        revision = (await served.post(WIDGETS, widget)).body["metadata"]["resourceVersion"]
        definition = (await served.get(f"{DEFINITIONS}/widgets.example.com")).body
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        schema["properties"]["spec"]["properties"]["color"] = {"type": "string", "default": "red"}
        assert (await served.put(f"{DEFINITIONS}/widgets.example.com", definition)).code == 200
        expected = {"size": 1, "color": "red"}
        read = (await served.get(f"{WIDGETS}/w")).body
        assert read["spec"] == expected
        assert read["metadata"]["resourceVersion"] == revision, "a read writes nothing"
        assert (await served.get(WIDGETS)).body["items"][0]["spec"] == expected
        [added] = await events(await served.watch(f"{WIDGETS}?watch=1"), 1)
        assert added["object"]["spec"] == expected
        patched = (await served.patch(f"{WIDGETS}/w/status", {"status": {"count": 1}})).body
        assert (patched["spec"], patched["metadata"]["generation"]) == (expected, 1)
        assert served.store.list("widgets.example.com")[0].tree["spec"] == expected, "the next write stores it"

    asyncio.run(scenario())


_UNRECOGNIZED = "the object provided is unrecognized (must be of type Widget)"
_STRICT = 'Widget in version "v1" cannot be handled as a Widget: strict decoding error'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"b":1,"a":2}', _UNRECOGNIZED + """: Object 'Kind' is missing in '{"b":1,"a":2}' ({"b":1,"a":2})"""),
        (
            b'{"kind":"Pod","apiVersion":"v1"}',
            "the API version in the data (v1) does not match the expected API version (example.com/v1)",
        ),
        (
            b'{"kind":"Widget"}',
            "the API version in the data () does not match the expected API version (example.com/v1)",
        ),
        (
            b'{"kind":"Widget","apiVersion":"example.com/v1","spec":{"size":1,"color":"x","size":2},"spec":{"color":1}}',
            f'{_STRICT}: duplicate field "spec.size", duplicate field "spec", unknown field "spec.color"',
        ),
    ],
)
def test_bodies_that_are_no_object_of_the_kind(body: bytes, message: str) -> None:
    async def scenario() -> None:
        served = await Served().started()
        assert (await served.post(DEFINITIONS, _definition())).code == 201
        response = await served.request("POST", f"{WIDGETS}?fieldValidation=Strict", body, "application/json")
        assert (response.code, response.message) == (400, message)

    asyncio.run(scenario())
