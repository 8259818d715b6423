"""Generates the reference of the checks: the second half of ``docs/reference/doctor.md``."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks import CHECKS

#: The path of the page in the repository, and the line after which the checks are inserted.
PAGE: Final = "docs/reference/doctor.md"
MARK: Final = "<!-- Everything below is generated from allotment.tools.doctor.checks. -->\n"

_FAMILIES: Final = {
    "1": ("The server", "Does the API server provide the APIs, features and permissions that devices require?"),
    "2": ("Nodes and drivers", "Are drivers running on all nodes with GPUs?"),
    "3": ("Slices", "Are the published devices usable?"),
    "4": ("Classes", "Do classes select devices?"),
    "5": ("Claims", "Are allocations valid and in use?"),
    "6": ("Pods", "Why is a pod not running, or not using its devices?"),
}


def page(before: str) -> str:
    """The page ``before`` with the current checks."""
    return before.partition(MARK)[0] + MARK + _checks()


def _checks() -> str:
    parts = []
    for digit, checks in groupby(CHECKS, lambda check: check.code[1]):
        title, question = _FAMILIES[digit]
        parts.append(f"\n### {title}\n\n{question}\n\n| code | severity | |\n|---|---|---|\n")
        parts += (_row(check) for check in checks)
    return "".join(parts)


def _row(check: ClusterCheck) -> str:
    summary = f"{check.summary[0].upper()}{check.summary[1:]}"
    cell = f"**{summary}.** {check.why}".replace("|", "\\|")
    return f"| {check.code} | {check.severity} | {cell} |\n"
