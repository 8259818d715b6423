"""The drivers whose words are known."""

from __future__ import annotations

from allotment.vocabulary.terms import Vocabulary


def drivers() -> tuple[str, ...]:
    """The drivers whose words are known, by name: ``gpu.nvidia.com`` first."""
    return ()


def vocabulary(driver: str, release: str = "") -> Vocabulary | None:
    """The words of a driver in a release, by default the newest known; None for a driver that nobody told us of.

    Raises ValueError for a release that is not known of a driver that is.
    """
    return None
