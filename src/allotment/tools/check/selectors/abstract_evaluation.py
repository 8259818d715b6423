"""Evaluates an expression for a category of devices, with what is certain about them; everything else is unknown.

The result respects guards in any form, with CEL's semantics: a false operand of ``&&`` absorbs an error of the other
operand on either side, and so does a true operand of ``||``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations, product
from typing import Final, NamedTuple, TypeAlias

from allotment.cel.evaluation.values import Value
from allotment.cel.syntax import ast
from allotment.cel.syntax.ast import Call, Const, ListExpr, Node, Select
from allotment.tools.check.names.known_names import STANDARD_DOMAIN
from allotment.tools.check.selectors.device_types import AccessName, DeviceCategory, presence
from allotment.tools.check.selectors.expressions import Expression

#: The maximum number of optional names for which all combinations are tried; more are removed one at a time.
_MAX_COMBINED: Final = 4


def may_hold(expr: Expression, node: Node, category: DeviceCategory) -> bool:
    """Whether a part of an expression can be true for some device of a category."""
    return any(
        outcome is UNKNOWN or outcome == _Known(True)
        for absent in _absent_name_sets(expr, category)
        for outcome in _Evaluation(expr, category, absent).outcomes(node)
    )


def _absent_name_sets(expr: Expression, category: DeviceCategory) -> Iterator[frozenset[AccessName]]:
    """The sets of names that a device of a category may lack together."""
    always: set[AccessName] = set()
    sometimes: set[AccessName] = set()
    for access in expr.accesses:
        if len(access.steps) > 1:
            name = AccessName(access.kind, access.domain, access.name)
            found_on = presence(access, category)
            if found_on == "never":
                always.add(name)
            elif found_on == "sometimes":
                sometimes.add(name)
    ordered = sorted(sometimes)
    max_size = len(ordered) if len(ordered) <= _MAX_COMBINED else 1
    for size in range(max_size + 1):
        for subset in combinations(ordered, size):
            yield frozenset({*always, *subset})


def missing_accesses(expr: Expression, category: DeviceCategory) -> frozenset[int]:
    """The numbers of the accesses whose missing name can make the expression fail for a device of a category."""
    if expr.located is None:
        return frozenset()
    return frozenset(
        number
        for absent in _absent_name_sets(expr, category)
        for outcome in _Evaluation(expr, category, absent).outcomes(expr.located.parsed.expr)
        if isinstance(outcome, _MissingKey)
        for number in outcome.accesses
    )


class _Known(NamedTuple):
    value: Value


class _MissingKey(NamedTuple):
    """An error: the accesses with these numbers found no value."""

    accesses: frozenset[int]


class _Optional(NamedTuple):
    """The result of ``.?``: a value, or none."""

    present: bool


class _Unknown:
    """Any value."""


UNKNOWN: Final = _Unknown()
_Outcome: TypeAlias = _Known | _MissingKey | _Optional | _Unknown
_TRUE: Final = _Known(True)
_FALSE: Final = _Known(False)
_ANYTHING: Final[frozenset[_Outcome]] = frozenset({UNKNOWN})


class _Evaluation:
    """The evaluation of an expression for devices of one category that lack certain names."""

    def __init__(self, read: Expression, sort: DeviceCategory, lacks: frozenset[AccessName]) -> None:
        self.sort = sort
        self.lacks = lacks
        self.accesses = read.accesses
        self.names = {a.steps[1].node.id: n for n, a in enumerate(read.accesses) if len(a.steps) > 1}
        self.domains = {a.steps[0].node.id: n for n, a in enumerate(read.accesses) if a.steps}

    def outcomes(self, node: Node) -> frozenset[_Outcome]:
        """The possible outcomes of a node."""
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
        """The outcomes of reading an attribute or capacity."""
        access, sort = self.accesses[number], self.sort
        lacks = AccessName(access.kind, access.domain, access.name) in self.lacks
        certain = presence(access, sort) != "unknown"
        if (isinstance(node, Select) and node.test_only) or (isinstance(node, Call) and node.function == ast.IN):
            return frozenset({_Known(not lacks) if certain else UNKNOWN})
        if access.is_optional:
            return frozenset({_Optional(not lacks)} if certain else {_Optional(True), _Optional(False)})
        if lacks:
            return frozenset({_MissingKey(frozenset({number}))})
        if (access.kind, access.domain, access.name) == ("attributes", sort.driver, "type") and sort.type:
            return frozenset({_Known(sort.type)})
        return _ANYTHING

    def selected(self, node: Node, operand: Node) -> frozenset[_Outcome]:
        """The outcomes of any other selection: from the device itself, or from a value."""
        if isinstance(node, Select) and node.field == "driver" and isinstance(operand, ast.Ident):
            # Another driver equals none of the names in the expression.
            return frozenset({_Known(self.sort.driver or "\0another driver")})
        return frozenset({o if isinstance(o, _MissingKey | _Optional) else UNKNOWN for o in self.outcomes(operand)})

    def call(self, node: Call) -> frozenset[_Outcome]:
        """The outcomes of an operator or function."""
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
        """The outcomes of ``&&`` and ``||``: an operand that decides the result takes precedence over errors, on either
        side.
        """
        decides, neither = (_FALSE, _TRUE) if node.function == ast.AND else (_TRUE, _FALSE)
        found: set[_Outcome] = set()
        for left, right in product(*(_bools(self.outcomes(arg)) for arg in node.args)):
            if decides in (left, right):
                found.add(decides)
            elif isinstance(left, _MissingKey) or isinstance(right, _MissingKey):
                missing = [one.accesses for one in (left, right) if isinstance(one, _MissingKey)]
                found.add(_MissingKey(frozenset().union(*missing)))
            else:
                found.add(neither)
        return frozenset(found)

    def conditional(self, node: Call) -> frozenset[_Outcome]:
        """The outcomes of ``c ? a : b``."""
        found: set[_Outcome] = set()
        for condition in _bools(self.outcomes(node.args[0])):
            if isinstance(condition, _MissingKey):
                found.add(condition)
            else:
                found |= self.outcomes(node.args[1 if condition == _TRUE else 2])
        return frozenset(found)

    def provided(self, node: Call, targets: frozenset[_Outcome]) -> frozenset[_Outcome]:
        """The outcomes of ``.?name.orValue(x)`` and ``.hasValue()``."""
        found: set[_Outcome] = set()
        for target in targets:
            if not isinstance(target, _Optional):
                found.add(target if isinstance(target, _MissingKey) else UNKNOWN)
            elif node.function == "hasValue":
                found.add(_Known(target.present))
            elif target.present or not node.args:
                found.add(UNKNOWN)
            else:
                found |= self.outcomes(node.args[0])
        return frozenset(found)

    def membership(self, node: Call) -> frozenset[_Outcome]:
        """The outcomes of ``x in […]``, and of tests whether a device has any name in a domain."""
        if node.id in self.domains:
            domain = self.accesses[self.domains[node.id]].domain
            # Several drivers publish names in the standard domain, and a key without a dot may not be a domain.
            certain = domain != STANDARD_DOMAIN and "." in domain
            return frozenset({_Known(domain == self.sort.driver)}) if certain else _ANYTHING
        key, container = node.args
        if isinstance(container, ListExpr):
            listed = [one.value for one in container.elements if isinstance(one, Const)]
            if len(listed) == len(container.elements):
                return frozenset(
                    _Known(o.value in listed) if isinstance(o, _Known) else _error_or_unknown(o) for o in self.outcomes(key)
                )
        return self.strictly(node.args)

    def equality(self, node: Call, found: frozenset[_Outcome]) -> Iterator[_Outcome]:
        """The outcomes of ``==`` and ``!=``, decided if both sides are known."""
        yield from (o for o in found if isinstance(o, _MissingKey))
        for left, right in product(*(self.outcomes(arg) for arg in node.args)):
            if isinstance(left, _MissingKey) or isinstance(right, _MissingKey):
                continue
            if isinstance(left, _Known) and isinstance(right, _Known):
                yield _Known((left == right) == (node.function == ast.EQUALS))
            else:
                yield UNKNOWN

    def strictly(self, nodes: Iterable[Node]) -> frozenset[_Outcome]:
        """The outcomes of a function of these arguments: an error if an argument is one, otherwise unknown."""
        operands = [self.outcomes(node) for node in nodes]
        missing = {o for some in operands for o in some if isinstance(o, _MissingKey)}
        certain = any(all(isinstance(o, _MissingKey) for o in some) for some in operands)
        return frozenset(missing if certain else {*missing, UNKNOWN})


def _bools(outcomes: frozenset[_Outcome]) -> Iterator[_Outcome]:
    """Outcomes as operands of logic; unknown ones may be true or false."""
    values: set[_Outcome] = set()
    for outcome in outcomes:
        if isinstance(outcome, _MissingKey) or outcome in (_TRUE, _FALSE):
            values.add(outcome)
        else:
            values |= {_TRUE, _FALSE}
    return iter(values)


def _negated(outcome: _Outcome) -> _Outcome:
    if isinstance(outcome, _Known) and isinstance(outcome.value, bool):
        return _Known(not outcome.value)
    return _error_or_unknown(outcome)


def _error_or_unknown(outcome: _Outcome) -> _Outcome:
    return outcome if isinstance(outcome, _MissingKey) else UNKNOWN
