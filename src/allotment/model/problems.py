"""What is wrong with the input, as data: a stable code, a sentence, where it stands, what was probably meant.

Screens print problems, programs read them; nothing below the screens prints or exits.
"""

from __future__ import annotations

import msgspec


class Position(msgspec.Struct, frozen=True, order=True):
    """A place in a source file. Lines and columns count from 1, columns in characters."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class InputProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing wrong with the input.

    ``path`` is the field path where there is one (``spec.devices.requests[0].count``); ``hint`` says what to do or what
    was probably meant; ``suggestion`` is the bare name behind a "did you mean".
    """

    code: str
    message: str
    position: Position
    path: str = ""
    hint: str = ""
    suggestion: str = ""

    def __str__(self) -> str:
        return f"{self.position}: {self.message}" + (f" ({self.hint})" if self.hint else "")
