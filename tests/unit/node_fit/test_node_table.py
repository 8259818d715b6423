"""Node fit tables: incremental updates, the best node, scores."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.node_fit.node_table import NodeFitTable, node_indexes
from tests.unit.scheduler.machines import assigned_pod, nodes_named, requirements_of
from tests.unit.scheduler.world import node

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("assign"), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("remove pod"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("put node"), st.integers(0, 3), st.integers(1, 12)),
        st.tuples(st.just("remove node"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("catch up"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(_STEPS)
def test_incremental_updates_equal_a_full_evaluation(steps: list[tuple[str, int, int]]) -> None:
    nodes = nodes_named("n0", "n1", "n2", "n3")
    requirements = requirements_of(requests={"cpu": "2"})
    updated = NodeFitTable(requirements, nodes)
    for step, number, value in steps:
        match step:
            case "assign":
                nodes.assign_pod(assigned_pod(f"p{number}", requests={"cpu": "3"}), f"n{value}")
            case "remove pod":
                nodes.remove_pod(f"p{number}")
            case "put node":
                nodes.put(node(f"n{number}", cpu=str(value))[1])
            case "remove node":
                nodes.remove(f"n{number}")
            case _:
                updated.catch_up()
    updated.catch_up()
    fresh = NodeFitTable(requirements, nodes)
    fresh.catch_up()
    assert (updated.fits, updated.by_score) == (fresh.fits, fresh.by_score)
    assert {m.name: r for m, r in updated.rejections()} == {m.name: r for m, r in fresh.rejections()}
    for cached_node in nodes:
        used = sum(p.requirements.requests["cpu"] for p in cached_node.pods.values())
        assert cached_node.free["cpu"] == cached_node.allocatable["cpu"] - used


def test_the_emptiest_node_is_best_and_ties_go_to_the_first() -> None:
    nodes = nodes_named("a", "b", "c")
    table = NodeFitTable(requirements_of(requests={"cpu": "1"}), nodes)
    table.catch_up()
    assert table.best(-1) == 0
    assert [table.best(-1, start) for start in (1, 2, 3)] == [1, 2, 0]
    nodes.assign_pod(assigned_pod("p", requests={"cpu": "4"}), "a")
    table.catch_up()
    assert table.best(-1) == 1
    assert table.best(0b101) == 2
    assert table.best(0) == -1


def test_scores_include_preferred_affinity_and_prefer_no_schedule_taints() -> None:
    nodes = nodes_named("a", "b")
    nodes.put(node("c", labels={"disk": "ssd"})[1])
    nodes.put(node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}])[1])
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    table = NodeFitTable(requirements_of(affinity={"nodeAffinity": preferred}), nodes)
    table.catch_up()
    assert table.scores[2] > table.scores[1] > table.scores[0]


def test_node_indexes_of_a_mask() -> None:
    assert list(node_indexes(0b1010)) == [1, 3]
