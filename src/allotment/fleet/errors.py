"""The one error of this floor: somebody asked for hardware, a mode or a layout that does not exist."""

from __future__ import annotations

from collections.abc import Iterable


class FleetError(ValueError):
    """Raised when a fleet description names something unknown or impossible.

    ``str(error)`` says what was wanted and what was found; ``hint`` says what to do next and may be empty.
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


def suggestion(name: str, known: Iterable[str]) -> str:
    """``did you mean X or Y?`` for a misspelt name from a closed set, else an empty string."""
    from difflib import SequenceMatcher

    wanted, names = name.lower(), list(known)
    close = [candidate for candidate in names if wanted and candidate.lower().startswith(wanted)]
    close = close or [candidate for candidate in names if len(wanted) > 1 and wanted in candidate.lower()]
    if not close:
        scored = sorted(
            ((SequenceMatcher(None, wanted, n.lower()).ratio(), n) for n in names), key=lambda pair: -pair[0]
        )
        best = scored[0][0] if scored else 0.0
        # A second guess only when it is nearly as good as the first.
        close = [candidate for score, candidate in scored if score >= max(0.6, best - 0.05)]
    return f"did you mean {' or '.join(close[:3])}?" if close else ""
