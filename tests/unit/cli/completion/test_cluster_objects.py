"""Names from a cluster are completed: from a lab in this process, and from unresponsive clusters."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import allotment
from allotment.cli.completion import cluster_objects
from allotment.cli.completion.completer import answer
from allotment.cli.main import command_line

_POD: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"},
    "spec": {"containers": [{"name": "nginx", "image": "nginx:1"}, {"name": "log", "image": "log:1"}]},
}  # fmt: skip
_CLAIM: dict[str, Any] = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpus"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}  # fmt: skip


def offered(*words: str) -> list[str]:
    """The printed lines without the directive."""
    return answer(command_line(), words).splitlines()[:-1]


@pytest.fixture
def namespace_with_pod(lab: allotment.Lab, namespace: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A namespace with a pod and a claim, in the cluster of the current context."""
    monkeypatch.setenv("KUBECONFIG", str(lab.kubeconfig))
    monkeypatch.setattr(cluster_objects, "TIMEOUT_SECONDS", 60.0)  # of a machine with much to do
    for tree in (_POD, _CLAIM):
        lab.apply({**tree, "metadata": {**tree["metadata"], "namespace": namespace}})
    return namespace


def test_explain_completes_pods_claims_and_workloads(namespace_with_pod: str) -> None:
    assert f"pod/web-0\tin {namespace_with_pod}" in offered("explain", "pod/")
    assert offered("explain", "-n", namespace_with_pod, "claim/") == [f"claim/gpus\tin {namespace_with_pod}"]
    assert offered("explain", "-n", namespace_with_pod, "pods", "") == [f"web-0\tin {namespace_with_pod}"]
    assert offered("explain", "-n", namespace_with_pod, "") == [
        "pod/\tpods", "claim/\tresourceclaims", "deploy/\tdeployments", "sts/\tstatefulsets", "ds/\tdaemonsets",
        "job/\tjobs", "cronjob/\tcronjobs", f"web-0\tin {namespace_with_pod}", f"gpus\tin {namespace_with_pod}",
    ]  # fmt: skip
    assert offered("explain", "-n", namespace_with_pod, "pod/web-0", "") == [], "only one object is explained"
    assert offered("explain", "-n", namespace_with_pod, "--cluster=snapshot.yaml", "pod/") == [], (
        "a file has no names of the cluster"
    )


def test_kinds_and_names_are_completed_as_in_kubectl(namespace_with_pod: str) -> None:
    assert offered("get", "resourcec") == [
        "resourceclaims\tResourceClaim",
        "resourceclaimtemplates\tResourceClaimTemplate",
    ]
    assert offered("get", "pods,deviceclass") == ["pods,deviceclasses\tDeviceClass"]
    assert offered("delete", "-n", namespace_with_pod, "po", "") == ["web-0"]
    assert offered("delete", "-n", namespace_with_pod, "pod", "web-0", "") == [], "it is given already"
    assert offered("describe", "-n", namespace_with_pod, "pod/we") == ["pod/web-0"]
    assert offered("describe", "-n", namespace_with_pod, "pod/web-0", "resourceclaim") == [
        "resourceclaims/\tResourceClaim", "resourceclaimtemplates/\tResourceClaimTemplate",
    ]  # fmt: skip
    assert offered("get", "nonsense", "") == []


def test_other_names_of_a_cluster_are_completed(namespace_with_pod: str) -> None:
    assert namespace_with_pod in offered("get", "-n", "")
    assert offered("driver", "verify", "dra.sock", "--node-name", "") == ["t4-4x-pcie-1"]
    assert "gpu.nvidia.com" in offered("driver", "verify", "dra.sock", "--device-class", "")
    assert offered("logs", "-n", namespace_with_pod, "") == ["web-0"]
    assert offered("logs", "-n", namespace_with_pod, "web-0", "-c", "") == ["nginx\tnginx:1", "log\tlog:1"]


def test_an_unresponsive_cluster_has_no_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is accepted without a response, or refused."""
    monkeypatch.setattr(cluster_objects, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        config = {
            "kind": "Config", "current-context": "silent",
            "clusters": [{"name": "silent", "cluster": {"server": f"http://127.0.0.1:{silent.getsockname()[1]}"}}],
            "contexts": [{"name": "silent", "context": {"cluster": "silent"}}],
        }  # fmt: skip
        file = tmp_path / "config"
        file.write_text(json.dumps(config))
        monkeypatch.setenv("KUBECONFIG", str(file))
        assert offered("get", "pods", "") == []
        assert offered("explain", "p") == ["pod/\tpods"], "what is known without it"
    assert offered("get", "pods", "") == []


def test_without_a_cluster_no_names_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for words in (["get", "pods", ""], ["get", "-n", ""], ["logs", "web-0", "-c", ""]):
        assert offered(*words) == []


def test_completion_never_prompts_for_a_password(tmp_path: Path) -> None:
    """A credential plugin gets no terminal, and its error output is discarded."""
    seen = tmp_path / "seen"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "interactiveMode": "IfAvailable",
              "args": ["-c", f"echo Password: >&2; cat > {seen}.part; mv {seen}.part {seen}; exit 1"]}  # fmt: skip
    config = {
        "kind": "Config", "current-context": "work",
        "clusters": [{"name": "work", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "me", "user": {"exec": plugin}}],
        "contexts": [{"name": "work", "context": {"cluster": "work", "user": "me"}}],
    }  # fmt: skip
    file = tmp_path / "config"
    file.write_text(json.dumps(config))
    story = """
from allotment.cli.completion import cluster_objects
from allotment.cli.main import complete

cluster_objects.TIMEOUT_SECONDS = 60
complete()
"""
    ran = subprocess.run(
        [sys.executable, "-c", story, "get", "pods", ""], input=b"secret\n", capture_output=True, check=True,
        env={**os.environ, "KUBECONFIG": str(file)},
    )  # fmt: skip
    assert (ran.stdout, ran.stderr) == (b":4\n", b"")
    assert seen.read_bytes() == b""
