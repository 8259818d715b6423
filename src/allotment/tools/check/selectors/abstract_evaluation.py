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
from allotment.tools.check.selectors.device_types import AccessKey, DeviceCategory, presence
from allotment.tools.check.selectors.expressions import Expression

#: The maximum number of optional names for which all combinations are tried; more are removed one at a time.
_MAX_COMBINED: Final = 4


def may_hold(expr: Expression, node: Node, category: DeviceCategory) -> bool:
    """Whether a part of an expression can be true for some device of a category."""
    return any(
        outcome is UNKNOWN or outcome == _KnownValue(True)
        for absent in _absent_name_sets(expr, category)
        for outcome in _Evaluation(expr, category, absent).outcomes(node)
    )


def _absent_name_sets(expr: Expression, category: DeviceCategory) -> Iterator[frozenset[AccessKey]]:
    """The sets of names that a device of a category may lack together."""
    always: set[AccessKey] = set()
    sometimes: set[AccessKey] = set()
    for access in expr.accesses:
        if len(access.steps) > 1:
            name = AccessKey(access.kind, access.domain, access.name)
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


class _KnownValue(NamedTuple):
    value: Value


class _MissingKey(NamedTuple):
    """An error: the accesses with these numbers found no value."""

    accesses: frozenset[int]


class _Optional(NamedTuple):
    """The result of ``.?``: a value, or none."""

    present: bool


class _Unknown:
    """The result of an expression whose value cannot be determined."""


UNKNOWN: Final = _Unknown()
_Outcome: TypeAlias = _KnownValue | _MissingKey | _Optional | _Unknown
_TRUE: Final = _KnownValue(True)
_FALSE: Final = _KnownValue(False)
_ANYTHING: Final[frozenset[_Outcome]] = frozenset({UNKNOWN})


class _Evaluation:
    """The evaluation of an expression for devices of one category that lack certain names."""

    def __init__(self, expr: Expression, category: DeviceCategory, absent: frozenset[AccessKey]) -> None:
        self.category = category
        self.absent = absent
        self.accesses = expr.accesses
        self.names = {a.steps[1].node.id: n for n, a in enumerate(expr.accesses) if len(a.steps) > 1}
        self.domains = {a.steps[0].node.id: n for n, a in enumerate(expr.accesses) if a.steps}

    def outcomes(self, node: Node) -> frozenset[_Outcome]:
        """The possible outcomes of a node."""
        if node.id in self.names:
            return self.named_access(self.names[node.id], node)
        if isinstance(node, Const):
            return frozenset({_KnownValue(node.value)})
        if isinstance(node, Select):
            return self.selection(node, node.operand)
        if isinstance(node, ListExpr):
            return self.strict_call(node.elements)
        if isinstance(node, Call):
            return self.call(node)
        if isinstance(node, ast.Comprehension) and node.macro not in ("cel.bind", "sortBy"):
            return self.strict_call([node.iter_range])
        return _ANYTHING

    def named_access(self, number: int, node: Node) -> frozenset[_Outcome]:
        """The outcomes of reading an attribute or capacity."""
        access, category = self.accesses[number], self.category
        is_absent = AccessKey(access.kind, access.domain, access.name) in self.absent
        is_known = presence(access, category) != "unknown"
        if (isinstance(node, Select) and node.test_only) or (isinstance(node, Call) and node.function == ast.IN):
            return frozenset({_KnownValue(not is_absent) if is_known else UNKNOWN})
        if access.is_optional:
            return frozenset({_Optional(not is_absent)} if is_known else {_Optional(True), _Optional(False)})
        if is_absent:
            return frozenset({_MissingKey(frozenset({number}))})
        if (access.kind, access.domain, access.name) == ("attributes", category.driver, "type") and category.type:
            return frozenset({_KnownValue(category.type)})
        return _ANYTHING

    def selection(self, node: Node, operand: Node) -> frozenset[_Outcome]:
        """The outcomes of any other selection: from the device itself, or from a value."""
        if isinstance(node, Select) and node.field == "driver" and isinstance(operand, ast.Ident):
            # Another driver equals none of the names in the expression.
            return frozenset({_KnownValue(self.category.driver or "\0another driver")})
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
                return self.selection(node, node.args[0])
            case ast.IN:
                return self.membership(node)
            case "orValue" | "hasValue" if node.target is not None:
                return self.optional_method(node, self.outcomes(node.target))
        operands = [*([node.target] if node.target is not None else []), *node.args]
        outcomes = self.strict_call(operands)
        if node.function in (ast.EQUALS, ast.NOT_EQUALS):
            return frozenset(self.equality(node, outcomes))
        return outcomes

    def logic(self, node: Call) -> frozenset[_Outcome]:
        """The outcomes of ``&&`` and ``||``: an operand that decides the result takes precedence over errors, on either
        side.
        """
        decides, neither = (_FALSE, _TRUE) if node.function == ast.AND else (_TRUE, _FALSE)
        results: set[_Outcome] = set()
        for left, right in product(*(_bools(self.outcomes(arg)) for arg in node.args)):
            if decides in (left, right):
                results.add(decides)
            elif isinstance(left, _MissingKey) or isinstance(right, _MissingKey):
                missing = [side.accesses for side in (left, right) if isinstance(side, _MissingKey)]
                results.add(_MissingKey(frozenset().union(*missing)))
            else:
                results.add(neither)
        return frozenset(results)

    def conditional(self, node: Call) -> frozenset[_Outcome]:
        """The outcomes of ``c ? a : b``."""
        results: set[_Outcome] = set()
        for condition in _bools(self.outcomes(node.args[0])):
            if isinstance(condition, _MissingKey):
                results.add(condition)
            else:
                results |= self.outcomes(node.args[1 if condition == _TRUE else 2])
        return frozenset(results)

    def optional_method(self, node: Call, targets: frozenset[_Outcome]) -> frozenset[_Outcome]:
        """The outcomes of ``.?name.orValue(x)`` and ``.hasValue()``."""
        results: set[_Outcome] = set()
        for target in targets:
            if not isinstance(target, _Optional):
                results.add(target if isinstance(target, _MissingKey) else UNKNOWN)
            elif node.function == "hasValue":
                results.add(_KnownValue(target.present))
            elif target.present or not node.args:
                results.add(UNKNOWN)
            else:
                results |= self.outcomes(node.args[0])
        return frozenset(results)

    def membership(self, node: Call) -> frozenset[_Outcome]:
        """The outcomes of ``x in […]``, and of tests whether a device has any name in a domain."""
        if node.id in self.domains:
            domain = self.accesses[self.domains[node.id]].domain
            # Several drivers publish names in the standard domain, and a key without a dot may not be a domain.
            certain = domain != STANDARD_DOMAIN and "." in domain
            return frozenset({_KnownValue(domain == self.category.driver)}) if certain else _ANYTHING
        key, container = node.args
        if isinstance(container, ListExpr):
            listed = [element.value for element in container.elements if isinstance(element, Const)]
            if len(listed) == len(container.elements):
                return frozenset(
                    _KnownValue(o.value in listed) if isinstance(o, _KnownValue) else _error_or_unknown(o)
                    for o in self.outcomes(key)
                )
        return self.strict_call(node.args)

    def equality(self, node: Call, operand_outcomes: frozenset[_Outcome]) -> Iterator[_Outcome]:
        """The outcomes of ``==`` and ``!=``, decided if both sides are known."""
        yield from (o for o in operand_outcomes if isinstance(o, _MissingKey))
        for left, right in product(*(self.outcomes(arg) for arg in node.args)):
            if isinstance(left, _MissingKey) or isinstance(right, _MissingKey):
                continue
            if isinstance(left, _KnownValue) and isinstance(right, _KnownValue):
                yield _KnownValue((left == right) == (node.function == ast.EQUALS))
            else:
                yield UNKNOWN

    def strict_call(self, nodes: Iterable[Node]) -> frozenset[_Outcome]:
        """The outcomes of a function of these arguments: an error if an argument is one, otherwise unknown."""
        operands = [self.outcomes(node) for node in nodes]
        missing = {o for outcomes in operands for o in outcomes if isinstance(o, _MissingKey)}
        certain = any(all(isinstance(o, _MissingKey) for o in outcomes) for outcomes in operands)
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
    if isinstance(outcome, _KnownValue) and isinstance(outcome.value, bool):
        return _KnownValue(not outcome.value)
    return _error_or_unknown(outcome)


def _error_or_unknown(outcome: _Outcome) -> _Outcome:
    return outcome if isinstance(outcome, _MissingKey) else UNKNOWN
