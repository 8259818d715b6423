"""The tools that only read give the same answers on a real cluster as on a snapshot of it.

The cluster is Kubernetes' own; its nodes and slices are what ``allot fleet slices`` prints, and kube-scheduler has
placed what fits. Commands are run as users run them.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from allotment.cluster.inspection.discovery import discover
from allotment.cluster.resources import CLAIM_TEMPLATES, NAMESPACES, PODS
from allotment.model.trees import Tree
from bench.real_kube import ApiServer
from tests.acting import condition
from tests.kube.test_causes import OnKubernetes
from tests.waiting import until, wait_until

EXAMPLES: Final = Path(__file__).parents[2] / "src" / "allotment" / "examples"
FLEET: Final = ("dgx=dgx-a100-40gb:1", "mig=1xa100-40gb:2/dynamic-mig", "t4-4x-pcie:1", "mi300x-8x-oam:1")
#: Packaged examples: some fit, some never will.
TRIED: Final = ("01", "04", "05", "16", "17")
TAINTED: Final = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: nine, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: gpu.nvidia.com, count: 9}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: greedy, namespace: default}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: nine}]
  containers: [{name: main, image: cuda, resources: {claims: [{name: gpu}]}}]
---
apiVersion: v1
kind: Pod
metadata: {name: lost, namespace: default}
spec:
  resourceClaims: [{name: gpu, resourceClaimTemplateName: nin}]
  containers: [{name: main, image: cuda, resources: {claims: [{name: gpu}]}}]
"""


class Ran(NamedTuple):
    """What a command said."""

    code: int
    out: str
    err: str


def allot(*words: str) -> Ran:
    done = subprocess.run(
        [sys.executable, "-m", "allotment.cli.main", *words], capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode in (0, 1), done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def used(kube: ApiServer) -> ApiServer:
    """The cluster with machines, and users whose pods have been tried."""
    machines = allot("fleet", "slices", ",".join(FLEET), "--all").out
    texts = [machines, *(next(EXAMPLES.glob(f"{number}-*.yaml")).read_text() for number in TRIED), TAINTED]
    trees = [tree for text in texts for tree in yaml.safe_load_all(text) if tree]

    async def fill() -> None:
        async with kube.client("user") as client:
            on = OnKubernetes(client, await discover(client))
            await on.clear()
            for tree in trees:
                tree["metadata"].setdefault("namespace", "default") if tree["kind"] in NAMESPACED else None
            for tree in (one for one in trees if one["kind"] == "Namespace"):
                await on.have(NAMESPACES, tree)
            await on.set_up(tree for tree in trees if tree["kind"] != "Namespace")
            wanted = sum(
                tree["spec"].get("replicas", 1) for tree in trees if tree["kind"] in ("Pod", "Job", "Deployment")
            )
            templates = {_named(one, one["metadata"]["name"]) for one in (await client.list(CLAIM_TEMPLATES)).items}
            waiting: list[str] = []

            async def tried() -> bool:
                pods = (await client.list(PODS)).items
                waiting[:] = [pod["metadata"]["name"] for pod in pods if not _tried(pod, templates)]
                return len(pods) >= wanted and not waiting

            await until(tried, lambda: f"{wanted} pods, and each tried; {waiting} are not")

    asyncio.run(fill())
    return kube


#: Of what is set up here.
NAMESPACED: Final = ("Pod", "ResourceClaim", "ResourceClaimTemplate", "Deployment", "Job", "Service", "ConfigMap")


def _named(of: Tree, name: str) -> str:
    return f"{of['metadata']['namespace']}/{name}"


def _tried(pod: Tree, templates: set[str]) -> bool:
    """Whether kube-scheduler has said what becomes of a pod; of one whose claim cannot be made it never does."""
    entries = pod["spec"].get("resourceClaims") or ()
    asked = {_named(pod, name) for one in entries if (name := one.get("resourceClaimTemplateName"))}
    return bool(pod["spec"].get("nodeName") or condition(pod) or asked - templates)


def taken(kube: ApiServer, path: Path) -> Path:
    """A snapshot of now."""
    assert allot("snapshot", "-o", str(path), *way(kube)).code == 0
    return path


@pytest.fixture(scope="module")
def snapshot(used: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken(used, tmp_path_factory.mktemp("snapshot") / "cluster.yaml")


def way(kube: ApiServer) -> tuple[str, ...]:
    return ("--kubeconfig", str(kube.kubeconfig), "--context", "real")


ASKED: Final = (
    ("explain",),
    ("explain", "pod/greedy"),
    ("explain", "pod/lost"),
    ("free",),
    ("plan", "--catalog", "aws,gcp", "--seconds", "0"),
    ("check", str(EXAMPLES / "04-seven-mig-slices.yaml"), str(EXAMPLES / "17-class-nobody-installs.yaml")),
    ("doctor",),
)
#: What is said of the asking, not of the cluster: how long it took, and what only a server can be asked.
OF_THE_ASKING: Final = ("summary", "notLookedAt", "skipped")


def told(ran: Ran) -> Tree:
    answer: Tree = json.loads(ran.out)
    return {key: value for key, value in answer.items() if key not in OF_THE_ASKING}


@pytest.mark.parametrize("words", ASKED, ids=lambda words: words[0])
def test_the_answer_is_that_of_a_snapshot(words: tuple[str, ...], used: ApiServer, tmp_path: Path) -> None:
    def asked() -> tuple[Ran, Path] | None:
        """The answer before a snapshot that is the one after it: something may have lasted too long meanwhile."""
        live = allot(*words, *way(used), "-o", "json")
        path = taken(used, tmp_path / "cluster.yaml")
        return (live, path) if told(live) == told(allot(*words, *way(used), "-o", "json")) else None

    live, path = wait_until(asked)
    kept = allot(*words, "--cluster", str(path), "-o", "json")
    assert told(live) == told(kept)
    assert live.code == kept.code


def test_a_snapshot_without_names_has_the_same_causes(used: ApiServer, snapshot: Path, tmp_path: Path) -> None:
    redacted = tmp_path / "redacted.yaml"
    assert allot("snapshot", "--redact", "-o", str(redacted), *way(used)).code == 0
    named = redacted.read_text()
    assert not any(word in named for word in ("greedy", "dgx-1", "t4-4x-pcie-1"))

    def causes(path: Path) -> list[str]:
        answers = json.loads(allot("explain", "--cluster", str(path), "-o", "json").out)["answers"]
        return sorted(one["reasons"]["headline"]["code"] for one in answers if one.get("reasons"))

    assert causes(redacted) == causes(snapshot)
    assert {"too-few-devices", "template-missing", "class-missing"} <= set(causes(redacted))


def test_tools_that_read_write_nothing(used: ApiServer) -> None:
    def revisions() -> dict[str, str]:
        found: dict[str, str] = {}
        for path in ("/api/v1/pods", "/api/v1/nodes", "/apis/resource.k8s.io/v1/resourceclaims",
                     "/apis/resource.k8s.io/v1/resourceslices"):  # fmt: skip
            items = used.ask("GET", path)[1]["items"]
            found |= {one["metadata"]["uid"]: one["metadata"]["resourceVersion"] for one in items}
        return found

    before = revisions()
    for words in ASKED:
        allot(*words, *way(used))
    assert revisions() == before
