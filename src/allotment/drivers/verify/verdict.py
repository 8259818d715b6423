"""How a check can come out, beside well."""

from __future__ import annotations


class CheckFailed(Exception):
    """Raised by a check for a driver that does not do what a kubelet expects: what was seen, what to do about it.

    ``wanted`` is for what the check's own words do not say.
    """

    def __init__(self, seen: str, remedy: str, expected: str = "") -> None:
        super().__init__(seen)
        self.seen = seen
        self.remedy = remedy
        self.wanted = expected


class CheckSkipped(Exception):
    """Raised by a check that cannot be made here; the text says why, and what would be needed."""
