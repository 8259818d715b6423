"""The objects that a kubelet can read because its pods use them."""

from __future__ import annotations

import pytest

from allotment.apiserver.access.node_relations import is_related
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.model.trees import Tree

CLAIMS = "resourceclaims.resource.k8s.io"
SLICES = "resourceslices.resource.k8s.io"


def _put(store: SqliteStore, bucket: str, name: str, namespace: str = "", **content: Tree) -> None:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {}), **content.pop("metadata", {})}
    store.put(bucket, namespace, name, {"kind": "K", "apiVersion": "v1", "metadata": metadata, **content})


@pytest.fixture
def store() -> SqliteStore:
    store = SqliteStore.open(None)
    spec = {
        "nodeName": "n1", "serviceAccountName": "robot",
        "volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    }  # fmt: skip
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu"}]}
    _put(store, "pods", "web", "shop", spec=spec, status=status)
    mirror = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    secret = {"nodeName": "n1", "volumes": [{"name": "a", "secret": {"secretName": "stolen"}}]}
    _put(store, "pods", "mirror", "shop", metadata=mirror, spec=secret)
    csi = {"driver": "d", "nodeStageSecretRef": {"name": "stage", "namespace": "storage"}}
    _put(store, "persistentvolumes", "v1", spec={"claimRef": {"namespace": "shop", "name": "data"}, "csi": csi})
    azure = {"secretName": "share"}
    claimed = {"claimRef": {"namespace": "shop", "name": "data"}, "azureFile": azure}
    _put(store, "persistentvolumes", "v2", spec=claimed)
    _put(store, "persistentvolumes", "free", spec={"csi": csi})
    _put(store, SLICES, "s1", spec={"nodeName": "n1"})
    return store


@pytest.mark.parametrize(
    ("bucket", "namespace", "name"),
    [
        ("pods", "shop", "web"),
        ("serviceaccounts", "shop", "robot"),
        ("persistentvolumeclaims", "shop", "data"),
        ("persistentvolumes", "", "v1"),
        ("secrets", "storage", "stage"),
        ("secrets", "shop", "share"),
        (CLAIMS, "shop", "web-gpu"),
        (SLICES, "", "s1"),
    ],
)
def test_objects_of_a_node_are_related_to_it_alone(store: SqliteStore, bucket: str, namespace: str, name: str) -> None:
    assert is_related(store, "n1", bucket, namespace, name)
    assert not is_related(store, "n2", bucket, namespace, name)


@pytest.mark.parametrize(
    ("bucket", "namespace", "name"),
    [
        ("pods", "shop", "ghost"),
        ("secrets", "shop", "stolen"),
        ("secrets", "shop", "stage"),
        ("serviceaccounts", "other", "robot"),
        ("persistentvolumes", "", "free"),
        (CLAIMS, "shop", "gpu"),
    ],
)
def test_others_are_not_related(store: SqliteStore, bucket: str, namespace: str, name: str) -> None:
    assert not is_related(store, "n1", bucket, namespace, name)
