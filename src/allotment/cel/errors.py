"""Errors of the compiler, worded and laid out as upstream does: a line per error, the source line, a caret.

Error texts reach users through the API server's answers, so the layout is part of the contract: dots up to the column,
wide dots under characters that are not ASCII, tabs shown as one space.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

ErrorKind: TypeAlias = Literal["invalid", "required", "internal"]

#: More errors than this are counted, not shown.
_SHOWN = 100
#: A longer source line (in UTF-8 bytes) is not shown.
_LONGEST_SNIPPET = 16384


class CompileError(Exception):
    """Raised when an expression does not compile. ``str(error)`` is upstream's whole text, ``kind`` its error type.

    ``issues`` are the single findings behind the text, for tools that point at them; empty where upstream has one text
    without a position.
    """

    def __init__(self, text: str, kind: ErrorKind = "invalid", issues: tuple[Issue, ...] = ()) -> None:
        super().__init__(text)
        self.kind = kind
        self.issues = issues


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding. ``line`` is 1-based and ``column`` 0-based in code points; both -1 when there is no position."""

    line: int
    column: int
    message: str


@dataclass(slots=True)
class Issues:
    """Collects findings about one source text and renders them."""

    source: str
    found: list[Issue] = field(default_factory=list)
    count: int = 0

    def report(self, pos: int, message: str) -> None:
        """A finding at a code point offset; -1 for none."""
        self.count += 1
        if self.count > _SHOWN:
            return
        if pos < 0:
            self.found.append(Issue(-1, -1, message))
        elif not self.source:
            # Upstream's lexer puts the end of an empty text before its start.
            self.found.append(Issue(1, -1, message))
        else:
            before = self.source[:pos]
            self.found.append(Issue(before.count("\n") + 1, pos - (before.rfind("\n") + 1), message))

    def extend(self, findings: Iterable[tuple[int, str]]) -> None:
        """Several findings, as (offset, message)."""
        for pos, message in findings:
            self.report(pos, message)

    def __bool__(self) -> bool:
        return self.count > 0

    def render(self) -> str:
        """All findings by position, each with its source line and caret."""
        ordered = sorted(self.found, key=lambda i: (i.line, i.column))
        lines = self.source.split("\n")
        blocks = [_block(issue, lines) for issue in ordered]
        if self.count > _SHOWN:
            blocks.append(f"{self.count - _SHOWN} more errors were truncated")
        return "\n".join(blocks)

    def error(self) -> CompileError:
        """The exception for these findings."""
        return CompileError(f"compilation failed: {self.render()}", "invalid", tuple(self.found))


def _block(issue: Issue, lines: list[str]) -> str:
    head = f"ERROR: <input>:{issue.line}:{issue.column + 1}: {issue.message}"
    if not 1 <= issue.line <= len(lines) or lines == [""]:
        return head
    snippet = lines[issue.line - 1]
    if len(snippet.encode("utf-8", "surrogatepass")) > _LONGEST_SNIPPET:
        return head
    snippet = snippet.replace("\t", " ")
    dots = "".join("." if c < "\x80" else "\uff0e" for c in snippet[: issue.column])
    at = snippet[issue.column : issue.column + 1]
    caret = "^" if at < "\x80" else "\uff3e"
    return f"{head}\n | {snippet}\n | {dots}{caret}"
