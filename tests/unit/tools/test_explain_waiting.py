"""What else a pod waits for that would get its devices."""

from __future__ import annotations

from allotment.tools.explain import Explanation, lines
from tests.unit.tools.test_explain import CLASS, TEMPLATE, node, pod, slice_, told

GATE = "  schedulingGates: [{name: kueue.x-k8s.io/admission}]\n"
UNSCHEDULABLE = """\
status:
  conditions:
  - {type: PodScheduled, status: "False", message: "0/1 nodes are available: 1 Insufficient cpu."}
"""


def waits(explanation: Explanation) -> str:
    (answer,) = explanation.answers
    return answer.waits


def with_room(more: str, devices: int = 1) -> Explanation:
    return told(CLASS, TEMPLATE, node("a"), slice_("a", devices), pod("p", more=more))


def test_a_pod_that_lacks_something_else_is_told_in_its_schedulers_words() -> None:
    explanation = with_room(UNSCHEDULABLE)
    assert explanation.fits
    assert waits(explanation) == "its scheduler said last: 0/1 nodes are available: 1 Insufficient cpu."
    assert " ".join(" ".join(lines(explanation)).split()).startswith(
        "Pod ns/p waits, though its devices are there on node a: its scheduler said last: 0/1 nodes are available"
    )


def test_a_pod_that_is_held_back_is_told_by_which_gate() -> None:
    assert "while it has scheduling gate kueue.x-k8s.io/admission" in waits(with_room(GATE))


def test_a_scheduler_that_says_nothing_is_named() -> None:
    live = pod("p", more="  schedulerName: volcano\n").replace("name: p,", "name: p, uid: u-1,")
    explanation = told(CLASS, TEMPLATE, node("a"), slice_("a", 1), live)
    assert waits(explanation) == "scheduler volcano has said nothing of it yet"


def test_a_manifest_waits_for_nobody() -> None:
    assert waits(with_room("")) == ""


def test_where_devices_are_missing_they_are_the_answer() -> None:
    assert waits(with_room(UNSCHEDULABLE, devices=0)) == ""
