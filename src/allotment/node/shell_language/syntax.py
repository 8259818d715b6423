"""The syntax tree of a shell script (POSIX.1-2024, section 2.10, and ``[[ ]]``, ``(( ))`` and ``<<<`` of bash).

Dataclasses: mypy takes exponential time to compare recursive named tuples.
"""

from __future__ import annotations

from dataclasses import dataclass


class ShellSyntaxError(ValueError):
    """Raised for a shell syntax error; the text names the token."""


class NotSimulated(Exception):
    """Raised for what the shell or one of its programs understands too little of to run it; the text names it."""


@dataclass(frozen=True, slots=True)
class Text:
    """Literal text. ``quoted``: neither split nor expanded as a pattern."""

    text: str
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Parameter:
    """``$name`` or ``${name…}``. ``operator``: ``:-``, ``-``, ``:=``, ``=``, ``:?``, ``?``, ``:+``, ``+``, ``#``,
    ``##``, ``%``, ``%%``, ``/``, ``//`` or ``:`` (substring), with its word; ``length`` for ``${#name}``.
    """

    name: str
    operator: str = ""
    word: Word = ()
    quoted: bool = False
    length: bool = False
    replacement: Word = ()


@dataclass(frozen=True, slots=True)
class Substitution:
    """``$(…)`` or backquotes."""

    body: Node
    quoted: bool = False


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``$((…))``."""

    expression: Word
    quoted: bool = False


class HereDocument:
    """The text of a here-document. It follows the line of its redirection, so its word is set later."""

    word: Word = ()


Piece = Text | Parameter | Substitution | Arithmetic | HereDocument
Word = tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirection of the file descriptor ``number``; ``operator`` ``<<`` has the text of a here-document."""

    number: int
    operator: str
    target: Word


@dataclass(frozen=True, slots=True)
class Simple:
    """A simple command. ``assignments``: name, value, and whether it is appended (``+=``)."""

    assignments: tuple[tuple[str, Word, bool], ...]
    words: tuple[Word, ...]
    redirections: tuple[Redirection, ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline: the output of each part is the input of the next. ``negated``: ``!``."""

    parts: tuple[Node, ...]
    negated: bool


@dataclass(frozen=True, slots=True)
class AndOr:
    """Commands joined by ``&&`` and ``||``; the first has an empty operator."""

    parts: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class CommandList:
    """Commands one after another, each with whether it runs in the background."""

    parts: tuple[tuple[Node, bool], ...]


@dataclass(frozen=True, slots=True)
class Subshell:
    """``( … )``."""

    body: Node


@dataclass(frozen=True, slots=True)
class WhileLoop:
    """``while``, or ``until`` (``wanted`` is False)."""

    condition: Node
    body: Node
    wanted: bool


@dataclass(frozen=True, slots=True)
class ForLoop:
    """A ``for`` loop over words; None for the positional parameters."""

    name: str
    words: tuple[Word, ...] | None
    body: Node


@dataclass(frozen=True, slots=True)
class IfStatement:
    """``if``: conditions with their bodies, and the ``else`` body."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


@dataclass(frozen=True, slots=True)
class CaseStatement:
    """``case``: the word, and the patterns with their bodies. ``falls``: the body ends with ``;&``."""

    word: Word
    branches: tuple[tuple[tuple[Word, ...], Node, bool], ...]


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    name: str
    body: Node


@dataclass(frozen=True, slots=True)
class Conditional:
    """``[[ … ]]``: operators as text, operands as words."""

    parts: tuple[str | Word, ...]


@dataclass(frozen=True, slots=True)
class ArithmeticCommand:
    """``(( … ))``."""

    expression: Word


@dataclass(frozen=True, slots=True)
class Redirected:
    """A compound command with redirections."""

    body: Node
    redirections: tuple[Redirection, ...]


Node = (
    Simple | Pipeline | AndOr | CommandList | Subshell | WhileLoop | ForLoop | IfStatement | CaseStatement | Function
    | Conditional | ArithmeticCommand | Redirected
)  # fmt: skip


def plain(word: Word) -> str:
    """The text of a word without quotes and expansions, as for reserved words; else empty."""
    if len(word) == 1 and isinstance(word[0], Text) and not word[0].quoted:
        return word[0].text
    return ""
