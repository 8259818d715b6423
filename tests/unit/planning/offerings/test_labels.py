"""Pods that select nodes by GPU labels of feature discovery and cloud providers, which templates have."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.fleet.catalog import catalog
from allotment.planning.report import ProvisioningPlan
from tests.unit.planning.demands import claim_template, make_plan, node, pod, request


def planned_types(plan: ProvisioningPlan) -> list[str]:
    return [machine.instance for machine in plan.machines]


@pytest.mark.parametrize(
    ("label", "value", "instance"),
    [
        ("nvidia.com/gpu.product", "NVIDIA-A100-SXM4-40GB", "lambda/gpu_1x_a100_sxm4"),
        ("nvidia.com/gpu.count", "4", "aws/g4dn.12xlarge"),
        ("karpenter.k8s.aws/instance-gpu-name", "a10g", "aws/g5.xlarge"),
        ("cloud.google.com/gke-accelerator", "nvidia-l4", "gcp/g2-standard-4"),
        ("karpenter.k8s.aws/instance-family", "g6e", "aws/g6e.xlarge"),
    ],
)
def test_a_type_whose_nodes_have_the_label_is_planned(label: str, value: str, instance: str) -> None:
    values = [claim_template("any", request()), pod("a", template="any", nodeSelector={label: value})]
    assert planned_types(make_plan(values, catalog())) == [instance]


def affinity(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def test_gpu_memory_labels_can_be_compared() -> None:
    more = {"key": "karpenter.k8s.aws/instance-gpu-memory", "operator": "Gt", "values": ["40000"]}
    values = [claim_template("any", request()), pod("a", template="any", affinity=affinity([more]))]
    assert planned_types(make_plan(values, catalog())) == ["aws/g6e.xlarge"]


def test_a_label_that_no_template_has_is_reported() -> None:
    (unserved,) = make_plan([pod("a", nodeSelector={"kubernetes.io/os": "linux", "team": "ml"})], catalog()).unserved
    assert unserved.text.endswith("new nodes do not have label team")
    team = {"key": "team", "operator": "Exists"}
    (unserved,) = make_plan([pod("a", affinity=affinity([team]))], catalog()).unserved
    assert unserved.text.endswith("new nodes do not have label team")
    # One of several terms is enough, and labels of existing nodes count.
    arch = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    assert not make_plan([pod("a", affinity=affinity([team], [arch]))], catalog()).unserved
    (unserved,) = make_plan(
        [pod("a", nodeSelector={"team": "ml"}), node("n", labels={"team": "x"})], catalog()
    ).unserved
    assert "new nodes do not have" not in unserved.text
