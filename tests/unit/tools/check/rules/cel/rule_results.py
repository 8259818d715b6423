"""Runs the CEL rules on a selector in a class or a request, and applies their fixes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from allotment.cel.source_spans import parse_spans
from allotment.model.editing.edits import ReplaceText
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.rule import RuleMatch
from allotment.tools.check.rules.cel import CEL_RULES
from tests.unit.tools.check.bundles import bundle_of

NVIDIA = 'device.attributes["gpu.nvidia.com"]'
CAPACITY = 'device.capacity["gpu.nvidia.com"]'

# Parsing a deeply nested expression raises the recursion limit, which Hypothesis does not allow in a test.
parse_spans("(" * 100 + "a" + ")" * 100)

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
    """A match: the rule's code, its message, the text of its span, and the expression after the fix."""

    code: str
    message: str
    text: str
    fixed: str | None


def bundle(expression: str, class_name: str = "", fleet: str = "") -> Bundle:
    """A bundle with the selector in a request of a class or, without ``class_name``, in a class."""
    written = json.dumps(expression)
    return bundle_of(_CLAIM.format(class_name, written) if class_name else _CLASS.format(written), fleet=fleet)


def matches_of(expression: str, class_name: str = "", fleet: str = "") -> list[tuple[str, RuleMatch]]:
    """The matches of all CEL rules, with their codes."""
    selector_bundle = bundle(expression, class_name, fleet)
    return [(rule.code, match) for rule in CEL_RULES for match in rule.find(selector_bundle)]


def codes(expression: str, class_name: str = "") -> list[str]:
    """The codes of the matches."""
    return [code for code, _ in matches_of(expression, class_name)]


def reports_of(expression: str, class_name: str = "") -> list[Report]:
    """The matches in a readable form."""
    return [
        Report(
            code,
            match.message,
            expression[slice(*match.span)] if match.span else expression,
            apply_fix(expression, match) if match.fix else None,
        )
        for code, match in matches_of(expression, class_name)
    ]


def apply_fix(expression: str, match: RuleMatch) -> str:
    """The expression after the fix of a match."""
    assert match.fix is not None
    for document, edit in reversed(match.fix.edits):
        assert document is match.document
        assert isinstance(edit, ReplaceText)
        assert edit.path == match.path
        assert 0 <= edit.start <= edit.stop <= len(expression)
        expression = expression[: edit.start] + edit.text + expression[edit.stop :]
    return expression


def pick_first(number: int) -> int:
    """The index of the first of ``number`` items."""
    return 0


def fix_all(expression: str, class_name: str = "", pick: Callable[[int], int] = pick_first) -> tuple[str, list[str]]:
    """The expression after all fixes, and the remaining codes; ``pick`` chooses among several fixes."""
    for _ in range(24):
        findings = matches_of(expression, class_name)
        fixable = [match for _, match in findings if match.fix is not None]
        if not fixable:
            return expression, [code for code, _ in findings]
        expression = apply_fix(expression, fixable[pick(len(fixable))])
    raise AssertionError(f"fixes do not terminate: {expression}")
