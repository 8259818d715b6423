"""``plan``: the arguments, their errors, and the next command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from allotment.api.cluster import Cluster
from allotment.api.plan import plan
from allotment.api.plans.search_control import SearchControl
from allotment.cli.main import main
from allotment.errors import InputError, InvalidManifests
from allotment.planning.machine_plan import MachinePlan

GPU = {
    "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "gpu"},
    "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}},
}  # fmt: skip
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: trainer}
spec:
  containers:
  - name: main
    image: registry.example/trainer:1
    resources: {requests: {cpu: "1"}, limits: {nvidia.com/gpu: GPUS}}
"""


@pytest.fixture
def impossible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A pod with more GPUs than any machine has."""
    monkeypatch.chdir(tmp_path)
    Path("pod.yaml").write_text(POD.replace("GPUS", "64"))
    return "pod.yaml"


def test_a_claim_gets_the_cheapest_machine() -> None:
    found = plan(GPU, catalog=["aws"], time_limit=0)
    assert isinstance(found, MachinePlan)
    (machine,) = found.machines
    assert machine.instance.startswith("aws/")
    assert (found.total, found.unserved, found.compared, found.next) == (machine.usd_per_hour, (), None, "")
    assert found.verdict == found.to_dict()["verdict"]
    assert found.verdict.startswith("1 machine")


def test_the_command_prints_the_plan(impossible: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Only the next command differs: the command line repeats the words of its user."""
    assert main(["plan", impossible, "--catalog", "aws", "--compare", "-o", "json"]) == 1
    printed = json.loads(capsys.readouterr().out)
    found = plan(impossible, catalog=["aws"], compare=True).to_dict()
    assert {**printed, "next": ""} == {**found, "next": ""}
    assert found["next"] == "allot plan pod.yaml --catalog aws --compare --why"


def test_existing_devices_are_used_first() -> None:
    found = plan(GPU, Cluster.fleet("t4-4x-pcie"), time_limit=0)
    assert found.machines == ()
    assert [placement.node for placement in found.existing] == ["t4-4x-pcie-1"]


def test_limits_and_namespace() -> None:
    found = plan(
        POD.replace("GPUS", "1"), catalog="aws", types=["aws/g5.*,aws/g6.*"], exclude_types="aws/g6.*",
        capacity_type="cheapest", max_spot=Decimal(1), budget=20.5, max_machines=2, max_per_type={"aws/g5*": 1},
        time_limit=0, namespace="ml",
    )  # fmt: skip
    assert [machine.instance.partition(".")[0] for machine in found.machines] == ["aws/g5"]
    assert str(found.machines[0].placements[0].pod) == "ml/trainer"


def test_the_next_command_has_all_arguments(impossible: str) -> None:
    found = plan(
        impossible, Cluster.fleet("t4-4x-pcie", kube="1.36"), only="pod/trainer", catalog=["aws", "gcp"],
        types=["aws/*"], capacity_type="cheapest", max_spot="50%", budget=30, max_machines=4,
        max_per_type={"aws/p5*": 2}, time_limit=0, seed=3, namespace="ml",
    )  # fmt: skip
    assert found.next == (
        "allot plan pod.yaml --fleet t4-4x-pcie --kube-version 1.36 -n ml --only pod/trainer --catalog aws "
        "--catalog gcp --types 'aws/*' --capacity-type cheapest --max-spot 50% --budget 30 --max-machines 4 "
        "--max-per-type 'aws/p5*=2' --time-limit 0 --seed 3 --why"
    )


def test_there_is_no_next_command_for_objects_without_a_file() -> None:
    found = plan(POD.replace("GPUS", "64"), catalog=["aws"], time_limit=0)
    assert len(found.unserved) == 1
    assert found.next == ""


def test_ignored_rows_of_a_catalog_are_in_the_plan(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("provider,instance_type,vcpu,memory_gib,gpu_count,gpu,on_demand_usd_per_hour\nus,a,8,64,1,l4,-1\n")
    found = plan(GPU, catalog=[own, "aws"], time_limit=0)
    assert [problem.position.line for problem in found.catalog_problems] == [2]
    assert found.to_dict()["catalogProblems"][0]["file"] == str(own)


@pytest.mark.parametrize(
    ("request_plan", "message"),
    [
        (lambda: plan(GPU, catalog=["asw"]), "catalog: unknown provider 'asw'"),
        (lambda: plan(GPU, types=["g5.xlarge"]), "types: no type in the catalog matches 'g5.xlarge'"),
        (lambda: plan(GPU, exclude_types=["zz"]), "exclude_types: no type in the catalog matches 'zz'"),
        (lambda: plan(GPU, max_per_type={"zz": 1}), "max_per_type: no type in the catalog matches 'zz'"),
        (lambda: plan(GPU, max_per_type={"aws/*": -1}), "max_per_type: expected a number >= 0, found -1"),
        (lambda: plan(GPU, zones=["us-east-1z"]), "zones: no type in the catalog is available in 'us-east-1z'"),
        (lambda: plan(GPU, modes=["sharde"]), "modes: unknown mode 'sharde'"),
        (lambda: plan(GPU, capacity_type="free"), "capacity_type: expected one of on-demand, spot, cheapest"),  # type: ignore[arg-type]
        (lambda: plan(GPU, max_spot=0.5), "max_spot: requires capacity type cheapest"),
        (lambda: plan(GPU, max_spot="120%", capacity_type="cheapest"), "max_spot: expected at most 100%, found '120%'"),
        (lambda: plan(GPU, budget="cheap"), "budget: expected a number >= 0, found 'cheap'"),
        (lambda: plan(GPU, budget=-1), "budget: expected a number >= 0, found -1"),
        (lambda: plan(GPU, max_machines=-1), "max_machines: expected a number >= 0, found -1"),
        (lambda: plan(GPU, time_limit=-1), "time_limit: expected a number >= 0, found -1"),
        (lambda: plan([]), "objects: no Kubernetes objects"),
        (lambda: plan(GPU, only="web"), "only: no pending pod, claim or workload is named 'web'"),
    ],
)
def test_errors_name_the_argument(request_plan: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}"):
        request_plan()


def test_invalid_manifests_are_refused() -> None:
    with pytest.raises(InvalidManifests, match="<text>:"):
        plan("apiVersion: v1\nkind: Pod\nmetadata: {}\n")


def test_a_search_with_a_time_limit_ends_by_the_clock() -> None:
    seconds = iter((0.0, 1.0, 2.0, 3.5))
    search = SearchControl(3.0, lambda: next(seconds))
    assert [search.keep_going() for _ in range(3)] == [True, True, False]
