"""Documents publish the schemas of custom resources as kube-apiserver does (compared with 1.37)."""

from __future__ import annotations

import asyncio

from allotment.model.trees import Tree
from tests.unit.apiserver.served import Served

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KEEPS = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"x-kubernetes-embedded-resource": True}
TEXT = {"type": "string"}
FIELDS = {"type": "object", "properties": {"a": TEXT}}


def published(schema: Tree) -> tuple[Tree, Tree]:
    """The schema of a custom resource in v2 and in v3."""

    async def scenario() -> tuple[Tree, Tree]:
        served = await Served().started()
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "tins", "singular": "tin", "kind": "Tin", "listKind": "TinList"}
        spec = {"group": "ex.com", "scope": "Namespaced", "names": names, "versions": [version]}
        assert (await served.post(DEFINITIONS, {"metadata": {"name": "tins.ex.com"}, "spec": spec})).code == 201
        v2 = (await served.get("/openapi/v2")).body["definitions"]
        v3 = (await served.get("/openapi/v3/apis/ex.com/v1")).body["components"]["schemas"]
        return v2["com.ex.v1.Tin"], v3["com.ex.v1.Tin"]

    return asyncio.run(scenario())


def test_v2_states_no_fields_of_an_object_that_keeps_unknown_ones() -> None:
    v2, v3 = published({**FIELDS, **KEEPS, "description": "d"})
    assert sorted(v2) == ["type", "x-kubernetes-group-version-kind"]
    assert {"a", "metadata"} <= v3["properties"].keys()


def test_v2_states_only_what_kubectl_validates_correctly() -> None:
    properties = {
        "kept": {**FIELDS, **KEEPS, "description": "d"},
        "list": {"type": "array", **KEEPS, "items": TEXT},
        "nullable": {
            "type": "object", "required": ["n", "t"], "properties": {"n": {**FIELDS, "nullable": True}, "t": TEXT},
        },
        "map": {"type": "object", "additionalProperties": {**TEXT, "nullable": True}},
        "port": {"x-kubernetes-int-or-string": True},
        "embedded": {"type": "object", **EMBEDDED, **KEEPS},
        "defaulted": {**TEXT, "default": "x"},
    }  # fmt: skip
    v2, _ = published({"type": "object", "properties": properties})
    found = {name: v2["properties"][name] for name in properties}
    assert found == {
        "kept": {**KEEPS, "description": "d"},
        "list": KEEPS,
        "nullable": {"type": "object", "required": ["t"], "properties": {"n": {}, "t": TEXT}},
        "map": {"type": "object", "additionalProperties": {}},
        "port": {"x-kubernetes-int-or-string": True},
        "embedded": {**EMBEDDED, **KEEPS},
        "defaulted": TEXT,
    }


def test_v3_states_what_is_implied() -> None:
    properties = {"port": {"x-kubernetes-int-or-string": True}, "embedded": {**FIELDS, **EMBEDDED, "required": ["a"]}}
    _, v3 = published({"type": "object", "properties": properties})
    assert v3["properties"]["port"]["anyOf"] == [{"type": "integer"}, {"type": "string"}]
    embedded = v3["properties"]["embedded"]
    assert embedded["required"] == ["a", "kind", "apiVersion"]
    assert sorted(embedded["properties"]) == ["a", "apiVersion", "kind", "metadata"]
