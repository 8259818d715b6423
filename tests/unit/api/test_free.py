"""``free`` of described hardware, snapshots and manifests."""

from __future__ import annotations

from typing import Any

import pytest

import allotment
from allotment import Cluster, InputError
from allotment.model.core import Toleration
from allotment.model.trees import manifest_of

CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "held", "namespace": "ml"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
    "status": {
        "allocation": {
            "devices": {"results": [{"request": "gpu", "driver": "gpu.nvidia.com", "pool": "t4-1", "device": "gpu-0"}]}
        }
    },
}


def trees(spec: str) -> list[dict[str, Any]]:
    return [manifest_of(value) for value in Cluster.fleet(spec).read().cluster]


def test_described_hardware_is_free() -> None:
    report = allotment.free(Cluster.fleet("2xt4"))
    assert (report.count(), report.count("free"), report.next) == (2, 2, "")
    assert report.to_dict().keys() == {"nodes"}


def test_who_uses_a_device_is_the_next_step() -> None:
    snapshot = [*trees("t4"), CLAIM]
    report = allotment.free(Cluster.snapshot(snapshot))
    assert report.nodes[0].devices[0].holders[0].claim == "ml/held"
    assert report.next == "kubectl describe resourceclaim held -n ml"
    assert report.to_dict()["next"] == report.next
    assert allotment.free(objects=snapshot).count("in-use") == 1


def test_a_snapshot_without_devices_has_notes_and_a_next_step() -> None:
    report = allotment.free(Cluster.snapshot({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}))
    assert report.count() == 0
    assert report.next == ""  # a dict cannot be read again by a command


@pytest.mark.parametrize("toleration", ["dedicated", "dedicated=ml:NoSchedule", Toleration(operator="Exists")])
def test_devices_behind_a_tolerated_taint_are_free(toleration: str | Toleration) -> None:
    snapshot = trees("t4")
    (node,) = (tree for tree in snapshot if tree["kind"] == "Node")
    node["spec"] = {"taints": [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]}
    cluster = Cluster.snapshot(snapshot)
    assert allotment.free(cluster).count("free") == 0
    assert allotment.free(cluster, tolerations=[toleration]).count("free") == 1
    assert allotment.free(cluster, tolerations="dedicated").count("free") == 1


def test_an_invalid_toleration_names_the_argument() -> None:
    with pytest.raises(InputError, match=r"^tolerations: expected KEY\[=VALUE\]\[:EFFECT\]"):
        allotment.free(Cluster.fleet("t4"), tolerations=["a:Never"])
