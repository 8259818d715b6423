"""Findings as GitHub workflow commands, shown as annotations on a pull request.

Format and escapes: actions/toolkit, packages/core/src/command.ts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from allotment.tools.check.finding import Finding

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def commands(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield one workflow command per finding."""
    for finding in findings:
        where = finding.where
        properties = {"file": where.file, "line": where.line, "endLine": where.end_line, "col": where.column}
        if where.end_line == where.line:  # columns are supported within one line only
            properties["endColumn"] = where.end_column
        properties["title"] = f"{finding.code} {finding.name}"
        listed = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
        yield f"::{_COMMANDS[finding.level]} {listed}::{_message(_words(finding))}"


def _words(finding: Finding) -> str:
    lines = [finding.message, finding.help]
    if finding.fix is not None:
        how = "--fix" if finding.fix.safe else "--fix --unsafe-fixes"
        lines.append(f"{finding.fix.text} (allot check {how})")
    return "\n".join(filter(None, lines))


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
