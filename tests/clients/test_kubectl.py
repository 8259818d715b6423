"""kubectl with a running lab: every verb that a DRA user needs, with its output."""

from __future__ import annotations

import json
import re
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.clients.conftest import Lab, Run
from tests.clients.tools import FOLDER
from tests.polling import wait_until

TEMPLATE = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one-gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com}}]}}}
"""

POD = """
apiVersion: v1
kind: Pod
metadata: {name: train, labels: {app: train}}
spec:
  restartPolicy: Never
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one-gpu}]
  containers:
  - name: main
    image: cuda
    command: [sh, -c, "nvidia-smi -L; while true; do echo tick; sleep 1; done"]
    resources: {claims: [{name: gpu}]}
"""

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: "nginx:1", ports: [{containerPort: 80}]}]
"""

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {colour: blue}
"""


def apply(kubectl: Run, namespace: str, text: str, *more: str) -> str:
    return kubectl("-n", namespace, "apply", "-f", "-", *more, input=text).out


def test_version_and_resources(kubectl: Run) -> None:
    version = json.loads(kubectl("version", "-o", "json").out)
    assert version["serverVersion"]["minor"] == "37"
    resources = kubectl("api-resources").out
    assert "resourceclaims" in resources
    assert "deviceclasses" in resources
    assert "deploy" in resources
    assert "resource.k8s.io/v1" in kubectl("api-versions").out.splitlines()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("resourceclaim.spec.devices.requests", "deviceClassName"),
        ("pod.spec.containers.resources", "claims"),
        ("deployment.spec.replicas", "integer"),
        ("resourceslice.spec", "devices"),
    ],
)
def test_explain_lists_the_fields(kubectl: Run, path: str, words: str) -> None:
    assert words in kubectl("explain", path, "--recursive").out


def test_a_pod_with_a_claim_runs(kubectl: Run, namespace: str) -> None:
    assert apply(kubectl, namespace, TEMPLATE) == "resourceclaimtemplate.resource.k8s.io/one-gpu created\n"
    assert apply(kubectl, namespace, POD) == "pod/train created\n"
    kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/train", "--timeout=200s")
    row = kubectl("-n", namespace, "get", "pod", "train", "--no-headers").out.split()
    assert row[:4] == ["train", "1/1", "Running", "0"]
    claim = kubectl("-n", namespace, "get", "resourceclaims", "--no-headers").out
    assert claim.startswith("train-gpu-")
    assert "allocated,reserved" in claim
    assert "gpu-" in claim
    assert "gpu.nvidia.com" in kubectl("-n", namespace, "get", "resourceclaims", "-o", "wide").out
    logs = kubectl("-n", namespace, "logs", "train").out
    assert logs.startswith("GPU 0:")
    assert "UUID: GPU-" in logs
    assert "tick" in kubectl("-n", namespace, "logs", "train", "--tail=1").out


def test_get_in_every_format(kubectl: Run, namespace: str) -> None:
    apply(kubectl, namespace, CONFIG)
    get = ("-n", namespace, "get", "configmap", "settings")
    assert "NAME" in kubectl(*get).out
    assert "colour: blue" in kubectl(*get, "-o", "yaml").out
    assert json.loads(kubectl(*get, "-o", "json").out)["data"] == {"colour": "blue"}
    assert kubectl(*get, "-o", "jsonpath={.data.colour}").out == "blue"
    assert kubectl(*get, "-o", "name").out == "configmap/settings\n"
    assert kubectl(*get, "-o", "custom-columns=N:.metadata.name,C:.data.colour").out.split() == [
        "N", "C", "settings", "blue",
    ]  # fmt: skip
    assert namespace in kubectl("get", "configmaps", "-A").out
    assert kubectl("-n", namespace, "get", "configmaps", "--sort-by=.metadata.name").out.count("\n") == 3
    assert "INTERNAL-IP" in kubectl("get", "nodes", "-o", "wide").out
    missing = kubectl("-n", namespace, "get", "configmap", "absent", fails=True)
    assert (missing.code, missing.err) == (1, 'Error from server (NotFound): configmaps "absent" not found\n')


def test_get_watch_shows_changes(kubectl: Run, namespace: str, lab: Lab) -> None:
    with _background(lab, "-n", namespace, "get", "configmaps", "-w", "--output-watch-events") as lines:
        wait_until(lambda: any("kube-root-ca.crt" in line for line in lines))
        apply(kubectl, namespace, CONFIG)
        kubectl("-n", namespace, "delete", "configmap", "settings")
        wait_until(lambda: any("DELETED" in line and "settings" in line for line in lines))
        assert any("ADDED" in line and "settings" in line for line in lines)


def test_describe_every_dra_kind(kubectl: Run, namespace: str) -> None:
    apply(kubectl, namespace, TEMPLATE)
    apply(kubectl, namespace, POD)
    kubectl("-n", namespace, "wait", "--for=condition=Ready", "pod/train", "--timeout=200s")
    pod = kubectl("-n", namespace, "describe", "pod", "train").out
    assert "Successfully assigned" in pod
    assert "nvidia-smi -L" in pod
    claim = kubectl("-n", namespace, "describe", "resourceclaims").out
    assert "Device Class Name" in claim
    assert "Reserved For" in claim
    assert "one-gpu" in kubectl("-n", namespace, "describe", "resourceclaimtemplate", "one-gpu").out
    assert "gpu.nvidia.com" in kubectl("describe", "deviceclass", "gpu.nvidia.com").out
    assert "Product Name" in kubectl("describe", "resourceslices").out
    node = kubectl("get", "nodes", "-o", "name").out.splitlines()[0]
    output = kubectl("describe", node).out
    assert "Ready" in output
    assert "Allocatable" in output


def test_describe_shows_why_a_pod_is_pending(kubectl: Run, namespace: str) -> None:
    apply(kubectl, namespace, TEMPLATE.replace("gpu.nvidia.com", "gpu.nvidia.con"))
    apply(kubectl, namespace, POD)
    wait_until(lambda: "FailedScheduling" in kubectl("-n", namespace, "describe", "pod", "train").out)
    output = kubectl("-n", namespace, "describe", "pod", "train").out
    assert "device class gpu.nvidia.con does not exist" in output
    assert "gpu.nvidia.com" in output, "the similar class is named"


def test_apply_on_the_client(kubectl: Run, namespace: str) -> None:
    assert apply(kubectl, namespace, CONFIG) == "configmap/settings created\n"
    assert apply(kubectl, namespace, CONFIG) == "configmap/settings unchanged\n"
    changed = CONFIG.replace("blue", "red")
    diff = kubectl("-n", namespace, "diff", "-f", "-", input=changed, fails=True)
    assert diff.code == 1
    assert "-  colour: blue" in diff.out
    assert "+  colour: red" in diff.out
    assert apply(kubectl, namespace, changed, "--dry-run=server") == "configmap/settings configured (server dry run)\n"
    assert apply(kubectl, namespace, changed) == "configmap/settings configured\n"
    wrong = kubectl("-n", namespace, "apply", "-f", "-", input=CONFIG + "colr: x\n", fails=True)
    assert wrong.code == 1
    assert 'unknown field "colr"' in wrong.err


def test_apply_a_list(kubectl: Run, namespace: str) -> None:
    item = "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}%s}"
    several = f"apiVersion: v1\nkind: List\nitems: [{item}]\n"
    assert apply(kubectl, namespace, several % "") == "configmap/one created\n"
    wrong = kubectl("-n", namespace, "apply", "-f", "-", input=several % ", datum: {}", fails=True)
    assert 'ValidationError(ConfigMap): unknown field "datum"' in wrong.err
    absent = kubectl("apply", "-f", "-", input="apiVersion: a.b/v1\nkind: C\nmetadata: {name: d}\n", fails=True)
    assert 'no matches for kind "C" in version "a.b/v1"' in absent.err


def test_apply_on_the_server_finds_conflicts(kubectl: Run, namespace: str) -> None:
    output = apply(kubectl, namespace, CONFIG, "--server-side", "--field-manager=one")
    assert output == "configmap/settings serverside-applied\n"
    other = CONFIG.replace("blue", "red")
    refused = kubectl(
        "-n", namespace, "apply", "-f", "-", "--server-side", "--field-manager=two", input=other, fails=True
    )
    assert refused.code == 1
    assert 'conflict with "one": .data.colour' in refused.err
    apply(kubectl, namespace, other, "--server-side", "--field-manager=two", "--force-conflicts")
    assert kubectl("-n", namespace, "get", "configmap", "settings", "-o", "jsonpath={.data.colour}").out == "red"


def test_create_edit_label_annotate(kubectl: Run, namespace: str, tmp_path: Path) -> None:
    ns = ("-n", namespace)
    assert kubectl(*ns, "create", "configmap", "c", "--from-literal=a=1").out == "configmap/c created\n"
    assert kubectl(*ns, "create", "secret", "generic", "s", "--from-literal=p=w").out == "secret/s created\n"
    assert "created" in kubectl(*ns, "create", "job", "j", "--image=busybox", "--", "true").out
    again = kubectl(*ns, "create", "configmap", "c", fails=True)
    assert again.code == 1
    assert '"c" already exists' in again.err
    assert kubectl(*ns, "label", "configmap", "c", "tier=front").out == "configmap/c labeled\n"
    assert kubectl(*ns, "annotate", "configmap", "c", "note=here").out == "configmap/c annotated\n"
    assert kubectl(*ns, "get", "configmaps", "-l", "tier=front", "-o", "name").out == "configmap/c\n"
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/note: here/note: there/" "$1"\n')
    editor.chmod(0o755)
    assert kubectl(*ns, "edit", "configmap", "c", EDITOR=str(editor)).out == "configmap/c edited\n"
    assert kubectl(*ns, "get", "configmap", "c", "-o", "jsonpath={.metadata.annotations.note}").out == "there"


def test_patch_of_three_types(kubectl: Run, namespace: str) -> None:
    apply(kubectl, namespace, DEPLOYMENT)
    patch = ("-n", namespace, "patch", "deployment", "web")
    image = '{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:2"}]}}}}'
    assert kubectl(*patch, "-p", image).out == "deployment.apps/web patched\n"
    kubectl(*patch, "--type=merge", "-p", '{"metadata":{"labels":{"a":"b"}}}')
    kubectl(*patch, "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":1}]')
    shown = json.loads(kubectl("-n", namespace, "get", "deployment", "web", "-o", "json").out)
    assert shown["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx:2"
    assert shown["spec"]["template"]["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert shown["metadata"]["labels"] == {"app": "web", "a": "b"}
    assert shown["spec"]["replicas"] == 1


def test_scale_and_rollout(kubectl: Run, namespace: str) -> None:
    ns = ("-n", namespace)
    apply(kubectl, namespace, DEPLOYMENT)
    assert "successfully rolled out" in kubectl(*ns, "rollout", "status", "deployment/web", "--timeout=200s").out
    assert kubectl(*ns, "scale", "deployment", "web", "--replicas=3").out == "deployment.apps/web scaled\n"
    kubectl(*ns, "rollout", "status", "deployment/web", "--timeout=200s")
    assert len(kubectl(*ns, "get", "pods", "-l", "app=web", "-o", "name").out.split()) == 3
    kubectl(*ns, "set", "image", "deployment/web", "web=nginx:3")
    kubectl(*ns, "rollout", "status", "deployment/web", "--timeout=200s")
    assert kubectl(*ns, "rollout", "history", "deployment/web").out.count("\n") >= 4
    kubectl(*ns, "rollout", "undo", "deployment/web")
    kubectl(*ns, "rollout", "status", "deployment/web", "--timeout=200s")
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl(*ns, "get", "deployment", "web", "-o", image).out == "nginx:1"


def test_logs_follow_exec_copy_and_debug(kubectl: Run, namespace: str, lab: Lab, tmp_path: Path) -> None:
    ns = ("-n", namespace)
    apply(kubectl, namespace, TEMPLATE)
    apply(kubectl, namespace, POD)
    kubectl(*ns, "wait", "--for=condition=Ready", "pod/train", "--timeout=200s")
    with _background(lab, *ns, "logs", "-f", "train") as lines:
        wait_until(lambda: sum("tick" in line for line in lines) >= 2)
    assert kubectl(*ns, "exec", "train", "--", "echo", "hello").out == "hello\n"
    assert kubectl(*ns, "exec", "-i", "train", "--", "cat", input="through\n").out == "through\n"
    assert "GPU 0" in kubectl(*ns, "exec", "train", "--", "nvidia-smi", "-L").out
    failed = kubectl(*ns, "exec", "train", "--", "sh", "-c", "exit 3", fails=True)
    assert failed.code == 3
    unknown = kubectl(*ns, "exec", "train", "--", "python", "train.py", fails=True)
    assert (unknown.code, unknown.err.splitlines()[0]) == (127, "not simulated: python train.py")
    given, returned = tmp_path / "given", tmp_path / "returned"
    given.write_text("copied\n")
    kubectl(*ns, "cp", str(given), "train:/tmp/a")
    assert kubectl(*ns, "exec", "train", "--", "cat", "/tmp/a").out == "copied\n"
    kubectl(*ns, "cp", "train:/tmp/a", str(returned))
    assert returned.read_text() == "copied\n"
    debug = ("debug", "-i", "train", "--profile=general", "--image=busybox", "-c", "debugger", "--", "sh")
    assert "debugged 2\n" in kubectl(*ns, *debug, input="echo debugged $((1+1))\nexit\n").out
    resources = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "9999"}}}]}
    refused = kubectl(
        *ns, "patch", "pod", "train", "--subresource=resize", "-p", json.dumps({"spec": resources}), fails=True
    )  # fmt: skip
    assert refused.code == 1


def test_port_forward_to_pod_and_service(kubectl: Run, namespace: str, lab: Lab) -> None:
    ns = ("-n", namespace)
    apply(kubectl, namespace, DEPLOYMENT)
    kubectl(*ns, "expose", "deployment", "web", "--port=8080", "--target-port=80")
    kubectl(*ns, "rollout", "status", "deployment/web", "--timeout=200s")
    pod = kubectl(*ns, "get", "pods", "-l", "app=web", "-o", "name").out.split()[0]
    for target, port in ((pod, 80), ("service/web", 8080)):
        with _background(lab, *ns, "port-forward", target, f":{port}") as lines:
            local = wait_until(partial(_local_port, lines))
            for _ in range(3):
                with urllib.request.urlopen(f"http://127.0.0.1:{local}/", timeout=200) as answer:
                    assert answer.status == 200
                    assert b"web-" in answer.read()


def test_delete_waits_for_the_deletion(kubectl: Run, namespace: str) -> None:
    ns = ("-n", namespace)
    apply(kubectl, namespace, TEMPLATE)
    apply(kubectl, namespace, POD)
    kubectl(*ns, "wait", "--for=condition=Ready", "pod/train", "--timeout=200s")
    assert "deleted" in kubectl(*ns, "delete", "pod", "train").out
    wait_until(lambda: kubectl(*ns, "get", "resourceclaims", "-o", "name").out == "")
    apply(kubectl, namespace, CONFIG)
    assert "deleted" in kubectl(*ns, "delete", "-f", "-", input=CONFIG).out
    assert kubectl(*ns, "wait", "--for=delete", "configmap/settings", "--timeout=200s").code == 0


def test_deleting_a_namespace_empties_it(kubectl: Run) -> None:
    kubectl("create", "namespace", "short-lived")
    apply(kubectl, "short-lived", DEPLOYMENT)
    kubectl("delete", "namespace", "short-lived", "--timeout=200s")
    gone = kubectl("get", "namespace", "short-lived", fails=True)
    assert gone.code == 1
    assert "NotFound" in gone.err


def test_auth(kubectl: Run, namespace: str) -> None:
    assert kubectl("auth", "can-i", "create", "resourceclaims").out == "yes\n"
    account = f"system:serviceaccount:{namespace}:default"
    ns = ("-n", namespace)
    refused = kubectl(*ns, "auth", "can-i", "list", "pods", f"--as={account}", fails=True)
    assert (refused.code, refused.out) == (1, "no\n")
    kubectl(*ns, "create", "role", "reader", "--verb=get,list", "--resource=pods")
    kubectl(*ns, "create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={namespace}:default")
    assert kubectl(*ns, "auth", "can-i", "list", "pods", f"--as={account}").out == "yes\n"
    assert "system:masters" in kubectl("auth", "whoami").out
    forbidden = kubectl(*ns, "get", "secrets", f"--as={account}", fails=True)
    assert 'cannot list resource "secrets" in API group "" in the namespace' in forbidden.err


def test_events(kubectl: Run, namespace: str) -> None:
    apply(kubectl, namespace, DEPLOYMENT)
    kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=200s")
    wait_until(lambda: "Scheduled" in kubectl("-n", namespace, "events").out)
    assert "ScalingReplicaSet" in kubectl("-n", namespace, "events", "--for", "deployment/web").out


def test_top_shows_the_stated_usage(kubectl: Run, namespace: str) -> None:
    apply(kubectl, namespace, DEPLOYMENT)
    kubectl("-n", namespace, "rollout", "status", "deployment/web")
    usage = "allotment.dev/usage=cpu=250m,memory=64Mi"
    kubectl("-n", namespace, "annotate", "pods", "-l", "app=web", usage)
    pods = kubectl("-n", namespace, "top", "pods", "--no-headers").out.splitlines()
    assert [line.split()[1:] for line in pods] == [["250m", "64Mi"]] * 2
    assert "%" in kubectl("top", "nodes").out


def test_nodes_are_cordoned_and_drained(kubectl: Run, namespace: str) -> None:
    apply(kubectl, namespace, DEPLOYMENT)
    kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=200s")
    node = kubectl("-n", namespace, "get", "pods", "-o", "jsonpath={.items[0].spec.nodeName}").out
    try:
        kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=200s", "--pod-selector=app=web")
        assert "SchedulingDisabled" in kubectl("get", "node", node).out
    finally:
        kubectl("uncordon", node)


def test_custom_resources(kubectl: Run, namespace: str) -> None:
    schema = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: queues, singular: queue, kind: Queue, shortNames: [q]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Depth, type: integer, jsonPath: .spec.depth}]
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, required: [depth], properties: {depth: {type: integer, minimum: 1}}}}
"""
    kubectl("apply", "-f", "-", input=schema)
    kubectl("wait", "--for=condition=Established", "crd/queues.example.com", "--timeout=200s")
    queue = "apiVersion: example.com/v1\nkind: Queue\nmetadata: {name: a}\nspec: {depth: %s}\n"
    assert apply(kubectl, namespace, queue % 3) == "queue.example.com/a created\n"
    assert kubectl("-n", namespace, "get", "q", "--no-headers").out.split()[:2] == ["a", "3"]
    wrong = kubectl("-n", namespace, "apply", "-f", "-", input=queue % 0, fails=True)
    assert wrong.code == 1
    assert "spec.depth" in wrong.err
    assert "greater than or equal to 1" in wrong.err
    kubectl("delete", "crd", "queues.example.com")


# --- helpers
# -----------------------------------------------------------------------------------------------------------


def _local_port(lines: list[str]) -> str:
    """The local port that kubectl has chosen, from its output."""
    found = re.search(r"Forwarding from 127\.0\.0\.1:(\d+)", "".join(lines))
    return found[1] if found else ""


@contextmanager
def _background(lab: Lab, *arguments: str) -> Iterator[list[str]]:
    """Run kubectl in the background; return its process and its lines."""
    process = subprocess.Popen(
        [str(FOLDER / "kubectl"), "--kubeconfig", str(lab.kubeconfig), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    lines: list[str] = []

    def keep() -> None:
        assert process.stdout is not None
        while line := process.stdout.readline():
            lines.append(line)

    reader = threading.Thread(target=keep, daemon=True)
    reader.start()
    try:
        yield lines
    finally:
        process.terminate()
        process.wait(50)
        reader.join()
        assert process.stdout is not None
        process.stdout.close()
