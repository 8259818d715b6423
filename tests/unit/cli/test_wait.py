"""``allot wait`` and ``allot logs`` on a lab."""

from __future__ import annotations

import pytest

import allotment
from allotment.cli.output.errors import Failure
from allotment.cli.wait import test_of as wanted
from tests.unit.cli.conftest import Allot
from tests.unit.cli.test_get import POD

GREEDY = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: nine}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 9}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: greedy}
spec:
  resourceClaims: [{name: gpu, resourceClaimName: nine}]
  containers: [{name: main, image: busybox, resources: {claims: [{name: gpu}]}}]
"""
TALKING = """\
apiVersion: v1
kind: Pod
metadata: {name: talking}
spec:
  restartPolicy: Never
  containers:
  - {name: first, image: busybox, command: [sh, -c, "for i in 1 2 3; do echo line $i; done"]}
  - {name: second, image: busybox, command: [sh, -c, "echo other"]}
"""
HELLO = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: busybox, command: [sh, -c, "echo hello; sleep infinity"]}]}
"""


def test_wait_returns_when_the_condition_is_met(live: Allot) -> None:
    live("apply", "-f", "-", stdin="---\n".join([POD % "one", POD % "two"]))
    both = live("wait", "pod/one", "pod/two", "--for=condition=Ready")
    assert both.code == 0
    assert sorted(both.out.splitlines()) == ["pod/one condition met", "pod/two condition met"]
    assert live("wait", "pod", "-l", "app=web", "--for=jsonpath={.status.phase}=Running").code == 0
    assert live("wait", "pod", "--all", "--for=condition=Ready=False", "--timeout=0").code == 1
    live("delete", "pod", "--all", "--wait=false", "--grace-period", "0")
    assert live("wait", "pod/one", "--for=delete").code == 0


def test_wait_timeout_has_reason(live: Allot) -> None:
    live("apply", "-f", "-", stdin=GREEDY)
    live("wait", "pod/greedy", "--for=jsonpath={.status.conditions[0].message}")
    ran = live("wait", "pod/greedy", "--for=condition=Ready", "--timeout=200ms")
    assert ran.code == 1
    first, second, *_ = ran.err.splitlines()
    assert first == "error: timed out waiting for the condition on pods/greedy"
    assert second.startswith("  PodScheduled: ")
    assert "9 devices" in second or "not enough" in second


def test_missing_object_is_not_waited_for(live: Allot) -> None:
    ran = live("wait", "pod/missing", "--for=condition=Ready")
    assert ran == (1, "", 'Error from server (NotFound): pods "missing" not found\n')
    assert live("wait", "pod", "-l", "never=there", "--for=create").err == "error: no matching resources found\n"
    assert live("wait", "pod", "-l", "never=there", "--for=delete") == (0, "", "")
    assert live("wait", "pod", "--for=delete").code == 1


@pytest.mark.parametrize("text", ["ready", "condition=", "jsonpath={.a", "", "deleted"])
def test_invalid_conditions_are_rejected(text: str) -> None:
    with pytest.raises(Failure, match=r"unrecognized condition|error parsing jsonpath"):
        wanted(text)


def test_a_condition_of_an_older_generation_does_not_count() -> None:
    stale = {
        "metadata": {"generation": 2},
        "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]},
    }
    assert not wanted("condition=Ready")(stale)
    assert not wanted("condition=Ready=False")(None)


def test_values_can_contain_an_equals_sign() -> None:
    tree = {"status": {"conditions": [{"type": "A", "message": "x=1"}]}}
    assert wanted("jsonpath={.status.conditions[?(@.type=='A')].message}=x=1")(tree)
    assert wanted('jsonpath=.status.conditions[0].type="A"')(tree)
    assert not wanted("jsonpath={.status.phase}")(tree)


def test_logs_of_the_selected_container_are_printed(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    lab.apply(TALKING, namespace=namespace)
    lab.wait("pod/talking", until="phase=Succeeded", namespace=namespace)
    default = live("logs", "talking")
    assert default.out == "line 1\nline 2\nline 3\n"
    assert default.err == 'Defaulted container "first" out of: first, second\n'
    assert live("logs", "pod/talking", "-c", "second").out == "other\n"
    assert live("logs", "talking", "-c", "first", "--tail", "1").out == "line 3\n"
    assert live("logs", "talking", "-c", "first", "-f").out == default.out
    third = live("logs", "talking", "-c", "third")
    assert (third.code, third.err) == (
        1, "error: container third is not valid for pod talking\n  known: first, second\n"
    )  # fmt: skip
    assert live("logs", "missing") == (
        1, "", f'error: error from server (NotFound): pods "missing" not found in namespace "{namespace}"\n'
    )  # fmt: skip


def test_logs_of_a_workload_are_those_of_a_pod(live: Allot, lab: allotment.Lab, namespace: str) -> None:
    lab.apply(HELLO, namespace=namespace)
    lab.wait("deployment/web", namespace=namespace)
    ran = live("logs", "deploy/web")
    assert ran.out == "hello\n"
    assert ran.err.startswith("Found 2 pods, using pod/web-")
