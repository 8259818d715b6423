"""A word that may stand on a command line."""

from __future__ import annotations

from typing import NamedTuple


class Candidate(NamedTuple):
    """The whole word, and what it is; that may be empty."""

    value: str
    description: str = ""
