"""The kinds of users come and go with their definitions."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.apiserver.served import FEATURES, Ids, Served

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


def test_from_definition_to_nothing() -> None:
    async def told() -> None:
        served = await Served().started()
        assert (await served.get(WIDGETS)).code == 404
        assert (await served.post(DEFINITIONS, _definition())).code == 201
        said = await served.post(WIDGETS, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}})
        assert said.code == 201
        said = await served.patch(f"{WIDGETS}/w", {"spec": {"size": 5, "stray": 1}})
        assert (said.body["spec"], said.body["metadata"]["generation"]) == ({"size": 5}, 2)
        said = await served.patch(f"{WIDGETS}/w", {"spec": {}}, "application/strategic-merge-patch+json")
        assert said.code == 415
        said = await served.patch(f"{WIDGETS}/w/scale", {"spec": {"replicas": 7}})
        assert said.body["spec"] == {"replicas": 7}
        said = await served.get(WIDGETS)
        assert said.body["items"][0]["kind"] == "Widget", "objects of users' kinds say what they are, in lists too"
        assert said.body["items"][0]["spec"]["size"] == 7
        groups = (await served.get("/apis")).body["groups"]
        assert "example.com" in [group["name"] for group in groups]
        assert (await served.delete(f"{DEFINITIONS}/widgets.example.com")).code == 200
        assert (await served.get(WIDGETS)).code == 404
        assert not served.store.list("widgets.example.com")
        assert (await served.get("/apis/example.com/v1")).code == 404

    asyncio.run(told())


def test_a_definition_that_was_held_takes_its_objects_along_in_the_end() -> None:
    async def told() -> None:
        served = await Served().started()
        held = _definition()
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await served.post(DEFINITIONS, held)
        widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
        assert (await served.post(WIDGETS, widget)).code == 201
        await served.delete(f"{DEFINITIONS}/widgets.example.com")
        await served.patch(f"{DEFINITIONS}/widgets.example.com", {"metadata": {"finalizers": None}})
        assert (await served.get(f"{DEFINITIONS}/widgets.example.com")).code == 404
        assert not served.store.list("widgets.example.com")

    asyncio.run(told())


def test_a_restart_serves_what_is_defined() -> None:
    async def told() -> None:
        served = await Served().started()
        await served.post(DEFINITIONS, _definition())
        from allotment.apiserver.api import Api

        again = Api(
            served.store, served.api.catalog.built_in, clock=served.clock, ids=Ids(), features=FEATURES,
            access=served.api.access,
        )  # fmt: skip
        assert [kind.kind for kind in again.catalog.custom] == ["Widget"]

    asyncio.run(told())
