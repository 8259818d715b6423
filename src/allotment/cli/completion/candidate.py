"""A completion candidate."""

from __future__ import annotations

from typing import NamedTuple


class Candidate(NamedTuple):
    """A completed word, and its description, which may be empty."""

    value: str
    description: str = ""
