"""``x-kubernetes-validations``: rules in CEL about values and about changes of them (KEP-2876).

Rules are compiled with their schema, when the definition is written and again when its kind is first used. They run
only on objects that the schema accepts, and share one budget for what they cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver.custom_resources import cel_types
from allotment.apiserver.custom_resources.list_types import ABSENT, matching
from allotment.apiserver.custom_resources.shapes import MAP_TYPE
from allotment.cel.checking import types
from allotment.cel.checking.checked_expression import CheckedExpression
from allotment.cel.checking.environment import Environment
from allotment.cel.checking.types import Type
from allotment.cel.errors import CompileError
from allotment.cel.evaluation.planner import ExpressionPlan
from allotment.cel.evaluation.values import ABSENT as NO_VALUE
from allotment.cel.evaluation.values import EvaluationError, Optional, Value
from allotment.cel.selector import compile_checked, plan_checked, run_plan
from allotment.model.trees import Tree
from allotment.model.validation.errors import (
    OMITTED,
    Errors,
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    required,
)

RULES: Final = "x-kubernetes-validations"
#: What one rule may cost, and all rules of one write together.
_COST_OF_RULE: Final = 1_000_000
_COST_OF_WRITE: Final = 10_000_000
_OLD: Final = re.compile(r"\boldSelf\b")
_VARIABLES: Final = ("self", "oldSelf")


class _Rule(NamedTuple):
    """A rule as written and compiled. ``message`` is the compiled messageExpression."""

    tree: Tree
    program: tuple[CheckedExpression, ExpressionPlan] | CompileError
    message: tuple[CheckedExpression, ExpressionPlan] | CompileError | None
    uses_old: bool


class Judge:
    """The rules of a schema, compiled, at the places they are about."""

    def __init__(self, schema: Tree, kube: str, *, root: bool = False) -> None:
        self._schema = cel_types.with_identity(schema) if root else schema
        self._rules = _all_compiled(schema, self._schema, kube)
        self._fields = {
            name: judge
            for name, inner in (schema.get("properties") or {}).items()
            if (judge := Judge(inner, kube)).asks
        }
        items, others = schema.get("items"), schema.get("additionalProperties")
        self._items = _asking(items, kube)
        self._others = _asking(others, kube)

    @property
    def asks(self) -> bool:
        """Whether there is any rule here or below."""
        return bool(self._rules or self._fields or self._items or self._others)

    def problems(self, value: Any, old: Any = ABSENT) -> list[FieldError]:
        """Every rule that a value breaks; ``old`` is what it was before."""
        try:
            return list(self._judge(value, old, "", _Budget()))
        except _Spent as spent:
            return spent.problems

    def _judge(self, value: Any, old: Any, path: str, budget: _Budget) -> Errors:
        if value is None:
            return
        for rule in self._rules:
            for problem in self._broken(rule, value, old, path, budget):
                budget.problems.append(problem)
                yield problem
        if type(value) is dict:
            before = old if type(old) is dict and self._schema.get(MAP_TYPE) != "atomic" else {}
            for name, each in value.items():
                judge = self._fields.get(name)
                where = f"{path}.{name}" if path else name
                if judge is None and self._others is not None:
                    judge, where = self._others, f"{path}[{name}]"
                if judge is not None:
                    yield from judge._judge(each, before.get(name, ABSENT), where, budget)
        elif type(value) is list and self._items is not None:
            before_items = matching(value, self._schema, old)
            for index, each in enumerate(value):
                was = before_items[index] if before_items else ABSENT
                yield from self._items._judge(each, was, f"{path}[{index}]", budget)

    def _broken(self, rule: _Rule, value: Any, old: Any, path: str, budget: _Budget) -> Errors:
        sort = self._schema.get("type") or ""
        optional = bool(rule.tree.get("optionalOldSelf"))
        if isinstance(rule.program, CompileError):
            yield invalid(path, sort, f"rule compile error: {rule.program}")
            return
        if rule.uses_old and old is ABSENT and not optional:
            return
        if not rule.uses_old and old is not ABSENT and old == value:
            return
        values = self._values(value, old, optional)
        outcome = run_plan(*rule.program, None, values, _COST_OF_RULE)
        budget.pay(outcome.cost, path, sort)
        told = (rule.tree.get("message") or rule.tree["rule"]).strip()
        if outcome.error is not None:
            yield invalid(path, sort, _failed(outcome.error, told))
        elif outcome.value is not True:
            yield self._refusal(rule, value, values, path, budget)

    def _values(self, value: Any, old: Any, optional: bool) -> list[Value]:
        before: Value = None if old is ABSENT else cel_types.value_of(old, self._schema)
        if optional:
            before = Optional(NO_VALUE if old is ABSENT else before)
        return [cel_types.value_of(value, self._schema), before]

    def _refusal(self, rule: _Rule, value: Any, values: list[Value], path: str, budget: _Budget) -> FieldError:
        message = (rule.tree.get("message") or "").strip()
        detail = message or f"failed rule: {rule.tree['rule'].strip()}"
        if isinstance(rule.message, tuple):
            outcome = run_plan(*rule.message, None, values, _COST_OF_RULE)
            budget.pay(outcome.cost, path, self._schema.get("type") or "")
            text = outcome.value
            if outcome.error is None and type(text) is str and text.strip() and "\n" not in text:
                detail = text
        where = f"{path}{rule.tree.get('fieldPath') or ''}".removeprefix(".")
        shown = OMITTED if type(value) in (dict, list) else value
        match rule.tree.get("reason"):
            case "FieldValueForbidden":
                return forbidden(where or "<nil>", detail)
            case "FieldValueRequired":
                return required(where or "<nil>", detail)
            case "FieldValueDuplicate":
                return duplicate(where or "<nil>", shown)._replace(detail=detail)
        return FieldError(ErrorType.INVALID, where or "<nil>", shown, detail)


class _Spent(Exception):
    """Raised when the rules of a write have cost all that they may."""

    def __init__(self, problems: list[FieldError]) -> None:
        super().__init__()
        self.problems = problems


class _Budget:
    """What may still be spent, and what was found until now."""

    def __init__(self) -> None:
        self.left = _COST_OF_WRITE
        self.problems: list[FieldError] = []

    def pay(self, cost: int | None, path: str, sort: str) -> None:
        self.left -= cost if cost is not None else _COST_OF_RULE
        if self.left < 0:
            why = "validation failed due to running out of cost budget, no further validation rules will be run"
            raise _Spent([*self.problems, invalid(path or "<nil>", sort, why)])


def _asking(schema: Any, kube: str) -> Judge | None:
    judge = Judge(schema, kube) if isinstance(schema, dict) else None
    return judge if judge is not None and judge.asks else None


def _failed(error: EvaluationError, told: str) -> str:
    text = str(error)
    if text.startswith("no such overload"):
        return (
            f"'{text}': call arguments did not match a supported operator, function or macro signature for rule: {told}"
        )
    if text.startswith("operation cancelled: actual cost limit exceeded"):
        return f"'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {told}"
    return f"{text} evaluating rule: {told}"


def _all_compiled(schema: Tree, known: Tree, kube: str) -> list[_Rule]:
    """The rules of a schema; ``known`` is what they can speak of. Environments are large and made once."""
    environments = {
        optional: cel_types.environment(known, kube, optional_old=optional)
        for optional in {bool(rule.get("optionalOldSelf")) for rule in schema.get(RULES) or ()}
    }
    return [_compiled(rule, environments[bool(rule.get("optionalOldSelf"))]) for rule in schema.get(RULES) or ()]


def _compiled(rule: Tree, env: Environment) -> _Rule:
    uses_old = _OLD.search(rule["rule"]) is not None
    program: tuple[CheckedExpression, ExpressionPlan] | CompileError
    try:
        program = _program(rule["rule"], env, types.BOOL, "cel expression must evaluate to a bool")
    except CompileError as error:
        program = error
    message: tuple[CheckedExpression, ExpressionPlan] | CompileError | None = None
    if rule.get("messageExpression"):
        wrong = "messageExpression must evaluate to a string"
        try:
            message = _program(rule["messageExpression"], env, types.STRING, wrong)
        except CompileError as error:
            message = error
    return _Rule(rule, program, message, uses_old)


def _program(expression: str, env: Environment, wanted: Type, otherwise: str) -> tuple[CheckedExpression, ExpressionPlan]:
    checked = compile_checked(expression.strip(), env)
    if checked.output_type is not wanted:
        raise CompileError(otherwise)
    return checked, plan_checked(checked, _VARIABLES)


class _ShownRule(msgspec.Struct, rename="camel"):
    """A rule as messages show it."""

    rule: str
    message: str
    message_expression: str
    reason: str | None
    field_path: str
    optional_old_self: bool | None


def _shown(rule: Tree) -> _ShownRule:
    return _ShownRule(
        rule.get("rule") or "",
        rule.get("message") or "",
        rule.get("messageExpression") or "",
        rule.get("reason"),
        rule.get("fieldPath") or "",
        rule.get("optionalOldSelf"),
    )


def rule_problems(schema: Tree, path: str, kube: str, *, root: bool = True) -> Errors:
    """Every rule of a schema that cannot be compiled."""
    known = cel_types.with_identity(schema) if root else schema
    written = [rule for rule in schema.get(RULES) or () if str(rule.get("rule") or "").strip()]
    compiled = iter(_all_compiled({RULES: written}, known, kube))
    for index, rule in enumerate(schema.get(RULES) or ()):
        where = f"{path}.{RULES}[{index}]"
        if rule not in written:
            yield required(f"{where}.rule", "rule is not specified")
            continue
        found = next(compiled)
        if isinstance(found.program, CompileError):
            yield invalid(f"{where}.rule", _shown(rule), str(found.program))
        if isinstance(found.message, CompileError):
            yield invalid(f"{where}.messageExpression", _shown(rule), str(found.message))
    for where, inner in _inner(schema, path):
        yield from rule_problems(inner, where, kube, root=False)


def _inner(schema: Tree, path: str) -> Iterator[tuple[str, Tree]]:
    for name, each in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", each
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{path}.{name}", schema[name]
