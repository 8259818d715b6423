"""Order operators on quantities and versions are rewritten to methods that compile; others are unchanged."""

from __future__ import annotations

import pytest

from allotment.cel import compile_selector
from allotment.cel.ordering_operators import rewrite_orderings
from allotment.model.features import Features

MEMORY = 'device.capacity["gpu.example.com"].memory'
VERSION = 'device.attributes["gpu.example.com"].driverVersion'


@pytest.mark.parametrize(
    ("written", "rewritten"),
    [
        (f'{MEMORY} >= quantity("40Gi")', f'{MEMORY}.compareTo(quantity("40Gi")) >= 0'),
        (f'({MEMORY}) < ("40Gi")', f'({MEMORY}).compareTo(quantity("40Gi")) < 0'),
        (f'quantity("40Gi") <= {MEMORY}', f'quantity("40Gi").compareTo({MEMORY}) <= 0'),
        (f'{VERSION} > semver("1.2.0") && true', f'{VERSION}.compareTo(semver("1.2.0")) > 0 && true'),
        (
            f'{MEMORY} > quantity("1Gi") && {MEMORY} < quantity("2Gi")',
            f'{MEMORY}.compareTo(quantity("1Gi")) > 0 && {MEMORY}.compareTo(quantity("2Gi")) < 0',
        ),
    ],
)
def test_order_operators_become_methods(written: str, rewritten: str) -> None:
    assert rewrite_orderings(written) == rewritten
    compile_selector(rewritten, Features(kube="1.36"))


@pytest.mark.parametrize(
    "written",
    ['device.attributes["gpu.example.com"].index > 2', f'{MEMORY} == quantity("40Gi")', f"{MEMORY} >= quantity("],
)
def test_other_expressions_give_none(written: str) -> None:
    assert rewrite_orderings(written) is None
