"""V311: Helm values that the driver's chart does not read."""

from __future__ import annotations

import pytest

from allotment.model.editing.tree_edits import apply_edits
from allotment.tools.check.rules.vocabulary import helm_value
from tests.unit.tools.check.rules.vocabulary.rule_results import bundle, fixed_document, levels_and_messages, matches_of

RULE = helm_value.RULE
CHART_VALUES = "gpuResourcesEnabledOverride: true\nnvidiaDriverRoot: /\n"


def test_key_with_other_separators() -> None:
    assert levels_and_messages(RULE, RULE.bad) == [
        (
            "warning",
            'the chart has no value "resources-computeDomains" and ignores it: did you mean resources.computeDomains?',
        )
    ]
    assert fixed_document(RULE, RULE.bad)["resources"] == {"computeDomains": {"enabled": False}}
    assert levels_and_messages(RULE, RULE.good) == []


def test_key_moves_into_an_existing_value() -> None:
    text = f"{CHART_VALUES}resources: {{gpus: {{enabled: true}}}}\nresources-computeDomains: {{enabled: false}}\n"
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    (document,) = bundle(text).documents
    assert apply_edits(document.tree, [edit for _, edit in match.fix.edits])["resources"] == {
        "gpus": {"enabled": True},
        "computeDomains": {"enabled": False},
    }


def test_misspelled_key() -> None:
    assert fixed_document(RULE, f"{CHART_VALUES}featureGate:\n  MPSSupport: true\n")["featureGates"] == {
        "MPSSupport": True
    }
    assert fixed_document(RULE, f"{CHART_VALUES}featureGates:\n  MpsSupport: true\n")["featureGates"] == {
        "MPSSupport": True
    }
    assert fixed_document(RULE, f"{CHART_VALUES}resources:\n  gpu:\n    enabled: false\n")["resources"] == {
        "gpus": {"enabled": False}
    }


def test_keys_below_a_value_are_arbitrary() -> None:
    assert (
        levels_and_messages(
            RULE, f"{CHART_VALUES}kubeletPlugin:\n  tolerations:\n  - whatever: 1\n  nodeSelector:\n    a: b\n"
        )
        == []
    )


def test_unknown_key_is_a_note() -> None:
    assert levels_and_messages(RULE, f"{CHART_VALUES}zebra: 1\nglobal: {{a: 1}}\n") == [
        ("note", 'the chart of gpu.nvidia.com has no known value "zebra"')
    ]
    # It is similar to nvidiaDriverRoot, but it is a value of the GPU operator.
    assert [level for level, _ in levels_and_messages(RULE, f"{CHART_VALUES}driver:\n  enabled: true\n")] == ["note"]


def test_gpu_resources_override() -> None:
    text = "nvidiaDriverRoot: /\nresources:\n  gpus:\n    enabled: true\n"
    assert [level for level, _ in levels_and_messages(RULE, text)] == ["note"]
    assert fixed_document(RULE, text)["gpuResourcesEnabledOverride"] is True
    assert levels_and_messages(RULE, text.replace("true", "false")) == []


@pytest.mark.parametrize(
    "text",
    [
        "resources:\n  limits:\n    nvidia.com/gpu: 1\n",
        "mig:\n  strategy: single\ndevicePlugin:\n  enabled: false\ndriver:\n  enabled: true\n",
        "image:\n  repository: nginx\n  tag: '1'\nreplicas: 1\nimagePullSecrets: []\nserviceAccount:\n  create: true\n",
        "controller:\n  affinity: {}\nwebhook:\n  enabled: true\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
    ],
)
def test_other_documents_are_not_checked(text: str) -> None:
    assert levels_and_messages(RULE, text) == []
