"""Property tests of ignore comments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from allotment.tools.check.finding import Finding, SourceRange
from allotment.tools.check.selection import RuleSelection, is_known_pattern, known_patterns, pattern_matches
from allotment.tools.check.suppressions import apply_suppressions

LINES = st.sampled_from([
    "a: 1", "b: |-", "  text # allot: ignore", "# allot: ignore", "c: x  # allot: ignore[S100]",
    "# allot: ignore-file[V]", "# allot: ignore-document",
    "---", "", "- {", "# words", "d: 'x", "  y'  # allot: ignore[M]", "# allot: nothing[",
])  # fmt: skip
FINDINGS = st.lists(st.tuples(st.sampled_from(["S100", "S102", "V301", "M401"]), st.integers(1, 12)), max_size=5)


def finding_at(code: str, line: int) -> Finding:
    return Finding(code=code, name="x", level="error", message="m", where=SourceRange("a.yaml", line, 1, line, 2))


@given(st.lists(LINES, max_size=12), FINDINGS)
def test_each_finding_is_reported_or_suppressed_and_comments_only_add_notes(
    lines: list[str], pairs: list[tuple[str, int]]
) -> None:
    findings = {finding_at(*pair) for pair in pairs}
    result = apply_suppressions(
        sorted(findings, key=lambda finding: finding.sort_key), {"a.yaml": "\n".join(lines)}, lambda code, file: True
    )
    reported = set(result.findings)
    assert not reported & set(result.suppressed)
    assert {finding for finding in reported if finding.code != "S116"} | set(result.suppressed) == findings
    assert list(result.findings) == sorted(result.findings, key=lambda finding: finding.sort_key)
    for note in reported - findings:
        assert note.level == "note"
        assert lines[note.where.line - 1][note.where.column - 1] == "#"


@given(FINDINGS)
def test_without_comments_nothing_changes(pairs: list[tuple[str, int]]) -> None:
    findings = tuple(finding_at(*pair) for pair in pairs)
    assert apply_suppressions(findings, {"a.yaml": "allot: ignore\n" * 12}, lambda code, file: True) == (findings, ())


def test_every_suggested_pattern_matches_a_rule() -> None:
    assert all(is_known_pattern(word) for word in known_patterns())
    assert not is_known_pattern("")
    assert not is_known_pattern("S1x")


@given(st.lists(st.sampled_from(["S", "S1", "S100", "all", "shape", "unreadable", "V3"])), st.booleans())
def test_ignore_wins_and_no_pattern_selects_all(patterns: list[str], against: bool) -> None:
    choice = RuleSelection(ignore=tuple(patterns)) if against else RuleSelection(select=tuple(patterns))
    is_matched = any(pattern_matches(word, "S100") for word in patterns)
    assert choice.includes("S100") == (not is_matched if against else is_matched or not patterns)
