"""The result type of all vector sets: one ``Result`` per recorded case."""

from __future__ import annotations

from typing import NamedTuple


class Result(NamedTuple):
    """The comparison of one recorded case with Allotment's answer."""

    name: str
    """The case's name, unique in its file."""
    passed: bool
    detail: str
    """One line: the expected and the actual answer; empty when passed."""
