"""Parsed selectors: whether they compile, the attributes and capacities they read, and the comparisons they contain.

All extents are in code points of the expression, as ``RuleMatch.span`` and ``ReplaceText`` need them::

    for view, expr in parsed_selectors(bundle):
        for access in expr.accesses:  # also if the expression does not type-check
            if access.name == "model":
                yield RuleMatch(view.document, view.path, ..., span=access.name_extent)

An expression that does not parse has no accesses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from allotment.cel.checking.environment import Environment, environment
from allotment.cel.conjuncts import Operator, as_comparison
from allotment.cel.device_references import selection_chain
from allotment.cel.errors import CompileError, Issue
from allotment.cel.evaluation.values import Value
from allotment.cel.selector import Selector, compile_in_environment
from allotment.cel.source_spans import SourceSpans, TextSpan, parse_spans
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, ChainOperand, Const, Ident, ListExpr, Node, Select, walk
from allotment.cel.syntax.lexer import Token, tokenize
from allotment.time_limits import check_time
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import SelectorView

_T = TypeVar("_T")
AccessKind: TypeAlias = Literal["attributes", "capacity"]


class AccessStep(NamedTuple):
    """One selection by a constant key: ``.model``, ``["model"]``, or ``"model" in …``.

    ``extent`` starts behind the operand, ``key_extent`` is that of the name or string literal. ``is_quoted`` if the key
    is a string literal. ``is_optional`` if a missing key is not an error (``.?``, ``[?]``, ``has``, ``in``).
    """

    key: str
    extent: TextSpan
    key_extent: TextSpan
    is_quoted: bool
    is_optional: bool
    node: Node


class DeviceAccess(NamedTuple):
    """A use of ``device.attributes`` or ``device.capacity``, with the constant keys selected from it.

    ``steps`` are the domain, the name, and further selections, which are mistakes (``.string``); fewer if the
    expression has fewer. ``extent`` starts at ``device`` and ends at the last step (for ``has(…)`` and ``… in …`` it is
    the whole call), ``kind_extent`` is that of ``attributes`` or ``capacity``. ``node`` is the last selection.
    """

    kind: AccessKind
    steps: tuple[AccessStep, ...]
    extent: TextSpan
    kind_extent: TextSpan
    node: Node

    @property
    def domain(self) -> str:
        """The domain; empty if it is not constant."""
        return self.steps[0].key if self.steps else ""

    @property
    def name(self) -> str:
        """The name in the domain; empty if it is not constant."""
        return self.steps[1].key if len(self.steps) > 1 else ""

    @property
    def name_extent(self) -> TextSpan:
        """The extent of the name, including quotes; of the whole access if it has no name."""
        return self.steps[1].key_extent if len(self.steps) > 1 else self.extent

    @property
    def is_optional(self) -> bool:
        """Whether a device without the name causes no error here."""
        return any(step.is_optional for step in self.steps[:2])


class LiteralValue(NamedTuple):
    """A literal, ``quantity("…")`` or ``semver("…")``. ``text_extent`` is that of the string argument."""

    value: Value
    extent: TextSpan
    text_extent: TextSpan


class LiteralComparison(NamedTuple):
    """A comparison of an attribute or capacity with literals, in any notation: ``access operator literal``.

    ``operator`` is normalized to the device's value on the left; only ``in`` has several literals. ``extent`` is that
    of the whole comparison.
    """

    access: DeviceAccess
    operator: Operator
    literals: tuple[LiteralValue, ...]
    extent: TextSpan
    node: Node


class Expression:
    """An expression, analyzed as far as possible. ``error`` is the reason why the API server would reject it."""

    def __init__(self, source: str, env: Environment) -> None:
        self.source = source
        self.selector: Selector | None = None
        self.error: CompileError | None = None
        self.located: SourceSpans | None = None
        try:
            self.selector = compile_in_environment(source, env)
        except CompileError as error:
            self.error = error
        # Without a syntax tree there is nothing to analyze; `error` has the reason.
        with suppress(CompileError):
            self.located = parse_spans(source, env.macros)

    # --- parts ---------------------------------------------------------------------------------------------------

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of the source."""
        return tokenize(self.source)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes of the syntax tree, parents first; empty if the expression does not parse."""
        return () if self.located is None else tuple(walk(self.located.parsed.expr))

    @cached_property
    def conjuncts(self) -> tuple[ChainOperand, ...]:
        """The operands of the outermost ``&&``."""
        return () if self.located is None else self.located.parsed.conjuncts()

    def extent(self, node: Node) -> TextSpan:
        """The extent of a node without enclosing parentheses; (0, 0) for nodes that a macro expands to."""
        return (self.located.span(node) if self.located else None) or (0, 0)

    def outer(self, node: Node) -> TextSpan:
        """The extent of a node with enclosing parentheses; (0, 0) for nodes that a macro expands to."""
        return (self.located.outer_span(node) if self.located else None) or (0, 0)

    def text(self, node: Node) -> str:
        """The source of a node, with enclosing parentheses."""
        start, stop = self.outer(node)
        return self.source[start:stop]

    def offset(self, issue: Issue) -> int:
        """The position of a compiler issue; -1 if it has none."""
        if issue.line < 1:
            return -1
        lines = self.source.split("\n")[: issue.line - 1]
        return sum(len(line) + 1 for line in lines) + max(issue.column, 0)

    def token_at(self, offset: int) -> Token | None:
        """The token at an offset, or the next one after white space; None at the end."""
        return next((t for t in self.tokens if t.pos + len(t.text) > offset and t.kind != "EOF"), None)

    # --- analysis ------------------------------------------------------------------------------------------------

    @cached_property
    def accesses(self) -> tuple[DeviceAccess, ...]:
        """All uses of attributes and capacities, by position."""
        if self.located is None:
            return ()
        accesses: list[DeviceAccess] = []
        stack: list[Node] = [self.located.parsed.expr]
        while stack:
            node = stack.pop()
            access = self._access(node)
            if access is not None:
                accesses.append(access)
                stack.extend(_computed_keys(node))
                continue
            stack.extend(ast.children(node))
        return tuple(sorted(accesses, key=lambda access: access.extent))

    @cached_property
    def comparisons(self) -> tuple[LiteralComparison, ...]:
        """All comparisons of one attribute or capacity with literals, by position, including nested ones."""
        by_node = {access.node.id: access for access in self.accesses}
        comparisons: list[LiteralComparison] = []
        for node in self.nodes:
            if not isinstance(node, Call) or node.function == ast.NOT or self.extent(node) == (0, 0):
                continue
            parsed = as_comparison(node)
            if parsed is None or len(parsed.path) != 3:
                continue
            descendants = list(walk(node))
            access = next((by_node[n.id] for n in descendants if n.id in by_node), None)
            literals = self._literals(node, parsed.literal)
            if access is not None and literals:
                comparisons.append(LiteralComparison(access, parsed.operator, literals, self.extent(node), node))
        return tuple(sorted(comparisons, key=lambda item: item.extent))

    @cached_property
    def compared_drivers(self) -> tuple[tuple[str, TextSpan], ...]:
        """The drivers that ``device.driver`` is compared with, and the extents of their literals."""
        drivers: list[tuple[str, TextSpan]] = []
        for node in self.nodes:
            if not isinstance(node, Call) or node.function not in (ast.EQUALS, ast.NOT_EQUALS, ast.IN):
                continue
            if any(is_device_driver(arg) for arg in node.args):
                consts = [n for arg in node.args for n in (arg.elements if isinstance(arg, ListExpr) else [arg])]
                drivers.extend(
                    (n.value, self.extent(n)) for n in consts if isinstance(n, Const) and type(n.value) is str
                )
        return tuple(sorted(drivers, key=lambda item: item[1]))

    # --- parsing of nodes ----------------------------------------------------------------------------------------

    def _access(self, node: Node) -> DeviceAccess | None:
        membership_key: Node | None = None
        if isinstance(node, Call) and node.function == ast.IN:
            key, container = node.args
            base, keys, nodes = selection_chain(container)
            if not isinstance(key, Const) or type(key.value) is not str or len(keys) not in (1, 2):
                return None
            if _if_fully_selected(container, nodes) is None:
                return None
            membership_key = key
        else:
            base, keys, nodes = selection_chain(node)
        if not isinstance(base, Ident) or base.name not in ("device", ".device") or not keys:
            return None
        if keys[0] not in ("attributes", "capacity") or self.extent(nodes[0]) == (0, 0):
            return None
        kind: AccessKind = "attributes" if keys[0] == "attributes" else "capacity"
        steps = [self._step(step_node) for step_node in nodes]
        if membership_key is not None:
            extent = self.extent(membership_key)
            steps.append(AccessStep(str(getattr(membership_key, "value", "")), extent, extent, True, True, node))
        return DeviceAccess(
            kind,
            tuple(steps[1:]),
            self.extent(node if membership_key is not None else nodes[-1]),
            steps[0].key_extent,
            node if membership_key is not None else nodes[-1],
        )

    def _step(self, node: Node) -> AccessStep:
        """The selection by a constant key that a node is."""
        if isinstance(node, Call) and node.function in (ast.INDEX, ast.OPT_INDEX):
            operand, key = node.args
            start, stop = self.outer(operand)[1], self.extent(node)[1]
            optional = node.function == ast.OPT_INDEX
            return AccessStep(str(getattr(key, "value", "")), (start, stop), self.extent(key), True, optional, node)
        if isinstance(node, Select):
            operand, name, tolerant = node.operand, node.field, node.test_only
        else:
            assert isinstance(node, Call)
            operand, name, tolerant = node.args[0], str(getattr(node.args[1], "value", "")), True
        start = self.outer(operand)[1]
        token = next(t for t in self.tokens if t.pos >= start and t.kind == "IDENT")
        key_extent = (token.pos, token.pos + len(token.text))
        return AccessStep(name, (start, key_extent[1]), key_extent, False, tolerant, node)

    def _literals(self, node: Call, value: Value) -> tuple[LiteralValue, ...]:
        """The literals of a comparison that ``comparison`` has parsed."""
        values = value if isinstance(value, tuple) else (value,)
        stack = [*([node.target] if node.target else []), *node.args]
        sides: list[Node] = []
        for side in stack:
            if isinstance(side, Call) and side.function == "compareTo" and side.target is not None:
                sides += [side.target, *side.args]
                break
            sides.append(side)
        for side in sides:
            elements = list(side.elements) if isinstance(side, ListExpr) and isinstance(value, tuple) else [side]
            if all(_is_literal(element) for element in elements) and len(elements) == len(values):
                return tuple(
                    LiteralValue(literal, self.extent(element), self.extent(_string_node(element)))
                    for literal, element in zip(values, elements, strict=True)
                )
        return ()


def parsed_selectors(bundle: Bundle) -> Iterator[tuple[SelectorView, Expression]]:
    """All selectors of a bundle with their parsed expressions."""
    return ((view, parse_selector(bundle, view)) for view in bundle.selectors)


def for_each_selector(
    of_selector: Callable[[Bundle, SelectorView, Expression], Iterable[_T]],
) -> Callable[[Bundle], Iterator[_T]]:
    """Turns a function of one selector into a rule's function, which applies it to all selectors."""

    def find(bundle: Bundle) -> Iterator[_T]:
        for view, expr in parsed_selectors(bundle):
            yield from of_selector(bundle, view, expr)

    return find


def parse_selector(bundle: Bundle, view: SelectorView) -> Expression:
    """A selector's expression, parsed for the release and gates of the bundle."""
    return parse_expression(bundle, view.expression)


def parse_expression(bundle: Bundle, source: str) -> Expression:
    """An expression from elsewhere (such as a class of the cluster), parsed for the release and gates of the bundle."""
    check_time()
    return _parse(source, environment(bundle.features, "new"))


@lru_cache(maxsize=4096)
def _parse(source: str, env: Environment) -> Expression:
    return Expression(source, env)


def _computed_keys(node: Node) -> list[Node]:
    """The keys in a chain of selections that are not constants."""
    keys: list[Node] = []
    while True:
        if isinstance(node, Select):
            node = node.operand
        elif isinstance(node, Call) and node.function in (ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT):
            if not isinstance(node.args[1], Const):
                keys.append(node.args[1])
            node = node.args[0]
        else:
            return keys


def _if_fully_selected(container: Node, nodes: list[Node]) -> Node | None:
    """The container if constant keys select all of it, otherwise None."""
    return container if nodes and nodes[-1] is container else None


def is_device_driver(node: Node) -> bool:
    """Whether a node is ``device.driver``."""
    if not isinstance(node, Select) or node.field != "driver":
        return False
    return isinstance(node.operand, Ident) and node.operand.name in ("device", ".device")


def _is_literal(node: Node) -> bool:
    if isinstance(node, Call):
        return node.function in ("quantity", "semver") and bool(node.args) and isinstance(node.args[0], Const)
    return isinstance(node, Const)


def _string_node(node: Node) -> Node:
    return node.args[0] if isinstance(node, Call) else node
