"""The reference of the checks, made from them: the second half of ``docs/doctor.md``."""

from __future__ import annotations

from itertools import groupby
from typing import Final

from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks import CHECKS

#: Where the page is, from the root of the project, and the line behind which the checks stand there.
PAGE: Final = "docs/doctor.md"
MARK: Final = "<!-- What follows is made from allotment.tools.doctor.checks. -->\n"

_FAMILIES: Final = {
    "1": ("The server", "Does it offer what devices need, and to us?"),
    "2": ("Nodes and drivers", "Do drivers run where GPUs are?"),
    "3": ("Slices", "Is what they publish usable?"),
    "4": ("Classes", "Do classes select devices?"),
    "5": ("Claims", "Is what is allocated right, and of use to anybody?"),
    "6": ("Pods", "Why does a pod not run, or run badly?"),
}


def page(before: str) -> str:
    """The page ``before`` with the checks as they are now."""
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
