"""Selectors in a class or a request, what the rules of CEL find in them, and what their fixes make of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from allotment.cel.source_spans import located
from allotment.model.editing.edits import ReplaceText
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch
from allotment.tools.check.rules.cel import CEL_RULES
from tests.unit.tools.check.bundles import bundle_of

NVIDIA = 'device.attributes["gpu.nvidia.com"]'
CAPACITY = 'device.capacity["gpu.nvidia.com"]'

# A long text raises the interpreter's limit once, which Hypothesis does not like to see in a test of its own.
located("(" * 100 + "a" + ")" * 100)

_CLASS = """apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {{name: mine}}
spec:
  selectors:
  - cel:
      expression: {}
"""
_CLAIM = """apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: mine}}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: {}
        selectors:
        - cel:
            expression: {}
"""


class Report(NamedTuple):
    """A finding: the rule's code, what it says, the text that it is about, and that text after the fix."""

    code: str
    message: str
    text: str
    fixed: str | None


def bundle(expression: str, class_name: str = "", fleet: str = "") -> Bundle:
    """A selector of a request of that class; without one, of a class."""
    written = json.dumps(expression)
    return bundle_of(_CLAIM.format(class_name, written) if class_name else _CLASS.format(written), fleet=fleet)


def matches_of(expression: str, class_name: str = "", fleet: str = "") -> list[tuple[str, RuleMatch]]:
    """What the rules find, with their codes."""
    held = bundle(expression, class_name, fleet)
    return [(rule.code, one) for rule in CEL_RULES for one in rule.find(held)]


def codes(expression: str, class_name: str = "") -> list[str]:
    """The codes of what the rules find."""
    return [code for code, _ in matches_of(expression, class_name)]


def reports_of(expression: str, class_name: str = "") -> list[Report]:
    """What the rules find, to be read."""
    return [
        Report(
            code,
            one.message,
            expression[slice(*one.span)] if one.span else expression,
            apply_fix(expression, one) if one.fix else None,
        )
        for code, one in matches_of(expression, class_name)
    ]


def apply_fix(expression: str, one: RuleMatch) -> str:
    """The expression after a finding's fix."""
    assert one.fix is not None
    for document, edit in reversed(one.fix.edits):
        assert document is one.document
        assert isinstance(edit, ReplaceText)
        assert edit.path == one.path
        assert 0 <= edit.start <= edit.stop <= len(expression)
        expression = expression[: edit.start] + edit.text + expression[edit.stop :]
    return expression


def pick_first(number: int) -> int:
    """The first of so many."""
    return 0


def fix_all(expression: str, class_name: str = "", pick: Callable[[int], int] = pick_first) -> tuple[str, list[str]]:
    """The expression when no fix is left, and the codes of what is; ``pick`` says which of several fixes goes first."""
    for _ in range(24):
        findings = matches_of(expression, class_name)
        fixable = [one for _, one in findings if one.fix is not None]
        if not fixable:
            return expression, [code for code, _ in findings]
        expression = apply_fix(expression, fixable[pick(len(fixable))])
    raise AssertionError(f"fixes go on for ever: {expression}")
