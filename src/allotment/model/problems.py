"""Problems of the input as data: a stable code, a message, a source position and a hint.

Only the command line prints problems; the lower layers neither print nor exit.
"""

from __future__ import annotations

from typing import Final

import msgspec

#: Codes of problems of a whole file, whose line and column mean nothing.
WHOLE_FILE: Final = frozenset({"cut-off", "unreadable", "no-files", "no-object", "too-big"})


class Position(msgspec.Struct, frozen=True, order=True):
    """A position in a source file. Lines and columns count from 1, columns in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class InputProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A problem of the input.

    ``code``: stable. Of files: ``no-files`` (in a folder), ``unreadable``, ``too-big``, ``bad-text`` (no UTF-8, or
    control characters), ``bad-yaml``, ``bad-json``, ``cut-off``, ``no-object``. Of objects: ``not-an-object``,
    ``no-kind``, ``given-twice``, ``duplicate-field``, ``unknown-field``, ``wrong-type``, ``bad-value``, and others that
    validation has. ``path``: the field path, if any (``spec.devices.requests[0].count``). ``hint``: what to do, or the
    probably intended value. ``suggestion``: the bare name in a "did you mean" hint.
    """

    code: str
    message: str
    position: Position
    path: str = ""
    hint: str = ""
    suggestion: str = ""

    def __str__(self) -> str:
        return f"{self.position}: {self.message}" + (f" ({self.hint})" if self.hint else "")
