"""The error of this package for unknown hardware, modes and layouts, and suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.errors import InputError


class FleetError(InputError, ValueError):
    """Raised when a fleet description names something unknown or impossible."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return ``did you mean X or Y?`` for a misspelt name from a closed set, or an empty string."""
    from difflib import SequenceMatcher

    wanted, names = name.lower(), list(known)
    close = [candidate for candidate in names if wanted and candidate.lower().startswith(wanted)]
    close = close or [candidate for candidate in names if len(wanted) > 1 and wanted in candidate.lower()]
    if not close:
        scored = sorted(
            ((SequenceMatcher(None, wanted, n.lower()).ratio(), n) for n in names), key=lambda pair: -pair[0]
        )
        best = scored[0][0] if scored else 0.0
        # Add further suggestions only if they are nearly as close as the first.
        close = [candidate for score, candidate in scored if score >= max(0.6, best - 0.05)]
    return f"did you mean {' or '.join(close[:3])}?" if close else ""
