"""Pods that would get devices but cannot run: they lack cpu or memory on every node with such devices, or are gated."""

from __future__ import annotations

from allotment.explanation import Explanation
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, explained, node, pod, slice_
from tests.unit.explanation.test_waiting import GATE


def of_size(name: str) -> str:
    """A node with a memory of 64Gi."""
    return node(name, "status: {allocatable: {cpu: '8', memory: 64Gi, pods: '110'}}\n")


def needing(name: str, memory: str, more: str = "") -> str:
    text = pod(name, more=more)
    return text.replace("{claims: [{name: gpu}]}", f"{{requests: {{memory: {memory}}}, claims: [{{name: gpu}}]}}")


def nodes(explanation: Explanation) -> dict[str, str]:
    """The node of each pod that fits."""
    return {answer.name.removeprefix("ns/"): answer.node for answer in explanation.answers if answer.fits}


def test_a_pod_without_memory_on_the_node_does_not_keep_devices_from_others() -> None:
    found = explained(CLASS, TEMPLATE, of_size("a"), slice_("a", 1), needing("large", "100Gi"), needing("small", "1Gi"))
    assert nodes(found)["small"] == "a"


def test_memory_that_running_pods_use_is_not_free() -> None:
    other = needing("other", "60Gi", more="  nodeName: a\n").replace("resourceClaimTemplateName: one", "")
    running = other.replace("  resourceClaims:\n  - name: gpu\n    \n", "").replace(", claims: [{name: gpu}]", "")
    found = explained(
        CLASS, TEMPLATE, of_size("a"), slice_("a", 1), running, needing("large", "10Gi"), needing("small", "1Gi")
    )
    assert nodes(found)["small"] == "a"


def test_devices_of_a_node_with_enough_memory_are_preferred_and_taken() -> None:
    parts = (CLASS, TEMPLATE, node("a", "status: {allocatable: {memory: 8Gi}}\n"), of_size("b"))
    slices = (slice_("a", 1), slice_("b", 1))
    found = explained(*parts, *slices, needing("first", "20Gi"), needing("second", "1Gi"), needing("third", "1Gi"))
    assert nodes(found) == {"first": "b", "second": "a"}


def test_nodes_that_do_not_state_their_memory_have_enough() -> None:
    found = explained(CLASS, TEMPLATE, node("a"), slice_("a", 1), needing("p", "100Gi"), needing("q", "1Gi"))
    assert nodes(found) == {"p": "a"}


def test_replicas_that_cannot_run_take_devices_from_each_other_only() -> None:
    owner = "  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, controller: true, uid: o-1}]\n"
    replicas = [
        needing(name, "100Gi").replace(f"metadata: {{name: {name}, namespace: ns}}",
                                       f"metadata:\n  name: {name}\n  namespace: ns\n{owner}")
        for name in ("web-1", "web-2")
    ]  # fmt: skip
    found = explained(CLASS, TEMPLATE, of_size("a"), slice_("a", 1), *replicas, needing("small", "1Gi"))
    assert nodes(found) == {"web-1": "a", "small": "a"}


def test_a_gated_pod_does_not_keep_devices_from_others() -> None:
    found = explained(CLASS, TEMPLATE, node("a"), slice_("a", 1), pod("gated", more=GATE), pod("p"))
    assert nodes(found)["p"] == "a"


def test_pods_that_fit_next_to_each_other_hold_their_devices() -> None:
    found = explained(CLASS, TEMPLATE, of_size("a"), slice_("a", 1), needing("p", "10Gi"), needing("q", "10Gi"))
    assert nodes(found) == {"p": "a"}
