"""The reason for which an object does not meet the condition of ``Lab.wait``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import allotment
from allotment.cluster.errors import Unreachable
from allotment.cluster.resources import PODS
from allotment.lab import unmet_conditions
from allotment.model.trees import Tree
from tests.polling import wait_until
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient, refusal

NO_PODS = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
PLAIN: Tree = {"containers": [{"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}]}


@pytest.fixture(scope="module")
def lab() -> Iterator[allotment.Lab]:
    """A node with four GPUs, and a namespace in which no pods are allowed. Each test has objects of other names."""
    with allotment.Lab(fleet="t4-4x-pcie", speed=50) as lab:
        lab.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "full"}})
        lab.apply(NO_PODS, namespace="full")
        lab.wait("serviceaccount/default", namespace="full", timeout=120)
        wait_until(lambda: lab.get("resourcequota", "none", namespace="full").get("status"))
        yield lab


def claim_spec(count: int, **parameters: Any) -> Tree:
    config = {"opaque": {"driver": "gpu.nvidia.com", "parameters": parameters}}
    exactly = {"deviceClassName": "gpu.nvidia.com", "count": count}
    requests = [{"name": "gpu", "exactly": exactly}]
    return {"devices": {"requests": requests, **({"config": [config]} if parameters else {})}}


def claim(name: str, count: int, **parameters: Any) -> Tree:
    spec = claim_spec(count, **parameters)
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": spec}


def template(name: str, count: int) -> Tree:
    tree = claim(name, count)
    return tree | {"kind": "ResourceClaimTemplate", "spec": {"spec": tree["spec"]}}


def gpu_pod(**source: str) -> Tree:
    """The spec of a pod with the claim or the template."""
    main = PLAIN["containers"][0] | {"resources": {"claims": [{"name": "gpu"}]}}
    return {"containers": [main], "resourceClaims": [{"name": "gpu", **source}]}


def pod(name: str, spec: Tree) -> Tree:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def workload(kind: str, name: str, pod_spec: Tree = PLAIN, **spec: Any) -> Tree:
    labels = {"app": name}
    spec["template"] = {"metadata": {"labels": labels}, "spec": pod_spec}
    if kind != "Job":
        spec["selector"] = {"matchLabels": labels}
    group = "batch/v1" if kind == "Job" else "apps/v1"
    return {"apiVersion": group, "kind": kind, "metadata": {"name": name}, "spec": spec}


def reason(lab: allotment.Lab, kind: str, name: str, namespace: str = "default") -> str:
    tree = lab.get(kind, name, namespace=namespace)
    return lab._loop.wait(unmet_conditions.reason(lab.plane.client(), tree["kind"], tree))


def until_reason(lab: allotment.Lab, text: str, kind: str, name: str, namespace: str = "default") -> str:
    """Wait until the reason contains the text; return it."""
    wait_until(lambda: text in reason(lab, kind, name, namespace), lambda: reason(lab, kind, name, namespace))
    return reason(lab, kind, name, namespace)


def test_a_pod_without_devices_has_the_scheduler_s_reason(lab: allotment.Lab) -> None:
    lab.apply([claim("nine", 9), pod("nine", gpu_pod(resourceClaimName="nine"))])
    until_reason(lab, "not scheduled: 9 devices requested", "pod", "nine")
    assert reason(lab, "resourceclaim", "nine") == f"pod nine: {reason(lab, 'pod', 'nine')}"


def test_a_claim_that_no_pod_uses_stays_unallocated(lab: allotment.Lab) -> None:
    lab.apply(claim("unused", 1))
    assert reason(lab, "resourceclaim", "unused") == "no pod uses it; a claim is allocated for its first pod"


def test_a_deployment_has_the_reason_of_its_pod(lab: allotment.Lab) -> None:
    spec = gpu_pod(resourceClaimTemplateName="nine")
    lab.apply([template("nine", 9), workload("Deployment", "web", spec), workload("Deployment", "ready")])
    found = until_reason(lab, "not scheduled: 9 devices requested", "deployment", "web")
    (name,) = (each["metadata"]["name"] for each in lab.list("pod", namespace="default", labels="app=web"))
    assert found.startswith(f"pod {name}: not scheduled: ")
    with pytest.raises(TimeoutError) as error:
        lab.wait("deployment/web", timeout=1)
    assert str(error.value) == f"conditions not met after 1 s:\ndeployment/web: {found}"


def test_some_pods_of_a_workload_are_not_ready(lab: allotment.Lab) -> None:
    spec = gpu_pod(resourceClaimTemplateName="three")
    lab.apply([template("three", 3), workload("StatefulSet", "db", spec, replicas=2)])
    until_reason(lab, "1 of 2 pods are not ready: pod db-1: not scheduled: 3 devices requested", "statefulset", "db")


def test_pods_are_found_through_all_owners(lab: allotment.Lab) -> None:
    (owner,) = lab.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "training"}})
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "training", "uid": owner["metadata"]["uid"]}
    owned = workload("Deployment", "workers", gpu_pod(resourceClaimTemplateName="nine"))
    owned["metadata"]["ownerReferences"] = [reference]
    lab.apply([template("nine", 9), owned])
    assert until_reason(lab, "not scheduled: ", "configmap", "training").startswith("pod workers-")


def test_a_quota_is_the_reason_of_a_workload_without_pods(lab: allotment.Lab) -> None:
    lab.apply([workload("Deployment", "web"), workload("StatefulSet", "db")], namespace="full")
    quota = "exceeded quota: none"
    assert until_reason(lab, quota, "deployment", "web", "full").startswith("ReplicaFailure: pods ")
    assert until_reason(lab, quota, "statefulset", "db", "full").startswith("Create Pod db-0 in StatefulSet db failed")


def test_a_claim_that_cannot_be_prepared_has_the_driver_s_reason(lab: allotment.Lab) -> None:
    sharing = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Longest"}}
    parameters = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": sharing}
    lab.apply([claim("turns", 1, **parameters), pod("turns", gpu_pod(resourceClaimName="turns"))])
    text = 'expected one of "Default", "Long", "Medium", "Short", found "Longest"'
    assert until_reason(lab, text, "pod", "turns").startswith("Failed to prepare dynamic resources: ")
    lab.delete([pod("turns", PLAIN), claim("turns", 1)], timeout=120)


def test_a_container_that_fails_has_its_exit_code(lab: allotment.Lab) -> None:
    failing = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox", "command": ["false"]}]}
    lab.apply([pod("fails", failing), workload("Job", "fails", failing, backoffLimit=0)])
    until_reason(lab, "container main: Error, exit code 1", "pod", "fails")
    until_reason(lab, "Failed: ", "job", "fails")


def test_a_ready_pod_has_only_its_phase(lab: allotment.Lab) -> None:
    lab.apply(pod("ready", PLAIN))
    lab.wait("pod/ready", timeout=120)
    assert reason(lab, "pod", "ready") == "phase Running"


@pytest.mark.parametrize("error", [refusal(403, "Forbidden"), Unreachable("the API server does not respond")])
def test_the_object_s_own_status_is_the_reason_if_its_pods_cannot_be_read(error: Exception) -> None:
    tree: Tree = {
        "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
        "status": {"conditions": [{"type": "Available", "status": "False", "message": "too few replicas"}]},
    }
    client = MemoryClient()
    client.refuse.append(error)
    assert idle.run(unmet_conditions.reason(client, "Deployment", tree)) == "Available: too few replicas"
    assert idle.run(unmet_conditions.reason(client, "Deployment", None)) == "it does not exist"


def test_a_pod_that_is_being_deleted_is_named_last() -> None:
    def owned(name: str, **meta: Any) -> Tree:
        owner = {"apiVersion": "v1", "kind": "Web", "name": "web", "uid": "1"}
        metadata = {"namespace": "shop", "name": name, "uid": name, "ownerReferences": [owner], **meta}
        return {"metadata": metadata, "status": {"phase": "Pending"}}

    async def reasons() -> tuple[str, str]:
        client = MemoryClient()
        client.put(PODS, owned("a", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["example.com/backup"]))
        tree: Tree = {"metadata": {"name": "web", "namespace": "shop", "uid": "1"}}
        alone = await unmet_conditions.reason(client, "Web", tree)
        client.put(PODS, owned("b"))
        return alone, await unmet_conditions.reason(client, "Web", tree)

    assert idle.run(reasons()) == (
        "pod a: is being deleted: finalizer example.com/backup", "2 of 2 pods are not ready: pod b: phase Pending",
    )  # fmt: skip
