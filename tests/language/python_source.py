"""The messages, docstrings and comments of a Python file as passages, and the names that it defines."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tests.language.passages import Passage, squeezed
from tests.language.word_list import NameKind

#: For nodes of the syntax tree that define a name: the field with the name, and its kind.
_NAME_FIELDS: Final[dict[type[ast.AST], tuple[str, NameKind]]] = {
    ast.ClassDef: ("name", "class"),
    ast.FunctionDef: ("name", "function"),
    ast.AsyncFunctionDef: ("name", "function"),
    ast.arg: ("arg", "parameter"),
    ast.Name: ("id", "variable"),
    ast.Attribute: ("attr", "attribute"),
    ast.alias: ("asname", "variable"),
    ast.ExceptHandler: ("name", "variable"),
    ast.MatchAs: ("name", "variable"),
    ast.MatchStar: ("name", "variable"),
}
#: Comments that are instructions to tools.
_DIRECTIVE: Final = re.compile(r"\s*(?:noqa|type: ignore|fmt: |pragma)")
#: Replaces an interpolated value in the text of an f-string.
_VALUE: Final = "{}"
_KEY: Final = re.compile(r"[a-z][A-Za-z_]*")


class Name(NamedTuple):
    """A name that a file defines, and the first line on which it does."""

    name: str
    kind: NameKind
    line: int


class PythonSource:
    """A parsed file. Raises SyntaxError."""

    def __init__(self, text: str) -> None:
        self.lines: Sequence[str] = text.splitlines()
        self._docstrings: list[ast.Constant] = []
        self._strings: list[tuple[ast.expr, str]] = []
        self._names: dict[str, Name] = {}
        self._visit(ast.parse(text))

    def passages(self) -> Iterator[Passage]:
        """Docstrings, strings that contain a blank, and comments."""
        for node in self._docstrings:
            yield Passage(squeezed(str(node.value)), "docstring", node.lineno, node.end_lineno or node.lineno)
        for string, text in self._strings:
            if " " in text:
                yield Passage(squeezed(text), "message", string.lineno, string.end_lineno or string.lineno)
        yield from self._comments()

    def names(self) -> Iterator[Name]:
        """Each name that is defined, once."""
        yield from self._names.values()

    def _visit(self, tree: ast.Module) -> None:
        nodes: list[ast.AST] = [tree]
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.Constant):
                if isinstance(node.value, str):
                    self._strings.append((node, node.value))
                continue
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                if isinstance(node.value.value, str):  # of a module, a class, a function, or of the field above it
                    self._docstrings.append(node.value)
                continue
            if isinstance(node, ast.JoinedStr):
                self._strings.append((node, "".join(map(_part, node.values))))
                nodes.extend(part.value for part in node.values if isinstance(part, ast.FormattedValue))
                continue
            if field := _NAME_FIELDS.get(type(node)):
                self._define(node, *field)
            elif isinstance(node, ast.Dict):
                self._define_keys(node)
            nodes.extend(reversed(list(ast.iter_child_nodes(node))))

    def _define(self, node: ast.AST, field: str, kind: NameKind) -> None:
        name: str | None = getattr(node, field)
        if name and name not in self._names and not isinstance(getattr(node, "ctx", None), (ast.Load, ast.Del)):
            self._names[name] = Name(name, kind, getattr(node, "lineno", 1))

    def _define_keys(self, node: ast.Dict) -> None:
        """Keys of a literal mapping: names in JSON that users read."""
        for key in node.keys:
            if isinstance(key, ast.Constant) and isinstance(key.value, str) and _KEY.fullmatch(key.value):
                self._names.setdefault(key.value, Name(key.value, "key", key.lineno))

    def _comments(self) -> Iterator[Passage]:
        """Each run of whole-line comments, and each comment behind code."""
        inside = self._string_columns()
        run: list[str] = []
        for number, line in enumerate((*self.lines, ""), 1):
            column = _comment_column(line, inside.get(number, ()))
            text = line[column:].lstrip("#:!") if column >= 0 else ""
            behind_code = column >= 0 and line[:column].strip() != ""
            if run and (column < 0 or behind_code):
                yield Passage(squeezed(" ".join(run)), "comment", number - len(run), number - 1)
                run = []
            if behind_code and not _DIRECTIVE.match(text):
                yield Passage(squeezed(text), "comment", number, number)
            elif column >= 0 and not behind_code:
                run.append("" if _DIRECTIVE.match(text) else text)

    def _string_columns(self) -> dict[int, list[tuple[int, int]]]:
        """The columns of each line that belong to strings, in bytes of UTF-8 as the parser counts."""
        columns: dict[int, list[tuple[int, int]]] = {}
        for node in (*self._docstrings, *(string for string, _ in self._strings)):
            last = node.end_lineno or node.lineno
            for line in range(node.lineno, last + 1):
                begin = node.col_offset if line == node.lineno else 0
                end = node.end_col_offset if line == last else None
                columns.setdefault(line, []).append((begin, 1 << 30 if end is None else end))
        return columns


def _part(part: ast.expr) -> str:
    return part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else _VALUE


def _comment_column(line: str, strings: Sequence[tuple[int, int]]) -> int:
    """The column at which the comment of a line begins; -1 if it has none."""
    column = line.find("#")
    while column >= 0 and strings:
        offset = len(line[:column].encode())
        if not any(begin <= offset < end for begin, end in strings):
            break
        column = line.find("#", column + 1)
    return column
