"""Guards in long multi-line expressions get their own line."""

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
DRIVER = 'device.driver == "gpu.nvidia.com"'
A, B = (
    'device.attributes["gpu.nvidia.com"].architecture == "Ampere"',
    'device.attributes["gpu.nvidia.com"].type == "gpu"',
)


@pytest.mark.parametrize(
    ("written", "becomes"),
    [
        # Literal and folded blocks, with the operator at the end or the start of lines.
        (f"|\n        {A}", f"|\n        {DRIVER} &&\n        {A}"),
        (f">-\n        {A} &&\n        {B}", f">-\n        {DRIVER} &&\n        {A} &&\n        {B}"),
        (f"|\n        {A}\n        && {B}", f"|\n        {DRIVER}\n        && {A}\n        && {B}"),
        (f">\n        {A}\n        && {B}", f">\n        {DRIVER}\n        && {A}\n        && {B}"),
        # Parentheses around existing lines.
        (
            f"|\n        {A} ||\n          {B}",
            f"|\n        {DRIVER} &&\n        ({A} ||\n          {B})",
        ),
        (f">-\n        {A} ||\n        {B}", f">-\n        {DRIVER} &&\n        ({A} ||\n        {B})"),
        # Multi-line strings without a block.
        (f"{A} &&\n        {B}", f"{DRIVER} &&\n        {A} &&\n        {B}"),
        (f"'{A}\n        && {B}'", f"'{DRIVER}\n        && {A}\n        && {B}'"),
        # Single-line strings stay on one line; short guards need no line of their own.
        (A, f"{DRIVER} && {A}"),
        (f"|\n        {B}", f"|\n        {DRIVER} && {B}"),
    ],
)  # fmt: skip
def test_guards_break_long_lines(written: str, becomes: str) -> None:
    fixed = fix(bundle_of(CLASS.format(written)), unsafe=False)
    assert fixed.texts == {"file.yaml": CLASS.format(becomes)}
    assert load_text(fixed.texts["file.yaml"]).documents
    assert not fixed.remaining
