"""Two mistakes in different places: both changes are found, although the first mistake hides the second one."""

from __future__ import annotations

import pytest

from allotment.engine.refusal import SuggestedChange
from allotment.explanation.further_changes import loss_limit
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


def test_a_rule_for_nodes_is_corrected_together_with_the_claim_rather_than_dropped() -> None:
    """The node with the right key has too few devices, and the other one does not have the key."""
    selecting = pod("p").replace("spec:\n", "spec:\n  nodeSelector: {example.com/poool: a}\n", 1)
    labelled = node("a", "  labels: {example.com/pool: a}\n")
    found = changes(labelled, slice_("a", 1), node("b"), slice_("b", 2), too_many(2), selecting)
    assert found == [
        "set nodeSelector example.com/pool=a", "remove example.com/poool from the nodeSelector",
        "request 1 device instead of 2",
    ]  # fmt: skip


def test_a_misspelled_class_and_a_tainted_node_and_a_node_of_another_model() -> None:
    """The other node is eligible, but its model is not the requested one."""
    tainted = node("a", "spec: {taints: [{key: dedicated, effect: NoSchedule}]}\n")
    wanted = TEMPLATE.replace(
        "exactly: {deviceClassName: gpu}",
        "exactly: {deviceClassName: gpuu, selectors: [{cel: "
        '{expression: \'device.attributes["gpu.example.com"].model == "a"\'}}]}',
    )
    found = changes(tainted, slice_("a", 1), node("b"), slice_("b", 1, model="x"), wanted, pod("p"))
    assert found == ["use class gpu", "tolerate the node's taint dedicated"]


def test_too_many_devices_and_a_cordoned_node_and_devices_of_another_driver() -> None:
    """The number of devices is wrong on every node; the class is not."""
    other = CLASS.replace("{name: gpu}", "{name: other}").replace("gpu.example.com", "other.example.com")
    cards = slice_("b", 2).replace("gpu.example.com", "other.example.com")
    cordoned = node("a", "spec: {unschedulable: true}\n")
    found = changes(other, cordoned, slice_("a", 2), node("b"), cards, too_many(33), pod("p"))
    assert found == ["request 2 devices instead of 33", "uncordon a"]


def test_another_model_on_a_cordoned_node_comes_before_another_driver() -> None:
    other = CLASS.replace("{name: gpu}", "{name: other}").replace("gpu.example.com", "other.example.com")
    cards = slice_("b", 2).replace("gpu.example.com", "other.example.com")
    cordoned = node("a", "spec: {unschedulable: true}\n")
    wanted = TEMPLATE.replace(
        "exactly: {deviceClassName: gpu}",
        "exactly: {deviceClassName: gpu, selectors: [{cel: "
        '{expression: \'device.attributes["gpu.example.com"].model == "z"\'}}]}',
    )
    found = changes(other, cordoned, slice_("a", 2), node("b"), cards, wanted, pod("p"))
    assert found == ["uncordon a", 'request model "a"']


def test_the_node_of_the_claims_correction_is_the_one_to_repair() -> None:
    """A misspelled attribute ends the attempt on the eligible node. Of the others, equal ones are nearer."""
    broken = "spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}\n"
    wanted = TEMPLATE.replace(
        "exactly: {deviceClassName: gpu}",
        "exactly: {deviceClassName: gpu, selectors: [{cel: "
        '{expression: \'device.attributes["gpu.example.com"].modle == "a"\'}}]}',
    )
    nodes = [
        text for name, count in (("a", 1), ("b", 2), ("c", 2)) for text in (node(name, broken), slice_(name, count))
    ]
    found = changes(*nodes, node("d"), slice_("d", 1, model="x"), wanted, pod("p"))
    assert found == ["use attribute model", "repair b, or wait until it is ready again"]


def test_less_on_a_node_that_is_not_ready_is_better_than_no_remedy() -> None:
    """No device is published for the eligible node."""
    broken = node("a", "spec: {taints: [{key: node.kubernetes.io/not-ready, effect: NoSchedule}]}\n")
    wanted = TEMPLATE.replace(
        "exactly: {deviceClassName: gpu}",
        "exactly: {deviceClassName: gpu, selectors: [{cel: "
        '{expression: \'device.attributes["gpu.example.com"].model == "z"\'}}]}',
    )
    found = changes(broken, slice_("a", 1), node("b"), wanted, pod("p"))
    assert found == ["repair a, or wait until it is ready again", 'request model "a"']


@pytest.mark.parametrize(
    ("on_an_excluded_node", "loses_less"),
    [
        (("other-driver", "uncordon"), True),
        (("other-driver", "recover"), False),
        (("other-driver", "select"), False),
        (("less-memory", "recover"), True),
    ],
)
def test_of_two_remedies_with_the_same_worst_loss_the_other_changes_decide(
    on_an_excluded_node: tuple[str, ...], loses_less: bool
) -> None:
    limit = loss_limit(of("other-driver", "wait"))
    assert limit.allows(of(*on_an_excluded_node)) == loses_less


def test_a_class_is_kept_if_less_memory_is_requested_anyway() -> None:
    limit = loss_limit(of("other-class", "less-memory"))
    assert limit.allows(of("less-memory", "recover"))
    assert not limit.at_most(1).allows(of("less-memory", "recover"))


def of(*remedies: str) -> list[SuggestedChange]:
    """Changes of these kinds."""
    return [SuggestedChange(text=remedy, remedy=remedy) for remedy in remedies]
