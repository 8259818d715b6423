"""A cordoned node that has the devices is uncordoned first, the nearest one if there are several."""

from __future__ import annotations

import pytest

from allotment.engine.refusal import AllocationRefusal
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, explained, pod, slice_

TAINT = "{key: dedicated, value: ml, effect: NoSchedule}"
MAINTENANCE = "{key: example.com/maintenance, value: firmware, effect: NoSchedule}"
LEAVING = "{key: ToBeDeletedByClusterAutoscaler, value: '1764', effect: NoSchedule}"
TWO = TEMPLATE.replace("exactly: {deviceClassName: gpu}", "exactly: {deviceClassName: gpu, count: 2}")


def node(name: str, spec: str = "") -> str:
    return f"""
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}
spec: {{{spec}}}
"""


def cordoned(name: str, taints: str = "") -> str:
    return node(name, f"unschedulable: true, taints: [{taints}]")


def headline(*documents: str) -> AllocationRefusal:
    (answer,) = explained(CLASS, TWO, *documents, pod("p")).answers
    assert answer.reasons is not None
    return answer.reasons.headline


def first_remedy(*documents: str) -> list[str]:
    return [change.text for change in headline(*documents).changes]


def test_the_cordoned_node_with_enough_devices_is_uncordoned() -> None:
    nodes = (cordoned("a"), slice_("a", 1), cordoned("b"), slice_("b", 2))
    assert first_remedy(*nodes) == ["uncordon b"]
    refused = headline(*nodes)
    assert refused.summary == "a, b (b has the devices) are cordoned"


@pytest.mark.parametrize("other", [slice_("full", 1), slice_("full", 0), ""])
def test_it_is_the_first_remedy_whatever_the_other_nodes_lack(other: str) -> None:
    assert first_remedy(node("full"), *filter(None, [other]), cordoned("b"), slice_("b", 2)) == ["uncordon b"]


def test_a_cordoned_and_tainted_node_needs_both_changes() -> None:
    tainted = (cordoned("b", TAINT), slice_("b", 2))
    assert sorted(first_remedy(*tainted)) == ["tolerate the node's taint dedicated", "uncordon b"]


def test_a_node_that_is_only_cordoned_comes_before_one_that_is_tainted_too() -> None:
    tainted = (cordoned("b", TAINT), slice_("b", 2))
    assert first_remedy(*tainted, cordoned("c"), slice_("c", 2)) == ["uncordon c"]
    assert first_remedy(*tainted, node("d", f"taints: [{TAINT}]"), slice_("d", 2)) == [
        "tolerate the node's taint dedicated"
    ]


def test_a_cordoned_node_in_maintenance_is_not_uncordoned_alone() -> None:
    nodes = (cordoned("b", MAINTENANCE), slice_("b", 2))
    assert first_remedy(*nodes) == [
        "wait until the maintenance of b is over (taint example.com/maintenance=firmware:NoSchedule)", "uncordon b"
    ]  # fmt: skip
    assert first_remedy(*nodes, cordoned("c"), slice_("c", 2)) == ["uncordon c"]


def test_a_tolerated_taint_of_a_cordoned_node_is_named() -> None:
    tolerant = pod("p", more="  tolerations: [{key: example.com/maintenance, operator: Exists}]\n")
    (answer,) = explained(CLASS, TWO, cordoned("b", MAINTENANCE), slice_("b", 2), tolerant).answers
    assert answer.reasons is not None
    assert [change.text for change in answer.reasons.headline.changes] == [
        "uncordon b, which also has the taint example.com/maintenance=firmware:NoSchedule"
    ]


def test_a_node_that_is_about_to_be_deleted_is_no_way_out() -> None:
    assert first_remedy(cordoned("b", LEAVING), slice_("b", 2)) == []
    assert first_remedy(node("b", f"taints: [{LEAVING}]"), slice_("b", 2)) == []
