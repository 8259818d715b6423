"""Planned machines as NodeClaims, and their MIG layouts."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from allotment.model.core import Taint
from allotment.model.loading import load_text
from allotment.model.meta import ObjectKey
from allotment.model.trees import Tree
from allotment.planning.provisioning.mig_parted import (
    mig_config_map,
    mig_config_name,
    mig_layout,
    mig_parted,
    with_layout,
)
from allotment.planning.provisioning.nodeclaims import NodeClaimSettings, NodeClassNotFoundError, manifests, node_claims
from allotment.planning.report import PlannedMachine, PodPlacement

SEVEN = "8xa100-40gb/static-mig=1g.5gb:7"


def machine(**changes: Any) -> PlannedMachine:
    """A planned machine."""
    defaults: Tree = {
        "node": "new-1", "instance": "aws/p4d.24xlarge", "form": "8xa100-40gb", "zone": "us-east-1a",
        "capacity_type": "spot", "usd_per_hour": Decimal("21.5"), "drivers": ("gpu.nvidia.com",),
    }  # fmt: skip
    return PlannedMachine(**defaults | changes)


def configs(text: str) -> Tree:
    """The configurations in a mig-parted file."""
    (document,) = load_text(text, "config.yaml").documents
    tree: Tree = document.tree["mig-configs"]
    return tree


def test_one_machine_is_one_node_claim_with_a_fixed_type() -> None:
    placements = tuple(
        PodPlacement(pod=ObjectKey("default", f"p{n}"), node="new-1", cpu_milli=1500, memory=2 << 30) for n in range(2)
    )
    (tree,) = node_claims([machine(placements=placements)])
    assert tree["metadata"] == {
        "name": "new-1",
        "labels": {"allotment.dev/autoscaler": "allotment"},
        "annotations": {
            "allotment.dev/instance-type": "aws/p4d.24xlarge",
            "allotment.dev/planned-hardware": "8xa100-40gb",
            "allotment.dev/usd-per-hour": "21.5",
            "karpenter.sh/requested-dra-drivers": "gpu.nvidia.com",
        },
    }
    assert tree["spec"] == {
        "requirements": [
            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["p4d.24xlarge"]},
            {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot"]},
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["us-east-1a"]},
        ],
        "resources": {"requests": {"cpu": "3000m", "memory": str(4 << 30), "pods": "2"}},
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "expireAfter": "Never",
    }


def test_labels_set_by_the_system_are_left_out() -> None:
    labels = {
        "kubernetes.io/hostname": "new-1", "kubernetes.io/arch": "arm64", "topology.kubernetes.io/region": "us-east-1",
        "feature.node.kubernetes.io/pci-10de.present": "true", "karpenter.sh/capacity-type": "spot", "team": "ml",
    }  # fmt: skip
    (tree,) = node_claims([machine(labels=labels)], NodeClaimSettings(labels={"pool": "gpu"}))
    assert tree["metadata"]["labels"] == {"allotment.dev/autoscaler": "allotment", "pool": "gpu", "team": "ml"}
    assert {"key": "kubernetes.io/arch", "operator": "In", "values": ["arm64"]} in tree["spec"]["requirements"]


def test_taints_are_not_repeated() -> None:
    taint = Taint(key="gpu", value="yes", effect="NoSchedule")
    (tree,) = node_claims([machine(taints=(taint,))], NodeClaimSettings(taints=(taint,), termination_grace="1h"))
    assert tree["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert tree["spec"]["terminationGracePeriod"] == "1h"
    assert "startupTaints" not in tree["spec"]


def test_a_provider_without_karpenter_needs_a_node_class() -> None:
    with pytest.raises(NodeClassNotFoundError, match="no NodeClass for machines of lambda; set one as GROUP/KIND/NAME"):
        node_claims([machine(instance="lambda/gpu_8x_a100")])


def test_a_mig_layout_is_a_label_and_a_configuration_with_its_name() -> None:
    planned = machine(form=SEVEN)
    (tree,) = node_claims([planned])
    layout = mig_layout(planned)
    assert layout == (("1g.5gb",) * 7,) * 8
    name = mig_config_name(layout)
    assert tree["metadata"]["labels"]["nvidia.com/mig.config"] == name
    assert configs(mig_parted([layout, layout])) == {
        name: [{"devices": list(range(8)), "mig-enabled": True, "mig-devices": {"1g.5gb": 7}}]
    }
    assert mig_config_map(mig_parted([layout]))["metadata"]["name"] == "allotment-mig-parted-config"


def test_gpus_of_one_machine_can_have_different_layouts() -> None:
    layout = (("3g.20gb", "3g.20gb"), (), ("3g.20gb", "3g.20gb"))
    assert configs(mig_parted([layout])) == {
        mig_config_name(layout): [
            {"devices": [0, 2], "mig-enabled": True, "mig-devices": {"3g.20gb": 2}},
            {"devices": [1], "mig-enabled": False},
        ]
    }


@pytest.mark.parametrize("form", ["", "8xa100-40gb", "8xa100-40gb/dynamic-mig", "1xt4/consumable-shares=memory"])
def test_other_modes_have_no_mig_layout(form: str) -> None:
    planned = machine(form=form)
    assert mig_layout(planned) == ()
    (tree,) = node_claims([planned])
    assert "nvidia.com/mig.config" not in tree["metadata"]["labels"]
    assert mig_parted([()]) == ""


def test_existing_configurations_are_kept() -> None:
    text = "version: v1\nmig-configs:\n  all-disabled:\n    - devices: all\n      mig-enabled: false\n"
    layout = (("2g.10gb",),)
    twice = with_layout(with_layout(text, layout), layout)
    assert twice.startswith(text)
    assert sorted(configs(twice)) == ["all-disabled", mig_config_name(layout)]


def test_layouts_come_before_the_node_claims_that_refer_to_them() -> None:
    found = manifests([machine(), machine(node="new-2", form=SEVEN)])
    assert [(tree["kind"], tree["metadata"]["name"]) for tree in found] == [
        ("ConfigMap", "allotment-mig-parted-config"), ("NodeClaim", "new-1"), ("NodeClaim", "new-2"),
    ]  # fmt: skip
    assert [tree["kind"] for tree in manifests([machine()])] == ["NodeClaim"]
