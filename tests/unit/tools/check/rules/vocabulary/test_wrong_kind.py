"""V312: literals of another type than the attribute's values."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.vocabulary import wrong_kind
from tests.unit.tools.check.rules.vocabulary.rule_results import (
    NVIDIA,
    fixed_expressions,
    matches_of,
    selector_messages,
)
from tests.unit.tools.check.rules.vocabulary.rule_results import claim as claim_of

RULE = wrong_kind.RULE
AMD = 'device.attributes["gpu.amd.com"]'
VFIO = f"{NVIDIA}.iommuFDEnabled"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (f'{AMD}.numaNode == "1"', f"{AMD}.numaNode == 1"),
        (f'{AMD}.numaNode in [0, "1"]', f"{AMD}.numaNode in [0, 1]"),
        (f'{VFIO} == "True"', f"{VFIO} == true"),
        (f"{NVIDIA}.productName == 4", f'{NVIDIA}.productName == "4"'),
        (f'{AMD}.numaNode == "one"', f'{AMD}.numaNode == "one"'),
    ],
)
def test_fixes(written: str, expected: str) -> None:
    assert len(selector_messages(RULE, written)) == 1
    assert fixed_expressions(RULE, written) == [expected]


def test_messages() -> None:
    assert selector_messages(RULE, f'{AMD}.numaNode == "1"') == [
        ("warning", 'numaNode is an integer, but "1" is a string: they are never equal')
    ]
    assert selector_messages(RULE, f'{AMD}.numaNode >= "1"') == [
        ("warning", 'numaNode is an integer, but "1" is a string: comparing them fails')
    ]


def test_the_fix_is_safe() -> None:
    (match,) = matches_of(RULE, claim_of(f'{AMD}.numaNode == "1"'))
    assert match.fix is not None
    assert match.fix.safe


@pytest.mark.parametrize(
    "expression",
    [
        f"{AMD}.numaNode == 1",
        f"{AMD}.numaNode == 1.0",
        f"{VFIO} == true",
        f'{NVIDIA}.cudaComputeCapability == "9.0.0"',  # C203
        f'{NVIDIA}.driverVersion.isGreaterThan(semver("570.0.0"))',
        'device.capacity["gpu.nvidia.com"].memory == 4',  # C210
        'device.attributes["driver.example.com"].anything == 4',
    ],
)
def test_valid_comparisons_and_those_of_other_rules(expression: str) -> None:
    assert selector_messages(RULE, expression) == []


def test_type_from_slices() -> None:
    cluster = """\
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: one}
spec:
  driver: driver.example.com
  nodeName: one
  pool: {name: one, generation: 1, resourceSliceCount: 1}
  devices:
  - name: one
    attributes:
      ports: {int: 4}
"""
    expression = 'device.attributes["driver.example.com"].ports == "4"'
    assert fixed_expressions(RULE, expression, cluster=cluster) == [
        'device.attributes["driver.example.com"].ports == 4'
    ]


def test_versions_are_left_to_their_rule() -> None:
    assert selector_messages(RULE, f"{NVIDIA}.cudaComputeCapability == 9.0") == []  # C203
    assert len(selector_messages(RULE, f"{NVIDIA}.cudaComputeCapability == true")) == 1
