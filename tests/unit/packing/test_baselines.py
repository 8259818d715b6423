"""The rules of others, on problems small enough to follow them by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from allotment.packing.baselines import cluster_autoscaler, karpenter
from allotment.packing.problem import BinType, CapacityRow, FeasibilityCheck, PackedBins, Packing, Problem
from tests.unit.packing.small import Exact


def _bin(name: str, price: int, cpu: int, memory: int, *needs: tuple[int, int], most: int | None = None) -> BinType:
    return BinType(name, price, (CapacityRow("cpu", 1, cpu), CapacityRow("memory", 1, memory)), tuple(((c,), (m,)) for c, m in needs), most)


def test_karpenter_lets_a_node_grow_while_any_type_holds_it() -> None:
    """Two small nodes would cost 2; the planned node takes both items as long as the large type holds them."""
    items = ((4, 1), (4, 1))
    problem = Problem(
        ("a", "b"), (1, 1), (_bin("small", 1, 4, 8, *items), _bin("large", 5, 8, 16, *items))
    )  # fmt: skip
    assert karpenter(problem, Exact(problem)).bins == (PackedBins(1, ((0, 1), (1, 1)), 1),)


def test_karpenter_takes_the_cheapest_type_that_is_left() -> None:
    items = ((4, 1),)
    problem = Problem(("a",), (1,), (_bin("large", 5, 8, 16, *items), _bin("small", 1, 4, 8, *items)))
    assert karpenter(problem, Exact(problem)).bins == (PackedBins(1, ((0, 1),), 1),)


def test_karpenter_gives_the_next_item_to_the_node_with_the_fewest() -> None:
    """Two big items take a node each; small ones then go round."""
    items = ((6, 1), (1, 1))
    problem = Problem(("big", "small"), (2, 4), (_bin("node", 3, 8, 16, *items),))
    assert karpenter(problem, Exact(problem)).bins == (PackedBins(0, ((0, 1), (1, 2)), 2),)


@pytest.mark.parametrize("rival", [karpenter, cluster_autoscaler])
def test_nodes_that_are_there_come_first(rival: Callable[[Problem, FeasibilityCheck], Packing]) -> None:
    items = ((4, 1),)
    problem = Problem(("a",), (3,), (_bin("new", 5, 8, 16, *items), _bin("there", 0, 8, 16, *items, most=1)))
    packing = rival(problem, Exact(problem))
    assert packing.cost == 5
    assert PackedBins(1, ((0, 2),), 1) in packing.bins


def test_cluster_autoscaler_sees_cpu_and_memory_only() -> None:
    """The dear node wastes nothing of either, and least-waste does not look at prices; the expander for prices does."""
    items = ((8, 8),)
    bins = (_bin("fair", 1, 9, 9, *items), _bin("dear", 50, 8, 8, *items))
    problem = Problem(("a",), (3,), bins)
    assert cluster_autoscaler(problem, Exact(problem)).cost == 150
    assert cluster_autoscaler(problem, Exact(problem), "price").cost == 3


def test_cluster_autoscaler_buys_one_sort_a_loop() -> None:
    """``most-pods`` takes the sort that helps both kinds, for both."""
    bins = (
        BinType("only a", 1, (CapacityRow("cpu", 1, 4),), (((4,),), None)),
        BinType("both", 7, (CapacityRow("cpu", 1, 4),), (((4,),), ((4,),))),
    )
    problem = Problem(("a", "b"), (1, 1), bins)
    packing = cluster_autoscaler(problem, Exact(problem), "most-pods")
    assert packing.cost == 14
    assert cluster_autoscaler(problem, Exact(problem)).cost == 8


def test_a_limit_leaves_items() -> None:
    items = ((4, 1),)
    problem = Problem(("a",), (3,), (_bin("node", 5, 4, 16, *items, most=2),))
    for rival in (karpenter, cluster_autoscaler):
        packing = rival(problem, Exact(problem))
        assert packing.unpacked == ((0, 1),)
        assert packing.cost == packing.bound == 10
