"""``ClusterCheck``: the description of a check and the function that performs it.

All checks are in ``allotment.tools.doctor.checks.CHECKS``, from which the documentation page is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from allotment.tools.doctor.wording import subject

if TYPE_CHECKING:
    from allotment.tools.doctor.cluster_index import ClusterIndex
    from allotment.tools.doctor.finding import Severity


class Symptom(NamedTuple):
    """A result of a check: a finding without the code. ``severity`` overrides the severity of the check."""

    subject: str
    evidence: str
    remedy: str = ""
    severity: Severity | None = None
    objects: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, noun: str, names: Sequence[str], evidence: str, remedy: str = "", severity: Severity | None = None
    ) -> Symptom:
        """A symptom of objects of one kind: the subject is the name of a single object, or their number."""
        return cls(subject(noun, names), evidence, remedy, severity, tuple(names))


class ClusterCheck(NamedTuple):
    """A check of the cluster.

    ``summary`` is one line; ``why`` explains the consequences of the defect with its source. ``needs`` are the
    resources (``pods``) or topics (``gates``, ``served``, ``permissions``) without which the check is skipped, because
    missing data must not be reported as missing objects. ``transient``: in a busy cluster the check may report false
    positives, because lists are not read at the same time; a second run confirms the findings.
    """

    code: str
    severity: Severity
    summary: str
    why: str
    find: Callable[[ClusterIndex], Iterable[Symptom]]
    needs: tuple[str, ...] = ()
    transient: bool = False
