"""Other reasons why a pod is pending although its devices fit."""

from __future__ import annotations

from msgspec.structs import replace

from allotment.explanation import Answer, Explanation, lines
from allotment.explanation.report import ClaimAllocation
from allotment.explanation.waiting import ONLY_DEVICES, with_waiting_reason
from allotment.model.core import Pod, PodResourceClaim, PodSpec, PodStatus
from allotment.model.meta import Condition, ObjectMeta
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


MESSAGE = (
    "claim ns/shared is on node b, where the pod cannot run (claim-on-other-node)\\n"
    "  what to do: Run the pod there.\\n  next: allot explain pod/p -n ns\\n"
    "  node(s) didn't match pod anti-affinity rules: b\\n0/1 nodes are available."
)


def test_the_scheduler_s_reason_is_one_sentence_without_its_commands() -> None:
    status = f'status:\n  conditions: [{{type: PodScheduled, status: "False", message: "{MESSAGE}"}}]\n'
    assert waits(with_room(status)) == (
        "last message of the scheduler: claim ns/shared is on node b, where the pod cannot run (claim-on-other-node); "
        "node(s) didn't match pod anti-affinity rules: b"
    )


def test_pods_that_wait_are_not_said_to_fit() -> None:
    first, second = pod("p", more=UNSCHEDULABLE), pod("q")
    explanation = explained(CLASS, TEMPLATE, node("a"), slice_("a", 2), first, second)
    assert lines(explanation)[0] == "devices are available for both pods, but 1 is pending for another reason"


def test_rules_about_other_pods_are_said_not_to_be_considered() -> None:
    rule = "requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {}}]"
    apart = f"  affinity: {{podAntiAffinity: {{{rule}}}}}\n"
    explanation = explained(CLASS, TEMPLATE, node("a"), slice_("a", 2), pod("p", more=apart), pod("q", more=apart))
    assert lines(explanation)[0] == "devices are available for both pods"
    assert all(ONLY_DEVICES in answer.notes for answer in explanation.answers)


def test_replicas_that_share_a_claim_need_a_template() -> None:
    condition = Condition(type="PodScheduled", status="False", message="claim is on another node")
    waiting = Pod(
        metadata=ObjectMeta(name="p", namespace="ns"),
        spec=PodSpec(resource_claims=(PodResourceClaim(name="gpu", resource_claim_name="shared"),)),
        status=PodStatus(conditions=(condition,)),
    )
    answer = Answer(
        kind="Pod", name="ns/p", outcome="fits", owner="Deployment ns/api",
        claims=(ClaimAllocation(name="ns/shared", before=True),),
    )  # fmt: skip
    (note,) = with_waiting_reason(answer, waiting).notes
    assert note == (
        "the pods of Deployment ns/api share claim ns/shared and can run only where its devices are: use a "
        "ResourceClaimTemplate, which creates a claim per pod (allot rule M407)"
    )
    assert with_waiting_reason(replace(answer, owner=""), waiting).notes == ()
