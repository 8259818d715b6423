"""The baselines, on problems small enough to follow the rules by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from allotment.packing.baselines import cluster_autoscaler, karpenter
from allotment.packing.problem import BinType, CapacityRow, FeasibilityCheck, PackedBins, Packing, Problem
from tests.unit.packing.random_problems import ExactCheck


def _bin(name: str, price: int, cpu: int, memory: int, *needs: tuple[int, int], most: int | None = None) -> BinType:
    return BinType(
        name,
        price,
        (CapacityRow("cpu", 1, cpu), CapacityRow("memory", 1, memory)),
        tuple(((c,), (m,)) for c, m in needs),
        most,
    )


def test_karpenter_adds_items_to_a_node_while_any_type_holds_them() -> None:
    """Two small nodes would cost 2; the planned node takes both items as long as the large type holds them."""
    items = ((4, 1), (4, 1))
    problem = Problem(
        ("a", "b"), (1, 1), (_bin("small", 1, 4, 8, *items), _bin("large", 5, 8, 16, *items))
    )  # fmt: skip
    assert karpenter(problem, ExactCheck(problem)).bins == (PackedBins(1, ((0, 1), (1, 1)), 1),)


def test_karpenter_launches_the_cheapest_remaining_type() -> None:
    items = ((4, 1),)
    problem = Problem(("a",), (1,), (_bin("large", 5, 8, 16, *items), _bin("small", 1, 4, 8, *items)))
    assert karpenter(problem, ExactCheck(problem)).bins == (PackedBins(1, ((0, 1),), 1),)


def test_karpenter_gives_the_next_item_to_the_node_with_the_fewest() -> None:
    """Each big item takes a node; small items then alternate between the nodes."""
    items = ((6, 1), (1, 1))
    problem = Problem(("big", "small"), (2, 4), (_bin("node", 3, 8, 16, *items),))
    assert karpenter(problem, ExactCheck(problem)).bins == (PackedBins(0, ((0, 1), (1, 2)), 2),)


@pytest.mark.parametrize("baseline", [karpenter, cluster_autoscaler])
def test_existing_nodes_are_filled_first(baseline: Callable[[Problem, FeasibilityCheck], Packing]) -> None:
    items = ((4, 1),)
    problem = Problem(("a",), (3,), (_bin("new", 5, 8, 16, *items), _bin("existing", 0, 8, 16, *items, most=1)))
    packing = baseline(problem, ExactCheck(problem))
    assert packing.cost == 5
    assert PackedBins(1, ((0, 2),), 1) in packing.bins


def test_cluster_autoscaler_considers_cpu_and_memory_only() -> None:
    """The expensive node wastes neither, and least-waste ignores prices; the price expander does not."""
    items = ((8, 8),)
    bins = (_bin("fair", 1, 9, 9, *items), _bin("expensive", 50, 8, 8, *items))
    problem = Problem(("a",), (3,), bins)
    assert cluster_autoscaler(problem, ExactCheck(problem)).cost == 150
    assert cluster_autoscaler(problem, ExactCheck(problem), "price").cost == 3


def test_cluster_autoscaler_adds_one_type_in_each_loop() -> None:
    """``most-pods`` chooses the type that fits both kinds, for both."""
    bins = (
        BinType("only a", 1, (CapacityRow("cpu", 1, 4),), (((4,),), None)),
        BinType("both", 7, (CapacityRow("cpu", 1, 4),), (((4,),), ((4,),))),
    )
    problem = Problem(("a", "b"), (1, 1), bins)
    packing = cluster_autoscaler(problem, ExactCheck(problem), "most-pods")
    assert packing.cost == 14
    assert cluster_autoscaler(problem, ExactCheck(problem)).cost == 8


def test_a_maximum_count_leaves_items_unpacked() -> None:
    items = ((4, 1),)
    problem = Problem(("a",), (3,), (_bin("node", 5, 4, 16, *items, most=2),))
    for baseline in (karpenter, cluster_autoscaler):
        packing = baseline(problem, ExactCheck(problem))
        assert packing.unpacked == ((0, 1),)
        assert packing.cost == packing.bound == 10
