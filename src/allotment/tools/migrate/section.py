"""A part of the answer that is told after the decisions."""

from __future__ import annotations

from allotment.model.meta import Value


class Section(Value, frozen=True, omit_defaults=False):
    """``title`` in a few words, ``lines`` as they are to be read, each a paragraph.

    A line that begins with a blank is a command: it is to be copied, and so it is not broken. ``table`` stands below
    the first line, its headers first. ``fine`` is false where something stands in the way, which the exit code tells.
    ``data`` is the same for programs.
    """

    title: str
    lines: tuple[str, ...]
    table: tuple[tuple[str, ...], ...] = ()
    fine: bool = True
    data: dict[str, object] = {}
