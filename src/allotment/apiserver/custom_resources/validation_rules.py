"""Evaluates ``x-kubernetes-validations``, the CEL rules on values and on their changes (KEP-2876).

Rules are compiled with their schema when the definition is written, and again when its kind is first used. They run
only on objects that the schema accepts, within a shared cost budget.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from allotment.apiserver.custom_resources import cel_types
from allotment.apiserver.custom_resources.list_types import ABSENT, previous_items
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
#: Cost limits of one rule, and of all rules of one write together.
_RULE_COST_LIMIT: Final = 1_000_000
_WRITE_COST_LIMIT: Final = 10_000_000
_OLD_SELF: Final = re.compile(r"\boldSelf\b")
_VARIABLES: Final = ("self", "oldSelf")


#: An expression as checked and as evaluated.
Program = tuple[CheckedExpression, ExpressionPlan]


class Rule(NamedTuple):
    """A rule as written and compiled. ``message`` is the compiled messageExpression."""

    tree: Tree
    program: Program | CompileError
    message: Program | CompileError | None
    uses_old: bool


class RuleValidator:
    """The compiled rules of a schema and of its subschemas."""

    def __init__(self, schema: Tree, kube: str, *, root: bool = False) -> None:
        self._schema = cel_types.with_identity(schema) if root else schema
        self._rules = compile_rules(schema, self._schema, kube)
        self._fields = {
            name: validator
            for name, inner in (schema.get("properties") or {}).items()
            if (validator := RuleValidator(inner, kube)).has_rules
        }
        items, additional = schema.get("items"), schema.get("additionalProperties")
        self._items = _validator_or_none(items, kube)
        self._additional = _validator_or_none(additional, kube)

    @property
    def has_rules(self) -> bool:
        """Whether the schema or a subschema has rules."""
        return bool(self._rules or self._fields or self._items or self._additional)

    def problems(self, value: Any, old: Any = ABSENT) -> list[FieldError]:
        """An error for each failed rule; ``old`` is the value before the update."""
        try:
            return list(self._validate(value, old, "", _Budget()))
        except _BudgetExceeded as exceeded:
            return exceeded.problems

    def _validate(self, value: Any, old: Any, path: str, budget: _Budget) -> Errors:
        if value is None:
            return
        for rule in self._rules:
            for problem in self._evaluate(rule, value, old, path, budget):
                budget.problems.append(problem)
                yield problem
        if type(value) is dict:
            old_fields = old if type(old) is dict else {}
            for name, item in value.items():
                validator = self._fields.get(name)
                item_path = f"{path}.{name}" if path else name
                if validator is None and self._additional is not None:
                    validator, item_path = self._additional, f"{path}[{name}]"
                if validator is not None:
                    yield from validator._validate(item, old_fields.get(name, ABSENT), item_path, budget)
        elif type(value) is list and self._items is not None:
            old_items = previous_items(value, self._schema, old)
            for index, item in enumerate(value):
                old_item = old_items[index] if old_items else ABSENT
                yield from self._items._validate(item, old_item, f"{path}[{index}]", budget)

    def _evaluate(self, rule: Rule, value: Any, old: Any, path: str, budget: _Budget) -> Errors:
        schema_type = self._schema.get("type") or ""
        optional = bool(rule.tree.get("optionalOldSelf"))
        if isinstance(rule.program, CompileError):
            yield invalid(path, schema_type, f"rule compile error: {rule.program}")
            return
        if rule.uses_old and old is ABSENT and not optional:
            return
        if not rule.uses_old and old is not ABSENT and old == value:
            return
        values = self._values(value, old, optional)
        outcome = run_plan(*rule.program, None, values, _RULE_COST_LIMIT)
        budget.charge(outcome.cost, path, schema_type)
        rule_text = (rule.tree.get("message") or rule.tree["rule"]).strip()
        if outcome.error is not None:
            yield invalid(path, schema_type, _error_text(outcome.error, rule_text))
        elif outcome.value is not True:
            yield self._failure(rule, value, values, path, budget)

    def _values(self, value: Any, old: Any, optional: bool) -> list[Value]:
        old_value: Value = None if old is ABSENT else cel_types.to_cel_value(old, self._schema)
        if optional:
            old_value = Optional(NO_VALUE if old is ABSENT else old_value)
        return [cel_types.to_cel_value(value, self._schema), old_value]

    def _failure(self, rule: Rule, value: Any, values: list[Value], path: str, budget: _Budget) -> FieldError:
        message = (rule.tree.get("message") or "").strip()
        detail = message or f"failed rule: {rule.tree['rule'].strip()}"
        if isinstance(rule.message, tuple):
            outcome = run_plan(*rule.message, None, values, _RULE_COST_LIMIT)
            budget.charge(outcome.cost, path, self._schema.get("type") or "")
            text = outcome.value
            if outcome.error is None and type(text) is str and text.strip() and "\n" not in text:
                detail = text
        field_path = f"{path}{rule.tree.get('fieldPath') or ''}".removeprefix(".")
        printed = OMITTED if type(value) in (dict, list) else value
        match rule.tree.get("reason"):
            case "FieldValueForbidden":
                return forbidden(field_path or "<nil>", detail)
            case "FieldValueRequired":
                return required(field_path or "<nil>", detail)
            case "FieldValueDuplicate":
                return duplicate(field_path or "<nil>", printed)._replace(detail=detail)
        return FieldError(ErrorType.INVALID, field_path or "<nil>", printed, detail)


class _BudgetExceeded(Exception):
    """Raised when the rules of a write exceed the cost budget; contains the errors found before."""

    def __init__(self, problems: list[FieldError]) -> None:
        super().__init__()
        self.problems = problems


class _Budget:
    """The remaining cost budget, and the errors found so far."""

    def __init__(self) -> None:
        self.remaining = _WRITE_COST_LIMIT
        self.problems: list[FieldError] = []

    def charge(self, cost: int | None, path: str, schema_type: str) -> None:
        self.remaining -= cost if cost is not None else _RULE_COST_LIMIT
        if self.remaining < 0:
            detail = "validation failed due to running out of cost budget, no further validation rules will be run"
            raise _BudgetExceeded([*self.problems, invalid(path or "<nil>", schema_type, detail)])


def _validator_or_none(schema: Any, kube: str) -> RuleValidator | None:
    validator = RuleValidator(schema, kube) if isinstance(schema, dict) else None
    return validator if validator is not None and validator.has_rules else None


def _error_text(error: EvaluationError, rule_text: str) -> str:
    text = str(error)
    if text.startswith("no such overload"):
        reason = "call arguments did not match a supported operator, function or macro signature"
        return f"'{text}': {reason} for rule: {rule_text}"
    if text.startswith("operation cancelled: actual cost limit exceeded"):
        return f"'{text}': no further validation rules will be run due to call cost exceeds limit for rule: {rule_text}"
    return f"{text} evaluating rule: {rule_text}"


def compile_rules(schema: Tree, self_schema: Tree, kube: str) -> list[Rule]:
    """Compile the rules of a schema; ``self_schema`` declares ``self``. Environments are large, so they are reused."""
    environments = {
        optional: cel_types.environment(self_schema, kube, optional_old=optional)
        for optional in {bool(rule.get("optionalOldSelf")) for rule in schema.get(RULES) or ()}
    }
    return [_compile_rule(rule, environments[bool(rule.get("optionalOldSelf"))]) for rule in schema.get(RULES) or ()]


def _compile_rule(rule: Tree, env: Environment) -> Rule:
    uses_old = _OLD_SELF.search(rule["rule"]) is not None
    program: Program | CompileError
    try:
        program = _compile_expression(rule["rule"], env, types.BOOL, "cel expression must evaluate to a bool")
    except CompileError as error:
        program = error
    message: Program | CompileError | None = None
    if rule.get("messageExpression"):
        type_error = "messageExpression must evaluate to a string"
        try:
            message = _compile_expression(rule["messageExpression"], env, types.STRING, type_error)
        except CompileError as error:
            message = error
    return Rule(rule, program, message, uses_old)


def _compile_expression(expression: str, env: Environment, expected: Type, type_error: str) -> Program:
    checked = compile_checked(expression.strip(), env)
    if checked.output_type is not expected:
        raise CompileError(type_error)
    return checked, plan_checked(checked, _VARIABLES)
