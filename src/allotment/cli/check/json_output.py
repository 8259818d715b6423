"""Findings as one JSON object with stable fields."""

from __future__ import annotations

from typing import Any

from allotment.cli.check.replacements import replacements
from allotment.cli.check.text_output import LEVELS, CheckReport
from allotment.tools.check.finding import Finding, SourceRange
from allotment.tools.check.reference import page_link


def data(told: CheckReport) -> dict[str, Any]:
    """Return the findings as JSON data; lines and columns start at 1, ends are exclusive."""
    by_level = told.by_level
    return {
        "findings": [_finding(finding, told) for finding in told.findings],
        "fixed": [_fixed(finding) for finding in told.fixed],
        "summary": {
            **{f"{level}s": by_level[level] for level in LEVELS},
            "fixable": told.safe,
            "fixableUnsafely": told.unsafe,
            "silenced": told.silenced,
            "objects": told.objects,
            "files": len(told.sources),
            "leftOut": [*told.templates, *told.patches],
            **({"place": told.place, "fits": told.fitting} if told.place else {}),
        },
    }


def _finding(finding: Finding, told: CheckReport) -> dict[str, Any]:
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
        changes = [{**_range(one.where), "text": one.text} for one in replacements(fix, told.sources)]
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
