"""The autoscaler with Kubernetes' own kube-scheduler: ordered machines are used by the pods they were ordered for.

kube-scheduler and kube-controller-manager are unmodified and run against a lab that has none of its own.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from typing import Any

import pytest

from allotment.autoscaler.providers.faults import parse_faults
from allotment.lab.autoscaling import Autoscale, types_of
from allotment.lab.lab import Lab
from allotment.model.trees import Tree
from bench.kube_programs import selected_release
from tests.lab.autoscaled_pods import wait_for_lab, wait_for_running

SCHEDULER, MANAGER = "kube-scheduler", "kube-controller-manager"
_REPLACED = {SCHEDULER: "scheduler", MANAGER: "controllers"}
EXAMPLES = Path(__file__).parents[2] / "src" / "allotment" / "examples"


@contextmanager
def lab(
    folder: Path,
    paths: dict[str, str],
    *faults: str,
    types: str = "aws,gcp",
    kubernetes: Sequence[str] = (SCHEDULER,),
    **more: Any,
) -> Iterator[Lab]:
    """A lab with an autoscaler and no machines, in which Kubernetes' programs replace Allotment's."""
    without = [_REPLACED[name] for name in kubernetes]
    # On a loaded machine, minutes of real time are hours in such a lab, so timeouts are long.
    chosen = {"plan_seconds": inf, "consolidation": "never", "registration": 100_000.0, **more}
    scaled = Autoscale(types_of(types.split(",")), parse_faults(faults), **chosen)
    with ExitStack() as stack:
        running = stack.enter_context(
            Lab(fleet="", kube=selected_release(), autoscale=scaled, speed=5, tls=True, without=without)
        )
        for name in kubernetes:
            output = stack.enter_context((folder / f"{name}.log").open("wb"))
            flags = (f"--kubeconfig={running.kubeconfig}", "--secure-port=0", "--leader-elect=false")
            process = subprocess.Popen([paths[name], *flags], stdout=output, stderr=output, cwd=folder)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield running


def events_with_reason(cluster: Lab, reason: str, least: int) -> list[Tree]:
    """The events with a reason, once there are at least ``least``: they are written with delay."""

    def there() -> list[Tree] | None:
        events = [item for item in cluster.list("events") if item["reason"] == reason]
        return events if len(events) >= least else None

    found: list[Tree] = wait_for_lab(there, cluster)
    return found


def workload(name: str, replicas: int, expression: str = "", count: int = 1) -> list[Tree]:
    """A Deployment whose pods request ``count`` GPUs each."""
    exactly: Tree = {"deviceClassName": "gpu.nvidia.com", "count": count}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
         "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
         "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
                  "template": {"metadata": {"labels": {"app": name}}, "spec": spec}}},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("example", "pods", "form"),
    [
        ("01-one-ampere-gpu.yaml", 1, "a10g"),
        ("02-time-slicing.yaml", 3, "a10g"),
        ("03-mps.yaml", 3, "a10g"),
        ("04-seven-mig-slices.yaml", 7, "a100-40gb/static-mig=1g.5gb:7"),
    ],
)
def test_the_articles_examples_run_on_the_planned_node(
    tmp_path: Path, paths: dict[str, str], example: str, pods: int, form: str
) -> None:
    with lab(tmp_path, paths) as cluster:
        cluster.apply(EXAMPLES / example)
        found = wait_for_running(cluster, pods)
        (node,) = cluster.list("nodes")
        assert node["metadata"]["annotations"]["allotment.dev/hardware"] == form
        assert {pod["spec"]["nodeName"] for pod in found} == {node["metadata"]["name"]}
        name = node["metadata"]["name"]
        # the allocation stays reserved for the pod
        wait_for_lab(lambda: not cluster.get("node", name)["spec"].get("taints"), cluster)
        (bound, *_) = events_with_reason(cluster, "Scheduled", pods)
        assert bound["reportingComponent"] == "default-scheduler"


def test_machines_are_provisioned_for_claims_that_kubernetes_creates_from_templates(
    tmp_path: Path, paths: dict[str, str]
) -> None:
    """kube-controller-manager creates the Deployment's pods and the template's claims; kube-scheduler places the
    pods."""
    with lab(tmp_path, paths, types="aws", kubernetes=(SCHEDULER, MANAGER)) as cluster:
        cluster.apply(workload("trainer", 2, count=2))
        pods = wait_for_running(cluster, 2)
        claims = cluster.list("resourceclaims")
        assert {claim["metadata"]["ownerReferences"][0]["name"] for claim in claims} == {
            pod["metadata"]["name"] for pod in pods
        }
        managers = {field["manager"] for claim in claims for field in claim["metadata"]["managedFields"]}
        # and the driver, which reports its devices in the claim's status
        assert managers - {"gpu.nvidia.com"} == {SCHEDULER, MANAGER}
        events = events_with_reason(cluster, "TriggeredScaleUp", 2)
        ordered = {event["involvedObject"]["name"]: event["message"].rpartition(" as node ")[2] for event in events}
        assert ordered == {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}


def test_machines_of_one_plan_serve_the_pods_they_were_ordered_for(tmp_path: Path, paths: dict[str, str]) -> None:
    """Some of the pods accept any GPU and are tried when the first node becomes schedulable: no machine is ordered
    twice."""
    ampere = 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'
    with lab(tmp_path, paths, types="aws") as cluster:
        cluster.apply([*workload("any", 4), *workload("ampere", 3, ampere), *workload("four", 1, ampere, count=4)])
        pods = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in wait_for_running(cluster, 8)}
        events = events_with_reason(cluster, "TriggeredScaleUp", 8)
        ordered = {event["involvedObject"]["name"]: event["message"].rpartition(" as node ")[2] for event in events}
        assert len(events) == 8
        assert ordered == pods
        assert set(pods.values()) == {node["metadata"]["name"] for node in cluster.list("nodes")}


def test_a_node_that_is_ready_early_is_kept_for_its_planned_pod(tmp_path: Path, paths: dict[str, str]) -> None:
    """Most pods accept any GPU, but their machines are slow; one needs the GPU that is available first."""
    ampere = 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'
    with lab(tmp_path, paths, "aws/g4dn.*=slow:30", types="aws", together=0.0) as cluster:
        cluster.apply([*workload("any", 5), *workload("ampere", 1, ampere)])
        pods = wait_for_running(cluster, 6)
        assert {pod["spec"]["nodeName"][:3] for pod in pods if pod["metadata"]["labels"]["app"] == "any"} == {"g4d"}
