"""Comments that silence findings, and those that silence nothing.

``# allot: ignore[S102]`` at the end of a line silences what begins on that line, and where a value of several lines
begins there (an expression in a block) what is in it; alone on its line it speaks for the next one that is no comment.
Above the first field ``ignore-document[…]`` speaks for a document and ``ignore-file[…]`` for the file. Without codes,
all are meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.model.loading import Commentary, commentary
from allotment.tools.check.catalog import UNUSED_IGNORE, catalogue
from allotment.tools.check.finding import Finding, Range
from allotment.tools.check.selection import is_known, known_words, means

_MARK: Final = "allot:"
_DIRECTIVE: Final = re.compile(r"#*\s*allot:\s*(?P<verb>[\w-]*)(?:\[(?P<words>[^\]]*)\])?(?P<rest>.*)")
#: What may follow without brackets: a reason, told apart from codes that were meant to stand in brackets.
_REASON: Final = re.compile(r"\s*(?:[-–—#(:;,.].*)?")
_HEAD: Final = re.compile(r"\s*(?:#.*|---.*|%.*)?")


class Silenced(NamedTuple):
    """What is still to be told, with the comments that silence nothing; and what was silenced."""

    findings: tuple[Finding, ...]
    silenced: tuple[Finding, ...]


class _Ignore(NamedTuple):
    """A comment that silences: where it stands, what for, and the lines that it speaks for."""

    where: Range
    verb: str
    words: tuple[str, ...]
    first: int
    last: int

    def covers(self, finding: Finding) -> bool:
        return finding.where.file == self.where.file and self.first <= finding.where.line <= self.last

    def silences(self, finding: Finding) -> bool:
        return self.covers(finding) and (not self.words or any(means(word, finding.code) for word in self.words))


def silence(findings: Iterable[Finding], sources: Mapping[str, str], ran: Callable[[str, str], bool]) -> Silenced:
    """Findings without those that comments in their files silence.

    ``sources`` are the texts by file. ``ran`` tells of a code and a file whether that rule was held against it, for a
    comment is idle only if what it silences was looked for.
    """
    ignores: list[_Ignore] = []
    wrong: list[Finding] = []
    for file, source in sources.items():
        if _MARK in source:
            for one in _read(file, source):
                if isinstance(one, _Ignore):
                    ignores.append(one)
                else:
                    wrong.append(one)
    if not ignores and not wrong:
        return Silenced(tuple(findings), ())
    kept: list[Finding] = []
    silenced: list[Finding] = []
    for finding in findings:
        (silenced if any(ignore.silences(finding) for ignore in ignores) else kept).append(finding)
    told = (note for ignore in ignores for note in _idle(ignore, silenced, ran))
    kept += (note for note in (*wrong, *told) if ran(UNUSED_IGNORE.code, note.where.file))
    return Silenced(tuple(sorted(kept, key=lambda finding: finding.order)), tuple(silenced))


def _read(file: str, source: str) -> Iterator[_Ignore | Finding]:
    """The comments of a file that silence, and what is wrong with those that would."""
    found = commentary(source)
    lines = source.splitlines()
    alone = {comment.line for comment in found.comments if comment.alone}
    for comment in found.comments:
        directive = _DIRECTIVE.fullmatch(comment.text.strip())
        if directive is None:
            continue
        end = comment.column + 1 + len(comment.text)
        where = Range(file, comment.line, comment.column, comment.line, end)
        verb, words, rest = directive["verb"], directive["words"], directive["rest"]
        if verb not in ("ignore", "ignore-document", "ignore-file"):
            known = did_you_mean(verb, ("ignore", "ignore-document", "ignore-file"))
            yield _note(where, f"no such comment: allot: {verb}{known and f'.{known}'}", "write # allot: ignore[S102]")
            continue
        if words is None and not _REASON.fullmatch(rest):
            yield _note(where, "codes stand in brackets, so this silences nothing", f"write # allot: {verb}[S102]")
            continue
        span = _span(verb, comment.line, alone, found, lines)
        if span is None:
            what = "a document" if verb == "ignore-document" else "the file"
            yield _note(where, f"this silences nothing: it must stand above the first field of {what}")
            continue
        named = tuple(word.strip() for word in (words or "").split(",") if word.strip())
        yield _Ignore(where, verb, named, *span)


def _span(verb: str, line: int, alone: set[int], found: Commentary, lines: list[str]) -> tuple[int, int] | None:
    """The lines that a comment on a line speaks for."""
    if verb == "ignore":
        comment = line
        while line in alone or (line > comment and line <= len(lines) and not lines[line - 1].strip()):
            line += 1
        return next(((first, last) for first, last in found.scalars if line in (first, last)), (line, line))
    begins = next((start for start in found.documents if start > line), len(lines) + 1)
    if line not in alone or not all(_HEAD.fullmatch(text) for text in lines[line - 1 : begins - 1]):
        return None
    if verb == "ignore-document":
        return begins, next((start - 1 for start in found.documents if start > begins), len(lines) + 1)
    # Only the head of the first document is that of the file.
    return (1, len(lines) + 1) if all(_HEAD.fullmatch(text) for text in lines[: line - 1]) else None


def _idle(ignore: _Ignore, silenced: Iterable[Finding], ran: Callable[[str, str], bool]) -> Iterator[Finding]:
    """What of a comment silences nothing."""
    file = ignore.where.file
    codes = {finding.code for finding in silenced if ignore.silences(finding)}
    if not ignore.words:
        if not codes and all(ran(rule.code, file) for rule in catalogue() if rule.family != "proof"):
            yield _note(ignore.where, "this comment silences nothing", "it can go")
        return
    for word in ignore.words:
        if not is_known(word):
            known = did_you_mean(word, known_words())
            yield _note(ignore.where, f"there is no rule {word}{known and f'.{known}'}")
        elif not any(means(word, code) for code in codes):
            meant = [rule.code for rule in catalogue() if means(word, rule.code)]
            if all(ran(code, file) for code in meant):
                yield _note(ignore.where, f"{word} is not found here, so this silences nothing", "it can go")


def _note(where: Range, message: str, advice: str = "") -> Finding:
    rule = UNUSED_IGNORE
    return Finding(code=rule.code, name=rule.name, level=rule.level, message=message, where=where, help=advice)
