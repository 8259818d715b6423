"""V313: labels of nodes as resources of containers."""

from __future__ import annotations

from allotment.tools.check.rules.vocabulary import node_label_as_resource
from tests.unit.tools.check.rules.vocabulary.rule_results import fixed_document, matches_of

RULE = node_label_as_resource.RULE
NODE = """\
apiVersion: v1
kind: Node
metadata: {name: a}
status: {allocatable: {nvidia.com/gpu.memory: 80}}
"""


def test_memory_is_requested_by_a_claim() -> None:
    (match,) = matches_of(RULE, RULE.bad)
    assert '"nvidia.com/gpu.memory" is a label of nodes, not a resource' in match.message
    assert "remove nvidia.com/gpu.memory and nvidia.com/gpu" in match.help
    assert "allot claim --gpus 1 --memory 80Gi --for pod/server -f " in match.help
    assert match.path[-1] == "nvidia.com/gpu.memory"


def test_number_is_in_mebibytes_as_in_the_label() -> None:
    (match,) = matches_of(RULE, RULE.bad.replace("80Gi", "24576"))
    assert "--memory 24576Mi" in match.help


def test_other_labels_have_no_amount_of_memory() -> None:
    (match,) = matches_of(RULE, RULE.bad.replace("gpu.memory: 80Gi", "gpu.count: 2"))
    assert '"nvidia.com/gpu.count" is a label of nodes' in match.message
    assert "--memory" not in match.help


def test_fix_removes_the_line_and_says_what_is_lost() -> None:
    (match,) = matches_of(RULE, RULE.bad)
    assert match.fix is not None
    assert "any memory" in match.fix.text
    (container,) = fixed_document(RULE, RULE.bad)["spec"]["containers"]
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 1}}


def test_resources_of_device_plugins_are_no_labels() -> None:
    for name in ("gpu.shared", "mig-1g.5gb", "gpu"):
        assert not matches_of(RULE, RULE.bad.replace("gpu.memory: 80Gi", f"{name}: 1"))


def test_node_may_provide_the_resource() -> None:
    assert not matches_of(RULE, RULE.bad, cluster=NODE)
