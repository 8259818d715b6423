"""Layouts of planned machines: users of GPU parts, free parts, and groups of equal machines."""

from __future__ import annotations

from fractions import Fraction

from allotment.planning.reasons.machine_groups import group_machines
from allotment.planning.reasons.machine_layout import layout_of
from tests.unit.planning.sample_plans import machine, placement, plan_with_groups


def test_whole_gpus_are_allocated_or_idle() -> None:
    layout = layout_of(machine("n", "aws/p5", "8xh100", "55", placement("a", "n", "gpu-1", "gpu-6")))
    assert [gpu.number for gpu in layout.gpus if gpu.allocated] == [1, 6]
    assert (layout.idle, layout.spare, layout.model) == (6, (), "nvidia-h100-80gb-hbm3")


def test_static_partitions_have_the_drivers_placements() -> None:
    layout = layout_of(
        machine("n", "gcp/a2", "a100-40gb/static-mig=1g.5gb:7", "3.7", placement("a", "n", "gpu-0-mig-1g5gb-19-3"))
    )
    (gpu,) = layout.gpus
    assert [part.start for part in gpu.parts] == [Fraction(n, 8) for n in range(8)]
    assert [part.pods for part in gpu.parts if part.pods] == [("default/a",)]
    assert layout.spare == (("1g.5gb", 6),)
    assert gpu.parts[-1].kind == ""  # the eighth memory slice, which no layout of these profiles uses


def test_dynamic_partitions_leave_the_rest_of_the_gpu_free() -> None:
    layout = layout_of(
        machine("n", "gcp/a2", "a100-40gb/dynamic-mig", "3.7", placement("a", "n", "gpu-0-mig-3g20gb-9-4"))
    )
    (gpu,) = layout.gpus
    assert [(part.start, part.size, bool(part.pods)) for part in gpu.parts] == [
        (Fraction(0), Fraction(1, 2), False),
        (Fraction(1, 2), Fraction(1, 2), True),
    ]


def test_shares_of_a_gpu_are_sized_by_their_capacity() -> None:
    layout = layout_of(
        machine("n", "aws/t4", "t4/shared", "0.5", *(placement(f"a-{n}", "n", "gpu-0", share="5Gi") for n in range(2)))
    )
    (gpu,) = layout.gpus
    assert [part.size for part in gpu.parts] == [Fraction(1, 3)] * 3
    assert gpu.allocated == Fraction(2, 3)


def test_a_shared_claim_takes_its_share_once() -> None:
    users = [placement(name, "n", "gpu-0", share="5Gi", claim="default/both") for name in ("a", "b")]
    (gpu,) = layout_of(machine("n", "aws/t4", "t4/shared", "0.5", *users)).gpus
    assert gpu.allocated == Fraction(1, 3)
    assert gpu.parts[0].pods == ("default/a", "default/b")


def test_amd_partitions_are_parts_of_their_gpu() -> None:
    layout = layout_of(machine("n", "azure/mi", "mi300x-8x-oam/cpx", "48", placement("a", "n", "gpu-9-136")))
    assert [gpu.number for gpu in layout.gpus if gpu.allocated] == [1]
    assert layout.gpus[1].allocated == Fraction(1, 8)


def test_a_machine_without_gpus_or_of_an_unknown_form_has_no_layout() -> None:
    assert layout_of(machine("n", "aws/m6i", "", "0.2")).gpus == ()
    assert layout_of(machine("n", "own/box", "no-such-gpu", "0.2")).gpus == ()


def test_equal_machines_are_one_group_regardless_of_the_gpu() -> None:
    first = machine("n-1", "aws/p5", "8xh100", "55", placement("a-0", "n-1", "gpu-0", owner="Job default/a"))
    second = machine("n-2", "aws/p5", "8xh100", "55", placement("a-1", "n-2", "gpu-5", owner="Job default/a"))
    other = machine("n-3", "aws/p5", "8xh100", "55", placement("b", "n-3", "gpu-0", owner="Job default/b"))
    assert [len(group.machines) for group in group_machines([first, second, other])] == [2, 1]


def test_groups_are_ordered_by_total_price_and_contain_every_machine() -> None:
    plan = plan_with_groups(60, 9)
    groups = group_machines(plan.machines)
    assert [group.total for group in groups] == sorted((group.total for group in groups), reverse=True)
    assert sum(len(group.machines) for group in groups) == 60
