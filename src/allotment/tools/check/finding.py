"""Findings, the results of ``check``. The text, JSON, SARIF and GitHub outputs are made from them."""

from __future__ import annotations

import msgspec

from allotment.tools.check.rule import Fix, Level


class SourceRange(msgspec.Struct, frozen=True, order=True):
    """A range of a file. Lines and columns count from 1, columns in characters; the end column is exclusive."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One finding. ``path`` is the field path as written; ``subject`` is the object, as in ``ResourceClaim
    default/gpu``.
    """

    code: str
    name: str
    level: Level
    message: str
    where: SourceRange
    path: str = ""
    subject: str = ""
    help: str = ""
    fix: Fix | None = None

    @property
    def sort_key(self) -> tuple[SourceRange, str, str]:
        """Findings are sorted by their position in the files."""
        return (self.where, self.code, self.message)
