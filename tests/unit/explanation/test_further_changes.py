"""Two mistakes in different places: both changes are found, although the first mistake hides the second one."""

from __future__ import annotations

from allotment.engine.refusal import SuggestedChange
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, explained, node, pod, slice_


def changes(*documents: str) -> list[str]:
    """The first remedy as text."""
    reasons = explained(CLASS, *documents).answers[-1].reasons
    assert reasons is not None
    first: tuple[SuggestedChange, ...] = reasons.headline.changes
    return [change.text for change in first]


def too_many(count: int) -> str:
    return TEMPLATE.replace("deviceClassName: gpu", f"deviceClassName: gpu, count: {count}")


def test_a_misspelled_reference_to_a_template_that_requests_too_much() -> None:
    found = changes(node("a"), slice_("a", 2), too_many(3), pod("p", "resourceClaimTemplateName: onee"))
    assert found == ["use one", "request 2 devices instead of 3"]


def test_a_misspelled_reference_while_the_node_is_cordoned() -> None:
    cordoned = node("a", "spec: {unschedulable: true}\n")
    found = changes(cordoned, slice_("a", 2), TEMPLATE, pod("p", "resourceClaimTemplateName: onee"))
    assert found == ["use one", "uncordon a"]


def test_a_rule_for_nodes_and_a_request_that_is_too_large() -> None:
    cordoned = node("a", "spec: {unschedulable: true}\n")
    assert changes(cordoned, slice_("a", 2), too_many(3), pod("p")) == [
        "uncordon a", "request 2 devices instead of 3"
    ]  # fmt: skip


def test_a_node_that_is_also_not_ready_is_not_the_way() -> None:
    """Both nodes have the devices and are excluded by the same rule of the pod."""
    taint = "spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}\n"
    selecting = pod("p").replace("spec:\n", "spec:\n  nodeSelector: {kubernetes.io/hostname: c}\n", 1)
    found = changes(node("a", taint), slice_("a", 2), node("b"), slice_("b", 2), TEMPLATE, selecting)
    assert found == ["set nodeSelector kubernetes.io/hostname=b"]
