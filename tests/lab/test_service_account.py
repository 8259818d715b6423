"""Programs in a lab's containers use their pod's service account without configuration."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.lab.control_plane import running
from allotment.lab.settings import Settings
from allotment.model.trees import Tree
from tests.lab.driver_nodes import exec_in_pod
from tests.lab.harness import LabHarness
from tests.lab.manifests import run_scenario

FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
#: Queries its user, with the standard in-cluster configuration.
WHO: Final = """
import asyncio, json
from allotment.cluster.client import Resource
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import target

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)

async def main():
    way = target()
    async with HttpClient(way, "test") as client:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
        print(json.dumps([way.namespace, (await client.create(REVIEWS, review))["status"]["userInfo"]]))

asyncio.run(main())
"""


def pod(name: str, **more: Any) -> Tree:
    container = {"name": "c", "image": "python", "command": ["sleep", "60"]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **more},
    }  # fmt: skip


@pytest.mark.parametrize("tls", [True, False], ids=["https", "http"])
def test_a_program_connects_to_its_cluster_as_its_service_account(tls: bool, tmp_path: Path) -> None:
    images = tmp_path / "images.toml"
    images.write_text('[[image]]\npattern = "python"\ncommands = "run"\n')

    async def scenario() -> None:
        settings = Settings(fleet=("a=1xt4",), tls=tls, runtime="process", images=images)
        async with running(settings) as plane:
            lab = LabHarness(plane)
            account = {"apiVersion": "v1", "kind": "ServiceAccount"}
            await lab.create({**account, "metadata": {"name": "worker", "namespace": "default"}})
            await lab.create(pod("p", serviceAccountName="worker"))
            (found,) = await lab.running("default", 1)
            assert await exec_in_pod(lab, found, "cat", f"{FOLDER}/namespace") == "default"
            namespace, user = json.loads(await exec_in_pod(lab, found, sys.executable, "-c", WHO))
            assert namespace == "default"
            assert user["username"] == "system:serviceaccount:default:worker"
            assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
            # A pod that opts out of the token has none, and cannot connect to the cluster.
            await lab.create(pod("q", automountServiceAccountToken=False))
            other = next(item for item in await lab.running("default", 2) if item["metadata"]["name"] == "q")
            assert "KUBECONFIG" in await exec_in_pod(lab, found, "env")
            assert "KUBECONFIG" not in await exec_in_pod(lab, other, "env")

    run_scenario(scenario)
