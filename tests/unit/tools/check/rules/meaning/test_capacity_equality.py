"""M402: capacities compared with ``==``."""

from __future__ import annotations

import pytest

from allotment.tools.check.rules.meaning import capacity_equality
from tests.unit.tools.check.rules.meaning.manifests import (
    claim,
    fixed_documents,
    levels_and_paths,
    matches_of,
    request_with_selector,
)

RULE = capacity_equality.RULE

MEMORY = 'device.capacity["gpu.nvidia.com"].memory'
WHERE = "ResourceClaim spec.devices.requests[0].exactly.selectors[0].cel.expression"


@pytest.mark.parametrize(
    ("expression", "becomes"),
    [
        (f'{MEMORY} == quantity("64Gi")', f'{MEMORY}.compareTo(quantity("64Gi")) >= 0'),
        (f'quantity("64Gi") == {MEMORY}', f'{MEMORY}.compareTo(quantity("64Gi")) >= 0'),
        (f'true && ({MEMORY} == quantity("64Gi"))', f'true && ({MEMORY}.compareTo(quantity("64Gi")) >= 0)'),
    ],
)
def test_equality_becomes_at_least(expression: str, becomes: str) -> None:
    text = claim(request_with_selector(expression))
    assert levels_and_paths(RULE, text) == [("warning", WHERE)]
    (tree,) = fixed_documents(RULE, text)
    assert tree["spec"]["devices"]["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"] == becomes


def test_amount_of_a_known_device_is_a_note() -> None:
    assert levels_and_paths(RULE, claim(request_with_selector(f'{MEMORY} == quantity("40Gi")'))) == [("note", WHERE)]


@pytest.mark.parametrize(
    "expression",
    [
        f'{MEMORY}.compareTo(quantity("64Gi")) == 0',
        f'{MEMORY}.compareTo(quantity("64Gi")) >= 0',
        'device.capacity["gpu.nvidia.com"].copyEngines == quantity("7")',
        'device.attributes["gpu.nvidia.com"].type == "gpu"',
        f'{MEMORY} == quantity("64Gi"',
    ],
)
def test_counts_and_intentional_equality_are_not_reported(expression: str) -> None:
    assert levels_and_paths(RULE, claim(request_with_selector(expression))) == []


def test_span_is_the_comparison() -> None:
    before = 'device.attributes["gpu.nvidia.com"].type == "gpu" && '
    (match,) = matches_of(RULE, claim(request_with_selector(f'{before}{MEMORY} == quantity("64Gi")')))
    assert match.span == (len(before), len(before) + len(MEMORY) + len(' == quantity("64Gi")'))


def test_fragments_are_checked() -> None:
    text = f"selectors:\n- cel:\n    expression: '{MEMORY} == quantity(\"64Gi\")'\n"
    assert levels_and_paths(RULE, text) == [("warning", "selectors[0].cel.expression")]
