"""``allot plan``: arguments, exit codes, files that extend the catalog, limits, output formats."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from allotment.model.loading import load_text
from allotment.planning.planner import plan_demand
from allotment.planning.relaxations.savings import RelaxationResult
from allotment.planning.report import ProvisioningPlan, UntriedRelaxations
from allotment.reference.packaged_examples import find_example
from tests.unit.cli.conftest import Allot

APP = """\
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    devices:
      requests:
      - name: gpu
        exactly:
          deviceClassName: gpu.nvidia.com
          selectors:
          - cel:
              expression: device.attributes["gpu.nvidia.com"].architecture == "Ampere"
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
      containers:
      - name: c
        image: registry.example/web:1
        resources:
          requests: {cpu: "1", memory: 1Gi}
          claims: [{name: gpu}]
"""

MIXED_PODS = Path(__file__).parents[3] / "packaging" / "mixed-pods.yaml"
OWN = """\
provider,instance_type,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour
own,box,16,64,2,a10g,0.9
own,cheap,16,64,2,a10g,-3
own,odd,sixteen,64,1,t4,1
"""


@pytest.fixture
def app(tmp_path: Path) -> str:
    path = tmp_path / "app.yaml"
    path.write_text(APP)
    return str(path)


@pytest.fixture
def own(tmp_path: Path) -> str:
    path = tmp_path / "own.csv"
    path.write_text(OWN)
    return str(path)


def test_plan_serves_all_pods(allot: Allot, app: str) -> None:
    ran = allot("plan", app, "--catalog", "aws")
    assert ran.code == 0
    assert ran.out.startswith("2 machines, 2.012 USD/h (proven optimal)\n2 pods on new machines.\n")
    assert "web-0" in ran.out
    assert "Tesla T4 is Turing; Ampere requested" in ran.out
    assert "Turing also allowed: 2.012 → 1.052 USD/h" in ran.out


def test_the_article_example_is_planned(allot: Allot) -> None:
    ran = allot("plan", str(find_example("1").path), "-o", "json")
    data = json.loads(ran.out)
    assert (ran.code, data["total"], [machine["instance"] for machine in data["machines"]]) == (
        0,
        "1.006",
        ["aws/g5.xlarge"],
    )


def test_files_can_be_named_as_in_kubectl(allot: Allot, app: str) -> None:
    assert allot("plan", "-f", app, "-o", "json").out == allot("plan", app, "-o", "json").out


def test_invalid_catalog_rows_are_reported_and_the_others_used(allot: Allot, app: str, own: str) -> None:
    ran = allot("plan", app, "--catalog", own)
    assert ran.code == 1
    assert ran.out.startswith("1 machine, 0.90 USD/h")
    assert "own.csv:3" in ran.err
    assert "own.csv:4" in ran.err
    data = json.loads(allot("plan", app, "--catalog", own, "-o", "json").out)
    assert [problem["line"] for problem in data["catalogProblems"]] == [3, 4]


def test_unplaceable_pods_are_reported_and_the_others_planned(allot: Allot, app: str, tmp_path: Path) -> None:
    never = tmp_path / "never.yaml"
    never.write_text(APP.replace("name: one", "name: two").replace("One: one", "two").replace(
        'architecture == "Ampere"', 'architecture == "Nonesuch"').replace("name: web", "name: odd")
        .replace("resourceClaimTemplateName: one", "resourceClaimTemplateName: two"))  # fmt: skip
    ran = allot("plan", app, str(never), "--catalog", "aws")
    assert ran.code == 1
    assert ran.out.startswith("2 machines")
    assert "Not placed:" in ran.out
    assert "default/odd-0..1 (Deployment default/odd)" in ran.out


def test_existing_nodes_are_used_first(allot: Allot, app: str) -> None:
    ran = allot("plan", app, "--fleet", "a10g:2")
    assert ran.code == 0
    assert ran.out.startswith("No machine is needed\n2 pods on existing nodes.\n")
    assert "cpu and memory are assumed to be sufficient" in ran.out


def test_a_cordoned_node_on_which_pods_fit_is_named(allot: Allot, app: str, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    node = """\
apiVersion: v1
kind: Node
metadata: {name: gpu-2, labels: {kubernetes.io/hostname: gpu-2}}
spec: {unschedulable: true}
status: {allocatable: {cpu: "16", memory: 64Gi, pods: "110"}}
---
"""
    cluster.write_text(node + allot("fleet", "slices", "gpu-2=2xa10g").out)
    ran = allot("plan", app, "--cluster", str(cluster), "--catalog", "aws")
    assert ran.code == 0
    assert "2 pods fit on cordoned node gpu-2 without a new machine" in " ".join(ran.out.split())
    assert "kubectl uncordon gpu-2" in " ".join(ran.out.split())


def test_claim_without_pod_is_planned(allot: Allot, tmp_path: Path) -> None:
    path = tmp_path / "claim.yaml"
    path.write_text(
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: mine}\n"
        "spec: {devices: {requests: [{name: a, exactly: {deviceClassName: gpu.nvidia.com}}]}}\n"
    )
    ran = allot("plan", str(path), "-o", "json")
    assert ran.code == 0
    assert json.loads(ran.out)["machines"][0]["seats"][0]["pod"]["name"] == "any-pod-with-mine"


def test_a_single_workload_can_be_planned(allot: Allot, app: str) -> None:
    both = [str(find_example(number).path) for number in ("1", "5")]
    data = json.loads(allot("plan", *both, "--only", "job/finetune", "-o", "json").out)
    assert [placement["owner"] for machine in data["machines"] for placement in machine["seats"]] == [
        "Job default/finetune"
    ]
    ran = allot("plan", app, "--only", "wbe")
    assert ran.code == 2
    assert "did you mean web?" in ran.err


def test_pending_pods_of_the_cluster_are_mentioned_if_files_are_planned(allot: Allot, app: str, tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.yaml"
    snapshot.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: other, namespace: default}\n"
        "spec: {containers: [{name: c, image: i}]}\nstatus: {phase: Pending}\n"
    )
    ran = allot("plan", app, "--cluster", str(snapshot), "--catalog", "aws")
    assert "note: 1 pending pod in the cluster is not included" in ran.out
    ran = allot("plan", "--cluster", str(snapshot), "-o", "json")
    assert [placement["pod"]["name"] for placement in json.loads(ran.out)["machines"][0]["seats"]] == ["other"]


def test_nominated_pod_keeps_its_node(allot: Allot, tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.yaml"
    pods = "".join(
        f"---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default}}\n"
        "spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: one}], containers: [{name: c, image: i}]}\n"
        f"status: {{phase: Pending{nomination}}}\n"
        for name, nomination in (("first", ""), ("second", ", nominatedNodeName: a10g-1"))
    )
    machines = allot("fleet", "slices", "a10g", "--all").out
    snapshot.write_text(f"{machines}---\n{APP.partition('---')[0]}{pods}")
    data = json.loads(allot("plan", "--cluster", str(snapshot), "-o", "json", "--time-limit", "0").out)
    assert [(placement["pod"]["name"], placement["node"]) for placement in data["existing"]] == [("second", "a10g-1")]
    assert [placement["pod"]["name"] for machine in data["machines"] for placement in machine["seats"]] == ["first"]


def test_workload_name_selects_its_pending_pods(allot: Allot, tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.yaml"
    owned = "{{apiVersion: apps/v1, kind: ReplicaSet, name: {name}, uid: u, controller: true}}"
    snapshot.write_text(
        "".join(
            f"---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}-x\n  namespace: default\n"
            f"  ownerReferences: [{owned.format(name=name)}]\n"
            "spec: {containers: [{name: c, image: i}]}\nstatus: {phase: Pending}\n"
            for name in ("chat-5d8f", "web-77aa")
        )
    )

    def pods(only: str) -> list[str]:
        ran = allot("plan", "--cluster", str(snapshot), "--only", only, "-o", "json", "--time-limit", "0")
        return [
            placement["pod"]["name"] for machine in json.loads(ran.out)["machines"] for placement in machine["seats"]
        ]

    for only in ("deployment/chat", "deploy/chat", "chat", "replicaset/chat-5d8f", "pod/chat-5d8f-x"):
        assert pods(only) == ["chat-5d8f-x"]
    assert "did you mean chat" in allot("plan", "--cluster", str(snapshot), "--only", "deployment/cht").err


def test_limits_restrict_machines(allot: Allot, app: str) -> None:
    def types(*words: str) -> list[str]:
        return [machine["instance"] for machine in json.loads(allot("plan", app, "-o", "json", *words).out)["machines"]]

    assert types("--catalog", "gcp") == ["gcp/a2-highgpu-1g"] * 2
    assert types("--exclude-types", "aws/g5.xlarge", "--catalog", "aws") == ["aws/g5.2xlarge"] * 2
    assert types("--types", "aws/p4d.*") == ["aws/p4d.24xlarge"]
    ran = allot("plan", app, "--max-machines", "1", "--types", "aws/g5.xlarge")
    assert ran.code == 1
    assert "1 machine, 1.006 USD/h" in ran.out
    ran = allot("plan", app, "--budget", "1.5", "--types", "aws/g5.xlarge")
    assert (ran.code, ran.out.startswith("1 machine")) == (1, True)


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["--catalog", "awz"], "--catalog: unknown provider 'awz'", "did you mean aws?"),
        (["--types", "g5.xlarge"], "--types: no type in the catalog matches 'g5.xlarge'", "aws/g5.xlarge"),
        (["--zones", "us-east-1z"], "--zones: no type in the catalog is available in 'us-east-1z'", "did you mean"),
        (["--max-per-type", "aws/p5*"], "--max-per-type: expected TYPE=N, found 'aws/p5*'", "aws/p5*=2"),
        (["--budget", "cheap"], "--budget: expected a number >= 0, found 'cheap'", "for example 30"),
        (["--max-spot", "50%"], "--max-spot: requires capacity type cheapest", "allows on-demand and spot"),
        (["--capacity-type", "cheapest", "--max-spot", "150%"], "expected at most 100%, found '150%'", "50%"),
        (["--modes", "static"], "--modes: unknown mode 'static'", "did you mean static-mig?"),
        (["--max-machines", "-1"], "--max-machines: expected a number >= 0, found -1", ""),
        (["--time-limit", "-1"], "--time-limit: expected a number >= 0, found -1", ""),
        (["--budget", "-2"], "--budget: expected a number >= 0, found '-2'", "for example 30"),
        (["--why", "g5.xlrage"], "--why: no type in the catalog matches 'g5.xlrage'", "did you mean aws/g5.xlarge"),
        (["--picture", "/no/such/plan.svg"], "--picture /no/such/plan.svg: directory not found: /no/such", ""),
        (["--picture", "plan.gif"], "--picture: expected a name that ends in .svg or .png", "plan.svg"),
    ],
)
def test_invalid_options_are_named(allot: Allot, app: str, words: list[str], error: str, hint: str) -> None:
    ran = allot("plan", app, *words)
    assert ran.code == 2
    assert error in ran.err
    assert hint in ran.err
    assert not ran.out


def test_why_prints_all_matching_types(allot: Allot, app: str) -> None:
    text = allot("plan", app, "--why", "lambda/*", "--time-limit", "0").out
    assert "lambda/gpu_1x_a6000" in text
    assert "serves 1" in text
    assert "aws/g6.xlarge" not in text.partition("VERDICT")[2].partition("What one")[0]


def test_machines_can_be_printed_as_nodes(allot: Allot, app: str) -> None:
    loaded = load_text(allot("plan", app, "--catalog", "aws", "-o", "machines").out, "nodes.yaml")
    assert [document.tree["kind"] for document in loaded.documents] == ["Node", "Node"]
    assert loaded.documents[0].tree["metadata"]["labels"]["node.kubernetes.io/instance-type"] == "g5.xlarge"
    loaded = load_text(allot("plan", app, "--catalog", "aws", "-o", "nodeclaims").out, "claims.yaml")
    assert {document.tree["kind"] for document in loaded.documents} == {"NodeClaim"}


def test_output_is_deterministic(allot: Allot, app: str) -> None:
    first, second = (allot("plan", app, "-o", "json").out for _ in range(2))
    assert first == second
    assert allot("plan", app, "-o", "yaml").out.startswith("verdict:")


def test_a_picture_is_drawn(allot: Allot, app: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.svg"
    ran = allot("plan", app, "--catalog", "aws", "--picture", str(path))
    assert ran.code == 0
    assert "aws/g5.xlarge" in path.read_text()
    assert f"Wrote {path}." in ran.err


def test_help_describes_the_command(allot: Allot) -> None:
    text = allot("plan", "--help").out
    assert all(word in text for word in ("--catalog", "--why", "--picture", "--compare"))
    assert max(map(len, text.splitlines())) <= 80


def test_other_autoscalers_are_never_cheaper_than_the_bound(allot: Allot, app: str) -> None:
    data = json.loads(allot("plan", app, "--compare", "-o", "json", "--time-limit", "0").out)
    assert [baseline["rules"] for baseline in data["compared"]] == ["Karpenter", "cluster-autoscaler (least-waste)"]
    assert all(float(baseline["total"]) >= float(data["bound"]) for baseline in data["compared"])
    text = allot("plan", app, "--compare", "--time-limit", "0").out
    assert "Cost under other autoscalers' rules, with the same catalog:\n  Karpenter: " in text
    assert "cluster-autoscaler (least-waste): 2 machines, 2.012 USD/h (equal)" in text


def test_ctrl_c_keeps_the_plan_and_skips_relaxations(allot: Allot, app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, keep_going: Callable[[], bool], **__: object) -> RelaxationResult:
        assert keep_going()
        os.kill(os.getpid(), signal.SIGINT)
        assert not keep_going()
        return RelaxationResult((), UntriedRelaxations(limit="time"))

    monkeypatch.setattr("allotment.api.plans.inputs.relaxations", interrupted)
    ran = allot("plan", app)
    assert ran.code == 0
    assert ran.out.startswith("2 machines")


def test_ctrl_c_skips_relaxations(allot: Allot, app: str, monkeypatch: pytest.MonkeyPatch) -> None:
    heading = "Savings from relaxing one requirement"
    assert heading in allot("plan", app).out

    def interrupted(*arguments: Any, **options: Any) -> ProvisioningPlan:
        os.kill(os.getpid(), signal.SIGINT)
        return plan_demand(*arguments, **options)

    monkeypatch.setattr("allotment.api.plans.inputs.plan_demand", interrupted)
    ran = allot("plan", app)
    assert ran.code == 0
    assert heading not in ran.out
    assert "The search for savings ended early (--time-limit or Ctrl-C)" in ran.out


def test_without_a_time_limit_the_clock_does_not_end_the_search_for_savings(
    allot: Allot, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow machine more time passes between two steps."""
    usual = allot("plan", app).out
    seconds = count(0.0, 1000.0)
    monkeypatch.setattr("allotment.cli.plan.progress.monotonic", lambda: next(seconds))
    slow = allot("plan", app)
    assert slow.out == usual
    limited = allot("plan", app, "--time-limit", "1")
    assert "The search for savings ended early before it tried 1 group of pods" in limited.out


def test_without_a_time_limit_the_plan_is_the_same_on_a_slow_machine(
    allot: Allot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("allotment.api.plans.inputs.steps_for", lambda values: 7)
    command = ("plan", str(MIXED_PODS), "--catalog", "aws")
    usual = allot(*command)
    assert "the search for machines was ended after 7 steps" in usual.out
    seconds = count(0.0, 1000.0)
    monkeypatch.setattr("allotment.cli.plan.progress.monotonic", lambda: next(seconds))
    assert allot(*command).out == usual.out


def test_data_states_what_was_not_tried(allot: Allot, app: str) -> None:
    data = json.loads(allot("plan", app, "-o", "json").out)
    assert data["untried"] == {"relaxations": 0, "groups": 0, "shortened": 0, "limit": ""}
