"""Checks the rules of a schema (``x-kubernetes-validations``) when a definition is written.

A rule must compile, and the estimated cost of evaluating it on the largest possible object must be low enough: one rule
by itself, and all rules of a schema together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from allotment.apiserver.custom_resources import cel_types
from allotment.apiserver.custom_resources.schema_sizes import SchemaSize, max_elements, schema_size
from allotment.apiserver.custom_resources.validation_rules import RULES, Program, Rule, compile_rules
from allotment.apiserver.kinds.schema_extensions import EMBEDDED_RESOURCE, LIST_TYPE
from allotment.cel.checking.estimate import estimate
from allotment.cel.checking.ranges import MAX
from allotment.cel.errors import CompileError
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, FieldError, forbidden, invalid, not_supported, required

#: Estimated costs of one rule, and of all rules of a schema.
_RULE_LIMIT: Final = 10_000_000
_SCHEMA_LIMIT: Final = 100_000_000
#: The number of rules that a message about the total cost names, and the least cost of each.
_NAMED_RULES: Final = 4
_NAMED_COST: Final = _SCHEMA_LIMIT // 100
_REASONS: Final = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_LINE_BREAK: Final = re.compile(r"[\n\r]")
_PATH_TOKEN: Final = re.compile(r"'(?:.*?[^\\])?'|[.\[\]]|[^.\[\]]+", re.DOTALL)
_HINT: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
    "declared)"
)


def rule_problems(schema: Tree, path: str, kube: str) -> Errors:
    """Yield an error for each rule of a schema that is incomplete, does not compile or is too expensive."""
    checks = _Checks(kube)
    fields, rules = checks.problems(schema, _SchemaContext(path, cardinality=1, is_resource=True))
    yield from fields
    yield from rules
    yield from checks.total_problems(path)


class _SchemaContext(NamedTuple):
    """The context of a schema in its definition.

    ``cardinality``: the number of its values in an object at most, None if it is not limited. ``uncorrelatable``: the
    path of the outermost schema around it whose old and new parts cannot be matched, or empty.
    """

    path: str
    cardinality: int | None
    is_resource: bool = False
    uncorrelatable: str = ""

    def part(self, schema: Tree, inner: Tree, name: str) -> _SchemaContext:
        """The context of a part of this schema."""
        count = max_elements(schema)
        cardinality = None if self.cardinality is None or count is None else min(self.cardinality * count, MAX)
        is_correlatable = name != "items" or schema.get(LIST_TYPE) == "map"
        uncorrelatable = self.uncorrelatable or ("" if is_correlatable else self.path)
        return _SchemaContext(f"{self.path}.{name}", cardinality, bool(inner.get(EMBEDDED_RESOURCE)), uncorrelatable)


class _PrintedRule(msgspec.Struct, rename="camel"):
    """A rule as printed in messages."""

    rule: str
    message: str
    message_expression: str
    reason: str | None
    field_path: str
    optional_old_self: bool | None


def _printed_rule(rule: Tree) -> _PrintedRule:
    return _PrintedRule(
        rule.get("rule") or "", rule.get("message") or "", rule.get("messageExpression") or "", rule.get("reason"),
        rule.get("fieldPath") or "", rule.get("optionalOldSelf"),
    )  # fmt: skip


class _Checks:
    """The checks of one schema, and the costs of its rules."""

    def __init__(self, kube: str) -> None:
        self._kube = kube
        self._costs: list[tuple[int, str]] = []

    def problems(self, schema: Tree, context: _SchemaContext) -> tuple[list[FieldError], list[FieldError]]:
        """The errors in the fields of rules, and if there are none, those in their expressions; inner ones first."""
        fields: list[FieldError] = []
        expressions: list[FieldError] = []
        for inner, inner_context in _parts(schema, context):
            inner_fields, inner_expressions = self.problems(inner, inner_context)
            fields += inner_fields
            expressions += inner_expressions
        rules = schema.get(RULES) or ()
        for index, rule in enumerate(rules):
            fields += _field_problems(rule, schema, f"{context.path}.{RULES}[{index}]")
        if rules and not fields:
            expressions += self._expression_problems(schema, context)
        return fields, expressions

    def _expression_problems(self, schema: Tree, context: _SchemaContext) -> Errors:
        size = schema_size(schema, self._kube, is_resource=context.is_resource)
        self_schema = cel_types.with_identity(schema) if context.is_resource else schema
        for index, compiled in enumerate(compile_rules(schema, self_schema, self._kube)):
            yield from self._compiled_problems(compiled, f"{context.path}.{RULES}[{index}]", size, context)

    def _compiled_problems(self, compiled: Rule, path: str, size: SchemaSize | None, context: _SchemaContext) -> Errors:
        program, message = compiled.program, compiled.message
        if isinstance(program, CompileError):
            yield invalid(f"{path}.rule", _printed_rule(compiled.tree), str(program))
        else:
            count = context.cardinality
            if count is None:
                count = 1 if size is None else size.max_count
            yield from self._cost_problem(program, size, count, f"{path}.rule", "estimated rule cost")
            if isinstance(message, CompileError):
                yield invalid(f"{path}.messageExpression", _printed_rule(compiled.tree), str(message))
            elif message is not None:
                name = "estimated messageExpression cost"
                yield from self._cost_problem(message, size, 1, f"{path}.messageExpression", name)
        if compiled.uses_old and not isinstance(program, CompileError):
            if context.uncorrelatable:
                within = f"within {context.uncorrelatable}"
                detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema {within}"
                yield invalid(f"{path}.rule", compiled.tree["rule"], detail)
        elif compiled.tree.get("optionalOldSelf") is not None:
            detail = "may not be set if oldSelf is not used in rule"
            yield invalid(f"{path}.optionalOldSelf", compiled.tree["optionalOldSelf"], detail)

    def _cost_problem(self, program: Program, size: SchemaSize | None, count: int, path: str, name: str) -> Errors:
        root = None if size is None else size.declared
        cost = min(estimate(program[0], root=root)[1] * count, MAX)
        if cost > _RULE_LIMIT:
            yield forbidden(path, _excess(name, cost, _RULE_LIMIT))
        self._costs.append((cost, path))

    def total_problems(self, path: str) -> Errors:
        """The errors if all rules together are too expensive; the most expensive rules are named."""
        total = min(sum(cost for cost, _ in self._costs), MAX)
        if total <= _SCHEMA_LIMIT:
            return
        named = sorted((item for item in self._costs if item[0] >= _NAMED_COST), key=lambda item: -item[0])
        for _, rule_path in named[:_NAMED_RULES]:
            detail = "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
            yield forbidden(rule_path, detail)
        name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield forbidden(path, _excess(name, total, _SCHEMA_LIMIT))


def _excess(name: str, cost: int, limit: int) -> str:
    """The message about a cost above its limit.

    >>> _excess("cost", 12, 10).partition(" (")[0], _excess("cost", 35, 10).partition(" (")[0]
    ('cost exceeds budget by factor of 1.200000x', 'cost exceeds budget by factor of 3.5x')
    """
    factor = cost / limit
    text = "more than 100x" if factor > 100 else f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {text} {_HINT}"


def _field_problems(rule: Tree, schema: Tree, path: str) -> Errors:
    """The errors in the fields of a rule other than the expressions."""
    written = str(rule.get("rule") or "").strip()
    message, message_expression = str(rule.get("message") or ""), str(rule.get("messageExpression") or "")
    if not written:
        yield required(f"{path}.rule", "rule is not specified")
    elif message and not message.strip():
        yield invalid(f"{path}.message", message, "must be non-empty if specified")
    elif _LINE_BREAK.search(message.strip()):
        yield invalid(f"{path}.message", message, "must not contain line breaks")
    elif _LINE_BREAK.search(written) and not message:
        yield required(f"{path}.message", "message must be specified if rule contains line breaks")
    if message_expression and not message_expression.strip():
        yield required(f"{path}.messageExpression", "messageExpression must be non-empty if specified")
    reason, field_path = rule.get("reason"), str(rule.get("fieldPath") or "")
    if reason is not None and reason not in _REASONS:
        yield not_supported(f"{path}.reason", reason, _REASONS)
    if field_path and not field_path.strip():
        yield invalid(f"{path}.fieldPath", field_path, "must be non-empty if specified")
    if _LINE_BREAK.search(field_path):
        yield invalid(f"{path}.fieldPath", field_path, "must not contain line breaks")
    if field_path and not _is_field_path(field_path, schema):
        yield invalid(f"{path}.fieldPath", field_path, "must be a valid path")


def _is_field_path(path: str, schema: Tree) -> bool:
    """Whether a path such as ``.a['b.c'].d`` leads to a field of a schema."""
    tokens = iter(_PATH_TOKEN.findall(path))
    for token in tokens:
        name = next(tokens, "")
        if token == "[":
            if len(name) < 2 or name[0] != "'" or name[-1] != "'" or next(tokens, "") != "]":
                return False
            name = name[1:-1].replace("\\'", "'")
        elif token != ".":
            return False
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        inner = (properties or {}).get(name) if properties or not isinstance(additional, dict) else additional
        if inner is None:
            return False
        schema = inner
    return True


def _parts(schema: Tree, context: _SchemaContext) -> Iterator[tuple[Tree, _SchemaContext]]:
    """The schemas within a schema that have values of their own."""
    additional, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(additional, dict):
        yield additional, context.part(schema, additional, "additionalProperties")
    for name, inner in (schema.get("properties") or {}).items():
        yield inner, context.part(schema, inner, f"properties[{name}]")
    if isinstance(items, dict):
        yield items, context.part(schema, items, "items")
