"""An expression evaluated for a sort of device, with what is certain of it; what is not certain may be anything.

So guards are understood in whatever way they are written, as CEL understands them: a false operand of ``&&`` swallows
the error of another on either side of it, a true one of ``||`` likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import Final, NamedTuple, TypeAlias

from allotment.cel.evaluation.values import Value
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, ListExpr, Node, Select
from allotment.tools.check.names.known_names import STANDARD
from allotment.tools.check.selectors.device_types import Name, Sort, presence
from allotment.tools.check.selectors.expressions import Expression

#: With more names than these that a device may lack, they are taken away one at a time.
_MOST_TOGETHER: Final = 4


def may_hold(read: Expression, node: Node, sort: Sort) -> bool:
    """Whether a part of an expression can be true for some device of a sort."""
    return any(
        outcome is UNKNOWN or outcome == _Known(True)
        for lacks in _assignments(read, sort)
        for outcome in _Evaluation(read, sort, lacks).outcomes(node)
    )


def _assignments(read: Expression, sort: Sort) -> Iterator[frozenset[Name]]:
    """The names that a device of a sort may lack at once."""
    always: set[Name] = set()
    sometimes: set[Name] = set()
    for access in read.accesses:
        if len(access.steps) > 1:
            name = Name(access.kind, access.domain, access.name)
            has = presence(access, sort)
            if has == "never":
                always.add(name)
            elif has == "sometimes":
                sometimes.add(name)
    ordered = sorted(sometimes)
    most = len(ordered) if len(ordered) <= _MOST_TOGETHER else 1
    for number in range(most + 1):
        for some in combinations(ordered, number):
            yield frozenset({*always, *some})


def missing(read: Expression, sort: Sort) -> frozenset[int]:
    """The accesses of an expression, by number, for want of which it can be an error for a device of a sort."""
    if read.located is None:
        return frozenset()
    return frozenset(
        number
        for lacks in _assignments(read, sort)
        for outcome in _Evaluation(read, sort, lacks).outcomes(read.located.parsed.expr)
        if isinstance(outcome, _Missing)
        for number in outcome.accesses
    )


class _Known(NamedTuple):
    value: Value


class _Missing(NamedTuple):
    """An error: these accesses, by number, found nothing."""

    accesses: frozenset[int]


class _Optional(NamedTuple):
    """What ``.?`` gives: a value, or none."""

    present: bool


class _Unknown:
    """Some value."""


UNKNOWN: Final = _Unknown()
_Outcome: TypeAlias = _Known | _Missing | _Optional | _Unknown
_TRUE: Final = _Known(True)
_FALSE: Final = _Known(False)
_ANYTHING: Final[frozenset[_Outcome]] = frozenset({UNKNOWN})


class _Evaluation:
    """An expression for devices of one sort that lack certain names."""

    def __init__(self, read: Expression, sort: Sort, lacks: frozenset[Name]) -> None:
        self.sort = sort
        self.lacks = lacks
        self.accesses = read.accesses
        self.names = {a.steps[1].node.id: n for n, a in enumerate(read.accesses) if len(a.steps) > 1}
        self.domains = {a.steps[0].node.id: n for n, a in enumerate(read.accesses) if a.steps}

    def outcomes(self, node: Node) -> frozenset[_Outcome]:
        """What evaluation can come to."""
        if node.id in self.names:
            return self.name(self.names[node.id], node)
        if isinstance(node, Const):
            return frozenset({_Known(node.value)})
        if isinstance(node, Select):
            return self.selected(node, node.operand)
        if isinstance(node, ListExpr):
            return self.strictly(node.elements)
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, ast.Comprehension) and node.macro not in ("cel.bind", "sortBy"):
            return self.strictly([node.iter_range])
        return _ANYTHING

    def name(self, number: int, node: Node) -> frozenset[_Outcome]:
        """An attribute or capacity."""
        access, sort = self.accesses[number], self.sort
        lacks = Name(access.kind, access.domain, access.name) in self.lacks
        certain = presence(access, sort) != "unknown"
        if (isinstance(node, Select) and node.test_only) or (isinstance(node, Call) and node.function == ast.IN):
            return frozenset({_Known(not lacks) if certain else UNKNOWN})
        if access.tolerant:
            return frozenset({_Optional(not lacks)} if certain else {_Optional(True), _Optional(False)})
        if lacks:
            return frozenset({_Missing(frozenset({number}))})
        if (access.kind, access.domain, access.name) == ("attributes", sort.driver, "type") and sort.type:
            return frozenset({_Known(sort.type)})
        return _ANYTHING

    def selected(self, node: Node, operand: Node) -> frozenset[_Outcome]:
        """Something else that is selected: of the device itself, or of a value."""
        if isinstance(node, Select) and node.field == "driver" and isinstance(operand, ast.Ident):
            # Whatever it is called, it is none of those that anybody compares it with.
            return frozenset({_Known(self.sort.driver or "\0another driver")})
        return frozenset({o if isinstance(o, _Missing | _Optional) else UNKNOWN for o in self.outcomes(operand)})

    def call(self, node: Call) -> frozenset[_Outcome]:
        """An operator or function."""
        match node.function:
            case ast.AND | ast.OR:
                return self.logic(node)
            case ast.NOT:
                return frozenset({_negated(o) for o in self.outcomes(node.args[0])})
            case ast.CONDITIONAL:
                return self.conditional(node)
            case ast.INDEX | ast.OPT_INDEX | ast.OPT_SELECT:
                return self.selected(node, node.args[0])
            case ast.IN:
                return self.membership(node)
            case "orValue" | "hasValue" if node.target is not None:
                return self.provided(node, self.outcomes(node.target))
        operands = [*([node.target] if node.target is not None else []), *node.args]
        found = self.strictly(operands)
        if node.function in (ast.EQUALS, ast.NOT_EQUALS):
            return frozenset(self.equality(node, found))
        return found

    def logic(self, node: Call) -> frozenset[_Outcome]:
        """``&&`` and ``||``: an operand that decides wins over errors, on either side."""
        decides, neither = (_FALSE, _TRUE) if node.function == ast.AND else (_TRUE, _FALSE)
        found: set[_Outcome] = set()
        for left, right in product(*(_bools(self.outcomes(arg)) for arg in node.args)):
            if decides in (left, right):
                found.add(decides)
            elif isinstance(left, _Missing) or isinstance(right, _Missing):
                missing = [one.accesses for one in (left, right) if isinstance(one, _Missing)]
                found.add(_Missing(frozenset().union(*missing)))
            else:
                found.add(neither)
        return frozenset(found)

    def conditional(self, node: Call) -> frozenset[_Outcome]:
        """``c ? a : b``."""
        found: set[_Outcome] = set()
        for condition in _bools(self.outcomes(node.args[0])):
            if isinstance(condition, _Missing):
                found.add(condition)
            else:
                found |= self.outcomes(node.args[1 if condition == _TRUE else 2])
        return frozenset(found)

    def provided(self, node: Call, targets: frozenset[_Outcome]) -> frozenset[_Outcome]:
        """``.?name.orValue(x)`` and ``.hasValue()``."""
        found: set[_Outcome] = set()
        for target in targets:
            if not isinstance(target, _Optional):
                found.add(target if isinstance(target, _Missing) else UNKNOWN)
            elif node.function == "hasValue":
                found.add(_Known(target.present))
            elif target.present or not node.args:
                found.add(UNKNOWN)
            else:
                found |= self.outcomes(node.args[0])
        return frozenset(found)

    def membership(self, node: Call) -> frozenset[_Outcome]:
        """``x in […]``, and whether a device has anything in a domain."""
        if node.id in self.domains:
            domain = self.accesses[self.domains[node.id]].domain
            # Several drivers have names in the standard domain; and a name may stand where a domain belongs.
            certain = domain != STANDARD and "." in domain
            return frozenset({_Known(domain == self.sort.driver)}) if certain else _ANYTHING
        key, container = node.args
        if isinstance(container, ListExpr):
            listed = [one.value for one in container.elements if isinstance(one, Const)]
            if len(listed) == len(container.elements):
                return frozenset(
                    _Known(o.value in listed) if isinstance(o, _Known) else _plain(o) for o in self.outcomes(key)
                )
        return self.strictly(node.args)

    def equality(self, node: Call, found: frozenset[_Outcome]) -> Iterator[_Outcome]:
        """``==`` and ``!=`` of what is known on both sides."""
        yield from (o for o in found if isinstance(o, _Missing))
        for left, right in product(*(self.outcomes(arg) for arg in node.args)):
            if isinstance(left, _Missing) or isinstance(right, _Missing):
                continue
            if isinstance(left, _Known) and isinstance(right, _Known):
                yield _Known((left == right) == (node.function == ast.EQUALS))
            else:
                yield UNKNOWN

    def strictly(self, nodes: Iterable[Node]) -> frozenset[_Outcome]:
        """A function of arguments: an error where one of them is, else anything."""
        operands = [self.outcomes(node) for node in nodes]
        missing = {o for some in operands for o in some if isinstance(o, _Missing)}
        certain = any(all(isinstance(o, _Missing) for o in some) for some in operands)
        return frozenset(missing if certain else {*missing, UNKNOWN})


def _bools(outcomes: frozenset[_Outcome]) -> Iterator[_Outcome]:
    """Outcomes as operands of logic; what is not certain may be either."""
    found: set[_Outcome] = set()
    for one in outcomes:
        if isinstance(one, _Missing) or one in (_TRUE, _FALSE):
            found.add(one)
        else:
            found |= {_TRUE, _FALSE}
    return iter(found)


def _negated(outcome: _Outcome) -> _Outcome:
    if isinstance(outcome, _Known) and isinstance(outcome.value, bool):
        return _Known(not outcome.value)
    return _plain(outcome)


def _plain(outcome: _Outcome) -> _Outcome:
    return outcome if isinstance(outcome, _Missing) else UNKNOWN
