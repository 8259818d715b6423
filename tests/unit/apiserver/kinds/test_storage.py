"""Claims and volumes get their defaults and finalizers, and may only be changed as in Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import NOW, Shelf, created, updated, write

CLASSES = "storageclasses.storage.k8s.io"
HOSTNAME = "kubernetes.io/hostname"
FIXED = (
    'persistentvolumeclaims "data" is forbidden: only dynamically provisioned pvc can be resized and the storageclass '
    "that provisions the pvc must support resize"
)


def claim(size: str = "1Gi", **spec: Any) -> Tree:
    requests = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": requests, "volumeMode": "Filesystem", **spec}
    return {"metadata": {"name": "data", "namespace": "ns"}, "spec": spec}


def volume(**spec: Any) -> Tree:
    capacity = {"storage": "1Gi"}
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": capacity, "volumeMode": "Filesystem", **spec}
    return {"metadata": {"name": "disk"}, "spec": spec}


def storage_class(name: str, created_at: str = NOW, *, default: str = "true", **more: Any) -> tuple[str, Tree]:
    annotations = {"storageclass.kubernetes.io/is-default-class": default}
    metadata = {"name": name, "annotations": annotations, "creationTimestamp": created_at}
    return CLASSES, {"metadata": metadata, "provisioner": "example.com/disks", **more}


def on(node: str) -> Tree:
    rule = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}


def test_new_objects_are_protected_and_pending() -> None:
    result, errors = created("persistentvolumeclaims", claim(), write())
    assert errors == []
    assert result["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert result["status"] == {"phase": "Pending"}
    result, errors = created("persistentvolumes", volume(hostPath={"path": "/srv"}), write(namespace=""))
    assert errors == []
    assert result["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert result["status"] == {"phase": "Pending", "lastPhaseTransitionTime": NOW}


def test_plugins_that_are_disabled_do_nothing() -> None:
    shelf = Shelf([storage_class("fast")])
    disabled = frozenset({"DefaultStorageClass", "StorageObjectInUseProtection"})
    result, _ = created("persistentvolumeclaims", claim(), write(shelf)._replace(disabled_plugins=disabled))
    assert "finalizers" not in result["metadata"]
    assert "storageClassName" not in result["spec"]


@pytest.mark.parametrize(
    ("spec", "expected"), [({}, "new"), ({"storageClassName": ""}, ""), ({"storageClassName": "old"}, "old")]
)
def test_claim_without_class_gets_the_newest_default_class(spec: Tree, expected: str) -> None:
    classes = [
        storage_class("new", "2026-01-02T00:00:00Z"),
        storage_class("old", "2026-01-01T00:00:00Z"),
        storage_class("other", "2026-01-03T00:00:00Z", default="false"),
    ]
    result, _ = created("persistentvolumeclaims", claim(**spec), write(Shelf(classes)))
    assert result["spec"]["storageClassName"] == expected


def test_claim_may_get_its_class_and_volume_once() -> None:
    changes = {"storageClassName": "fast", "volumeName": "disk"}
    assert updated("persistentvolumeclaims", claim(**changes), claim(), write())[1] == []
    other = claim(**{**changes, "storageClassName": "slow"})
    assert updated("persistentvolumeclaims", other, claim(**changes), write())[1] != []


def bound(size: str, **spec: Any) -> Tree:
    status = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    return {**claim(size, volumeName="disk", **spec), "status": status}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (claim(), claim("2Gi"), ""),
        (
            bound("1Gi", storageClassName="fixed"), bound("2Gi", storageClassName="fixed"),
            FIXED,
        ),
        (bound("1Gi", storageClassName="growing"), bound("2Gi", storageClassName="growing"), ""),
    ],
    ids=["pending", "fixed", "growing"],
)  # fmt: skip
def test_claim_grows_if_its_class_allows_it(old: Tree, new: Tree, message: str) -> None:
    shelf = Shelf([storage_class("fixed"), storage_class("growing", allowVolumeExpansion=True)])
    if message:
        with pytest.raises(StatusError) as caught:
            updated("persistentvolumeclaims", new, old, write(shelf))
        assert str(caught.value) == message
    else:
        errors = updated("persistentvolumeclaims", new, old, write(shelf))[1]
        assert bool(errors) == ("status" not in old)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"local": {"path": "/p"}}, "spec.nodeAffinity: Required value: Local volume requires node affinity"),
        (
            {"hostPath": {"path": "/"}, "persistentVolumeReclaimPolicy": "Recycle"},
            "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
        ),
    ],
    ids=["local", "root"],
)
def test_volumes_that_are_refused(spec: Tree, message: str) -> None:
    assert created("persistentvolumes", volume(**spec), write(namespace=""))[1] == [message]


def test_nodes_of_a_volume_do_not_change() -> None:
    old, new = (volume(local={"path": "/p"}, nodeAffinity=on(name)) for name in ("one", "two"))
    (message,) = updated("persistentvolumes", new, old, write(namespace=""))[1]
    value = (
        '{"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"kubernetes.io/hostname","Operator":"In",'
        '"Values":["two"]}],"MatchFields":null}]}}'
    )
    expected = "field is immutable, except for updating from beta label to GA"
    assert message == f"nodeAffinity: Invalid value: {value}: {expected}"
    share = {"server": "s", "path": "/p"}
    free, later = volume(nfs=share), volume(nfs=share, nodeAffinity=on("one"))
    assert updated("persistentvolumes", later, free, write(namespace=""))[1] == []


def test_time_of_a_phase_is_that_of_its_change() -> None:
    old = {**volume(hostPath={"path": "/p"}), "status": {"phase": "Pending", "lastPhaseTransitionTime": "earlier"}}
    new = {**old, "status": {**old["status"], "phase": "Available"}}
    result, _ = updated("persistentvolumes", new, old, write(namespace="", subresource="status"))
    assert result["status"] == {"phase": "Available", "lastPhaseTransitionTime": NOW}
