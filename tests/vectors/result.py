"""The shape in which every vector set reports: one ``Result`` per recorded case."""

from __future__ import annotations

from typing import NamedTuple


class Result(NamedTuple):
    """One recorded case compared with our answer."""

    name: str
    """The case's name, unique in its file."""
    passed: bool
    detail: str
    """One line: what was expected and what we answered; empty when passed."""
