"""Validation of what the kinds of admissionregistration.k8s.io share: resource rules, selectors, match conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from allotment.apiserver.admission.expressions import Expression
from allotment.apiserver.kinds.field_validation import label_selector
from allotment.apiserver.kinds.kind import Errors
from allotment.cel.errors import CompileError
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import (
    FieldError,
    duplicate,
    internal,
    invalid,
    not_supported,
    required,
    too_many,
)
from allotment.model.validation.gotext import GoNamedString

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
MATCH_POLICIES: Final = ("Equivalent", "Exact")
_MAX_CONDITIONS: Final = 64


def match_resources(resources: Tree | None, path: str) -> Errors:
    """MatchResources of a policy or a binding."""
    if resources is None:
        return
    yield from supported(resources.get("matchPolicy"), f"{path}.matchPolicy", MATCH_POLICIES)
    for name in ("namespaceSelector", "objectSelector"):
        yield from label_selector(resources.get(name), f"{path}.{name}")
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(resources.get(name) or ()):
            yield from _named_rule(rule, f"{path}.{name}[{index}]")


def supported(value: str | None, path: str, choices: Sequence[str]) -> Errors:
    """A required value of a named string type."""
    if value is None:
        yield required(path)
    elif value not in choices:
        yield not_supported(path, GoNamedString(value), choices)


def _named_rule(rule: Tree, path: str) -> Errors:
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames") or ()):
        item_path = f"{path}.resourceNames[{index}]"
        yield from (invalid(item_path, name, problem) for problem in names.path_segment_problems(name))
        if name in seen:
            yield duplicate(item_path, name)
        seen.add(name)
    yield from rule_with_operations(rule, path)


def rule_with_operations(rule: Tree, path: str) -> Errors:
    """RuleWithOperations of policies and webhooks."""
    operations = rule.get("operations") or ()
    if not operations:
        yield required(f"{path}.operations")
    yield from _lone_wildcard(operations, f"{path}.operations", "operations")
    for index, operation in enumerate(operations):
        yield from supported(operation, f"{path}.operations[{index}]", _OPERATIONS)
    groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
    if not groups:
        yield required(f"{path}.apiGroups")
    yield from _lone_wildcard(groups, f"{path}.apiGroups", "API groups")
    if not versions:
        yield required(f"{path}.apiVersions")
    yield from _lone_wildcard(versions, f"{path}.apiVersions", "API versions")
    yield from (required(f"{path}.apiVersions[{index}]") for index, version in enumerate(versions) if not version)
    yield from _resources(rule.get("resources") or (), f"{path}.resources")
    if rule.get("scope") is not None:
        yield from supported(rule["scope"], f"{path}.scope", _SCOPES)


def _lone_wildcard(values: Sequence[str], path: str, subject: str) -> Errors:
    if len(values) > 1 and "*" in values:
        yield invalid(path, values, f"if '*' is present, must not specify other {subject}")


def _resources(resources: Sequence[str], path: str) -> Errors:
    if not resources:
        yield required(path)
    all_subresources: set[str] = set()
    all_resources: set[str] = set()
    for index, written in enumerate(resources):
        item_path = f"{path}[{index}]"
        if not written:
            yield required(item_path)
            continue
        resource, slash, subresource = written.partition("/")
        if not slash:
            continue
        if resource in all_subresources:
            yield invalid(item_path, written, f"if '{resource}/*' is present, must not specify {written}")
        if subresource in all_resources:
            yield invalid(item_path, written, f"if '*/{subresource}' is present, must not specify {written}")
        if subresource == "*":
            all_subresources.add(resource)
        if resource == "*":
            all_resources.add(subresource)
    if len(resources) > 1 and "*/*" in resources:
        yield invalid(path, resources, "if '*/*' is present, must not specify other resources")
    # As upstream, only the last resource without a subresource counts.
    plain = [written for written in resources if written and "/" not in written]
    if "*" in plain and plain[-1] != "*":
        detail = "if '*' is present, must not specify other resources without subresources"
        yield invalid(path, resources, detail)


def match_conditions(conditions: Sequence[Tree], path: str, compile_condition: Callable[[str], Expression]) -> Errors:
    """matchConditions of policies and webhooks."""
    if len(conditions) > _MAX_CONDITIONS:
        yield too_many(path, len(conditions), _MAX_CONDITIONS)
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        item_path = f"{path}[{index}]"
        source = str(condition.get("expression") or "").strip()
        if source:
            yield from expression_errors(compile_condition(source), f"{item_path}.expression")
        else:
            yield required(f"{item_path}.expression")
        name = condition.get("name") or ""
        if not name:
            yield required(f"{item_path}.name")
            continue
        yield from qualified_name(name, f"{item_path}.name")
        if name in seen:
            yield duplicate(f"{item_path}.name", name)
        seen.add(name)


def qualified_name(name: str, path: str) -> Errors:
    """A name with an optional prefix, as keys of annotations have."""
    yield from (invalid(path, name, problem) for problem in names.label_key_problems(name))


def expression_errors(expression: Expression, path: str, written: str | None = None) -> Errors:
    """The error of an expression that does not compile; ``written``: the text to show."""
    error = expression.compiled
    if isinstance(error, CompileError):
        yield compile_error(error, expression.source if written is None else written, path)


def compile_error(error: CompileError, source: str, path: str) -> FieldError:
    """The error of a field whose expression does not compile."""
    return internal(path, str(error)) if error.kind == "internal" else invalid(path, source, str(error))
