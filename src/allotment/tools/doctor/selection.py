"""The checks that are selected by code."""

from __future__ import annotations

from collections.abc import Sequence

from allotment.errors import InputError
from allotment.fleet.errors import suggestion
from allotment.tools.doctor.check import ClusterCheck
from allotment.tools.doctor.checks import CHECKS


def selected_checks(select: Sequence[str] = ()) -> tuple[ClusterCheck, ...]:
    """Return the checks with one of the code prefixes, such as ``D501`` or ``D3,D4``; by default all.

    Raises InputError for an unknown prefix.
    """
    texts = (select,) if isinstance(select, str) else select
    words = [word.strip().upper() for text in texts for word in text.split(",") if word.strip()]
    for word in words:
        if not any(check.code.startswith(word) for check in CHECKS):
            hint = suggestion(word, {check.code: check for check in CHECKS}) or "allot doctor --list lists all checks"
            raise InputError(f"unknown check {word!r}", hint, argument="select")
    return tuple(check for check in CHECKS if not words or check.code.startswith(tuple(words)))
