"""The checks of ``allot doctor``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from allotment.tools.doctor.selection import selected_checks


def checks(select: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the checks of a cluster: code, severity, summary and reason.

    ``select``: codes, or the beginning of codes (``"D5"``); by default all. Raises InputError.

    The keys of a check: ``code``, ``severity``, ``summary``, ``why``.
    """
    return [
        {"code": check.code, "severity": check.severity, "summary": check.summary, "why": check.why}
        for check in selected_checks(select)
    ]
