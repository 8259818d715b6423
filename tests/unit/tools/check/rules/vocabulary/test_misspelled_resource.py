"""V314: misspelled extended resources."""

from __future__ import annotations

import pytest

from allotment.tools.check.fixer import fix
from allotment.tools.check.rules.vocabulary import misspelled_resource
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.vocabulary.rule_results import fixed_document, matches_of

RULE = misspelled_resource.RULE
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {nvidia.com/gpus: 8}}
"""


@pytest.mark.parametrize(
    ("resource", "intended"),
    [
        ("nvidia.com/gpus", "nvidia.com/gpu"),
        ("nvidia.com/GPU", "nvidia.com/gpu"),
        ("nvida.com/gpu", "nvidia.com/gpu"),
        ("gpu.nvidia.com/gpu", "nvidia.com/gpu"),
        ("amd.com/gpus", "amd.com/gpu"),
        ("nvidia.com/gpu-shared", "nvidia.com/gpu.shared"),
    ],
)
def test_misspelled_name_is_replaced(resource: str, intended: str) -> None:
    text = RULE.good.replace("nvidia.com/gpu: 1", f"{resource}: 1\n      requests:\n        {resource}: 1")
    (match,) = matches_of(RULE, text)
    assert f'"{resource}", so the pod stays pending: did you mean "{intended}"?' in match.message
    (container,) = fixed_document(RULE, text)["spec"]["containers"]
    assert container["resources"] == {"limits": {intended: 1}, "requests": {intended: 1}}


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/pgpu", "nvidia.com/gpumem",
        "nvidia.com/GP102GL_Tesla_P40", "nvidia.com/gpu-a100", "example.com/gpu", "cpu", "rdma/hca", "amd.com/cpx_nps1",
        "nvidia.com/gpu.memory", "deviceclass.resource.kubernetes.io/gpu.nvidia.com", "gpu.intel.com/i915",
    ],
)  # fmt: skip
def test_other_resources_are_not_reported(resource: str) -> None:
    assert not matches_of(RULE, RULE.good.replace("nvidia.com/gpu", resource))


def test_node_may_provide_the_resource() -> None:
    assert not matches_of(RULE, RULE.bad, cluster=NODE)


def test_fix_changes_only_the_name_in_a_cluster_too() -> None:
    text = RULE.bad.replace("nvidia.com/gpus: 1", "cpu: 1\n        nvidia.com/gpus: 1")
    fixed = fix(bundle_of(text, fleet="t4"), unsafe=True)
    assert fixed.texts == {"file.yaml": text.replace("gpus", "gpu")}
    assert not fixed.remaining
