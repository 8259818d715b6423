"""The CEL parser, which also expands macros.

A recursive descent parser that recurses for brackets only; binary operators are parsed by precedence climbing. It takes
linear time. Node ids are assigned in upstream's order, because error texts can contain them. Upstream's limits apply,
because they decide which texts compile: 100,000 code points, 250 nested uses of one grammar rule, 250 nested operators
and selections.

The first syntax error ends the parse. Errors outside the grammar (a number out of range, a macro's arguments) are
collected and reported together, as upstream does. The grammar rules are mutually recursive, so they are in one file.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, TypeAlias, TypeVar

from allotment.cel.errors import CompileError, Issues
from allotment.cel.syntax import ast, lexer, literals
from allotment.cel.syntax.ast import (
    Call,
    ChainOperand,
    Const,
    Ident,
    ListExpr,
    MapEntry,
    MapExpr,
    Node,
    ParsedExpression,
    Select,
)
from allotment.cel.syntax.lexer import Token
from allotment.cel.syntax.macros import MACROS, ExpansionTooLarge, Macro, MacroError, NodeFactory

_MAX_CODE_POINTS = 100_000
_MAX_DEPTH = 250

#: Stack frames that any stage needs for the deepest tree within the limits, with a margin for the caller.
_RECURSION_LIMIT = 25_000

# fmt: off
#: Words that cannot be names of variables and functions.
RESERVED: Final = frozenset(
    {
        "as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop",
        "package", "namespace", "null", "return", "true", "var", "void", "while",
    }
)
# fmt: on

# fmt: off
#: Binary operators: (precedence, internal name). All relations have the lowest precedence.
_BINARY: dict[str, tuple[int, str]] = {
    "<": (1, ast.LESS), "<=": (1, ast.LESS_EQUALS), ">=": (1, ast.GREATER_EQUALS), ">": (1, ast.GREATER),
    "==": (1, ast.EQUALS), "!=": (1, ast.NOT_EQUALS), "in": (1, ast.IN),
    "+": (2, ast.ADD), "-": (2, ast.SUBTRACT),
    "*": (3, ast.MULTIPLY), "/": (3, ast.DIVIDE), "%": (3, ast.MODULO),
}
# fmt: on

_SIGNED = (lexer.INT, lexer.FLOAT)


class _SyntaxError(Exception):
    """An unexpected token."""

    def __init__(self, token: Token, expected: str) -> None:
        super().__init__(expected)
        self.token = token


class _NestingTooDeep(Exception):
    """A nesting limit is exceeded; the message is upstream's."""


Macros: TypeAlias = Mapping[tuple[str, int, bool], Macro]
P = TypeVar("P", bound="ExpressionParser")


def parse(source: str, macros: Macros = MACROS) -> ParsedExpression:
    """Parses an expression. Raises CompileError with all errors.

    >>> parse("a.b == 1").expr.function
    '_==_'
    """
    return parse_with(ExpressionParser, source, macros)[0]


def parse_with(parser_class: type[P], source: str, macros: Macros) -> tuple[ParsedExpression, P]:
    """Parses an expression with a subclass of the parser, and returns that parser too."""
    issues = Issues(source)
    if len(source) > _MAX_CODE_POINTS:
        issues.report(-1, f"expression code point size exceeds limit: size: {len(source)}, limit {_MAX_CODE_POINTS}")
        raise issues.error()
    tokens = lexer.tokenize(source)
    if len(tokens) > parser_class.shallow_tokens and sys.getrecursionlimit() < _RECURSION_LIMIT:
        # Trees within the limits can be about 2,000 nodes deep and every stage walks them recursively. Frames of Python
        # functions are on the heap, so a higher limit costs nothing; it is raised once and never lowered.
        sys.setrecursionlimit(_RECURSION_LIMIT)
    parser = parser_class(tokens, issues, macros)
    try:
        expr = parser.parse_all()
    except _SyntaxError as error:
        text = error.token.text
        if error.token.kind == lexer.ERROR:
            issues.report(error.token.pos, f"Syntax error: token recognition error at: '{text}'")
        else:
            issues.report(error.token.pos, f"Syntax error: mismatched input '{text}' expecting {error}")
        raise issues.error() from None
    except _NestingTooDeep as error:
        raise _limit_error(source, str(error)) from None
    except ExpansionTooLarge:
        raise _limit_error(source, "expression too large after macro expansion") from None
    if issues:
        raise issues.error()
    return ParsedExpression(expr, source, parser.chains), parser


def _limit_error(source: str, message: str) -> CompileError:
    """The error for an exceeded limit, which replaces all other errors."""
    issues = Issues(source)
    issues.report(-1, message)
    return issues.error()


class ExpressionParser:
    """The state of one parse: the tokens, the current position and the nesting counters."""

    #: Expressions with more tokens can nest deeper than Python's default recursion limit.
    shallow_tokens: ClassVar[int] = 128

    __slots__ = (
        "tokens",
        "at",
        "issues",
        "macros",
        "make",
        "chains",
        "expr_depth",
        "relation_depth",
        "calc_depth",
        "heights",
    )

    def __init__(self, tokens: list[Token], issues: Issues, macros: Macros) -> None:
        self.tokens = tokens
        self.at = 0
        self.issues = issues
        self.macros = macros
        self.make = NodeFactory()
        self.chains: dict[int, tuple[ChainOperand, ...]] = {}
        self.expr_depth = 0
        self.relation_depth = 0
        self.calc_depth = 0
        #: Node id -> nested operators and selections below it; kept only for texts that could reach the limit.
        self.heights: dict[int, int] | None = {} if len(tokens) > _MAX_DEPTH else None

    def parse_all(self) -> Node:
        """Parses the whole text as one expression."""
        node = self.expr()
        token = self.tokens[self.at]
        if token.kind != lexer.EOF:
            raise _SyntaxError(token, "<EOF>")
        if self.heights is not None and self.heights.get(node.id, 0) > _MAX_DEPTH:
            raise _NestingTooDeep("max recursion depth exceeded")
        return node

    def record_height(self, node: Node, own: int, below: Iterable[Node]) -> None:
        """Records the number of nested operators below a node; ``own`` is 1 for a node that counts itself."""
        heights = self.heights
        if heights is not None:
            heights[node.id] = own + max((heights.get(b.id, 0) for b in below), default=0)

    def expect(self, kind: str) -> None:
        """Consumes a token of this kind, or raises a syntax error."""
        token = self.tokens[self.at]
        if token.kind != kind:
            raise _SyntaxError(token, f"'{kind}'")
        self.at += 1

    def report_invalid(self, pos: int, message: str) -> Node:
        """Reports an error and returns a placeholder for the invalid node."""
        self.issues.report(pos, message)
        return Const(self.make.id(), pos, None, "null")

    # Operators, lowest precedence first.

    def expr(self) -> Node:
        """``or ? or : expr``; right-associative."""
        self.expr_depth += 1
        if self.expr_depth > _MAX_DEPTH:
            raise _NestingTooDeep(f"expression recursion limit exceeded: {_MAX_DEPTH}")
        node = self.disjunction()
        token = self.tokens[self.at]
        if token.kind == "?":
            self.at += 1
            id_ = self.make.id()
            if_true = self.disjunction()
            self.expect(":")
            args = [node, if_true, self.expr()]
            node = Call(id_, token.pos, ast.CONDITIONAL, None, args)
            self.record_height(node, 1, args)
        self.expr_depth -= 1
        return node

    def disjunction(self) -> Node:
        """``and || and || …`` as a balanced tree."""
        tokens = self.tokens
        node = self.conjunction()
        if tokens[self.at].kind != "||":
            return node
        terms = [node]
        operators: list[tuple[int, int]] = []
        while (token := tokens[self.at]).kind == "||":
            self.at += 1
            terms.append(self.conjunction())
            operators.append((self.make.id(), token.pos))
        node = self.balanced(ast.OR, terms, operators, 0, len(operators) - 1)
        self.record_height(node, 0, terms)
        return node

    def conjunction(self) -> Node:
        """``relation && relation && …`` as a balanced tree; the operands are recorded in ``chains``."""
        tokens = self.tokens
        first = tokens[self.at].pos
        node = self.binary(1)
        if tokens[self.at].kind != "&&":
            return node
        terms = [node]
        operators: list[tuple[int, int]] = []
        spans = [ChainOperand(node, first, self.end_offset())]
        while (token := tokens[self.at]).kind == "&&":
            self.at += 1
            first = tokens[self.at].pos
            term = self.binary(1)
            terms.append(term)
            operators.append((self.make.id(), token.pos))
            spans.append(ChainOperand(term, first, self.end_offset()))
        node = self.balanced(ast.AND, terms, operators, 0, len(operators) - 1)
        self.record_height(node, 0, terms)
        self.chains[node.id] = tuple(spans)
        return node

    def end_offset(self) -> int:
        """The offset of the end of the last consumed token."""
        last = self.tokens[self.at - 1]
        return last.pos + len(last.text)

    def balanced(self, function: str, terms: list[Node], operators: list[tuple[int, int]], low: int, high: int) -> Node:
        """The operators ``low`` to ``high`` of a chain as a balanced tree."""
        middle = (low + high + 1) // 2
        left = terms[middle] if middle == low else self.balanced(function, terms, operators, low, middle - 1)
        right = terms[middle + 1] if middle == high else self.balanced(function, terms, operators, middle + 1, high)
        id_, pos = operators[middle]
        return Call(id_, pos, function, None, [left, right])

    def binary(self, min_precedence: int) -> Node:
        """Operands joined by left-associative operators of at least this precedence.

        The counters follow the grammar's rules ``relation`` and ``calc``: the right side of an operator is nested in
        the rule of its left side.
        """
        relation_depth, calc_depth = self.relation_depth, self.calc_depth
        if min_precedence <= 2:
            self.relation_depth += 1
        if min_precedence != 2:
            self.calc_depth += 1
        if self.relation_depth > _MAX_DEPTH or self.calc_depth > _MAX_DEPTH:
            raise _NestingTooDeep(f"expression recursion limit exceeded: {_MAX_DEPTH}")
        left = self.unary()
        tokens = self.tokens
        while True:
            token = tokens[self.at]
            operator = _BINARY.get(token.kind)
            if operator is None or operator[0] < min_precedence:
                break
            self.at += 1
            id_ = self.make.id()
            args = [left, self.binary(operator[0] + 1)]
            left = Call(id_, token.pos, operator[1], None, args)
            if self.heights is not None:
                self.record_height(left, 1, args)
        self.relation_depth, self.calc_depth = relation_depth, calc_depth
        return left

    def unary(self) -> Node:
        """A run of ``!`` or ``-``, reduced to its parity; a minus before a number is part of the literal."""
        token = self.tokens[self.at]
        kind = token.kind
        if kind != "!" and (kind != "-" or self.tokens[self.at + 1].kind in _SIGNED):
            return self.member()
        count = 0
        while self.tokens[self.at].kind == kind:
            self.at += 1
            count += 1
        if count % 2 == 0:
            return self.member()
        id_ = self.make.id()
        operand = self.member()
        node = Call(id_, token.pos, ast.NOT if kind == "!" else ast.NEGATE, None, [operand])
        self.record_height(node, 0, node.args)
        return node

    # Operands.

    def member(self) -> Node:
        """A primary followed by selections, calls and indexes."""
        tokens = self.tokens
        node = self.primary()
        while True:
            token = tokens[self.at]
            if token.kind == ".":
                node = self.selection(node, token.pos)
            elif token.kind == "[":
                node = self.index(node, token.pos)
            else:
                return node

    def index(self, operand: Node, pos: int) -> Node:
        """``[key]`` or ``[?key]``, at the bracket."""
        self.at += 1
        optional = self.accept("?")
        id_ = self.make.id()
        args = [operand, self.expr()]
        self.expect("]")
        node = Call(id_, pos, ast.OPT_INDEX if optional else ast.INDEX, None, args)
        self.record_height(node, 1, args)
        return node

    def accept(self, kind: str) -> bool:
        """Consumes the next token if it has this kind, and returns whether it did."""
        if self.tokens[self.at].kind == kind:
            self.at += 1
            return True
        return False

    def selection(self, operand: Node, pos: int) -> Node:
        """``.field``, ``.?field`` or ``.method(...)``, at the dot."""
        self.at += 1
        optional = self.accept("?")
        name = self.tokens[self.at]
        if name.kind == lexer.IDENT:
            self.at += 1
            opened = self.tokens[self.at]
            if opened.kind == "(" and not optional:
                return self.call(name.text, operand, opened.pos)
            field = name.text
        elif name.kind == lexer.ESCAPED:
            self.at += 1
            self.issues.report(name.pos, "unsupported syntax: '`'")
            field = ""
        else:
            raise _SyntaxError(name, "IDENTIFIER")
        node: Node
        if optional:
            literal = Const(self.make.id(), name.pos, field, "string")
            node = Call(self.make.id(), pos, ast.OPT_SELECT, None, [operand, literal])
        else:
            node = Select(self.make.id(), pos, operand, field, False)
        self.record_height(node, 1, (operand,))
        return node

    def call(self, function: str, target: Node | None, pos: int) -> Node:
        """A call or the expansion of a macro, at the parenthesis before the arguments."""
        self.at += 1
        id_ = self.make.id()
        args: list[Node] = []
        if not self.accept(")"):
            args.append(self.expr())
            while self.accept(","):
                args.append(self.expr())
            self.expect(")")
        node = self.expand_macro(function, target, args, pos)
        if node is None:
            node = Call(id_, pos, function, target, args)
        if self.heights is not None:
            self.record_height(node, 0 if target is None else 1, args if target is None else (target, *args))
        return node

    def expand_macro(self, function: str, target: Node | None, args: list[Node], pos: int) -> Node | None:
        """The expansion of a macro call, None for other calls."""
        macro = self.macros.get((function, len(args), target is not None))
        if macro is None:
            return None
        self.make.pos = pos
        try:
            return macro(self.make, args[0] if target is None else target, args)
        except MacroError as error:
            return self.report_invalid(error.pos, str(error))

    def primary(self) -> Node:
        """A literal, name, global call, parenthesized expression, list, map or message."""
        token = self.tokens[self.at]
        kind, text, pos = token
        make = self.make
        if kind == lexer.IDENT or kind == ".":
            return self.name(token)
        if kind == lexer.STRING:
            self.at += 1
            try:
                return Const(make.id(), pos, literals.string_value(text), "string")
            except literals.LiteralError as error:
                return self.report_invalid(pos, str(error))
        if kind == "(":
            self.at += 1
            node = self.expr()
            self.expect(")")
            return node
        if kind == "[":
            return self.list_literal(pos)
        if kind == "{":
            return self.map_literal(pos)
        if kind in ("true", "false"):
            self.at += 1
            return Const(make.id(), pos, kind == "true", "bool")
        if kind == "null":
            self.at += 1
            return Const(make.id(), pos, None, "null")
        return self.number_or_bytes(token)

    def number_or_bytes(self, token: Token) -> Node:
        """A number, with its minus sign, or a bytes literal."""
        sign = ""
        pos = token.pos
        if token.kind == "-":
            sign = "-"
            self.at += 1
            token = self.tokens[self.at]
            if token.kind not in _SIGNED:
                raise _SyntaxError(token, "a number")
        make = self.make
        try:
            match token.kind:
                case lexer.INT:
                    node = Const(make.id(), pos, literals.int_value(sign + token.text), "int")
                case lexer.FLOAT:
                    node = Const(make.id(), pos, literals.double_value(sign + token.text), "double")
                case lexer.UINT:
                    node = Const(make.id(), pos, literals.uint_value(token.text), "uint")
                case lexer.BYTES:
                    node = Const(make.id(), pos, literals.bytes_value(token.text), "bytes")
                case _:
                    raise _SyntaxError(token, "an expression")
        except literals.LiteralError as error:
            self.at += 1
            return self.report_invalid(pos, str(error))
        self.at += 1
        return node

    def name(self, token: Token) -> Node:
        """An identifier, a global call or a message literal, with or without a leading dot."""
        pos = token.pos
        dot = ""
        if token.kind == ".":
            dot = "."
            self.at += 1
            token = self.tokens[self.at]
            if token.kind != lexer.IDENT:
                raise _SyntaxError(token, "IDENTIFIER")
        message = self.message_name()
        if message is not None:
            return self.message_literal(dot + message)
        self.at += 1
        opened = self.tokens[self.at]
        if token.text in RESERVED:
            if opened.kind == "(":
                self.call("", None, opened.pos)
            return self.report_invalid(pos, f"reserved identifier: {token.text}")
        if opened.kind == "(":
            return self.call(dot + token.text, None, opened.pos)
        return Ident(self.make.id(), token.pos, dot + token.text)

    def message_name(self) -> str | None:
        """Consumes and returns the dotted name of a message literal; None if none starts here."""
        tokens = self.tokens
        end = self.at
        while tokens[end + 1].kind == "." and tokens[end + 2].kind == lexer.IDENT:
            end += 2
        if tokens[end + 1].kind != "{":
            return None
        name = "".join(t.text for t in tokens[self.at : end + 1])
        self.at = end + 1
        return name

    def message_literal(self, name: str) -> Node:
        """``{field: value, …}`` of a message, at the brace."""
        pos = self.tokens[self.at].pos
        id_ = self.make.id()
        self.at += 1
        fields: list[ast.StructField] = []
        more = self.tokens[self.at].kind not in ("}", ",")
        while more:
            optional = self.accept("?")
            token = self.tokens[self.at]
            if token.kind == lexer.ESCAPED:
                self.issues.report(pos, "unsupported syntax: '`'")
            elif token.kind != lexer.IDENT:
                raise _SyntaxError(token, "IDENTIFIER")
            self.at += 1
            colon = self.tokens[self.at].pos
            self.expect(":")
            field_id = self.make.id()
            fields.append(ast.StructField(field_id, colon, token.text, self.expr(), optional))
            more = self.separator("}")
        self.accept(",")
        self.expect("}")
        node = ast.StructExpr(id_, pos, name, fields)
        self.record_height(node, 0, [f.value for f in fields])
        return node

    def separator(self, closing: str) -> bool:
        """Consumes the comma between two elements; False after the last element."""
        if self.tokens[self.at].kind == "," and self.tokens[self.at + 1].kind != closing:
            self.at += 1
            return True
        return False

    def list_literal(self, pos: int) -> Node:
        """``[e, ?e, …]``; one trailing comma is allowed, even alone."""
        self.at += 1
        id_ = self.make.id()
        elements: list[Node] = []
        optional: list[int] = []
        more = self.tokens[self.at].kind not in ("]", ",")
        while more:
            if self.accept("?"):
                optional.append(len(elements))
            elements.append(self.expr())
            more = self.separator("]")
        self.accept(",")
        self.expect("]")
        node = ListExpr(id_, pos, elements, tuple(optional))
        self.record_height(node, 0, elements)
        return node

    def map_literal(self, pos: int) -> Node:
        """``{k: v, ?k: v, …}``; one trailing comma is allowed, even alone."""
        self.at += 1
        id_ = self.make.id()
        entries: list[MapEntry] = []
        more = self.tokens[self.at].kind not in ("}", ",")
        while more:
            optional = self.accept("?")
            entry_id = self.make.id()
            key = self.expr()
            colon = self.tokens[self.at].pos
            self.expect(":")
            entries.append(MapEntry(entry_id, colon, key, self.expr(), optional))
            more = self.separator("}")
        self.accept(",")
        self.expect("}")
        node = MapExpr(id_, pos, entries)
        self.record_height(node, 0, [n for e in entries for n in (e.key, e.value)])
        return node
