"""The NodeClasses and ConfigMaps that the command line names for NodeClaims."""

from __future__ import annotations

import pytest

from allotment.autoscaler.providers.karpenter import MigManager
from allotment.cli.arguments.autoscale import MIG_CONFIG
from allotment.cli.inputs.node_classes import mig_manager, node_classes
from allotment.errors import InputError
from allotment.fleet.catalog.export.karpenter import NodeClass

GPU = NodeClass("karpenter.k8s.aws", "EC2NodeClass", "gpu")


def test_a_class_is_for_one_provider_or_for_all() -> None:
    own = NodeClass("a.b", "C", "d")
    assert node_classes(["karpenter.k8s.aws/EC2NodeClass/gpu"], ["aws", "gcp"]) == {"aws": GPU, "gcp": GPU}
    assert node_classes(["a.b/C/d", "aws=karpenter.k8s.aws/EC2NodeClass/gpu"], ["aws", "home"]) == {
        "aws": GPU,
        "home": own,
    }
    assert node_classes([], ["aws"]) == {}


@pytest.mark.parametrize(
    ("word", "problem"),
    [("gpu", "expected GROUP/KIND/NAME, found 'gpu'"), ("awz=a/B/c", "no machines are ordered from provider 'awz'")],
)
def test_invalid_node_classes(word: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        node_classes([word], ["aws"])


def test_layouts_are_written_to_the_mig_managers_config_map() -> None:
    assert mig_manager(MIG_CONFIG) == MigManager()
    assert mig_manager("ns/name") == MigManager("ns", "name")
    assert mig_manager("none") is None
    for text in ("name", "/name", "ns/", "a/b/c"):
        with pytest.raises(InputError, match="--mig-config: expected NAMESPACE/CONFIGMAP"):
            mig_manager(text)
