"""Kubernetes' unmodified kube-scheduler and kube-controller-manager run against a lab that has neither.

They use protobuf, their default.
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
from allotment.apiserver.http_messages import AnyResponse, Request, Upgrade
from allotment.model.trees import Tree
from tests.polling import wait_until

pytestmark = pytest.mark.every_release

TIMEOUT_SECONDS = 300.0
PROTOBUF = "application/vnd.kubernetes.protobuf"
#: Log messages of a program that cannot watch a kind or decode an answer.
ERROR_MESSAGES = (
    "Failed to watch",
    "failed to list",
    "unable to decode",
    "Failed to decode",
    "no kind",
    "panic",
    "fatal",
)
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


class RecordedRequest(NamedTuple):
    """One request of a program, and the answer's code and media type."""

    program: str
    method: str
    path: str
    code: int
    media: str


class Cluster(NamedTuple):
    """A lab whose programs are Kubernetes' own."""

    lab: Lab
    requests: list[RecordedRequest]
    logs: dict[str, Path]


def _record(requests: list[RecordedRequest], answer_of: Callable[[Api, Request], Any]) -> Callable[[Api, Request], Any]:
    async def recorded(api: Api, request: Request) -> AnyResponse:
        answer: AnyResponse = await answer_of(api, request)
        if not isinstance(answer, Upgrade):
            program = request.headers.get("user-agent", "").partition("/")[0]
            media = dict(answer.headers).get("content-type", "")
            requests.append(
                RecordedRequest(program, request.method, f"{request.path}?{request.query}", answer.code, media)
            )
        return answer

    return recorded


@pytest.fixture(scope="module")
def cluster(paths: dict[str, str], release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A lab without a scheduler and controllers of its own, with Kubernetes'; the last test reads their logs."""
    # A program that cannot renew its lease for ten seconds would end.
    leading = ("--leader-elect-lease-duration=600s", "--leader-elect-renew-deadline=500s",
               "--leader-elect-retry-period=1s")  # fmt: skip
    commands = {name: [paths[name], *leading] for name in ("kube-controller-manager", "kube-scheduler")}
    folder = tmp_path_factory.mktemp("kubernetes")
    requests: list[RecordedRequest] = []
    with ExitStack() as stack:
        patched = stack.enter_context(pytest.MonkeyPatch.context())
        patched.setattr(Api, "__call__", _record(requests, Api.__call__))
        lab = Lab(
            fleet="dgx-a100-40gb:1,t4-4x-pcie:1", kube=release, tls=True, speed=10, without=("scheduler", "controllers")
        )
        stack.enter_context(lab)
        lab.apply(WIDGETS)  # by default, the garbage collector discovers new kinds only every 30 seconds
        logs = {name: folder / name for name in commands}
        for name, command in commands.items():
            output = stack.enter_context(logs[name].open("wb"))
            flags = (f"--kubeconfig={lab.kubeconfig}", "--secure-port=0")
            process = subprocess.Popen([*command, *flags], stdout=output, stderr=output, cwd=folder)
            stack.callback(_stop, process)
        yield Cluster(lab, requests, logs)


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # on SIGTERM they would release their leases first, for which the tests need not wait
    process.wait()


def test_kube_scheduler_allocates_the_claim_of_a_pod(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.apply(TEMPLATE)
    lab.apply(POD % "train")
    (pod,) = lab.wait("pod/train", timeout=TIMEOUT_SECONDS)
    (named,) = pod["status"]["resourceClaimStatuses"]
    claim = lab.get("resourceclaim", named["resourceClaimName"])
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/pod-claim-name"] == "gpu"
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert result["driver"] == "gpu.nvidia.com"
    assert claim["status"]["reservedFor"] == [{"resource": "pods", "name": "train", "uid": pod["metadata"]["uid"]}]
    assert pod["spec"]["nodeName"] == result["pool"]
    managers = {entry["manager"] for entry in claim["metadata"]["managedFields"]}
    # The device's driver writes the status, too, now or a moment later.
    assert managers - {"gpu.nvidia.com"} == {"kube-scheduler", "kube-controller-manager"}
    wait_until(lambda: any(event["reason"] == "Scheduled" for event in lab.list("event", namespace="default")))
    (event,) = (event for event in lab.list("event", namespace="default") if event["reason"] == "Scheduled")
    assert event["reportingComponent"] == "default-scheduler"


def test_deleting_a_deployment_deletes_its_dependents(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.apply([TEMPLATE, DEPLOYMENT])
    lab.wait("deployment/serving", timeout=TIMEOUT_SECONDS)
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
    # The garbage collector reads custom resources as metadata only, in protobuf as well.
    wait_until(lambda: not lab.list("widget"))


def _owner(tree: Tree) -> str:
    (reference,) = tree["metadata"]["ownerReferences"]
    return str(reference["name"])


def test_kube_scheduler_reports_why_a_pod_is_pending(cluster: Cluster) -> None:
    lab = cluster.lab
    lab.apply(TEMPLATE.replace("one-gpu", "all-of-them").replace("gpu.nvidia.com}", "gpu.nvidia.com, count: 9}"))
    lab.apply((POD % "greedy").replace("one-gpu", "all-of-them"))

    def is_reported(tree: Tree) -> bool:
        return any(condition["status"] == "False" for condition in tree["status"].get("conditions", ()))

    (pod,) = lab.wait("pod/greedy", until=is_reported, timeout=TIMEOUT_SECONDS)
    (condition,) = (item for item in pod["status"]["conditions"] if item["type"] == "PodScheduled")
    assert condition["reason"] == "Unschedulable"
    assert "cannot allocate all claims" in condition["message"]
    lab.delete("pod", "greedy")


def test_the_programs_logged_no_errors(cluster: Cluster) -> None:
    for name, log in cluster.logs.items():
        complaints = [
            line for line in log.read_text(errors="replace").splitlines() if any(x in line for x in ERROR_MESSAGES)
        ]
        assert complaints == [], name
    programs = {"kube-scheduler", "kube-controller-manager"}
    requests = [request for request in cluster.requests if request.program in programs]
    assert {request.program for request in requests} == programs
    # Missing objects and conflicting writes are expected; no other request is rejected.
    refused = Counter(
        (request.code, request.method, request.path) for request in requests if request.code not in (200, 201, 404, 409)
    )
    assert refused == {}
    read = [
        request for request in requests if request.method == "GET" and request.code == 200 and "/api" in request.path
    ]
    plain = {request.path for request in read if not request.media.startswith(PROTOBUF)}
    # OpenAPI documents and whole custom resources are always JSON.
    assert {path for path in plain if "watch=" in path or "limit=" in path} == set()
    assert sum(request.media == f"{PROTOBUF};stream=watch" for request in read) > 50
