"""Findings as one JSON object with stable fields."""

from __future__ import annotations

from typing import Any

from allotment.cli.check.replacements import replacements
from allotment.cli.check.text_output import LEVELS, CheckReport
from allotment.tools.check.finding import Finding, SourceRange
from allotment.tools.check.reference import page_link


def data(report: CheckReport) -> dict[str, Any]:
    """Return the findings as JSON data; lines and columns start at 1, ends are exclusive."""
    by_level = report.by_level
    return {
        "findings": [_finding(finding, report) for finding in report.findings],
        "fixed": [_fixed(finding) for finding in report.fixed],
        "summary": {
            **{f"{level}s": by_level[level] for level in LEVELS},
            "fixable": report.safe,
            "fixableUnsafely": report.unsafe,
            "silenced": report.silenced,
            "objects": report.objects,
            "files": len(report.sources),
            "leftOut": [*report.templates, *report.patches],
            **({"place": report.place, "fits": report.fitting} if report.place else {}),
        },
        **({"unread": report.unread} if report.unread else {}),
        **({"next": report.next} if report.next else {}),
    }


def _finding(finding: Finding, report: CheckReport) -> dict[str, Any]:
    found = {
        "code": finding.code,
        "name": finding.name,
        "level": finding.level,
        "message": finding.message,
        **_range(finding.where),
        "path": finding.path,
        "subject": finding.subject,
        "help": finding.help,
        "url": page_link(finding.code),
    }
    fix = finding.fix
    if fix is not None:
        changes = [
            {**_range(replacement.where), "text": replacement.text} for replacement in replacements(fix, report.sources)
        ]
        found["fix"] = {"text": fix.text, "safe": fix.safe, **({"replacements": changes} if changes else {})}
    return found


def _fixed(finding: Finding) -> dict[str, Any]:
    assert finding.fix is not None
    return {
        "code": finding.code, "name": finding.name, "file": finding.where.file, "line": finding.where.line,
        "message": finding.message, "text": finding.fix.text, "safe": finding.fix.safe,
    }  # fmt: skip


def _range(where: SourceRange) -> dict[str, Any]:
    return {
        "file": where.file, "line": where.line, "column": where.column,
        "endLine": where.end_line, "endColumn": where.end_column,
    }  # fmt: skip
