"""S112: bare values in slices."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.tools.check.rules.shape import untyped_value, wrong_type
from tests.unit.tools.check.rules.shape.rule_results import fixed_documents, levels_and_messages, matches_of

RULE = untyped_value.RULE


def a_slice(attributes: str = "{}", capacity: str = "{}", driver: str = "gpu.nvidia.com") -> str:
    return f"""\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: a}}
spec:
  driver: {driver}
  nodeName: a
  pool: {{name: a, resourceSliceCount: 1}}
  devices:
  - name: gpu-0
    attributes: {attributes}
    capacity: {capacity}
"""


@pytest.mark.parametrize(
    ("written", "typed", "safe"),
    [
        ("{architecture: Ampere}", {"architecture": {"string": "Ampere"}}, True),
        ("{cudaComputeCapability: 8.0.0}", {"cudaComputeCapability": {"version": "8.0.0"}}, True),
        ("{cudaComputeCapability: '8.0'}", {"cudaComputeCapability": {"version": "8.0.0"}}, True),
        ("{custom: 1.2.3}", {"custom": {"version": "1.2.3"}}, True),
        ("{custom: 5}", {"custom": {"int": 5}}, True),
        ("{custom: true}", {"custom": {"bool": True}}, True),
        ("{custom: 1.5}", {"custom": {"string": "1.5"}}, False),
    ],
)
def test_type_from_the_driver_or_the_value(written: str, typed: Any, safe: bool) -> None:
    text = a_slice(written)
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert match.fix.safe is safe
    assert fixed_documents(RULE, text)[0]["spec"]["devices"][0]["attributes"] == typed
    assert levels_and_messages(wrong_type.RULE, text) == []


def test_bare_capacity() -> None:
    text = a_slice(capacity="{memory: 40Gi, cores: 108}")
    assert levels_and_messages(RULE, text)[0] == ("error", "memory is a bare quantity, expected {value: 40Gi}")
    assert fixed_documents(RULE, text)[0]["spec"]["devices"][0]["capacity"] == {
        "memory": {"value": "40Gi"},
        "cores": {"value": 108},
    }


def test_invalid_quantity_has_no_fix() -> None:
    (match,) = matches_of(RULE, a_slice(capacity="{memory: lots}"))
    assert match.fix is None


def test_fragment_of_a_slice() -> None:
    text = "attributes: {architecture: Ampere}\ncapacity: {memory: 40Gi}\n"
    assert [level for level, _ in levels_and_messages(RULE, text)] == ["warning", "warning"]
    assert fixed_documents(RULE, text) == [
        {"attributes": {"architecture": {"string": "Ampere"}}, "capacity": {"memory": {"value": "40Gi"}}}
    ]


def test_typed_values_are_not_reported() -> None:
    assert levels_and_messages(RULE, a_slice("{a: {string: x}}", "{memory: {value: 1Gi}}")) == []


def test_common_notations_of_memory() -> None:
    text = SLICE_OF_MEMORY.format(memory="40GB")
    (match,) = matches_of(RULE, text)
    assert match.fix is not None
    assert (match.fix.text, match.fix.safe) == ("write value: 40G", True)
    (match,) = matches_of(RULE, SLICE_OF_MEMORY.format(memory="40GiB"))
    assert match.fix is not None
    assert match.fix.safe
    (match,) = matches_of(RULE, SLICE_OF_MEMORY.format(memory="much"))
    assert match.fix is None


SLICE_OF_MEMORY = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {{name: a}}
spec:
  driver: gpu.example.com
  nodeName: a
  pool: {{name: a, generation: 1, resourceSliceCount: 1}}
  devices:
  - name: gpu-0
    capacity: {{memory: {memory}}}
"""
