"""What is told after the decisions: each section is a function of the whole migration, in this order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.model.meta import Value
from allotment.tools.migrate.report import Migration


class Section(Value, frozen=True, omit_defaults=False):
    """A part of the answer: ``title`` in one or two words, ``lines`` as they are to be read, each a paragraph.

    ``fine`` is false where something stands in the way, which the exit code tells. ``data`` is the same for programs.
    """

    title: str
    lines: tuple[str, ...]
    fine: bool = True
    data: dict[str, object] = {}


#: A section, or None where there is nothing to say.
Writer = Callable[[Migration], Section | None]

SECTIONS: Final[tuple[Writer, ...]] = ()
