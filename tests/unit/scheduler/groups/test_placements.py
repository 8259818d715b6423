"""Placements of groups: the nodes of each topology domain, and the choice among them."""

from __future__ import annotations

import pytest

from allotment.scheduler.groups.placements import Candidate, Placement, UnknownDomain, best, placements
from tests.unit.scheduler.machines import assigned_pod, nodes_in_zones, requirements_of

ALL = -1


def test_each_domain_is_a_placement() -> None:
    machines = nodes_in_zones(a="x", b="y", c="x")
    assert placements("zone", ALL, machines, ()) == [Placement("x", 0b101), Placement("y", 0b010)]
    assert placements("zone", 0b011, machines, ()) == [Placement("x", 0b001), Placement("y", 0b010)]
    assert placements("", 0b011, machines, ()) == [Placement("", 0b011)]
    assert placements("rack", ALL, machines, ()) == []


def test_placed_pods_fix_the_domain() -> None:
    machines = nodes_in_zones(a="x", b="y", c="x")
    assert placements("zone", ALL, machines, [("ns/p", "b")]) == [Placement("y", 0b010)]
    with pytest.raises(UnknownDomain, match="more than 1 domain found for pod group: x, y"):
        placements("zone", ALL, machines, [("ns/p", "a"), ("ns/q", "b")])
    with pytest.raises(UnknownDomain, match="no topology domain found for pod ns/p"):
        placements("zone", ALL, machines, [("ns/p", "gone")])


def test_more_pods_win_then_fuller_nodes() -> None:
    machines = nodes_in_zones(a="x", b="y")
    machines.assign_pod(assigned_pod("other", requests={"cpu": "4"}), "b")
    small = requirements_of(requests={"cpu": "1"})
    x, y = placements("zone", ALL, machines, ())
    assert best([Candidate(x, [small, small]), Candidate(y, [small])], 0, machines) == 0
    assert best([Candidate(x, [small]), Candidate(y, [small])], 0, machines) == 1
    # With many pods that have a node, one more makes less of a difference than the fuller nodes.
    assert best([Candidate(x, [small, small]), Candidate(y, [small])], 50, machines) == 1
