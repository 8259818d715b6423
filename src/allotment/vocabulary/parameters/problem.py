"""What is wrong with parameters, and where in them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Path: TypeAlias = tuple[str | int, ...]


class Problem(NamedTuple):
    """One thing that is wrong.

    ``path`` leads to it within the parameters; what is missing is where it should be. ``place`` is the same in words,
    ``text`` what was expected and found. ``near`` is what was probably meant: another name for the field where ``key``,
    or another value. ``gate``: it is not wrong, but the driver's feature gate that it needs is off.
    """

    path: Path
    place: str
    text: str
    near: str = ""
    key: bool = False
    gate: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


def field(place: str, text: str) -> Problem:
    """A problem of a field in nothing but fields: ``sharing.strategy``."""
    return Problem(tuple(place.split(".")), place, text)
