"""Compile errors with cel-go's texts and layout: a line per error, the source line, a caret.

Users see these texts in API server responses, so the layout is part of the contract: dots up to the column, wide dots
under non-ASCII characters, tabs shown as one space.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ErrorKind: TypeAlias = Literal["invalid", "required", "internal"]

#: Further errors are only counted.
_MAX_SHOWN = 100
#: Longer source lines (in UTF-8 bytes) are not shown.
_MAX_SNIPPET_BYTES = 16384


class CompileError(Exception):
    """Raised when an expression does not compile. ``str(error)`` is upstream's whole text, ``kind`` its error type.

    ``issues`` are the individual errors with their positions; empty if upstream reports a single text without one.
    """

    def __init__(self, text: str, kind: ErrorKind = "invalid", issues: tuple[Issue, ...] = ()) -> None:
        super().__init__(text)
        self.kind = kind
        self.issues = issues


@dataclass(frozen=True, slots=True)
class Issue:
    """One error. ``line`` is 1-based and ``column`` 0-based in code points; both are -1 if there is no position."""

    line: int
    column: int
    message: str


@dataclass(slots=True)
class Issues:
    """The errors of one source text."""

    source: str
    issues: list[Issue] = field(default_factory=list)
    count: int = 0

    def report(self, pos: int, message: str) -> None:
        """Adds an error at a code point offset, -1 for none."""
        self.count += 1
        if self.count > _MAX_SHOWN:
            return
        if pos < 0:
            self.issues.append(Issue(-1, -1, message))
        elif not self.source:
            # Upstream's lexer places the end of an empty text before its start.
            self.issues.append(Issue(1, -1, message))
        else:
            before = self.source[:pos]
            self.issues.append(Issue(before.count("\n") + 1, pos - (before.rfind("\n") + 1), message))

    def __bool__(self) -> bool:
        return self.count > 0

    def render(self) -> str:
        """The errors ordered by position, each with its source line and caret."""
        ordered = sorted(self.issues, key=lambda i: (i.line, i.column))
        lines = self.source.split("\n")
        blocks = [_block(issue, lines) for issue in ordered]
        if self.count > _MAX_SHOWN:
            blocks.append(f"{self.count - _MAX_SHOWN} more errors were truncated")
        return "\n".join(blocks)

    def error(self) -> CompileError:
        """The exception for these errors."""
        return CompileError(f"compilation failed: {self.render()}", "invalid", tuple(self.issues))


def _block(issue: Issue, lines: list[str]) -> str:
    head = f"ERROR: <input>:{issue.line}:{issue.column + 1}: {issue.message}"
    if not 1 <= issue.line <= len(lines) or lines == [""]:
        return head
    snippet = lines[issue.line - 1]
    if len(snippet.encode("utf-8", "surrogatepass")) > _MAX_SNIPPET_BYTES:
        return head
    snippet = snippet.replace("\t", " ")
    dots = "".join("." if c < "\x80" else "\uff0e" for c in snippet[: issue.column])
    at = snippet[issue.column : issue.column + 1]
    caret = "^" if at < "\x80" else "\uff3e"
    return f"{head}\n | {snippet}\n | {dots}{caret}"
