"""V313: labels of nodes as resources of containers."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.model.loading import load_text
from allotment.tools.check.fixer import fix
from allotment.tools.check.rules.vocabulary import node_label_as_resource
from tests.unit.tools.check.bundles import bundle_of
from tests.unit.tools.check.rules.vocabulary.rule_results import matches_of

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
    assert match.fix is not None
    assert match.fix.text == "request 1 GPU with at least 40Gi by a claim"
    assert match.path[-1] == "nvidia.com/gpu.memory"


def test_number_is_in_mebibytes_as_in_the_label() -> None:
    (match,) = matches_of(RULE, RULE.bad.replace("40Gi", "24576"))
    assert match.fix is not None
    assert match.fix.text == "request 1 GPU with at least 24576Mi by a claim"


def fixed(text: str, fleet: str = "") -> list[dict[str, Any]]:
    """The documents after all fixes of the rule."""
    texts = fix(bundle_of(text, fleet=fleet), unsafe=True, rules=(RULE,)).texts
    return [document.tree for document in load_text(texts["file.yaml"]).documents]


@pytest.mark.parametrize("fleet", ["", "4xa100-80gb", "t4-4x-pcie"])
def test_memory_and_number_of_gpus_move_to_a_claim(fleet: str) -> None:
    text = (
        RULE.bad.replace("gpu: 1", "gpu: 2")
        .replace("40Gi", '"81920"')
        .replace("name: server\nspec", "name: server\n  namespace: ml\nspec")
    )
    pod, template = fixed(text, fleet=fleet)
    assert pod["spec"]["containers"][0]["resources"] == {"claims": [{"name": "gpu"}]}
    assert pod["spec"]["resourceClaims"] == [{"name": "gpu", "resourceClaimTemplateName": "server-gpu"}]
    assert template["metadata"] == {"name": "server-gpu", "namespace": "ml"}
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 2
    assert request["exactly"]["selectors"][0]["cel"]["expression"].endswith('quantity("81920Mi")) >= 0')


def test_each_container_gets_a_claim() -> None:
    second = RULE.bad[RULE.bad.index("  - name: server") :].replace("name: server", "name: other")
    pod, one, two = fixed(RULE.bad + second)
    assert [container["resources"]["claims"] for container in pod["spec"]["containers"]] == [
        [{"name": "gpu"}], [{"name": "gpu-2"}],
    ]  # fmt: skip
    assert [one["metadata"]["name"], two["metadata"]["name"]] == ["server-gpu", "server-gpu-2"]


def test_unclear_memory_is_not_removed() -> None:
    (match,) = matches_of(RULE, RULE.bad.replace("40Gi", "${MEMORY}"))
    assert match.fix is None


def test_other_labels_are_removed() -> None:
    (match,) = matches_of(RULE, RULE.bad.replace("gpu.memory: 40Gi", "gpu.count: 2"))
    assert match.fix is not None
    assert match.fix.text == "remove nvidia.com/gpu.count"
    assert match.help.startswith("allot claim writes a claim")


def test_resources_of_device_plugins_are_no_labels() -> None:
    for name in ("gpu.shared", "mig-1g.5gb", "gpu"):
        assert not matches_of(RULE, RULE.bad.replace("gpu.memory: 40Gi", f"{name}: 1"))


def test_node_may_provide_the_resource() -> None:
    assert not matches_of(RULE, RULE.bad, cluster=NODE)
