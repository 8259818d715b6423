"""The exceptions that a check raises if it fails or is skipped."""

from __future__ import annotations


class CheckFailed(Exception):
    """Raised if a driver does not meet an expectation: what was observed, and how to fix it.

    ``expected``: if it is more specific than that of the check.
    """

    def __init__(self, seen: str, remedy: str, expected: str = "") -> None:
        super().__init__(seen)
        self.seen = seen
        self.remedy = remedy
        self.expected = expected


class CheckSkipped(Exception):
    """Raised if a check cannot be made; the text has the reason and the precondition."""
