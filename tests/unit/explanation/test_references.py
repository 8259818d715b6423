"""References to claims and templates that do not exist: what was probably meant, nearest to the pod first."""

from __future__ import annotations

import pytest

from allotment.engine.diagnosis.reader import Reader
from allotment.engine.refusal import AllocationRefusal, SuggestedChange
from allotment.explanation import explain
from allotment.explanation.input import Readers, reads_everything
from allotment.model.decoding import decode_all
from allotment.model.loading import load_text
from allotment.model.meta import Object
from tests.unit.explanation.test_explain import CLASS, FEATURES, TEMPLATE, claim, explained, node, pod, slice_

CLAIM_TO = "resourceClaimName: "
TEMPLATE_TO = "resourceClaimTemplateName: "
#: The status of a claim that is allocated to a pod.
IN_USE = """status:
  allocation: {devices: {results: [{request: gpu, driver: gpu.example.com, pool: n1, device: gpu-0}]}}
  reservedFor: [{resource: pods, name: solver, uid: solver-uid}]
"""


def in_namespace(document: str, namespace: str, name: str = "one") -> str:
    """A claim or template in another namespace, with another name."""
    return document.replace("namespace: ns", f"namespace: {namespace}").replace("name: one,", f"name: {name},")


def refusal(
    *documents: str, readers: Readers = reads_everything, default_namespace: str = "default"
) -> AllocationRefusal:
    """The reason why the pod ``p`` does not fit."""
    decoded = decode_all(load_text("---".join((CLASS, slice_("n1", 2), *documents))).documents)
    assert not decoded.problems
    values = [m.value for m in decoded.manifests if isinstance(m.value, Object)]
    answers = explain(values, FEATURES, readers=readers, default_namespace=default_namespace).answers
    reasons = next(a.reasons for a in answers if a.kind == "Pod" and a.name.endswith("/p"))
    assert reasons is not None
    return reasons.headline


def only_change(refused: AllocationRefusal) -> SuggestedChange:
    (change,) = refused.changes
    return change


def test_the_other_kind_in_the_pods_namespace_precedes_a_namesake_elsewhere() -> None:
    refused = refusal(TEMPLATE, in_namespace(claim("one", IN_USE), "w01"), pod("p", CLAIM_TO + "one"))
    assert refused.code == "claim-missing"
    assert "w01" not in refused.summary
    assert only_change(refused).becomes == [{"name": "gpu", "resourceClaimTemplateName": "one"}]


def test_a_similar_name_in_the_pods_namespace_precedes_a_namesake_elsewhere() -> None:
    refused = refusal(
        in_namespace(TEMPLATE, "ns", "single-gpu"), in_namespace(TEMPLATE, "w01", "singel-gpu"),
        pod("p", TEMPLATE_TO + "singel-gpu"),
    )  # fmt: skip
    assert refused.code == "template-missing"
    assert "w01" not in refused.summary
    assert only_change(refused).becomes == "single-gpu"


def test_an_unused_object_of_another_namespace_is_moved() -> None:
    change = only_change(refusal(in_namespace(TEMPLATE, "w01"), pod("p", TEMPLATE_TO + "one")))
    assert (change.object, change.becomes) == ("ResourceClaimTemplate w01/one", "ns")


@pytest.mark.parametrize(
    "more",
    [
        [in_namespace(claim("one", IN_USE), "w01")],
        [in_namespace(claim("one"), "w01"), in_namespace(pod("user", CLAIM_TO + "one"), "w01")],
        [in_namespace(claim("one"), "w01"), in_namespace(pod("user", CLAIM_TO + "one"), "w02")],
        [in_namespace(claim("one"), "w01"), in_namespace(claim("one"), "w02")],
    ],
    ids=["allocated", "named by a pod there", "named by a pod of a third namespace", "ambiguous"],
)
def test_an_object_that_others_use_is_not_moved(more: list[str]) -> None:
    refused = refusal(*more, pod("p", CLAIM_TO + "one"))
    assert refused.code == "wrong-namespace"
    assert refused.changes == ()


def test_a_pod_whose_file_names_no_namespace_is_moved() -> None:
    documents = in_namespace(TEMPLATE, "team-a"), pod("p", TEMPLATE_TO + "one").replace(", namespace: ns", "")
    change = only_change(refusal(*documents))
    assert (change.text, change.object) == ("move Pod p to namespace team-a", "Pod default/p")
    assert (change.path, change.becomes) == ("metadata.namespace", "team-a")


def test_a_pod_of_the_cluster_is_not_moved() -> None:
    stored = pod("p", TEMPLATE_TO + "one").replace("namespace: ns", "namespace: default, uid: p-uid")
    assert only_change(refusal(in_namespace(TEMPLATE, "team-a"), stored)).object == "ResourceClaimTemplate team-a/one"


def test_the_namespace_of_the_command_line_is_that_of_pods_without_one() -> None:
    change = only_change(
        refusal(in_namespace(TEMPLATE, "team-a"), pod("p", TEMPLATE_TO + "one"), default_namespace="ns")
    )
    assert change.object == "Pod ns/p"


@pytest.mark.parametrize("status", ["", IN_USE])
def test_a_reader_of_one_namespace_does_not_learn_of_namesakes_elsewhere(status: str) -> None:
    refused = refusal(in_namespace(claim("one", status), "w01"), pod("p", CLAIM_TO + "one"), readers=Reader.of)
    assert refused.code == "claim-missing"
    assert refused.summary == 'ResourceClaim "one" does not exist in namespace ns'
    assert refused.changes == ()


def test_the_template_of_other_pods_is_not_changed_for_a_pod_with_a_misspelled_reference() -> None:
    """The pod would fit only with fewer devices than the other pod requests, which is not its mistake."""
    jobs = TEMPLATE.replace("name: one", "name: jobs-gpu").replace(
        "deviceClassName: gpu", "deviceClassName: gpu, count: 3"
    )
    own = pod("trainer", "resourceClaimTemplateName: job-gpu")
    other = pod("job-15", "resourceClaimTemplateName: jobs-gpu")

    def changed(*pods: str) -> list[str]:
        found = explained(CLASS, jobs, node("a"), slice_("a", 2), *pods).answers[0].reasons
        return [change.object for change in found.headline.changes] if found is not None else []

    assert changed(own) == ["Pod ns/trainer", "ResourceClaimTemplate ns/jobs-gpu"]
    assert changed(own, other) == []


def test_a_name_with_another_number_is_the_name_of_another_object() -> None:
    other = TEMPLATE.replace("name: one", "name: job-14-gpu")
    found = explained(CLASS, other, node("a"), slice_("a", 2), pod("trainer", "resourceClaimTemplateName: job-16-gpu"))
    reasons = found.answers[0].reasons
    assert reasons is not None
    assert "Did you mean" not in reasons.headline.summary
    assert reasons.headline.changes == ()


def test_a_claim_that_is_to_be_moved_is_not_tried_alone() -> None:
    """Its own mistake is reported once, together with the move, as it is for the pod."""
    wrong = in_namespace(claim("one"), "w01").replace("deviceClassName: gpu", "deviceClassName: gpo")
    (answer,) = explained(CLASS, slice_("n1", 2), wrong, pod("p", CLAIM_TO + "one")).answers
    assert answer.reasons is not None
    assert [change.text for change in answer.reasons.headline.changes] == [
        "move ResourceClaim one to namespace ns", "use class gpu"
    ]  # fmt: skip


def test_neither_is_a_claim_that_replaces_a_template() -> None:
    wrong = claim("one").replace("deviceClassName: gpu", "deviceClassName: gpo")
    (answer,) = explained(CLASS, slice_("n1", 2), wrong, pod("p", TEMPLATE_TO + "one")).answers
    assert answer.reasons is not None
    assert [change.text for change in answer.reasons.headline.changes] == [
        "refer to it with resourceClaimName", "use class gpu"
    ]  # fmt: skip
