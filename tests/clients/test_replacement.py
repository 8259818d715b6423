"""The command that `allot explain` prints for objects that cannot be changed, run as printed in a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from allotment.model.trees import Tree
from tests.clients.conftest import Lab, Run
from tests.clients.tools import FOLDER

CONTAINER = {"name": "main", "image": "example.com/app:1", "env": [{"name": "MODE", "value": "fast"}]}


def template(name: str, expression: str) -> Tree:
    request = {
        "name": "gpu",
        "exactly": {"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": expression}}]},
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def pod_spec(of: str, **fields: object) -> Tree:
    return {
        "containers": [{**CONTAINER, "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": of}],
        **fields,
    }


def pod(name: str, of: str, **fields: object) -> Tree:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": pod_spec(of, **fields)}


class Shell:
    """Runs command lines with `allot` and `kubectl` for a lab."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        (folder / "allot").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m allotment.cli.main "$@"\n')
        (folder / "allot").chmod(0o755)
        self._environment = {
            **os.environ, "PATH": f"{folder}:{FOLDER}:{os.environ['PATH']}", "KUBECONFIG": str(lab.kubeconfig),
            "HOME": str(folder), "COLUMNS": "200",
        }  # fmt: skip

    def __call__(self, line: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", line], env=self._environment, check=False, capture_output=True, text=True, timeout=240
        )

    def next_step(self, subject: str, namespace: str) -> str:
        out = self(f"allot explain {subject} -n {namespace}").stdout
        return next(line.strip().removeprefix("next: ") for line in out.splitlines() if "next: " in line)


@pytest.fixture
def shell(lab: Lab, kubectl: Run, tmp_path: Path) -> Shell:
    return Shell(lab, tmp_path)


def apply(kubectl: Run, namespace: str, *objects: Tree) -> None:
    kubectl("apply", "-n", namespace, "-f", "-", input=yaml.safe_dump_all(objects))


def wait_for_phase(kubectl: Run, namespace: str, name: str, phase: str) -> None:
    kubectl("wait", "-n", namespace, f"pod/{name}", f"--for=jsonpath={{.status.phase}}={phase}", "--timeout=60s")


def wait_for_claim(kubectl: Run, namespace: str, name: str) -> None:
    kubectl(
        "wait", "-n", namespace, f"pod/{name}", "--for=jsonpath={.status.resourceClaimStatuses[0].resourceClaimName}",
        "--timeout=60s",
    )  # fmt: skip


A100 = 'device.attributes["gpu.nvidia.com"].productName == "A100-SXM4-40GB"'


def test_template_and_pod_are_replaced_and_the_pod_runs(kubectl: Run, namespace: str, shell: Shell) -> None:
    apply(kubectl, namespace, template("big", A100), pod("trainer", "big"))
    wait_for_claim(kubectl, namespace, "trainer")
    step = shell.next_step("pod/trainer", namespace)
    assert step == f"allot explain pod/trainer -n {namespace} -o manifests | kubectl replace --force -f -"
    done = shell(step)
    assert done.returncode == 0, done
    wait_for_phase(kubectl, namespace, "trainer", "Running")
    (container,) = json.loads(kubectl("get", "pod", "trainer", "-n", namespace, "-o", "json").out)["spec"]["containers"]
    assert container["env"] == CONTAINER["env"]  # a field that is not explained is kept


def test_pod_with_another_spec_is_replaced(kubectl: Run, namespace: str, shell: Shell) -> None:
    wrong = {"disk": "nvme"}
    anything = template("any", 'device.driver == "gpu.nvidia.com"')
    apply(kubectl, namespace, anything, pod("chat", "any", nodeSelector=wrong))
    step = shell.next_step("pod/chat", namespace)
    done = shell(step)
    assert done.returncode == 0, (step, done)
    assert "resourceclaimtemplate" not in done.stdout
    wait_for_phase(kubectl, namespace, "chat", "Running")


def test_the_workload_of_the_pod_is_replaced(kubectl: Run, namespace: str, shell: Shell) -> None:
    labels = {"app": "web"}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec("big")},
        },
    }
    apply(kubectl, namespace, template("big", A100), deployment)
    kubectl("wait", "-n", namespace, "pod", "-l", "app=web", "--for=create", "--timeout=60s")
    name = kubectl("get", "pod", "-n", namespace, "-l", "app=web", "-o", "name").out.strip().removeprefix("pod/")
    wait_for_claim(kubectl, namespace, name)
    done = shell(shell.next_step("deploy/web", namespace))
    assert done.returncode == 0, done
    kubectl("rollout", "status", "-n", namespace, "deployment/web", "--timeout=60s")


def test_pod_whose_template_has_been_corrected_is_replaced(kubectl: Run, namespace: str, shell: Shell) -> None:
    apply(kubectl, namespace, template("big", A100), pod("trainer", "big"))
    wait_for_claim(kubectl, namespace, "trainer")
    corrected = template("big", A100.replace("A100", "NVIDIA A100"))
    kubectl("replace", "--force", "-n", namespace, "-f", "-", input=yaml.safe_dump(corrected))
    out = " ".join(shell(f"allot explain pod/trainer -n {namespace}").stdout.split())
    assert "create it again: claim" in out
    assert f"was created from an earlier version of ResourceClaimTemplate {namespace}/big" in out
    done = shell(shell.next_step("pod/trainer", namespace))
    assert done.returncode == 0, done
    assert "resourceclaimtemplate" not in done.stdout
    wait_for_phase(kubectl, namespace, "trainer", "Running")


def test_nothing_is_printed_for_a_pod_that_runs_or_that_no_replacement_helps(
    kubectl: Run, namespace: str, shell: Shell
) -> None:
    anything = template("any", 'device.driver == "gpu.nvidia.com"')
    apply(kubectl, namespace, anything, pod("runs", "any"), pod("lost", "elsewhere"))
    wait_for_phase(kubectl, namespace, "runs", "Running")
    for name, words in (("runs", "nothing has to be changed"), ("absent", "no pod 'absent'")):
        done = shell(f"allot explain pod/{name} -n {namespace} -o manifests")
        assert done.returncode > 0
        assert not done.stdout
        assert words in done.stderr
