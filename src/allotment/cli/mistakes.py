"""Users' mistakes as lines of text: where, what was wanted, what was found, what to do next.

Every kind of mistake that a lower floor can raise is listed here; anything else is ours, and ``describe`` says so by
returning ``None``.
"""

from __future__ import annotations


class Mistake(Exception):
    """Raised by a screen when the user's input cannot be used. ``hint`` says what to do next."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.hint = hint


def describe(error: Exception) -> list[str] | None:
    """The lines to print for a user's mistake, or ``None`` when the error is ours."""
    if isinstance(error, Mistake):
        return _lines(str(error), error.hint)
    from allotment.fleet.errors import FleetError

    if isinstance(error, FleetError):
        return _lines(str(error), error.hint)
    if isinstance(error, OSError) and error.filename is not None:
        return _lines(f"{error.filename}: {(error.strerror or str(error)).lower()}")
    return None


def _lines(problem: str, hint: str = "") -> list[str]:
    lines = [f"allot: error: {problem}"]
    return [*lines, f"  {hint}"] if hint else lines
