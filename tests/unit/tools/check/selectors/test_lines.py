"""Conditions that are put into long expressions stand on lines of their own, where there are several."""

from __future__ import annotations

import pytest

from allotment.model.loading import load_text
from allotment.tools.check.fixer import fix
from tests.unit.tools.check.bundles import bundle_of

CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: ampere
spec:
  selectors:
  - cel:
      expression: {}
"""
ASKS = 'device.driver == "gpu.nvidia.com"'
A, B = (
    'device.attributes["gpu.nvidia.com"].architecture == "Ampere"',
    'device.attributes["gpu.nvidia.com"].type == "gpu"',
)


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        # In blocks, literal and folded, with the operator behind and before.
        (f"|\n        {A}", f"|\n        {ASKS} &&\n        {A}"),
        (f">-\n        {A} &&\n        {B}", f">-\n        {ASKS} &&\n        {A} &&\n        {B}"),
        (f"|\n        {A}\n        && {B}", f"|\n        {ASKS}\n        && {A}\n        && {B}"),
        (f">\n        {A}\n        && {B}", f">\n        {ASKS}\n        && {A}\n        && {B}"),
        # Parentheses go around lines as they are.
        (
            f"|\n        {A} ||\n          {B}",
            f"|\n        {ASKS} &&\n        ({A} ||\n          {B})",
        ),
        (f">-\n        {A} ||\n        {B}", f">-\n        {ASKS} &&\n        ({A} ||\n        {B})"),
        # Strings that are folded without a block.
        (f"{A} &&\n        {B}", f"{ASKS} &&\n        {A} &&\n        {B}"),
        (f"'{A}\n        && {B}'", f"'{ASKS}\n        && {A}\n        && {B}'"),
        # What stands on one line stays there; what is short needs no line of its own.
        (A, f"{ASKS} && {A}"),
        (f"|\n        {B}", f"|\n        {ASKS} && {B}"),
    ],
)  # fmt: skip
def test_guards_break_long_lines(written: str, becomes: str) -> None:
    fixed = fix(bundle_of(CLASS.format(written)), unsafe=False)
    assert fixed.texts == {"file.yaml": CLASS.format(becomes)}
    assert load_text(fixed.texts["file.yaml"]).documents
    assert not fixed.remaining
