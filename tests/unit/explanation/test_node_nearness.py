"""Labels of nodes compared with the values that a pod's rules name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from allotment.engine.cluster.node_selection import NodeFacts
from allotment.explanation import lines
from allotment.explanation.fixes import make_eligible
from allotment.explanation.node_eligibility import EligibilityNode
from allotment.explanation.node_nearness import by_nearness, label_change
from allotment.model.core import Pod
from allotment.model.trees import to_value
from tests.unit.explanation.test_explain import CLASS, TEMPLATE, explained, node, pod, slice_

PRODUCT = "nvidia.com/gpu.product"
A100_40, A100_80, PCIE = "NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-80GB-PCIe"
H100, L4 = "NVIDIA-H100-80GB-HBM3", "NVIDIA-L4"
Spec = Mapping[str, object]


def selecting(spec: Spec) -> Pod:
    return to_value({"metadata": {"name": "p", "namespace": "ml"}, "spec": spec}, Pod)


def labelled(name: str, **labels: str) -> EligibilityNode:
    return EligibilityNode(NodeFacts(name, labels))


def of_product(product: str) -> EligibilityNode:
    return EligibilityNode(NodeFacts(product, {PRODUCT: product}))


def requiring(*values: str) -> Spec:
    """A pod spec with a required node affinity for one of these products."""
    terms = [{"matchExpressions": [{"key": PRODUCT, "operator": "In", "values": list(values)}]}]
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


@pytest.mark.parametrize("spec", [{"nodeSelector": {PRODUCT: "NVIDIA-A100-80GB"}}, requiring("NVIDIA-A100-80GB")])
def test_nodes_of_the_intended_product_come_first_and_smaller_ones_last(spec: Spec) -> None:
    nodes = [of_product(A100_40), of_product(H100), labelled("bare"), of_product(L4), of_product(A100_80)]
    groups = by_nearness(selecting(spec), nodes)
    assert [group[0].facts.name for group in groups] == [A100_80, H100, A100_40, L4, "bare"]


@pytest.mark.parametrize(
    ("wanted", "actual", "remedy"),
    [
        ("NVIDIA-A100-80GB", PCIE, "select"),
        ("nvidia-a100-sxm4-80gb", A100_80, "select"),
        ("NVIDIA-H200", H100, "select-less"),  # known to have 141 GB
        ("NVIDIA-L4", H100, "select-model"),
        ("p4d.24xlarge", "p4de.24xlarge", "select"),
    ],
)
def test_products_are_compared_by_name_and_memory(wanted: str, actual: str, remedy: str) -> None:
    assert label_change([wanted], actual).remedy == remedy


def test_the_nearest_of_several_allowed_values_counts() -> None:
    assert label_change(["NVIDIA-L4", "NVIDIA-A100-80GB"], A100_80).remedy == "select"


def test_a_required_node_affinity_gets_the_label_of_the_node() -> None:
    way = make_eligible(selecting(requiring("NVIDIA-A100-80GB")), of_product(A100_80), ("Pod ml/p", ""), daemon=False)
    (change,) = way.changes
    assert (change.text, change.becomes) == (f"set node affinity {PRODUCT} in ({A100_80})", [A100_80])
    assert change.path.endswith(".nodeSelectorTerms[0].matchExpressions[0].values")


def test_only_a_key_without_a_value_on_the_node_is_removed() -> None:
    spec = {"nodeSelector": {PRODUCT: "NVIDIA-A100-80GB", "pool": "big"}}
    way = make_eligible(selecting(spec), of_product(A100_80), ("Pod ml/p", ""), daemon=False)
    assert [(change.remedy, change.text) for change in way.changes] == [
        ("select", f"set nodeSelector {PRODUCT}={A100_80}"),
        ("unselect", "remove pool from the nodeSelector"),
    ]


def test_less_memory_than_the_named_product_is_stated() -> None:
    spec = {"nodeSelector": {PRODUCT: "NVIDIA-A100-80GB"}}
    (change,) = make_eligible(selecting(spec), of_product(A100_40), ("Pod ml/p", ""), daemon=False).changes
    assert change.text == f"set nodeSelector {PRODUCT}={A100_40}, which has less memory"


def test_fewer_devices_precede_a_removed_node_selector() -> None:
    """The selected node has one device, and the node with two devices has no such label."""
    explanation = explained(
        CLASS, TEMPLATE.replace("gpu}", "gpu, count: 2}"),
        node("small", "  labels: {pool: small}\n"), slice_("small", 1), node("large"), slice_("large", 2),
        pod("p", more="  nodeSelector: {pool: small}\n"),
    )  # fmt: skip
    text = " ".join(" ".join(lines(explanation)).split())
    assert "to make it fit on small: request 1 device instead of 2" in text
    assert "or, on large: remove the nodeSelector" in text
