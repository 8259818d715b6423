"""``metadata.namespace`` of objects that are written, by the scope of their kind.

The rule is ``EnsureObjectNamespaceMatchesRequestNamespace`` of ``k8s.io/apiserver/pkg/registry/rest``: the namespace in
a cluster-scoped object is cleared, a missing one in a namespaced object is set to that of the request, and one that
differs is refused, before the name is compared.
"""

from __future__ import annotations

import asyncio

import pytest

from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CONFIG_MAPS, NAMESPACES
from allotment.model.trees import Tree
from tests.unit.apiserver.served import APPLY, MAPS, MERGE, DecodedResponse, Served, config_map

JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
MISMATCH = "the namespace of the provided object does not match the namespace sent on the request"

SLICE: Tree = {
    "driver": "gpu.example.com", "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
}  # fmt: skip
DEFINITION: Tree = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "gizmos.example.com", "namespace": "shop"},
    "spec": {
        "group": "example.com", "scope": "Cluster", "names": {"plural": "gizmos", "kind": "Gizmo"},
        "versions": [
            {
                "name": "v1", "served": True, "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}  # fmt: skip
#: Path, version, kind and the rest of an object.
CLUSTER_SCOPED = [
    ("/apis/resource.k8s.io/v1/deviceclasses", "resource.k8s.io/v1", "DeviceClass", {"spec": {}}),
    ("/apis/resource.k8s.io/v1/resourceslices", "resource.k8s.io/v1", "ResourceSlice", {"spec": SLICE}),
    ("/apis/rbac.authorization.k8s.io/v1/clusterroles", "rbac.authorization.k8s.io/v1", "ClusterRole", {"rules": []}),
    ("/api/v1/namespaces", "v1", "Namespace", {}),
    ("/api/v1/nodes", "v1", "Node", {}),
    ("/apis/example.com/v1/gizmos", "example.com/v1", "Gizmo", {"spec": {"size": 1}}),
]
every = pytest.mark.parametrize(("path", "version", "kind", "rest"), CLUSTER_SCOPED, ids=[c[2] for c in CLUSTER_SCOPED])


async def served_with_gizmos() -> Served:
    served = await Served().started()
    response = await served.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION)
    assert (response.code, "namespace" in response.body["metadata"]) == (201, False), response
    return served


def written(response: DecodedResponse, code: int) -> Tree:
    """The written object, which has no namespace."""
    assert response.code == code, response
    assert "namespace" not in response.body["metadata"]
    return dict(response.body)


@every
def test_a_cluster_scoped_object_loses_its_namespace(path: str, version: str, kind: str, rest: Tree) -> None:
    async def test() -> None:
        served = await served_with_gizmos()
        tree = {"apiVersion": version, "kind": kind, "metadata": {"name": "one", "namespace": "shop"}, **rest}
        made = written(await served.post(path, tree), 201)
        assert (await served.post(path, tree)).code == 409
        item_path = f"{path}/one"
        labels = {**tree["metadata"], "labels": {"a": "1"}}
        changed = written(await served.put(item_path, {**made, "metadata": {**made["metadata"], **labels}}), 200)
        assert changed["metadata"]["labels"]["a"] == "1"
        for number, form in enumerate((MERGE,) if kind == "Gizmo" else (MERGE, STRATEGIC)):
            patch = {"metadata": {"namespace": "other", "labels": {"b": f"{number}"}}}
            assert written(await served.patch(item_path, patch, form), 200)["metadata"]["labels"]["b"] == f"{number}"
        operation = {"op": "add", "path": "/metadata/namespace", "value": "other"}
        changed = written(await served.patch(item_path, [operation], JSON), 200)
        assert changed == written(await served.get(item_path), 200)

    asyncio.run(test())


@every
def test_an_applied_cluster_scoped_object_loses_its_namespace(path: str, version: str, kind: str, rest: Tree) -> None:
    async def test() -> None:
        served = await served_with_gizmos()
        meta = {"name": "one", "namespace": "shop", "labels": {"a": "1"}}
        tree = {"apiVersion": version, "kind": kind, "metadata": meta, **rest}
        made = written(await served.patch(f"{path}/one?fieldManager=me", tree, APPLY), 201)
        (manager,) = made["metadata"]["managedFields"]
        assert manager["fieldsV1"]["f:metadata"] == {"f:labels": {"f:a": {}}}
        assert written(await served.patch(f"{path}/one?fieldManager=me", tree, APPLY), 200) == made

    asyncio.run(test())


def test_a_cluster_scoped_review_loses_its_namespace() -> None:
    async def test() -> None:
        served = await Served().started()
        review = {
            "metadata": {"namespace": "shop"},
            "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        }
        written(await served.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review), 201)

    asyncio.run(test())


def test_a_namespace_different_from_the_request_is_rejected() -> None:
    async def test() -> None:
        served = await Served().started()
        # The name differs, too; the namespace is checked first.
        other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other", "namespace": "elsewhere"}}
        await served.post(MAPS, config_map("a"))
        answers = [
            await served.post(MAPS, other),
            await served.put(f"{MAPS}/a", other),
            await served.patch(f"{MAPS}/a", {"metadata": other["metadata"]}, MERGE),
            await served.patch(f"{MAPS}/a", {"metadata": {"namespace": "elsewhere"}}, STRATEGIC),
            await served.patch(f"{MAPS}/a", [{"op": "add", "path": "/metadata/namespace", "value": "elsewhere"}], JSON),
            await served.patch(f"{MAPS}/a?fieldManager=me", other, APPLY),
            await served.patch(f"{MAPS}/new?fieldManager=me", other, APPLY),
            await served.put("/apis/apps/v1/namespaces/shop/deployments/d/scale", {"metadata": other["metadata"]}),
        ]
        assert [(response.code, response.message) for response in answers] == [(400, MISMATCH)] * len(answers)
        assert (await served.post(MAPS, {"metadata": {"name": "b"}})).body["metadata"]["namespace"] == "shop"

    asyncio.run(test())


def test_a_scale_has_the_name_of_its_object() -> None:
    async def test() -> None:
        served = await Served().started()
        scale = "/apis/apps/v1/namespaces/shop/deployments/d/scale"
        messages = [(await served.put(scale, {"metadata": meta})).message for meta in ({"name": "other"}, {})]
        assert messages == [
            "the name of the object (other) does not match the name on the URL (d)",
            "the name of the object (d based on URL) was undeterminable: name must be provided",
        ]

    asyncio.run(test())


def test_the_local_client_behaves_the_same() -> None:
    async def test() -> None:
        client = (await Served().started()).client()
        made = await client.create(NAMESPACES, {"metadata": {"name": "one", "namespace": "shop"}})
        assert "namespace" not in made["metadata"]
        with pytest.raises(StatusError, match=MISMATCH):
            await client.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "elsewhere"}}, "shop")

    asyncio.run(test())
