"""Claims, volumes and classes of the tests."""

from __future__ import annotations

from typing import Any

from allotment.cluster.resources import VOLUME_CLAIMS, VOLUMES
from allotment.model.trees import Tree
from tests.unit.controllers.world import NAMESPACE, World


def claim(name: str = "data", size: str = "1Gi", *, storage_class: str | None = "", **spec: Any) -> Tree:
    """A claim without class; ``storage_class`` None leaves the class open."""
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    if storage_class is not None:
        spec["storageClassName"] = storage_class
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec, "status": {"phase": "Pending"}}


def volume(name: str = "disk", size: str = "1Gi", *, storage_class: str = "", **spec: Any) -> Tree:
    """A volume created by hand, which is kept when it is released."""
    spec = {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": size}, "hostPath": {"path": "/srv"},
        "persistentVolumeReclaimPolicy": "Retain", "storageClassName": storage_class, **spec,
    }  # fmt: skip
    return {"metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending"}}


def storage_class(name: str, provisioner: str = "example.com/disks", *, default: bool = False, **more: Any) -> Tree:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"} if default else {}
    return {
        "metadata": {"name": name, "annotations": annotations}, "provisioner": provisioner,
        "volumeBindingMode": "Immediate", "reclaimPolicy": "Delete", **more,
    }  # fmt: skip


def claim_phase(cluster: World, name: str = "data") -> str:
    return str(cluster.get(VOLUME_CLAIMS, name)["status"].get("phase"))


def volume_phase(cluster: World, name: str = "disk") -> str:
    return str(cluster.get(VOLUMES, name)["status"].get("phase"))


def bound_volume(cluster: World, name: str = "data") -> str:
    """The volume that a claim is bound to; empty if it is not bound."""
    tree = cluster.get(VOLUME_CLAIMS, name)
    return str(tree["spec"].get("volumeName", "")) if tree["status"].get("phase") == "Bound" else ""
