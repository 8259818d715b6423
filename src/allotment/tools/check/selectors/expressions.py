"""Selectors taken apart for rules: whether they compile, what of a device they name, what they compare, and where.

Everything stands in the expression's own code points, as ``Found.part`` and ``ReplaceText`` want it::

    for view, read in read_selectors(bundle):
        for access in read.accesses:  # also where the expression does not type-check
            if access.name == "model":
                yield Found(view.document, view.path, ..., part=access.name_extent)

An expression that does not parse names nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from allotment.cel.checking.environment import Environment, environment
from allotment.cel.conjuncts import Operator, comparison
from allotment.cel.device_references import selected
from allotment.cel.errors import CompileError, Issue
from allotment.cel.evaluation.values import Value
from allotment.cel.selector import Selector, compile_in
from allotment.cel.source_spans import Extent, Located, located
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, Ident, ListExpr, Node, Select, Term, walk
from allotment.cel.syntax.lexer import Token, tokenize
from allotment.tools.check.bundle import Bundle
from allotment.tools.views import SelectorView

_T = TypeVar("_T")
AccessKind: TypeAlias = Literal["attributes", "capacity"]


class Step(NamedTuple):
    """One constant key selected: ``.model``, ``["model"]``, or ``"model" in …``.

    ``extent`` reaches from behind what it is selected from to its end, ``key_extent`` is that of the name or of the
    string literal. ``quoted`` when the key is a literal. ``tolerant`` when its absence is provided for (``.?``,
    ``[?]``, ``has``, ``in``).
    """

    key: str
    extent: Extent
    key_extent: Extent
    quoted: bool
    tolerant: bool
    node: Node


class Access(NamedTuple):
    """A use of ``device.attributes`` or ``device.capacity``: which, and the constant keys selected from it.

    ``steps`` are the domain, the name, and what follows by mistake (``.string``); fewer where the text has fewer.
    ``extent`` is that of the selection from ``device`` to the last of them (of the whole ``has(…)`` or ``… in …``),
    ``kind_extent`` that of the word ``attributes`` or ``capacity``. ``node`` is the last selection.
    """

    kind: AccessKind
    steps: tuple[Step, ...]
    extent: Extent
    kind_extent: Extent
    node: Node

    @property
    def domain(self) -> str:
        """The domain; empty where none is given by a constant."""
        return self.steps[0].key if self.steps else ""

    @property
    def name(self) -> str:
        """The name in the domain; empty where none is given by a constant."""
        return self.steps[1].key if len(self.steps) > 1 else ""

    @property
    def name_extent(self) -> Extent:
        """Where the name stands (without its quotes it would not be found again); the whole access where none does."""
        return self.steps[1].key_extent if len(self.steps) > 1 else self.extent

    @property
    def tolerant(self) -> bool:
        """Whether a device without it makes no error here."""
        return any(step.tolerant for step in self.steps[:2])


class Literally(NamedTuple):
    """A literal, or ``quantity("…")`` or ``semver("…")``. ``text_extent`` is that of the string in the brackets."""

    value: Value
    extent: Extent
    text_extent: Extent


class Compared(NamedTuple):
    """A value of the device compared with literals, in any spelling: ``access operator literal``.

    ``operator`` is what the spelling means with the device's value on the left; several literals stand in the list of
    ``in``. ``extent`` is that of the whole comparison.
    """

    access: Access
    operator: Operator
    literals: tuple[Literally, ...]
    extent: Extent
    node: Node


class Expression:
    """An expression, as far as it can be understood. ``error`` is why the API server would refuse it."""

    def __init__(self, source: str, env: Environment) -> None:
        self.source = source
        self.selector: Selector | None = None
        self.error: CompileError | None = None
        self.located: Located | None = None
        try:
            self.selector = compile_in(source, env)
        except CompileError as error:
            self.error = error
        # Without a tree there is nothing to look at, and `error` says why.
        with suppress(CompileError):
            self.located = located(source, env.macros)

    # --- parts ---------------------------------------------------------------------------------------------------

    @cached_property
    def tokens(self) -> list[Token]:
        """The tokens of the text."""
        return tokenize(self.source)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Every node of the tree, parents first; none where the expression does not parse."""
        return () if self.located is None else tuple(walk(self.located.parsed.expr))

    @cached_property
    def conjuncts(self) -> tuple[Term, ...]:
        """The operands of the outermost ``&&``."""
        return () if self.located is None else self.located.parsed.conjuncts()

    def extent(self, node: Node) -> Extent:
        """Where a node stands, without parentheses; nothing at 0 for one that a macro made."""
        return (self.located.extent(node) if self.located else None) or (0, 0)

    def outer(self, node: Node) -> Extent:
        """Where a node stands with the parentheses around it; nothing at 0 for one that a macro made."""
        return (self.located.outer(node) if self.located else None) or (0, 0)

    def text(self, node: Node) -> str:
        """A node as written, with the parentheses around it."""
        start, stop = self.outer(node)
        return self.source[start:stop]

    def offset(self, issue: Issue) -> int:
        """Where an issue of the compiler points; -1 for nowhere."""
        if issue.line < 1:
            return -1
        lines = self.source.split("\n")[: issue.line - 1]
        return sum(len(line) + 1 for line in lines) + max(issue.column, 0)

    def token_at(self, offset: int) -> Token | None:
        """The token that stands at an offset or, in white space, the next one; None at the end."""
        return next((t for t in self.tokens if t.pos + len(t.text) > offset and t.kind != "EOF"), None)

    # --- what it says --------------------------------------------------------------------------------------------

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """Every use of attributes and capacities, by position."""
        if self.located is None:
            return ()
        found: list[Access] = []
        stack: list[Node] = [self.located.parsed.expr]
        while stack:
            node = stack.pop()
            access = self._access(node)
            if access is not None:
                found.append(access)
                stack.extend(_computed(node))
                continue
            stack.extend(ast.children(node))
        return tuple(sorted(found, key=lambda access: access.extent))

    @cached_property
    def compared(self) -> tuple[Compared, ...]:
        """Every comparison of one attribute or capacity with literals, by position; also inside of others."""
        by_node = {access.node.id: access for access in self.accesses}
        found: list[Compared] = []
        for node in self.nodes:
            if not isinstance(node, Call) or node.function == ast.NOT or self.extent(node) == (0, 0):
                continue
            compared = comparison(node)
            if compared is None or len(compared.path) != 3:
                continue
            below = list(walk(node))
            access = next((by_node[n.id] for n in below if n.id in by_node), None)
            literals = self._literals(node, compared.literal)
            if access is not None and literals:
                found.append(Compared(access, compared.operator, literals, self.extent(node), node))
        return tuple(sorted(found, key=lambda one: one.extent))

    @cached_property
    def drivers(self) -> tuple[tuple[str, Extent], ...]:
        """The drivers that ``device.driver`` is compared with anywhere, and where their literals stand."""
        found: list[tuple[str, Extent]] = []
        for node in self.nodes:
            if not isinstance(node, Call) or node.function not in (ast.EQUALS, ast.NOT_EQUALS, ast.IN):
                continue
            if any(is_driver(arg) for arg in node.args):
                consts = [n for arg in node.args for n in (arg.elements if isinstance(arg, ListExpr) else [arg])]
                found.extend((n.value, self.extent(n)) for n in consts if isinstance(n, Const) and type(n.value) is str)
        return tuple(sorted(found, key=lambda one: one[1]))

    # --- taking apart --------------------------------------------------------------------------------------------

    def _access(self, node: Node) -> Access | None:
        inside: Node | None = None
        if isinstance(node, Call) and node.function == ast.IN:
            key, container = node.args
            base, keys, nodes = selected(container)
            if not isinstance(key, Const) or type(key.value) is not str or len(keys) not in (1, 2):
                return None
            if _whole(container, nodes) is None:
                return None
            inside = key
        else:
            base, keys, nodes = selected(node)
        if not isinstance(base, Ident) or base.name not in ("device", ".device") or not keys:
            return None
        if keys[0] not in ("attributes", "capacity") or self.extent(nodes[0]) == (0, 0):
            return None
        kind: AccessKind = "attributes" if keys[0] == "attributes" else "capacity"
        steps = [self._step(one) for one in nodes]
        if inside is not None:
            extent = self.extent(inside)
            steps.append(Step(str(getattr(inside, "value", "")), extent, extent, True, True, node))
        return Access(
            kind,
            tuple(steps[1:]),
            self.extent(node if inside is not None else nodes[-1]),
            steps[0].key_extent,
            node if inside is not None else nodes[-1],
        )

    def _step(self, node: Node) -> Step:
        """A selection by a constant key."""
        if isinstance(node, Call) and node.function in (ast.INDEX, ast.OPT_INDEX):
            operand, key = node.args
            start, stop = self.outer(operand)[1], self.extent(node)[1]
            optional = node.function == ast.OPT_INDEX
            return Step(str(getattr(key, "value", "")), (start, stop), self.extent(key), True, optional, node)
        if isinstance(node, Select):
            operand, name, tolerant = node.operand, node.field, node.test_only
        else:
            assert isinstance(node, Call)
            operand, name, tolerant = node.args[0], str(getattr(node.args[1], "value", "")), True
        start = self.outer(operand)[1]
        at = next(t for t in self.tokens if t.pos >= start and t.kind == "IDENT")
        key_extent = (at.pos, at.pos + len(at.text))
        return Step(name, (start, key_extent[1]), key_extent, False, tolerant, node)

    def _literals(self, node: Call, value: Value) -> tuple[Literally, ...]:
        """The literals of a comparison, which ``comparison`` has understood."""
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
                    Literally(one, self.extent(element), self.extent(_inner(element)))
                    for one, element in zip(values, elements, strict=True)
                )
        return ()


def read_selectors(bundle: Bundle) -> Iterator[tuple[SelectorView, Expression]]:
    """Every selector, with what can be understood of it."""
    return ((view, expression(bundle, view)) for view in bundle.selectors)


def in_each(
    of_selector: Callable[[Bundle, SelectorView, Expression], Iterable[_T]],
) -> Callable[[Bundle], Iterator[_T]]:
    """What a function finds in one selector, as one that looks at all of them."""

    def find(bundle: Bundle) -> Iterator[_T]:
        for view, read in read_selectors(bundle):
            yield from of_selector(bundle, view, read)

    return find


def expression(bundle: Bundle, view: SelectorView) -> Expression:
    """A selector's expression, for the release and gates that the files are checked for."""
    return expression_of(bundle, view.expression)


def expression_of(bundle: Bundle, source: str) -> Expression:
    """An expression that stands elsewhere (a class of the cluster's), read alike."""
    return _read(source, environment(bundle.features, "new"))


@lru_cache(maxsize=4096)
def _read(source: str, env: Environment) -> Expression:
    return Expression(source, env)


def _computed(node: Node) -> list[Node]:
    """What a chain of selections is computed from besides ``device``."""
    found: list[Node] = []
    while True:
        if isinstance(node, Select):
            node = node.operand
        elif isinstance(node, Call) and node.function in (ast.INDEX, ast.OPT_INDEX, ast.OPT_SELECT):
            if not isinstance(node.args[1], Const):
                found.append(node.args[1])
            node = node.args[0]
        else:
            return found


def _whole(container: Node, nodes: list[Node]) -> Node | None:
    """The container, if constant keys select all of it."""
    return container if nodes and nodes[-1] is container else None


def is_driver(node: Node) -> bool:
    """Whether a node is ``device.driver``."""
    if not isinstance(node, Select) or node.field != "driver":
        return False
    return isinstance(node.operand, Ident) and node.operand.name in ("device", ".device")


def _is_literal(node: Node) -> bool:
    if isinstance(node, Call):
        return node.function in ("quantity", "semver") and bool(node.args) and isinstance(node.args[0], Const)
    return isinstance(node, Const)


def _inner(node: Node) -> Node:
    return node.args[0] if isinstance(node, Call) else node
