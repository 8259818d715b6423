"""Comments that suppress findings, and notes about those that have no effect.

``# allot: ignore[S102]`` at the end of a line suppresses findings that start on that line and, if a multi-line value
starts there (an expression in a block), findings in that value. On a line of its own, it applies to the next line that
is not a comment. Above the first field, ``ignore-document[…]`` applies to the document and ``ignore-file[…]`` to the
file. Without codes, a comment applies to all rules.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.model.loading import Comments, find_comments
from allotment.tools.check.catalog import UNUSED_IGNORE, all_rules
from allotment.tools.check.finding import Finding, SourceRange
from allotment.tools.check.selection import is_known_pattern, known_patterns, pattern_matches

_MARKER: Final = "allot:"
_DIRECTIVE: Final = re.compile(r"#*\s*allot:\s*(?P<verb>[\w-]*)(?:\[(?P<words>[^\]]*)\])?(?P<rest>.*)")
#: A reason that follows the directive without brackets, as opposed to codes whose brackets are missing.
_REASON: Final = re.compile(r"\s*(?:[-–—#(:;,.].*)?")
_BLANK_OR_COMMENT: Final = re.compile(r"\s*(?:#.*|---.*|%.*)?")


class SuppressionResult(NamedTuple):
    """The findings to report, with notes about unused comments, and the suppressed findings."""

    findings: tuple[Finding, ...]
    suppressed: tuple[Finding, ...]


class _IgnoreComment(NamedTuple):
    """An ignore comment: its position, the rules that it names, and the lines that it applies to."""

    where: SourceRange
    directive: str
    patterns: tuple[str, ...]
    first_line: int
    last_line: int

    def covers(self, finding: Finding) -> bool:
        return finding.where.file == self.where.file and self.first_line <= finding.where.line <= self.last_line

    def suppresses(self, finding: Finding) -> bool:
        return self.covers(finding) and (
            not self.patterns or any(pattern_matches(pattern, finding.code) for pattern in self.patterns)
        )


def apply_suppressions(
    findings: Iterable[Finding], sources: Mapping[str, str], was_evaluated: Callable[[str, str], bool]
) -> SuppressionResult:
    """The findings that no comment in their files suppresses.

    ``sources`` are the texts by file. ``was_evaluated`` says for a code and a file whether that rule ran on it: a
    comment is unused only if the findings that it suppresses were looked for.
    """
    ignores: list[_IgnoreComment] = []
    malformed: list[Finding] = []
    for file, source in sources.items():
        if _MARKER in source:
            for parsed in _parse_comments(file, source):
                if isinstance(parsed, _IgnoreComment):
                    ignores.append(parsed)
                else:
                    malformed.append(parsed)
    if not ignores and not malformed:
        return SuppressionResult(tuple(findings), ())
    reported: list[Finding] = []
    suppressed: list[Finding] = []
    for finding in findings:
        (suppressed if any(ignore.suppresses(finding) for ignore in ignores) else reported).append(finding)
    unused = (note for ignore in ignores for note in _unused_notes(ignore, suppressed, was_evaluated))
    reported += (note for note in (*malformed, *unused) if was_evaluated(UNUSED_IGNORE.code, note.where.file))
    return SuppressionResult(tuple(sorted(reported, key=lambda finding: finding.sort_key)), tuple(suppressed))


def _parse_comments(file: str, source: str) -> Iterator[_IgnoreComment | Finding]:
    """The ignore comments of a file, and findings for malformed ones."""
    comments = find_comments(source)
    lines = source.splitlines()
    standalone_lines = {comment.line for comment in comments.comments if comment.own_line}
    for comment in comments.comments:
        directive = _DIRECTIVE.fullmatch(comment.text.strip())
        if directive is None:
            continue
        end = comment.column + 1 + len(comment.text)
        where = SourceRange(file, comment.line, comment.column, comment.line, end)
        verb, codes, rest = directive["verb"], directive["words"], directive["rest"]
        if verb not in ("ignore", "ignore-document", "ignore-file"):
            suggestion = did_you_mean(verb, ("ignore", "ignore-document", "ignore-file"))
            yield _note(
                where,
                f"unknown directive allot: {verb}{suggestion and f'.{suggestion}'}",
                "write # allot: ignore[S102]",
            )
            continue
        if codes is None and not _REASON.fullmatch(rest):
            yield _note(where, "codes must be in brackets; this comment has no effect", f"write # allot: {verb}[S102]")
            continue
        covered = _covered_lines(verb, comment.line, standalone_lines, comments, lines)
        if covered is None:
            scope = "a document" if verb == "ignore-document" else "the file"
            yield _note(where, f"this comment has no effect: it must be above the first field of {scope}")
            continue
        patterns = tuple(code.strip() for code in (codes or "").split(",") if code.strip())
        yield _IgnoreComment(where, verb, patterns, *covered)


def _covered_lines(
    verb: str, line: int, standalone: set[int], comments: Comments, lines: list[str]
) -> tuple[int, int] | None:
    """The first and last line that a comment applies to; None if it is misplaced."""
    if verb == "ignore":
        comment = line
        while line in standalone or (line > comment and line <= len(lines) and not lines[line - 1].strip()):
            line += 1
        return next(
            ((first, last) for first, last in comments.multiline_scalars if line in (first, last)), (line, line)
        )
    start_line = next((start for start in comments.document_starts if start > line), len(lines) + 1)
    if line not in standalone or not all(
        _BLANK_OR_COMMENT.fullmatch(text) for text in lines[line - 1 : start_line - 1]
    ):
        return None
    if verb == "ignore-document":
        return start_line, next((start - 1 for start in comments.document_starts if start > start_line), len(lines) + 1)
    # ignore-file must be above the first document.
    return (1, len(lines) + 1) if all(_BLANK_OR_COMMENT.fullmatch(text) for text in lines[: line - 1]) else None


def _unused_notes(
    ignore: _IgnoreComment, suppressed: Iterable[Finding], was_evaluated: Callable[[str, str], bool]
) -> Iterator[Finding]:
    """Notes about the parts of a comment that suppress no finding."""
    file = ignore.where.file
    codes = {finding.code for finding in suppressed if ignore.suppresses(finding)}
    if not ignore.patterns:
        if not codes and all(was_evaluated(rule.code, file) for rule in all_rules() if rule.family != "proof"):
            yield _note(ignore.where, "this comment suppresses no finding", "remove it")
        return
    for pattern in ignore.patterns:
        if not is_known_pattern(pattern):
            suggestion = did_you_mean(pattern, known_patterns())
            yield _note(ignore.where, f"unknown rule {pattern}{suggestion and f'.{suggestion}'}")
        elif not any(pattern_matches(pattern, code) for code in codes):
            matching = [rule.code for rule in all_rules() if pattern_matches(pattern, rule.code)]
            if all(was_evaluated(code, file) for code in matching):
                yield _note(ignore.where, f"{pattern} has no finding here: this comment has no effect", "remove it")


def _note(where: SourceRange, message: str, advice: str = "") -> Finding:
    rule = UNUSED_IGNORE
    return Finding(code=rule.code, name=rule.name, level=rule.level, message=message, where=where, help=advice)
