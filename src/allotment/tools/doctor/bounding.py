"""No more findings of a check than somebody reads: of what has gone wrong a thousand times some are told in full."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from allotment.tools.doctor.finding import Finding
from allotment.tools.sentences import some

#: Of one check and severity.
MOST: Final = 5


def bounded(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Findings as sorted by `examine`; those of a check beyond the first few are one."""
    for (code, severity), group in groupby(findings, lambda finding: (finding.code, finding.severity)):
        alike = list(group)
        if len(alike) <= MOST:
            yield from alike
            continue
        yield from alike[: MOST - 1]
        rest = alike[MOST - 1 :]
        names = [finding.subject for finding in rest]
        objects = tuple(name for finding in rest for name in finding.objects)
        yield Finding(
            code, severity, f"{len(rest)} more", f"the same kind of trouble: {some(names)}",
            f"To see them all:\n$ allot doctor --only {code} -o wide", objects,
        )  # fmt: skip
