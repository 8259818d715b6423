"""Other reasons why a pod is pending although its devices fit."""

from __future__ import annotations

from allotment.explanation import Explanation, lines
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, explained, node, pod, slice_

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
    return explained(CLASS, TEMPLATE, node("a"), slice_("a", devices), pod("p", more=more))


def test_a_pod_blocked_for_another_reason_has_the_message_of_its_scheduler() -> None:
    explanation = with_room(UNSCHEDULABLE)
    assert explanation.fits
    assert waits(explanation) == "last message of the scheduler: 0/1 nodes are available: 1 Insufficient cpu."
    assert " ".join(" ".join(lines(explanation)).split()).startswith(
        "Pod ns/p is pending although its devices are available on node a: last message of the scheduler: 0/1 nodes"
    )


def test_a_gated_pod_names_its_scheduling_gate() -> None:
    assert waits(with_room(GATE)).startswith("scheduling gate kueue.x-k8s.io/admission prevents scheduling")


def test_a_scheduler_that_does_not_report_is_named() -> None:
    live = pod("p", more="  schedulerName: volcano\n").replace("name: p,", "name: p, uid: u-1,")
    explanation = explained(CLASS, TEMPLATE, node("a"), slice_("a", 1), live)
    assert waits(explanation) == "scheduler volcano has not reported on the pod yet"


def test_a_manifest_is_not_pending() -> None:
    assert waits(with_room("")) == ""


def test_missing_devices_take_precedence_over_other_reasons() -> None:
    assert waits(with_room(UNSCHEDULABLE, devices=0)) == ""
