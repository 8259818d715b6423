"""Programs in a lab's containers are who their pod's account is, without being told how."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from allotment.lab.control_plane import running
from allotment.lab.settings import Settings
from allotment.model.trees import Tree
from tests.lab.driven import run
from tests.lab.manifests import story
from tests.lab.stage import Stage

FOLDER: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
#: Asks who it is, by what every client of ours looks for.
WHO: Final = """
import asyncio, json
from allotment.cluster.client import Resource
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import target

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", False)

async def main():
    way = target()
    async with HttpClient(way, "test") as client:
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
        print(json.dumps([way.namespace, (await client.create(REVIEWS, asked))["status"]["userInfo"]]))

asyncio.run(main())
"""


def pod(name: str, **more: Any) -> Tree:
    container = {"name": "c", "image": "python", "command": ["sleep", "60"]}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], **more},
    }  # fmt: skip


@pytest.mark.parametrize("tls", [True, False], ids=["https", "http"])
def test_a_program_finds_its_cluster_and_is_its_account(tls: bool, tmp_path: Path) -> None:
    images = tmp_path / "images.toml"
    images.write_text('[[image]]\npattern = "python"\ncommands = "run"\n')

    async def tell() -> None:
        settings = Settings(fleet=("a=1xt4",), tls=tls, runtime="process", images=images)
        async with running(settings) as plane:
            on = Stage(plane)
            account = {"apiVersion": "v1", "kind": "ServiceAccount"}
            await on.create({**account, "metadata": {"name": "worker", "namespace": "default"}})
            await on.create(pod("p", serviceAccountName="worker"))
            (found,) = await on.running("default", 1)
            assert await run(on, found, "cat", f"{FOLDER}/namespace") == "default"
            namespace, user = json.loads(await run(on, found, sys.executable, "-c", WHO))
            assert namespace == "default"
            assert user["username"] == "system:serviceaccount:default:worker"
            assert user["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
            # Who does not want a token has none, and no way to the cluster.
            await on.create(pod("q", automountServiceAccountToken=False))
            other = next(one for one in await on.running("default", 2) if one["metadata"]["name"] == "q")
            assert "KUBECONFIG" in await run(on, found, "env")
            assert "KUBECONFIG" not in await run(on, other, "env")

    story(tell)
