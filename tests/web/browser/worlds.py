"""A cluster with some of everything that the page shows: MIG devices, partitions, a cordon, teams, pending pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from allotment.api.cluster import Cluster
from allotment.model.trees import manifest_of
from allotment.watched.cluster import view_of

#: Names that would do harm if a page interpreted them.
MARKUP: Final = '<img src=x onerror="document.title=1">\u001b[31m'
#: A pod and its template; ``CLASS`` stands for the class that it requests.
QUESTION: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: candidate}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: candidate}]
  containers: [{name: main, image: none, resources: {claims: [{name: gpu}]}}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: candidate}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: CLASS}}]}}}
"""
_MACHINES: Final = ("dgx=dgx-a100-40gb/dynamic-mig", "t4=t4-4x-pcie:2", "mi=mi300x-8x-oam/cpx", "h100=8xh100")


class Holder(NamedTuple):
    """A pod of a Deployment with a claim on devices of its node."""

    namespace: str
    workload: str
    node: str
    devices: tuple[str, ...]
    driver: str = "gpu.nvidia.com"


HOLDERS: Final = (
    Holder("team-a", "trainer", "dgx", ("gpu-0-mig-3g20gb-9-0",)),
    Holder("team-a", "trainer", "dgx", ("gpu-1-mig-3g20gb-9-4",)),
    Holder("team-a", "notebook", "dgx", ("gpu-0-mig-1g5gb-19-4",)),
    Holder("team-b", "notebook", "dgx", ("gpu-2-mig-2g10gb-14-0",)),
    Holder("team-b", "embedder", "t4-1", ("gpu-0", "gpu-1")),
    Holder("team-b", "embedder", "t4-2", ("gpu-3",)),
    Holder("research", "solver", "h100", tuple(f"gpu-{index}" for index in range(8))),
    Holder("research", "finetune", "mi", ("gpu-1-128", "gpu-2-129"), "gpu.amd.com"),
)


def team_cluster(*more: dict[str, Any]) -> Cluster:
    """Return the cluster, with further objects."""
    machines = view_of(Cluster.fleet(*_MACHINES))
    trees = [manifest_of(value) for value in machines.inputs.cluster]
    for tree in trees:
        if tree["kind"] == "Node" and tree["metadata"]["name"] == "t4-2":
            tree["spec"] = {"unschedulable": True}
    trees += [tree for number, held in enumerate(HOLDERS) for tree in _objects(number, held)]
    return Cluster.snapshot([*trees, *_pending(), *more])


def _objects(number: int, held: Holder) -> Iterator[dict[str, Any]]:
    pod = f"{held.workload}-{number}"
    uid = f"{pod}-uid"
    results = [
        {"request": "gpu", "driver": held.driver, "pool": held.node, "device": device} for device in held.devices
    ]
    claim_class = held.driver if "mig" not in held.devices[0] else "mig.nvidia.com"
    devices: dict[str, Any] = {
        "requests": [
            {"name": "gpu", "exactly": {"deviceClassName": claim_class, "allocationMode": "ExactCount",
                                        "count": len(results)}}
        ]
    }  # fmt: skip
    yield {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": f"{pod}-gpu", "namespace": held.namespace},
        "spec": {"devices": devices},
        "status": {
            "allocation": {"devices": {"results": results}, "nodeSelector": _only(held.node)},
            "reservedFor": [{"resource": "pods", "name": pod, "uid": uid}],
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod,
            "namespace": held.namespace,
            "uid": uid,
            "creationTimestamp": "2026-11-01T08:00:00Z",
            "labels": {"app": held.workload},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": held.workload, "uid": f"{held.workload}-uid",
                 "controller": True}
            ],
        },
        "spec": {**_spec("resourceClaimName", f"{pod}-gpu"), "nodeName": held.node},
        "status": {"phase": "Running"},
    }  # fmt: skip


def _only(node: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def _spec(field: str, name: str) -> dict[str, Any]:
    container = {"name": "main", "image": "registry.k8s.io/pause:3.10", "resources": {"claims": [{"name": "gpu"}]}}
    return {"resourceClaims": [{"name": "gpu", field: name}], "containers": [container]}


def _pending() -> Iterator[dict[str, Any]]:
    for namespace, name, device_class, expression in (
        ("team-a", "big", "gpu.nvidia.com", 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("80G")) >= 0'),
        ("team-b", "typo", "gpu.nvidia.con", "true"),
    ):
        exactly = {"deviceClassName": device_class, "selectors": [{"cel": {"expression": expression}}]}
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
        }
        for replica in range(3):
            yield pending_pod(namespace, f"{name}-{replica}", name)


def pending_pod(namespace: str, name: str, template: str) -> dict[str, Any]:
    """Return a pending pod with a claim from a template."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "creationTimestamp": "2026-11-02T08:00:00Z"},
        "spec": _spec("resourceClaimTemplateName", template),
    }
