"""The text of a plan: the verdict first, machines with their pods, reasons, and no line wider than the terminal."""

from __future__ import annotations

import io

import pytest
from msgspec.structs import replace

from allotment.cli.output.console import Screen
from allotment.cli.plan.text_output import Manner, free_of, print_plan
from allotment.explanation.report import ClaimAllocation, DeviceAllocation
from allotment.planning.reasons.machine_groups import group_machines
from allotment.planning.report import GroupVerdicts, ProvisioningPlan, TypeVerdict
from tests.unit.planning.sample_plans import machine, mixed_plan, placement, plan_of_machines, plan_with_groups


def text_of(
    plan: ProvisioningPlan, width: int | None = 80, wide: bool = False, why: str | None = None, colour: bool = False
) -> str:
    out = io.StringIO()
    print_plan(Screen(out, width, colour), plan, Manner(wide, why))
    return out.getvalue()


def test_the_first_line_is_the_verdict() -> None:
    assert text_of(mixed_plan()).splitlines()[0] == "3 machines, 26.637 USD/h (lower bound 26.237, gap 1.5 %)"
    proven = plan_of_machines([machine("n", "aws/g5.xlarge", "a10g", "1.006", placement("a", "n", "gpu-0"))], "1")
    assert text_of(proven).splitlines()[0] == "1 machine, 1.006 USD/h (proven optimal)"
    assert text_of(ProvisioningPlan()).splitlines() == ["No pod or claim is pending: no machines are needed."]
    assert text_of(ProvisioningPlan(existing=mixed_plan().existing)).splitlines()[0] == "No machine is needed"
    assert text_of(ProvisioningPlan(unserved=mixed_plan().unserved)).splitlines()[0] == "No machine fits the pods"


def test_machines_are_listed_with_their_pods_and_devices() -> None:
    lines = text_of(mixed_plan(), None).splitlines()
    assert "p4d-1   aws/p4d.24xlarge    us-east-1a      on-demand   21.958   8xa100-40gb   2 GPUs" in lines
    assert "  train-0  gpu-0, gpu-1, gpu-2" in lines
    assert "  notebook-0..4  gpu-0-mig-1g5gb-19-0 … gpu-0-mig-1g5gb-19-4" in lines
    assert "  api-0  gpu-0 (9Gi each)" in lines
    assert any("MIG 7 × 1g.5gb" in line for line in lines)


def test_free_devices_of_machines() -> None:
    free = {sort.first.node: free_of(sort.layout) for sort in group_machines(mixed_plan().machines)}
    assert free == {"a2-1": "2 × 1g.5gb", "p4d-1": "2 GPUs", "g5-1": "20% of a GPU"}


def test_equal_machines_are_one_line() -> None:
    lines = text_of(plan_with_groups(12, 3)).splitlines()
    rows = [line for line in lines if "aws/type-" in line]
    assert len(rows) == 3
    assert "4 × 3" in rows[0]
    assert any(line.endswith("on each") for line in lines)


def test_unplaced_pods_have_reason_and_nearest_type() -> None:
    text = text_of(mixed_plan())
    assert "default/huge-0 (Job default/huge): no type has 16 H200 [never]" in text
    assert "nearest: aws/p5en.48xlarge" in text


def test_chosen_type_and_nearest_misses_are_printed() -> None:
    text = text_of(mixed_plan())
    assert "aws/p4d.24xlarge, 21.958 USD/h for 2 pods; 1 other type" in " ".join(text.split())
    assert "aws/g5.12xlarge      5.672     4 GPUs; 6 requested" in text
    assert "L4 is Ada Lovelace; Ampere requested (borderline)" in " ".join(text.split())
    assert "aws/p5e.48xlarge     unknown   its price is unknown" in text


def test_why_prints_every_type_or_those_of_a_pattern() -> None:
    text = text_of(mixed_plan(), why="*")
    assert [name in text for name in ("p4de.24xlarge", "g5.12xlarge", "p5e.48xlarge")] == [True] * 3
    assert "serves 2" in text
    only = text_of(mixed_plan(), why="*g5*")
    assert "g5.12xlarge" in only
    assert "p5e.48xlarge" not in only
    assert "no type in the catalog matches 'aws/nope'" in text_of(mixed_plan(), why="aws/nope")


def test_pods_on_existing_nodes_have_no_type_verdicts() -> None:
    plan = mixed_plan()
    housed = replace(plan, existing=tuple(placement(f"train-{n}", "node-7") for n in range(2)))
    assert "Why no other types" not in text_of(housed)


def test_relaxation_has_both_totals_and_its_position() -> None:
    lines = text_of(mixed_plan()).splitlines()
    assert "  Turing also allowed: 26.637 → 14.637 USD/h" in lines
    assert "    ResourceClaimTemplate default/train: spec.spec.devices.requests[0]" in lines


@pytest.mark.parametrize("plan", [mixed_plan(), plan_with_groups(40, 17)], ids=["mixed", "many"])
def test_output_fits_the_terminal(plan: ProvisioningPlan) -> None:
    assert max(map(len, text_of(plan, 80).splitlines())) <= 80


def test_columns_that_do_not_fit_are_below_the_row() -> None:
    assert "us-central1-a, MIG 7 × 1g.5gb" in text_of(mixed_plan(), 80)
    assert "ZONE" not in text_of(mixed_plan(), 80)
    assert "ZONE" in text_of(mixed_plan(), None)


def test_wide_adds_cpu_and_memory() -> None:
    assert "CPU" not in text_of(mixed_plan(), None)
    (row,) = [line for line in text_of(mixed_plan(), None, wide=True).splitlines() if line.startswith("p4d-1")]
    assert row.split()[-2:] == ["4/95", "16/32Gi"]


def test_colours_are_used_only_on_terminals_with_colours() -> None:
    assert "\x1b[" not in text_of(mixed_plan())
    assert "\x1b[31m3 machines" in text_of(mixed_plan(), colour=True)


def test_share_has_its_name_unless_it_is_memory() -> None:
    def devices(share: dict[str, str]) -> str:
        given = DeviceAllocation(request="r", driver="d", pool="n", device="gpu-0", share=share)
        placed = replace(placement("a", "n"), claims=(ClaimAllocation(name="default/c", devices=(given,)),))
        return text_of(plan_of_machines([machine("n", "aws/g5.xlarge", "a10g", "1.006", placed)], "1")).splitlines()[5]

    assert devices({"memory": "9Gi"}) == "  a  gpu-0 (9Gi each)"
    assert devices({"memory": "0", "shares": "1"}) == "  a  gpu-0 (shares 1 each)"
    assert devices({"memory": "0"}) == "  a  gpu-0"


def test_text_too_long_for_its_column_is_below_the_row() -> None:
    long = "no device satisfies device.attributes['gpu.nvidia.com'].productName.matches('.*t4.*')"
    choice = GroupVerdicts(
        pods=(mixed_plan().unserved[0].pod,),
        owner="Job default/x",
        verdicts=(TypeVerdict(instance="aws/x", code="devices", text=long),),
    )
    lines = text_of(ProvisioningPlan(unserved=mixed_plan().unserved, choices=(choice,))).splitlines()
    assert "    aws/x   unknown" in lines
    assert max(map(len, lines)) <= 80


def test_no_nearest_type_without_known_capacity() -> None:
    (pod,) = mixed_plan().unserved
    assert "nearest:" not in text_of(ProvisioningPlan(unserved=(replace(pod, code="run-time-only"),)))
