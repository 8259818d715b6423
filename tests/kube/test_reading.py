"""The read-only tools give the same answers on a real cluster as on a snapshot of it, and a running exporter the same
metrics.

The cluster is Kubernetes' own; its nodes and slices are those that ``allot fleet slices`` prints, and kube-scheduler
has placed the pods that fit. The tests run the command line, in this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import yaml

from allotment.cli.main import main
from allotment.cluster.inspection.discovery import discover
from allotment.cluster.resources import CLAIM_TEMPLATES, NAMESPACES, PODS
from allotment.model.trees import Tree
from bench.real_kube import ApiServer
from tests.cluster_actions import scheduled_condition
from tests.kube.test_causes import ClusterScenarios
from tests.polling import until, wait_until

pytestmark = pytest.mark.every_release

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


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


def allot(*arguments: str) -> CommandResult:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main(arguments)
    assert code in (0, 1), errors.getvalue()
    return CommandResult(code, out.getvalue(), errors.getvalue())


@pytest.fixture(scope="module")
def used(kube: ApiServer) -> ApiServer:
    """The cluster with machines, and pods that the scheduler has tried."""
    machines = allot("fleet", "slices", ",".join(FLEET), "--all").out
    texts = [machines, *(next(EXAMPLES.glob(f"{number}-*.yaml")).read_text() for number in TRIED), TAINTED]
    trees = [tree for text in texts for tree in yaml.safe_load_all(text) if tree]

    async def fill() -> None:
        async with kube.client("user") as client:
            on = ClusterScenarios(client, await discover(client))
            await on.clear()
            for tree in trees:
                tree["metadata"].setdefault("namespace", "default") if tree["kind"] in NAMESPACED else None
            for tree in (tree for tree in trees if tree["kind"] == "Namespace"):
                await on.ensure(NAMESPACES, tree)
            await on.set_up(tree for tree in trees if tree["kind"] != "Namespace")
            expected = sum(
                tree["spec"].get("replicas", 1) for tree in trees if tree["kind"] in ("Pod", "Job", "Deployment")
            )
            templates = {
                _named(template, template["metadata"]["name"])
                for template in (await client.list(CLAIM_TEMPLATES)).items
            }
            waiting: list[str] = []

            async def tried() -> bool:
                pods = (await client.list(PODS)).items
                waiting[:] = [pod["metadata"]["name"] for pod in pods if not _is_tried(pod, templates)]
                return len(pods) >= expected and not waiting

            await until(tried, lambda: f"{expected} pods expected, each tried; {waiting} were not")

    asyncio.run(fill())
    return kube


#: Namespaced kinds among the created objects.
NAMESPACED: Final = ("Pod", "ResourceClaim", "ResourceClaimTemplate", "Deployment", "Job", "Service", "ConfigMap")


def _named(of: Tree, name: str) -> str:
    return f"{of['metadata']['namespace']}/{name}"


def _is_tried(pod: Tree, templates: set[str]) -> bool:
    """Whether kube-scheduler has tried a pod; it never tries one whose claim cannot be created."""
    entries = pod["spec"].get("resourceClaims") or ()
    templates_of_pod = {_named(pod, name) for entry in entries if (name := entry.get("resourceClaimTemplateName"))}
    return bool(pod["spec"].get("nodeName") or scheduled_condition(pod) or templates_of_pod - templates)


def take_snapshot(kube: ApiServer, path: Path) -> Path:
    """Take a snapshot of the cluster into a file."""
    assert allot("snapshot", "-o", str(path), *connection_options(kube)).code == 0
    return path


@pytest.fixture(scope="module")
def snapshot(used: ApiServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return take_snapshot(used, tmp_path_factory.mktemp("snapshot") / "cluster.yaml")


def connection_options(kube: ApiServer) -> tuple[str, ...]:
    return ("--kubeconfig", str(kube.kubeconfig), "--context", "real")


COMMANDS: Final = (
    ("explain",),
    ("explain", "pod/greedy"),
    ("explain", "pod/lost"),
    ("free",),
    ("plan", "--catalog", "aws,gcp", "--seconds", "0"),
    ("check", str(EXAMPLES / "04-seven-mig-slices.yaml"), str(EXAMPLES / "17-class-not-installed.yaml")),
    ("doctor",),
)
#: Keys that describe the query and not the cluster: durations, what only a server knows, and commands with its options.
QUERY_KEYS: Final = ("summary", "notLookedAt", "skipped", "next")


def output_of(ran: CommandResult) -> Tree:
    answer: Tree = json.loads(ran.out, object_hook=_without_query)
    return answer


def _without_query(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in QUERY_KEYS}


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_the_output_equals_that_of_a_snapshot(words: tuple[str, ...], used: ApiServer, tmp_path: Path) -> None:
    def consistent_output() -> tuple[CommandResult, Path] | None:
        """The cluster's answer, taken while the snapshots before and after it give equal answers: findings depend on
        age."""
        live = allot(*words, *connection_options(used), "-o", "json")
        path = take_snapshot(used, tmp_path / "cluster.yaml")
        return (
            (live, path)
            if output_of(live) == output_of(allot(*words, *connection_options(used), "-o", "json"))
            else None
        )

    live, path = wait_until(consistent_output)
    kept = allot(*words, "--cluster", str(path), "-o", "json")
    assert output_of(live) == output_of(kept)
    assert live.code == kept.code


def test_a_snapshot_without_names_has_the_same_causes(used: ApiServer, snapshot: Path, tmp_path: Path) -> None:
    redacted = tmp_path / "redacted.yaml"
    assert allot("snapshot", "--redact", "-o", str(redacted), *connection_options(used)).code == 0
    named = redacted.read_text()
    assert not any(word in named for word in ("greedy", "dgx-1", "t4-4x-pcie-1"))

    def causes(path: Path) -> list[str]:
        answers = json.loads(allot("explain", "--cluster", str(path), "-o", "json").out)["answers"]
        return sorted(answer["reasons"]["headline"]["code"] for answer in answers if answer.get("reasons"))

    assert causes(redacted) == causes(snapshot)
    assert {"too-few-devices", "template-missing", "class-missing"} <= set(causes(redacted))


def test_read_only_tools_write_nothing(used: ApiServer) -> None:
    def revisions() -> dict[str, str]:
        found: dict[str, str] = {}
        for path in ("/api/v1/pods", "/api/v1/nodes", "/apis/resource.k8s.io/v1/resourceclaims",
                     "/apis/resource.k8s.io/v1/resourceslices"):  # fmt: skip
            items = used.send_request("GET", path)[1]["items"]
            found |= {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}
        return found

    before = revisions()
    for arguments in COMMANDS:
        allot(*arguments, *connection_options(used))
    assert revisions() == before


# --- metrics ----------------------------------------------------------------------------------------------------------

#: Metrics of the exporter itself, and counters that start with it.
OWN: Final = (
    "allotment_exporter_",
    "allotment_claim_allocation_seconds",
    "allotment_work_",
    "allotment_client_",
    "allotment_b",
)


def of_the_cluster(text: str) -> list[str]:
    lines = (line for line in text.splitlines() if line.startswith("allotment_"))
    return sorted(line for line in lines if not line.startswith(OWN))


def test_metrics_are_those_of_a_snapshot_and_of_a_running_exporter(
    used: ApiServer, snapshot: Path, tmp_path: Path
) -> None:
    live = allot("metrics", *connection_options(used)).out
    assert 'allotment_pending_pods{cause="too-few-devices",namespace="default"} 1.0' in live
    assert 'allotment_pending_pods{cause="template-missing",namespace="default"} 1.0' in live
    assert live == allot("metrics", "--cluster", str(snapshot)).out
    log = tmp_path / "exporter.log"
    command = ["run", "exporter", *connection_options(used), "--metrics-bind-address", "127.0.0.1:0"]
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, "-m", "allotment.cli.main", *command], stderr=output, stdout=output)
    expected = of_the_cluster(live)
    try:
        wait_until(
            lambda: of_the_cluster(_scraped(log)) == expected,
            lambda: f"{set(of_the_cluster(_scraped(log))) ^ set(expected)}\n{log.read_text()}",
            300,
        )
    finally:
        process.terminate()
        assert process.wait(120) == 0


def _scraped(log: Path) -> str:
    """The metrics served at the address in the log."""
    for line in log.read_text().splitlines():
        if "metrics: " in line:
            with urllib.request.urlopen(line.partition("metrics: ")[2], timeout=60) as answer:
                text: str = answer.read().decode()
                return text
    return ""
