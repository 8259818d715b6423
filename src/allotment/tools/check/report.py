"""The report of a check: the findings, and what was checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from allotment.tools.check.finding import Finding, SourceRange
from allotment.tools.check.reference import page_link
from allotment.tools.check.replacements import replacements
from allotment.tools.check.rule import Level

#: The lowest level of a finding with which a check fails.
FailOn: TypeAlias = Literal["error", "warning", "note", "never"]
FAIL_ON: Final[tuple[FailOn, ...]] = ("error", "warning", "note", "never")
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The findings of a check, by position, and what was checked.

    ``sources``: the checked texts, by file. ``texts``: the texts that fixes changed. ``fixed``: the findings that were
    fixed, by position in the texts before all fixes. ``objects``: the number of objects. ``silenced``: the number of
    findings that comments suppress. ``templates`` and ``patches``: files that were skipped because they must be
    rendered first. ``place``: the cluster or hardware of the fit tests; ``fits``: whether everything that requests
    devices gets them there. ``hardware``: known hardware on which everything fits, if no cluster was given; if
    ``hardware_without_rules``, only without the rules of the pods for nodes, which no known hardware meets. ``unread``:
    the resources that the check does not consider, because the cluster does not serve them or they could not be read,
    with the reason. ``notes``: what the user should know about reading the cluster. ``fail_on``: the level at which
    ``fails`` is true. ``next``: the command line that helps most if there are errors or fixes.
    """

    findings: Sequence[Finding]
    sources: Mapping[str, str]
    objects: int = 0
    silenced: int = 0
    templates: Sequence[str] = ()
    patches: Sequence[str] = ()
    place: str = ""
    fits: bool = False
    hardware: str = ""
    hardware_without_rules: bool = False
    fixed: Sequence[Finding] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()
    fail_on: FailOn = "error"
    next: str = ""

    @property
    def fails(self) -> bool:
        """Whether there is a finding at or above the level ``fail_on``."""
        failing = LEVELS[: LEVELS.index(self.fail_on) + 1] if self.fail_on != "never" else ()
        return any(finding.level in failing for finding in self.findings)

    @property
    def by_level(self) -> Counter[Level]:
        """The number of findings by level."""
        return Counter(finding.level for finding in self.findings)

    @property
    def safe(self) -> int:
        """The number of findings with a safe fix."""
        return sum(finding.fix is not None and finding.fix.safe for finding in self.findings)

    @property
    def unsafe(self) -> int:
        """The number of findings with a fix that guesses the intent."""
        return sum(finding.fix is not None and not finding.fix.safe for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """Return what ``-o json`` prints; lines and columns start at 1, ends are exclusive."""
        by_level = self.by_level
        return {
            "findings": [_finding(finding, self.sources) for finding in self.findings],
            "fixed": [_fixed(finding) for finding in self.fixed],
            "summary": {
                **{f"{level}s": by_level[level] for level in LEVELS},
                "fixable": self.safe,
                "fixableUnsafely": self.unsafe,
                "silenced": self.silenced,
                "objects": self.objects,
                "files": len(self.sources),
                "leftOut": [*self.templates, *self.patches],
                **({"place": self.place, "fits": self.fits} if self.place else {}),
            },
            **({"unread": dict(self.unread)} if self.unread else {}),
            **({"next": self.next} if self.next else {}),
        }

    def to_sarif(self) -> dict[str, Any]:
        """Return the findings as SARIF 2.1.0, for code hosts and editors."""
        from allotment.tools.check.sarif import log

        return log(self.findings, self.sources)


def _finding(finding: Finding, sources: Mapping[str, str]) -> dict[str, Any]:
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
            {**_range(replacement.where), "text": replacement.text} for replacement in replacements(fix, sources)
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
