"""Messages of groups, and the condition PodGroupInitiallyScheduled."""

from __future__ import annotations

from allotment.model.trees import Tree
from allotment.scheduler.groups.conditions import TYPE, updated_conditions
from allotment.scheduler.groups.status import Code, GroupStatus, error, feasibility, no_placement, success


def test_the_minimum_is_reached_can_be_reached_or_cannot() -> None:
    assert feasibility(2, 2, 0).ok
    assert feasibility(3, 2, 1).code is Code.WAIT
    assert feasibility(3, 2, 1).message == "minCount (3) is not yet satisfied: 2 scheduled, 1 remaining"
    assert feasibility(3, 1, 1).code is Code.UNSCHEDULABLE


def test_a_status_is_quoted_without_its_reasons_if_it_has_the_prefix() -> None:
    status = GroupStatus(Code.UNSCHEDULABLE, "why", prefixed=True)
    assert status.message == "pod group is unschedulable, why"
    assert no_placement(2, status).message == (
        "pod group is unschedulable, 0/2 placements are available, first placement status: pod group is unschedulable"
    )
    assert no_placement(1, error("why")).message.endswith("first placement status: why")


def changed(tree: Tree, status: GroupStatus, now: str) -> Tree:
    """The only condition after a change."""
    conditions = updated_conditions(tree, status, now)
    assert conditions is not None
    (only,) = conditions
    return only


def group(*conditions: Tree, generation: int = 0) -> Tree:
    metadata: Tree = {"name": "g", "namespace": "ns", **({"generation": generation} if generation else {})}
    return {"metadata": metadata, "status": {"conditions": list(conditions)}}


def test_a_new_condition_keeps_those_of_others() -> None:
    other = {"type": "Other", "status": "True"}
    assert updated_conditions(group(other, generation=3), success(), "now") == [
        other,
        {
            "type": TYPE, "status": "True", "lastTransitionTime": "now", "reason": "Scheduled", "message": "",
            "observedGeneration": 3,
        },
    ]  # fmt: skip


def test_the_transition_time_changes_with_the_status_only() -> None:
    failed = GroupStatus(Code.UNSCHEDULABLE, "first")
    before = changed(group(), failed, "1")
    assert updated_conditions(group(before), failed, "2") is None
    again = changed(group(before), error("second"), "2")
    assert (again["lastTransitionTime"], again["reason"]) == ("1", "SchedulerError")
    now = changed(group(again), success(), "3")
    assert (now["lastTransitionTime"], now["status"]) == ("3", "True")


def test_a_group_that_was_scheduled_once_stays_so() -> None:
    scheduled = changed(group(), success(), "1")
    assert updated_conditions(group(scheduled), GroupStatus(Code.UNSCHEDULABLE, "later"), "2") is None
