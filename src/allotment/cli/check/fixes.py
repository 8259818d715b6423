"""``--fix`` and ``--diff``: applies fixes, and reports what was fixed, guessed and remains."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from allotment.api.check import write_fixes
from allotment.api.checks.run import CheckRun
from allotment.cli.check.output import EXIT_FINDINGS, EXIT_FINE, write
from allotment.cli.check.text_output import TIED, by_level, left_out, print_findings, print_next, say, summary
from allotment.cli.output.console import Screen, width_of
from allotment.cli.output.diffs import show_diff
from allotment.errors import InputError
from allotment.phrases import counted
from allotment.tools.check.finding import Finding
from allotment.tools.check.replacements import corresponding_range
from allotment.tools.check.report import CheckReport

#: Formats that report only the remaining findings.
_PROGRAMS: Final = ("json", "sarif", "github")


def fix_files(screen: Screen, arguments: Namespace, check: CheckRun) -> int:
    """Fix manifests, write or show the changes, report the rest; return 1 for a diff or by ``--fail-on``."""
    if arguments.diff and arguments.output in _PROGRAMS:
        raise InputError(f"--diff: not available with -o {arguments.output}", "use only one of them")
    after, report = check.fixed(arguments.unsafe_fixes)
    if arguments.diff:
        show_diff(screen, check.files.sources, report.texts)
        _print_diff_summary(report, report.texts)
        return EXIT_FINDINGS if report.texts or report.fails else EXIT_FINE
    report = after.with_next(report)
    write_fixes(check, report)
    if check.files.unwritable:
        # The fixed standard input goes to standard output, the report to standard error.
        for name in check.files.unwritable:
            screen.out.write(report.sources[name])
        screen = Screen(sys.stderr, width_of(sys.stderr), colour=False)
    if arguments.output in (*_PROGRAMS, "concise"):
        write(screen, report, arguments.output)
    else:
        _print_report(screen, report, check.files.sources)
    return EXIT_FINDINGS if report.fails else EXIT_FINE


# --- text output -----------------------------------------------------------------------------------------------------


def _print_report(screen: Screen, report: CheckReport, originals: Mapping[str, str]) -> None:
    """Print the fixes of each file, the remaining findings, and a summary."""
    for file, findings in _by_file(report.fixed).items():
        kinds = Counter((finding.code, finding.name) for finding in findings)
        words = [f"{number} × {code} ({name})".replace(" ", TIED) for (code, name), number in sorted(kinds.items())]
        say(screen, f"{file}: fixed {', '.join(words)}")
        before, after = originals[file], report.texts.get(file, originals[file])
        written = [replace(each, where=corresponding_range(each.where, before, after)) for each in findings]
        for guess in _guesses(written):
            say(screen, guess, "  ")
    if report.fixed:
        screen.line()
    print_findings(screen, report)
    for line in _outcome(report):
        say(screen, line)
    print_next(screen, report)


def _outcome(report: CheckReport) -> Iterator[str]:
    if not report.fixed:
        yield from summary(report)
        return
    files = len(_by_file(report.fixed))
    done = f"Fixed {counted(len(report.fixed), 'finding')} in {counted(files, 'file')}"
    yield f"{done}; {_rest(report)}"
    yield from left_out(report)


def _rest(report: CheckReport) -> str:
    """Return the rest to do, as the end of a sentence."""
    if not report.findings:
        return f"no findings remain{f', and everything fits on {report.place}' if report.fits else ''}."
    remain = "remains" if len(report.findings) == 1 else "remain"
    more = f" {report.unsafe} fixable with --fix{TIED}--unsafe-fixes." if report.unsafe else ""
    return f"{by_level(report)} {remain}.{more}"


def _by_file(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        found.setdefault(finding.where.file, []).append(finding)
    return found


def _guesses(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield the guesses in one file, each with its line: in the file that was written, or that a diff would change."""
    for finding in findings:
        if finding.fix is not None and not finding.fix.safe:
            yield f"guessed ({finding.code}, line {finding.where.line}): {finding.fix.text}"


# --- diffs -----------------------------------------------------------------------------------------------------------


def _print_diff_summary(report: CheckReport, changed: Mapping[str, str]) -> None:
    """Print the summary of a diff on standard error."""
    if changed:
        done = f"Would fix {counted(len(report.fixed), 'finding')} in {counted(len(changed), 'file')}"
    else:
        done = "Would fix nothing"
    stderr = Screen(sys.stderr, width_of(sys.stderr), colour=False)
    if changed:
        stderr.line()
    for file, findings in _by_file(report.fixed).items():
        for guess in _guesses(findings):
            say(stderr, f"{file}: {guess}")
    say(stderr, f"{done}; {_rest(report)}")
