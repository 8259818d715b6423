"""Checks that apply to all rules: metadata, examples, fixes and style of messages."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from allotment.tools.check.fixer import fix
from allotment.tools.check.rule import Rule
from allotment.tools.check.rules import RULES
from allotment.tools.check.run import check
from tests.unit.tools.check.bundles import example_bundle

_FAMILIES = {"S": "shape", "C": "cel", "V": "vocabulary", "M": "meaning", "P": "proof"}

rules = pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.code}-{rule.name}")
fixable = pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.fixable], ids=lambda rule: f"{rule.code}-{rule.name}"
)


def test_codes_and_names_are_unique_and_in_order() -> None:
    codes = [rule.code for rule in RULES]
    assert len(RULES) > 40
    assert codes == sorted(codes, key=lambda code: (list(_FAMILIES).index(code[0]), code))
    assert max(Counter(codes).values()) == 1
    assert max(Counter(rule.name for rule in RULES).values()) == 1


@rules
def test_rule_is_documented(rule: Rule) -> None:
    assert re.fullmatch(r"[SCVMP][1-5][0-9]{2}", rule.code)
    assert _FAMILIES[rule.code[0]] == rule.family
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+|refused|fragment|pending", rule.name)
    assert rule.summary
    assert "\n" not in rule.summary
    assert len(rule.summary) <= 100
    assert not rule.summary.endswith(".")
    assert len(rule.why) > 60
    assert rule.bad.endswith("\n")
    assert rule.good.endswith("\n")


@rules
def test_bad_example_is_reported(rule: Rule) -> None:
    findings = [finding for finding in check(example_bundle(rule, rule.bad)) if finding.code == rule.code]
    assert findings
    assert {finding.level for finding in findings} & {rule.level}
    for finding in findings:
        assert finding.message
        assert not finding.message.endswith(".")
        assert finding.where.file == "file.yaml"
        assert (finding.where.line, finding.where.column) < (finding.where.end_line, finding.where.end_column)


@rules
def test_good_example_is_not_reported(rule: Rule) -> None:
    findings = check(example_bundle(rule, rule.good))
    assert [f"{f.code} {f.where} {f.message}" for f in findings if f.code == rule.code or f.level == "error"] == []


@fixable
def test_fix_turns_the_bad_example_into_the_good_one(rule: Rule) -> None:
    fixed = fix(example_bundle(rule, rule.bad), unsafe=rule.fixable != "safe", rules=(rule,))
    assert fixed.texts == {"file.yaml": rule.good}


@rules
def test_only_fixable_rules_offer_fixes(rule: Rule) -> None:
    findings = [finding for finding in check(example_bundle(rule, rule.bad)) if finding.code == rule.code]
    kinds = {"safe" if finding.fix.safe else "unsafe" for finding in findings if finding.fix}
    assert kinds <= set(rule.fixable.split(" or "))
    assert bool(kinds) == bool(rule.fixable)


#: Valid starts of a message: lower case, quoted or literal text, Kubernetes kinds and proper names.
_BEGINS = re.compile(
    r"[a-z0-9\"'.>`$_&|(\[{=!<~@/*-]|(CEL|Kubernetes|MPS|MIG|GPU|NVIDIA|AMD|[A-Z][a-z]+[A-Z][A-Za-z]+) "
    r"|(Pod|Namespace|Deployment|Job) "
)


@rules
def test_message_style(rule: Rule) -> None:
    """Messages start in lower case and have no full stop; a semicolon joins two sentences."""
    for finding in check(example_bundle(rule, rule.bad)):
        for text in filter(None, (finding.message, finding.help, finding.fix.text if finding.fix else "")):
            assert _BEGINS.match(text), text
            assert not text.endswith("."), text
            assert not re.search(r"\. [A-Z]", text), text
    assert _BEGINS.match(rule.summary), rule.summary
