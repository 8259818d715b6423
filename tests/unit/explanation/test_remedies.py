"""Suggested changes and their order in typical clusters."""

from __future__ import annotations

import pytest

from allotment.engine.refusal import AllocationRefusal, SuggestedChange
from allotment.engine.remedies import REMEDIES
from allotment.explanation import Explanation, lines
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, codes, explained, node, pod, slice_


def selecting(expression: str) -> str:
    return TEMPLATE.replace("{deviceClassName: gpu}", "") + (
        f"          deviceClassName: gpu\n          selectors: [{{cel: {{expression: '{expression}'}}}}]\n"
    )


def headline(explanation: Explanation) -> AllocationRefusal:
    reasons = explanation.answers[0].reasons
    assert reasons is not None
    return reasons.headline


def kinds(changes: tuple[SuggestedChange, ...]) -> list[str]:
    return [REMEDIES[change.remedy].scope for change in changes]


def text(explanation: Explanation) -> str:
    return " ".join(" ".join(lines(explanation)).split())


def test_a_node_with_the_devices_precedes_fewer_devices() -> None:
    """The pod's nodeSelector selects the small node, but only the large one has the requested devices."""
    explanation = explained(
        CLASS, TEMPLATE.replace("gpu}", "gpu, count: 2}"),
        node("small", "  labels: {pool: small}\n"), slice_("small", 1),
        node("large", "  labels: {pool: large}\n"), slice_("large", 2),
        pod("p", more="  nodeSelector: {pool: small}\n"),
    )  # fmt: skip
    assert codes(explanation) == ["node-not-eligible"]
    refused = headline(explanation)
    assert (kinds(refused.changes), kinds(refused.otherwise)) == (["placement"], ["devices"])
    assert [change.text for change in refused.changes] == ["set nodeSelector pool=large"]
    assert "or, on small: request 1 device instead of 2" in text(explanation)


@pytest.mark.parametrize(
    ("more", "first", "words"),
    [
        ("spec: {unschedulable: true}\n", "uncordon", "large, which has the devices, is cordoned"),
        (
            "spec: {taints: [{key: gpu, effect: NoSchedule}]}\n",
            "tolerate-node",
            "large, which has the devices, has taint",
        ),
    ],
)
def test_an_excluded_node_precedes_changes_of_the_claim(more: str, first: str, words: str) -> None:
    explanation = explained(
        CLASS, TEMPLATE, node("bare", ""), node("large", "  labels: {}\n" + more), slice_("large", 1), pod("p")
    )
    assert [change.remedy for change in headline(explanation).changes] == [first]
    assert words in text(explanation)


def test_waiting_precedes_another_node() -> None:
    explanation = explained(
        CLASS, TEMPLATE, node("a", "  labels: {pool: a}\n"), slice_("a", 1), node("b", "  labels: {pool: b}\n"),
        slice_("b", 1), pod("first", more="  nodeSelector: {pool: a}\n"), pod("p", more="  nodeSelector: {pool: a}\n"),
    )  # fmt: skip
    reasons = explanation.answers[1].reasons
    assert reasons is not None
    assert reasons.headline.code == "devices-in-use"
    assert [change.text for change in reasons.headline.changes] == [
        "wait for pod first to finish (claim ns/first-gpu-0)"
    ]
    assert [change.text for change in reasons.headline.otherwise] == ["set nodeSelector pool=b"]


def test_an_excluded_node_is_not_suggested_if_another_node_has_an_error() -> None:
    """A toleration makes one more node eligible, but Kubernetes still gives up because of the error on the first."""
    fast = slice_("b", 1).replace("attributes: {", "attributes: {speed: {int: 2}, ")
    taint = "spec: {taints: [{key: gpu, effect: NoSchedule}]}\n"
    wants = selecting('device.attributes["gpu.example.com"].speed > 1')
    explanation = explained(CLASS, wants, node("a"), slice_("a", 1), node("b", taint), fast, pod("p"))
    refused = headline(explanation)
    assert refused.code != "node-not-eligible"
    assert "placement" not in kinds((*refused.changes, *refused.otherwise))


def test_a_value_of_another_attribute_is_suggested_with_that_attribute() -> None:
    wants = selecting('device.attributes["gpu.example.com"].product == "A100"')
    explanation = explained(CLASS, wants, node("a"), slice_("a", 1, "NVIDIA-A100-SXM4"), pod("p"))
    assert codes(explanation) == ["unknown-attribute"]
    assert [change.text for change in headline(explanation).changes] == ['request model "NVIDIA-A100-SXM4"']


def test_a_template_that_is_referenced_as_a_claim_is_corrected() -> None:
    wrong = pod("p", "resourceClaimName: one")
    explanation = explained(CLASS, TEMPLATE, node("a"), slice_("a", 1), wrong)
    assert codes(explanation) == ["claim-missing"]
    (change,) = headline(explanation).changes
    assert change.text == "refer to it with resourceClaimTemplateName"
    assert change.path == "spec.resourceClaims"
    assert 'a ResourceClaimTemplate "' in text(explanation)


def test_existing_names_are_listed_if_none_is_similar() -> None:
    explanation = explained(
        CLASS, TEMPLATE.replace("name: one", "name: single-device"), node("a"), slice_("a", 1), pod("p")
    )
    assert codes(explanation) == ["template-missing"]
    assert "Existing: single-device" in text(explanation)


CORDONED = """spec:
  unschedulable: true
  taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule, timeAdded: "2026-01-01T00:00:00Z"}]
"""


def test_a_cordoned_node_is_suggested_to_be_uncordoned() -> None:
    """The node controller adds a taint with its time to the field that kubectl cordon sets."""
    explanation = explained(CLASS, TEMPLATE, node("a", CORDONED), slice_("a", 1), pod("p"))
    (change,) = headline(explanation).changes
    assert (change.text, change.object) == ("uncordon a", "Node a")
    assert "a, which has the devices, is cordoned (node-not-eligible)" in text(explanation)


def test_the_excluded_node_with_the_devices_is_reported_first() -> None:
    taint = "spec: {taints: [{key: gpu, effect: NoSchedule}]}\n"
    explanation = explained(CLASS, TEMPLATE, node("a", CORDONED), node("b", taint), slice_("b", 1), pod("p"))
    assert "does not fit: b, which has the devices, has taint gpu:NoSchedule" in text(explanation)
