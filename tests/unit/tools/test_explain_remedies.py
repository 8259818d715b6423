"""What is told to do, and in which order: on clusters as people have them."""

from __future__ import annotations

import pytest

from allotment.engine.refusal import AllocationRefusal, SuggestedChange
from allotment.engine.remedies import REMEDIES
from allotment.tools.explain import Explanation, lines
from tests.unit.tools.test_explain import CLASS, TEMPLATE, codes, node, pod, slice_, told


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


def test_a_node_with_the_devices_comes_before_asking_for_fewer() -> None:
    """The pod keeps to the small node by its selector, and asks for what the large one has."""
    explanation = told(
        CLASS, TEMPLATE.replace("gpu}", "gpu, count: 2}"),
        node("small", "  labels: {pool: small}\n"), slice_("small", 1),
        node("large", "  labels: {pool: large}\n"), slice_("large", 2),
        pod("p", more="  nodeSelector: {pool: small}\n"),
    )  # fmt: skip
    assert codes(explanation) == ["node-not-eligible"]
    refused = headline(explanation)
    assert (kinds(refused.changes), kinds(refused.otherwise)) == (["where"], ["what"])
    assert [change.text for change in refused.changes] == ["select pool=large"]
    assert "or, on small: ask for 1 device instead of 2" in text(explanation)


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
def test_a_node_that_is_closed_is_told_before_another_claim(more: str, first: str, words: str) -> None:
    explanation = told(
        CLASS, TEMPLATE, node("bare", ""), node("large", "  labels: {}\n" + more), slice_("large", 1), pod("p")
    )
    assert [change.remedy for change in headline(explanation).changes] == [first]
    assert words in text(explanation)


def test_to_wait_comes_before_the_other_node() -> None:
    explanation = told(
        CLASS, TEMPLATE, node("a", "  labels: {pool: a}\n"), slice_("a", 1), node("b", "  labels: {pool: b}\n"),
        slice_("b", 1), pod("first", more="  nodeSelector: {pool: a}\n"), pod("p", more="  nodeSelector: {pool: a}\n"),
    )  # fmt: skip
    reasons = explanation.answers[1].reasons
    assert reasons is not None
    assert reasons.headline.code == "devices-in-use"
    assert [change.text for change in reasons.headline.changes] == ["wait for pod first to end (claim ns/first-gpu-0)"]
    assert [change.text for change in reasons.headline.otherwise] == ["select pool=b"]


def test_a_node_that_others_errors_would_keep_it_from_is_not_told() -> None:
    """A toleration opens one more node, and Kubernetes still gives up on the error on the first."""
    fast = slice_("b", 1).replace("attributes: {", "attributes: {speed: {int: 2}, ")
    taint = "spec: {taints: [{key: gpu, effect: NoSchedule}]}\n"
    wants = selecting('device.attributes["gpu.example.com"].speed > 1')
    explanation = told(CLASS, wants, node("a"), slice_("a", 1), node("b", taint), fast, pod("p"))
    refused = headline(explanation)
    assert refused.code != "node-not-eligible"
    assert "where" not in kinds((*refused.changes, *refused.otherwise))


def test_a_value_that_another_attribute_has_is_looked_for_there() -> None:
    wants = selecting('device.attributes["gpu.example.com"].product == "A100"')
    explanation = told(CLASS, wants, node("a"), slice_("a", 1, "NVIDIA-A100-SXM4"), pod("p"))
    assert codes(explanation) == ["unknown-attribute"]
    assert [change.text for change in headline(explanation).changes] == ['ask for model "NVIDIA-A100-SXM4"']


def test_a_template_that_is_named_as_a_claim_is_named_as_what_it_is() -> None:
    wrong = pod("p", "resourceClaimName: one")
    explanation = told(CLASS, TEMPLATE, node("a"), slice_("a", 1), wrong)
    assert codes(explanation) == ["claim-missing"]
    (change,) = headline(explanation).changes
    assert change.text == "name it as resourceClaimTemplateName"
    assert change.path == "spec.resourceClaims"
    assert 'a ResourceClaimTemplate "' in text(explanation)


def test_what_there_is_instead_is_named_if_nothing_is_like_it() -> None:
    explanation = told(CLASS, TEMPLATE.replace("name: one", "name: single-device"), node("a"), slice_("a", 1), pod("p"))
    assert codes(explanation) == ["template-missing"]
    assert "There is single-device" in text(explanation)


CORDONED = """spec:
  unschedulable: true
  taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule, timeAdded: "2026-01-01T00:00:00Z"}]
"""


def test_a_node_that_a_cluster_has_cordoned_is_to_be_uncordoned() -> None:
    """Its controller adds a taint, with the time of it, to what kubectl cordon writes."""
    explanation = told(CLASS, TEMPLATE, node("a", CORDONED), slice_("a", 1), pod("p"))
    (change,) = headline(explanation).changes
    assert (change.text, change.object) == ("uncordon a", "Node a")
    assert "a, which has the devices, is cordoned (node-not-eligible)" in text(explanation)


def test_of_several_nodes_that_are_closed_the_one_with_the_devices_comes_first() -> None:
    taint = "spec: {taints: [{key: gpu, effect: NoSchedule}]}\n"
    explanation = told(CLASS, TEMPLATE, node("a", CORDONED), node("b", taint), slice_("b", 1), pod("p"))
    assert "does not fit: b, which has the devices, has taint gpu:NoSchedule" in text(explanation)
