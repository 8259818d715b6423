"""A check: what it looks for, why that matters, and the function that finds it.

Checks are values in a table (``allotment.tools.doctor.checks.CHECKS``); the page of documentation and tests are made
from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from allotment.tools.doctor.wording import subject

if TYPE_CHECKING:
    from allotment.tools.doctor.cluster_index import Case
    from allotment.tools.doctor.finding import Severity


class Sign(NamedTuple):
    """What a check found: a finding without the code. ``severity`` where it is not the check's own."""

    subject: str
    evidence: str
    remedy: str = ""
    severity: Severity | None = None
    objects: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, noun: str, names: Sequence[str], evidence: str, remedy: str = "", severity: Severity | None = None
    ) -> Sign:
        """About objects of one kind: one by its name, several by how many they are."""
        return cls(subject(noun, names), evidence, remedy, severity, tuple(names))


class Check(NamedTuple):
    """One check.

    ``summary`` is one line; ``why`` what follows from the defect, and where that is from. ``needs`` are the resources
    (``pods``) without which the check is silent, because absence could not be told from ignorance; or ``gates``,
    ``served``, ``permissions``. ``fleeting``: in a busy cluster the defect may show although it is none, for lists that
    are read one after the other are not of one moment; a second look tells.
    """

    code: str
    severity: Severity
    summary: str
    why: str
    find: Callable[[Case], Iterable[Sign]]
    needs: tuple[str, ...] = ()
    fleeting: bool = False
