"""Findings as text: each with its source line, then a summary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from allotment.cli.inputs.skipped_files import passed_over
from allotment.cli.output.code_frame import frame
from allotment.cli.output.console import Screen, folded
from allotment.cli.output.errors import FRAME_WIDTH, MOST_SHOWN, compiler_frame
from allotment.explanation.text import NEXT
from allotment.model.problems import WHOLE_FILE
from allotment.phrases import counted, listed
from allotment.tools.check.finding import Finding
from allotment.tools.check.report import LEVELS, CheckReport
from allotment.tools.check.rule import Level

#: Legible on light and dark backgrounds: no yellow, no bright colours.
_COLOURS: Final[Mapping[Level, str]] = {"error": "red", "warning": "magenta", "note": "cyan"}
TIED: Final = "\xa0"  # a non-breaking space
_HINT: Final = "-o concise lists all of them, one per line"


# --- findings --------------------------------------------------------------------------------------------------------


def print_report(screen: Screen, report: CheckReport) -> None:
    """Print all findings with their code frames, then the summary."""
    print_findings(screen, report)
    for line in summary(report):
        say(screen, line)
    print_next(screen, report)


def print_next(screen: Screen, report: CheckReport) -> None:
    """Print the next command, if there is one; it is not folded, so that it can be copied."""
    if report.next:
        screen.line(f"{NEXT}{report.next}")


def print_findings(screen: Screen, report: CheckReport) -> None:
    """Print the findings with their code frames; on a terminal only the first ones."""
    shown = report.findings if screen.width is None else report.findings[:MOST_SHOWN]
    lines: dict[str, list[str]] = {}
    for finding in shown:
        file = finding.where.file
        if file not in lines:
            lines[file] = report.sources.get(file, "").removeprefix("\ufeff").splitlines()
        for line in _finding(screen, finding, lines[file]):
            screen.line(line)
        screen.line()
    if more := len(report.findings) - len(shown):
        screen.line(f"And {more} more: {_HINT}.")
        screen.line()


def print_concise(screen: Screen, report: CheckReport) -> None:
    """Print one line per finding, then the summary."""
    for finding in report.findings:
        first = (finding.message.splitlines() or [""])[0]
        screen.line(_painted(screen, finding, f"{_head(finding)} {first}"))
    for line in summary(report):
        screen.line(line.replace(TIED, " "))


def _head(finding: Finding) -> str:
    """Return location, code, fix marker, and the level if it is not the default."""
    place = finding.where.file if finding.name in WHOLE_FILE else str(finding.where)
    mark = {None: "", True: " [*]", False: " [?]"}[finding.fix.safe if finding.fix else None]
    return f"{place} {finding.code}{mark}{'' if finding.level == 'error' else f' {finding.level}:'}"


def _painted(screen: Screen, finding: Finding, line: str) -> str:
    """Return the first line with location and code in colours."""
    place, code, rest = line.partition(f" {finding.code}")
    if not screen.colour or not code:
        return line
    mark = rest[:4] if finding.fix is not None else ""
    rest = rest.removeprefix(mark)
    level = f" {finding.level}:" if rest.startswith(f" {finding.level}:") else ""
    rest = rest.removeprefix(level)
    colour = _COLOURS[finding.level]
    fixable = screen.paint(mark, "green") if mark else ""
    return f"{screen.paint(place, 'bold')} {screen.paint(finding.code, colour)}{fixable}" + (
        f"{screen.paint(level, colour)}{rest}" if level else rest
    )


def _finding(screen: Screen, finding: Finding, lines: list[str]) -> Iterator[str]:
    where, width = finding.where, screen.width or FRAME_WIDTH
    first, *more = finding.message.splitlines() or [""]
    begin, *rest = folded(f"{_head(finding)} {first}", screen.width)
    yield _painted(screen, finding, begin)
    yield from rest
    if more:  # the compiler's own code frame
        yield from compiler_frame(more, width)
    end = where.end_column if where.end_line == where.line else _length(lines, where.line) + 1
    framed = frame(lines, where.line, where.column, end, width)
    if framed is not None:
        yield f"{screen.paint(framed.margin, 'dim')}{framed.text}".rstrip()
        marks = screen.paint(framed.marks, _COLOURS[finding.level])
        yield f"{screen.paint(framed.margin_below, 'dim')}{marks}"
    if finding.help:
        yield from folded(f"help: {finding.help}", screen.width, "  ")
    if finding.fix is not None:
        kind = "fix" if finding.fix.safe else "unsafe fix"
        yield from folded(f"{kind}: {finding.fix.text}", screen.width, "  ")


def _length(lines: list[str], line: int) -> int:
    return len(lines[line - 1].rstrip()) if 1 <= line <= len(lines) else 0


def say(screen: Screen, text: str, indent: str = "") -> None:
    """Print a sentence, folded."""
    for line in folded(text, screen.width, indent):
        screen.line(line.replace(TIED, " "))


# --- the summary -----------------------------------------------------------------------------------------------------


def summary(report: CheckReport) -> Iterator[str]:
    """Yield the number of findings, those with fixes, and what was skipped."""
    if report.findings:
        files = len({finding.where.file for finding in report.findings})
        yield f"Found {by_level(report)} in {counted(files, 'file')}.{_fix_hint(report.safe, report.unsafe)}"
    elif report.objects:
        everything = "The object" if report.objects == 1 else f"All {report.objects} objects"
        are, fit = ("is", "fits") if report.objects == 1 else ("are", "fit")
        proven = f", and {fit} on {report.place}" if report.fits else ""
        yield f"{everything} in {counted(len(report.sources), 'file')} {are} fine{proven}."
    else:
        yield "Nothing to check: no Kubernetes objects found."
    yield from left_out(report)


def left_out(report: CheckReport) -> Iterator[str]:
    """Yield known hardware that fits, suppressed findings, and skipped files."""
    if report.hardware:
        own = "(to test your own hardware, use --fleet SPEC)"
        if report.hardware_without_rules:
            rules = "with the nodeSelector and affinity of the pods"
            yield f"Fits on no known hardware {rules}; without them on {report.hardware} {own}."
        else:
            yield f"Fits on: {report.hardware} {own}."
    if report.silenced:
        yield f"{counted(report.silenced, 'finding')} suppressed by comments."
    yield from passed_over(report.templates, report.patches, "check")


def by_level(report: CheckReport) -> str:
    """Return the number of findings by level, as text."""
    return listed([counted(report.by_level[level], level) for level in LEVELS if report.by_level[level]])


def _fix_hint(safe: int, unsafe: int) -> str:
    if safe and unsafe:
        return f" [*]{TIED}{safe} fixable with --fix, [?]{TIED}{unsafe} more with --fix{TIED}--unsafe-fixes."
    if safe:
        return f" [*]{TIED}{safe} fixable with --fix."
    if unsafe:
        return f" [?]{TIED}{unsafe} fixable with --fix{TIED}--unsafe-fixes."
    return ""
