"""Kubernetes' own kube-scheduler and kube-controller-manager, unmodified, do their work in a lab that has neither.

They speak protobuf, as they do unless told otherwise.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from allotment import Lab
from allotment.apiserver.api import Api
from allotment.apiserver.http_messages import Answer, Request, Upgrade
from allotment.model.trees import Tree
from tests.waiting import wait_until

PATIENCE = 300.0
PROTOBUF = "application/vnd.kubernetes.protobuf"
#: What a program that cannot follow a kind, or read an answer, writes in its log.
COMPLAINTS = ("Failed to watch", "failed to list", "unable to decode", "Failed to decode", "no kind", "panic", "fatal")
TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  containers: [{name: main, image: cuda, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: serving}
spec:
  replicas: 2
  selector: {matchLabels: {app: serving}}
  template:
    metadata: {labels: {app: serving}}
    spec:
      containers: [{name: main, image: cuda, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
"""
WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, plural: widgets}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
"""


class Asked(NamedTuple):
    """One request of a program, and how it was answered."""

    program: str
    method: str
    path: str
    code: int
    media: str


class Cluster(NamedTuple):
    """A lab whose programs are Kubernetes' own."""

    lab: Lab
    asked: list[Asked]
    logs: dict[str, Path]


def _recording(asked: list[Asked], answer_of: Callable[[Api, Request], Any]) -> Callable[[Api, Request], Any]:
    async def recorded(api: Api, request: Request) -> Answer:
        answer: Answer = await answer_of(api, request)
        if not isinstance(answer, Upgrade):
            program = request.headers.get("user-agent", "").partition("/")[0]
            media = dict(answer.headers).get("content-type", "")
            asked.append(Asked(program, request.method, f"{request.path}?{request.query}", answer.code, media))
        return answer

    return recorded


@pytest.fixture(scope="module")
def cluster(paths: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A lab without a scheduler and controllers of its own, and the real ones; their logs are read at the end."""
    # Who could not renew for ten seconds would end.
    leading = ("--leader-elect-lease-duration=600s", "--leader-elect-renew-deadline=500s",
               "--leader-elect-retry-period=1s")  # fmt: skip
    commands = {name: [paths[name], *leading] for name in ("kube-controller-manager", "kube-scheduler")}
    folder = tmp_path_factory.mktemp("kubernetes")
    asked: list[Asked] = []
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(Api, "__call__", _recording(asked, Api.__call__))
        lab = Lab(fleet="dgx-a100-40gb:1,t4-4x-pcie:1", tls=True, speed=10, without=("scheduler", "controllers"))
        stack.enter_context(lab)
        lab.apply(WIDGETS)  # later, the garbage collector would look for new kinds but every 30 seconds
        logs = {name: folder / name for name in commands}
        for name, command in commands.items():
            output = stack.enter_context(logs[name].open("wb"))
            flags = (f"--kubeconfig={lab.kubeconfig}", "--secure-port=0")
            process = subprocess.Popen([*command, *flags], stdout=output, stderr=output, cwd=folder)
            stack.callback(_stop, process)
        yield Cluster(lab, asked, logs)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # kindly asked, they let go of their leases first, which nobody waits for
    process.wait()


def test_a_pod_gets_its_claim_from_the_real_scheduler(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.apply(TEMPLATE)
    lab.apply(POD % "train")
    (pod,) = lab.wait("pod/train", timeout=PATIENCE)
    (named,) = pod["status"]["resourceClaimStatuses"]
    claim = lab.get("resourceclaim", named["resourceClaimName"])
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["driver"] == "gpu.nvidia.com"
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "train", "uid": pod["metadata"]["uid"]}]
    assert pod["spec"]["nodeName"] == result["pool"]
    managers = {entry["manager"] for entry in claim["metadata"]["managedFields"]}
    # The device's driver tells of it, too, now or a moment later.
    assert managers - {"gpu.nvidia.com"} == {"kube-scheduler", "kube-controller-manager"}
    wait_until(lambda: any(event["reason"] == "Scheduled" for event in lab.list("event", namespace="default")))
    (event,) = (event for event in lab.list("event", namespace="default") if event["reason"] == "Scheduled")
    assert event["reportingComponent"] == "default-scheduler"


def test_a_deployment_comes_and_goes_with_all_that_it_owns(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.apply([TEMPLATE, DEPLOYMENT])
    lab.wait("deployment/serving", timeout=PATIENCE)
    owned = {tree["metadata"]["name"] for tree in lab.list("pod", labels="app=serving")}
    assert len(owned) == 2
    claims = [tree for tree in lab.list("resourceclaim") if _owner(tree) in owned]
    assert len(claims) == 2
    serving = lab.get("deployment", "serving")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "serving", "uid": serving["metadata"]["uid"]}
    metadata = {"name": "w", "namespace": "default", "ownerReferences": [owner]}
    lab.apply({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata})
    lab.delete("deployment", "serving")
    wait_until(lambda: not lab.list("replicaset") and not lab.list("pod", labels="app=serving"))
    wait_until(lambda: not any(_owner(tree) in owned for tree in lab.list("resourceclaim")))
    # The garbage collector knows users' kinds by their metadata alone, which comes in protobuf too.
    wait_until(lambda: not lab.list("widget"))


def _owner(tree: Tree) -> str:
    (reference,) = tree["metadata"]["ownerReferences"]
    return str(reference["name"])


def test_the_real_scheduler_says_why_a_pod_waits(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.apply(TEMPLATE.replace("one-gpu", "all-of-them").replace("gpu.nvidia.com}", "gpu.nvidia.com, count: 9}"))
    lab.apply((POD % "greedy").replace("one-gpu", "all-of-them"))

    def told(tree: Tree) -> bool:
        return any(condition["status"] == "False" for condition in tree["status"].get("conditions", ()))

    (pod,) = lab.wait("pod/greedy", until=told, timeout=PATIENCE)
    (condition,) = (item for item in pod["status"]["conditions"] if item["type"] == "PodScheduled")
    assert condition["reason"] == "Unschedulable"
    assert "cannot allocate all claims" in condition["message"]
    lab.delete("pod", "greedy")


def test_the_programs_had_nothing_to_complain_of(cluster: Cluster) -> None:
    for name, log in cluster.logs.items():
        complaints = [
            line for line in log.read_text(errors="replace").splitlines() if any(x in line for x in COMPLAINTS)
        ]
        assert complaints == [], name
    programs = {"kube-scheduler", "kube-controller-manager"}
    mine = [asked for asked in cluster.asked if asked.program in programs]
    assert {asked.program for asked in mine} == programs
    # Objects that are not there yet or any more, and writes that came second, are everyday; nothing else is refused.
    refused = Counter(
        (asked.code, asked.method, asked.path) for asked in mine if asked.code not in (200, 201, 404, 409)
    )
    assert refused == {}
    read = [asked for asked in mine if asked.method == "GET" and asked.code == 200 and "/api" in asked.path]
    plain = {asked.path for asked in read if not asked.media.startswith(PROTOBUF)}
    # Documents about the API are JSON for everybody, as are whole objects of users' kinds.
    assert {path for path in plain if "watch=" in path or "limit=" in path} == set()
    assert sum(asked.media == f"{PROTOBUF};stream=watch" for asked in read) > 50
