"""Small faults of a Python module: each a replacement of one piece of its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple

_COMPARISONS: Final[dict[type[ast.cmpop], tuple[str, str]]] = {
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
_OPERATORS: Final[dict[type[ast.operator], tuple[str, str]]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
    ast.Mod: ("%", "*"),
    ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
}


class Mutant(NamedTuple):
    """A fault: ``old``, the text of bytes ``start`` to ``end`` of a module, becomes ``new``. ``line`` counts from 1."""

    start: int
    end: int
    line: int
    old: str
    new: str

    def planted(self, source: bytes) -> bytes:
        """Return the module's text with the fault."""
        return source[: self.start] + self.new.encode() + source[self.end :]


def mutants(source: bytes) -> list[Mutant]:
    """Return all faults of a module that change what runs: no annotations, docstrings, or assertions.

    >>> [(found.old, found.new) for found in mutants(b"def f(a):\\n    return a < 1\\n")]
    [('return a < 1', 'return None'), ('<', '<='), ('1', '2')]
    """
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    return list(_Finder(source, lines).of_body(ast.parse(source).body))


class _Finder:
    """Walks a module. ``lines``: the offset of each line."""

    def __init__(self, source: bytes, lines: list[int]) -> None:
        self._source = source
        self._lines = lines

    def of_body(self, body: list[ast.stmt]) -> Iterator[Mutant]:
        for statement in body:
            yield from self._statement(statement)

    def _statement(self, node: ast.stmt) -> Iterator[Mutant]:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Import() | ast.ImportFrom():
                return
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                return
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for default in [*node.args.defaults, *(each for each in node.args.kw_defaults if each is not None)]:
                    yield from self._expression(default)
                yield from self.of_body(node.body)
                return
            case ast.ClassDef():
                yield from self.of_body(node.body)
                return
            case ast.AnnAssign():
                if node.value is not None:
                    yield from self._expression(node.value)
                return
            case ast.Return(value=ast.expr()) if not _is_none(node.value):
                yield self._replaced(node, "return None")
            case ast.Raise() | ast.Expr(value=ast.Call() | ast.Await()) | ast.Delete():
                yield self._replaced(node, "pass")
            case ast.Continue():
                yield self._replaced(node, "break")
            case ast.Break():
                yield self._replaced(node, "continue")
            case ast.AugAssign():
                if type(node.op) in _OPERATORS:
                    old, new = _OPERATORS[type(node.op)]
                    yield from self._between(node.target, node.value, f"{old}=", f"{new}=")
            case ast.If() | ast.While():
                yield from self._negated(node.test)
        for field, value in ast.iter_fields(node):
            if field in {"annotation", "returns", "decorator_list"}:
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt):
                    yield from self._statement(child)
                elif isinstance(child, ast.AST):
                    yield from self._expression(child)

    def _expression(self, node: ast.AST) -> Iterator[Mutant]:
        match node:
            case ast.stmt():
                yield from self._statement(node)
                return
            case ast.JoinedStr():
                return
            case ast.Compare():
                left = node.left
                for operator, right in zip(node.ops, node.comparators, strict=True):
                    yield from self._between(left, right, *_COMPARISONS[type(operator)])
                    left = right
            case ast.BoolOp():
                old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
                for left, right in zip(node.values, node.values[1:], strict=False):
                    yield from self._between(left, right, old, new)
            case ast.UnaryOp(op=ast.Not()):
                yield self._replaced(node, f"bool({self._text(node.operand)})")
            case ast.BinOp() if type(node.op) in _OPERATORS:
                yield from self._between(node.left, node.right, *_OPERATORS[type(node.op)])
            case ast.IfExp():
                yield from self._negated(node.test)
            case ast.comprehension():
                for condition in node.ifs:
                    yield from self._negated(condition)
            case ast.Constant(value=bool(value)):
                yield self._replaced(node, str(not value))
            case ast.Constant(value=int(value)):
                yield self._replaced(node, str(value + 1))
        for child in ast.iter_child_nodes(node):
            yield from self._expression(child)

    def _negated(self, condition: ast.expr) -> Iterator[Mutant]:
        """The opposite of a condition; comparisons and boolean expressions have operators with faults of their own."""
        if not isinstance(condition, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield self._replaced(condition, f"(not ({self._text(condition)}))")

    def _offset(self, line: int, column: int) -> int:
        return self._lines[line - 1] + column

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno, node.end_col_offset)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _replaced(self, node: ast.expr | ast.stmt, new: str) -> Mutant:
        start, end = self._span(node)
        return Mutant(start, end, node.lineno, self._text(node), new)

    def _between(self, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Mutant]:
        """The operator between two operands; none if parentheses or comments there contain its text."""
        start, end = self._span(left)[1], self._span(right)[0]
        gap = self._source[start:end].decode()
        if gap.count(old) == 1 and "#" not in gap:
            at = start + gap.index(old)
            line = self._source.count(b"\n", 0, at) + 1
            yield Mutant(at, at + len(old), line, old, new)


def _is_none(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
