"""The autoscaler and Kubernetes' own kube-scheduler: what is bought is used by those for whom it was bought.

kube-scheduler and kube-controller-manager are unmodified, and work in a lab that has none of its own.
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
from tests.lab.scaled import running, until

SCHEDULER, MANAGER = "kube-scheduler", "kube-controller-manager"
_INSTEAD = {SCHEDULER: "scheduler", MANAGER: "controllers"}
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
    """A lab with an autoscaler and no machine, in which programs of Kubernetes work instead of ours."""
    without = [_INSTEAD[name] for name in kubernetes]
    # Minutes of a machine that has much to do are hours of such a lab, and nothing is given up for that.
    chosen = {"plan_seconds": inf, "consolidation": "never", "registration": 100_000.0, **more}
    scaled = Autoscale(types_of(types.split(",")), parse_faults(faults), **chosen)
    with ExitStack() as stack:
        running = stack.enter_context(Lab(fleet="", autoscale=scaled, speed=5, tls=True, without=without))
        for name in kubernetes:
            output = stack.enter_context((folder / f"{name}.log").open("wb"))
            flags = (f"--kubeconfig={running.kubeconfig}", "--secure-port=0", "--leader-elect=false")
            process = subprocess.Popen([paths[name], *flags], stdout=output, stderr=output, cwd=folder)
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield running


def told(cluster: Lab, reason: str, least: int) -> list[Tree]:
    """The events of a reason, once there are so many: they are written when there is time."""

    def there() -> list[Tree] | None:
        events = [one for one in cluster.list("events") if one["reason"] == reason]
        return events if len(events) >= least else None

    found: list[Tree] = until(there, cluster)
    return found


def workload(name: str, replicas: int, expression: str = "", count: int = 1) -> list[Tree]:
    """A Deployment whose pods have so many GPUs each."""
    asked: Tree = {"deviceClassName": "gpu.nvidia.com", "count": count}
    if expression:
        asked["selectors"] = [{"cel": {"expression": expression}}]
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": name}]}
    return [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name},
         "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": asked}]}}}},
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
def test_the_cases_of_the_article_end_running_on_the_planned_node(
    tmp_path: Path, paths: dict[str, str], example: str, pods: int, form: str
) -> None:
    with lab(tmp_path, paths) as cluster:
        cluster.apply(EXAMPLES / example)
        found = running(cluster, pods)
        (node,) = cluster.list("nodes")
        assert node["metadata"]["annotations"]["allotment.dev/hardware"] == form
        assert {pod["spec"]["nodeName"] for pod in found} == {node["metadata"]["name"]}
        name = node["metadata"]["name"]
        until(lambda: not cluster.get("node", name)["spec"].get("taints"), cluster)  # it was kept for them
        (bound, *_) = told(cluster, "Scheduled", pods)
        assert bound["reportingComponent"] == "default-scheduler"


def test_claims_that_kubernetes_makes_from_templates_are_bought_for(tmp_path: Path, paths: dict[str, str]) -> None:
    """Pods of a Deployment, claims of a template: kube-controller-manager makes both, kube-scheduler serves them."""
    with lab(tmp_path, paths, types="aws", kubernetes=(SCHEDULER, MANAGER)) as cluster:
        cluster.apply(workload("trainer", 2, count=2))
        pods = running(cluster, 2)
        claims = cluster.list("resourceclaims")
        assert {one["metadata"]["ownerReferences"][0]["name"] for one in claims} == {
            one["metadata"]["name"] for one in pods
        }
        managers = {one["manager"] for claim in claims for one in claim["metadata"]["managedFields"]}
        assert managers - {"gpu.nvidia.com"} == {SCHEDULER, MANAGER}  # and the driver, which tells of its devices
        events = told(cluster, "TriggeredScaleUp", 2)
        ordered = {one["involvedObject"]["name"]: one["message"].rpartition(" as node ")[2] for one in events}
        assert ordered == {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in pods}


def test_many_machines_of_one_plan_serve_whom_they_were_bought_for(tmp_path: Path, paths: dict[str, str]) -> None:
    """Any GPU would do for some of the pods, and each is tried when the first node opens: nothing is bought twice."""
    ampere = 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'
    with lab(tmp_path, paths, types="aws") as cluster:
        cluster.apply([*workload("any", 4), *workload("ampere", 3, ampere), *workload("four", 1, ampere, count=4)])
        pods = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in running(cluster, 8)}
        events = told(cluster, "TriggeredScaleUp", 8)
        ordered = {one["involvedObject"]["name"]: one["message"].rpartition(" as node ")[2] for one in events}
        assert len(events) == 8
        assert ordered == pods
        assert set(pods.values()) == {node["metadata"]["name"] for node in cluster.list("nodes")}


def test_a_node_that_opens_before_the_others_is_not_taken_by_those_who_wait_for_them(
    tmp_path: Path, paths: dict[str, str]
) -> None:
    """Any GPU would do for most pods, whose machines are slow; one needs the GPU that is there first."""
    ampere = 'device.attributes["gpu.nvidia.com"].architecture == "Ampere"'
    with lab(tmp_path, paths, "aws/g4dn.*=slow:30", types="aws", together=0.0) as cluster:
        cluster.apply([*workload("any", 5), *workload("ampere", 1, ampere)])
        pods = running(cluster, 6)
        assert {pod["spec"]["nodeName"][:3] for pod in pods if pod["metadata"]["labels"]["app"] == "any"} == {"g4d"}
