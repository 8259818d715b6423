"""Tables per shape hold what a fresh look would find, whatever has changed in between."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from allotment.node_fit.node_table import NodeFitTable, node_indexes
from tests.unit.scheduler.machines import requirements_of, nodes_named, assigned_pod
from tests.unit.scheduler.world import node

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("seat"), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("unseat"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("node"), st.integers(0, 3), st.integers(1, 12)),
        st.tuples(st.just("remove"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("look"), st.just(0), st.just(0)),
    ),
    max_size=30,
)


@settings(max_examples=150, deadline=None)
@given(_STEPS)
def test_increments_come_to_what_a_fresh_look_finds(steps: list[tuple[str, int, int]]) -> None:
    machines = nodes_named("n0", "n1", "n2", "n3")
    shape = requirements_of(requests={"cpu": "2"})
    kept = NodeFitTable(shape, machines)
    for what, which, how in steps:
        match what:
            case "seat":
                machines.assign_pod(assigned_pod(f"p{which}", requests={"cpu": "3"}), f"n{how}")
            case "unseat":
                machines.remove_pod(f"p{which}")
            case "node":
                machines.put(node(f"n{which}", cpu=str(how))[1])
            case "remove":
                machines.remove(f"n{which}")
            case _:
                kept.catch_up()
    kept.catch_up()
    fresh = NodeFitTable(shape, machines)
    fresh.catch_up()
    assert (kept.fits, kept.by_score) == (fresh.fits, fresh.by_score)
    assert {m.name: r for m, r in kept.rejections()} == {m.name: r for m, r in fresh.rejections()}
    for machine in machines:
        used = sum(p.requirements.requests["cpu"] for p in machine.pods.values())
        assert machine.free["cpu"] == machine.allocatable["cpu"] - used


def test_the_emptier_node_is_the_better_one_and_of_equals_the_first() -> None:
    machines = nodes_named("a", "b", "c")
    table = NodeFitTable(requirements_of(requests={"cpu": "1"}), machines)
    table.catch_up()
    assert table.best(-1) == 0
    assert [table.best(-1, start) for start in (1, 2, 3)] == [1, 2, 0]
    machines.assign_pod(assigned_pod("p", requests={"cpu": "4"}), "a")
    table.catch_up()
    assert table.best(-1) == 1
    assert table.best(0b101) == 2
    assert table.best(0) == -1


def test_preferred_affinity_and_unwelcoming_taints_count() -> None:
    machines = nodes_named("a", "b")
    machines.put(node("c", labels={"disk": "ssd"})[1])
    machines.put(node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}])[1])
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    wish = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}
    table = NodeFitTable(requirements_of(affinity={"nodeAffinity": wish}), machines)
    table.catch_up()
    assert table.scores[2] > table.scores[1] > table.scores[0]


def test_places_of_a_mask() -> None:
    assert list(node_indexes(0b1010)) == [1, 3]
