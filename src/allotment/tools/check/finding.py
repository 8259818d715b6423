"""What ``check`` says, as a value: text, JSON, SARIF and annotations show it."""

from __future__ import annotations

import msgspec

from allotment.tools.check.rule import Fix, Level


class Range(msgspec.Struct, frozen=True, order=True):
    """A piece of a file. Lines and columns count from 1, columns in characters; the end is one past the last."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding. ``path`` is the field path as written; ``subject`` the object, ``ResourceClaim default/gpu``."""

    code: str
    name: str
    level: Level
    message: str
    where: Range
    path: str = ""
    subject: str = ""
    help: str = ""
    fix: Fix | None = None

    @property
    def order(self) -> tuple[Range, str, str]:
        """Findings are told in the order of their places."""
        return (self.where, self.code, self.message)
