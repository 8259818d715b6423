"""A problem of driver parameters: the path of the field, and what is wrong with it."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Path: TypeAlias = tuple[str | int, ...]


class ParameterProblem(NamedTuple):
    """A problem of driver parameters.

    ``path``: the field in the parameters, also if it is missing. ``location``: the path as text. ``text``: what was
    expected and found. ``near``: the most similar valid field name (if ``key``) or value. ``gate``: the disabled
    feature gate of the driver that the parameters need; they are valid otherwise.
    """

    path: Path
    location: str
    text: str
    near: str = ""
    key: bool = False
    gate: str = ""

    def __str__(self) -> str:
        return f"{self.location}: {self.text}"


def field_problem(location: str, text: str) -> ParameterProblem:
    """Return a problem of a field that is nested in objects only: ``sharing.strategy``."""
    return ParameterProblem(tuple(location.split(".")), location, text)
