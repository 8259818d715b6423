"""Validation of pod failure policies and success policies of jobs (KEP-3329, KEP-3998)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import (
    OMITTED,
    Errors,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from allotment.model.validation.gotext import GoNamedString, GoStruct

_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS: Final = ("In", "NotIn")
_STATUSES: Final = ("False", "True", "Unknown")
_MAX_RULES: Final = 20
_MAX_PATTERNS: Final = 20
_MAX_VALUES: Final = 255
_MAX_INDEXES_LENGTH: Final = 64 * 1024


def pod_failure_policy(spec: Tree, path: str) -> Errors:
    """Validate ``podFailurePolicy``."""
    rules: Sequence[Tree] = spec["podFailurePolicy"].get("rules") or ()
    if len(rules) > _MAX_RULES:
        yield too_many(f"{path}.rules", len(rules), _MAX_RULES)
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {
        container.get("name") or ""
        for part in ("containers", "initContainers")
        for container in pod.get(part) or ()
        if container
    }
    for index, rule in enumerate(rules):
        item_path, action = f"{path}.rules[{index}]", rule.get("action") or ""
        if action == "FailIndex":
            if spec.get("backoffLimitPerIndex") is None:
                yield invalid(
                    f"{item_path}.action", GoNamedString(action), "requires the backoffLimitPerIndex to be set"
                )
        else:
            yield from _choice(action, f"{item_path}.action", _ACTIONS)
        codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
        if codes is not None:
            yield from _exit_codes(codes, f"{item_path}.onExitCodes", containers)
        if conditions:
            yield from _conditions(conditions, f"{item_path}.onPodConditions")
        if codes is not None and conditions:
            yield invalid(item_path, OMITTED, "specifying both OnExitCodes and OnPodConditions is not supported")
        if codes is None and not conditions:
            yield invalid(item_path, OMITTED, "specifying one of OnExitCodes and OnPodConditions is required")


def _choice(value: str, path: str, choices: Sequence[str]) -> Errors:
    if not value:
        yield required(path, f"valid values: [{' '.join(map(quote, choices))}]")
    elif value not in choices:
        yield not_supported(path, GoNamedString(value), choices)


def _exit_codes(codes: Tree, path: str, containers: set[str]) -> Errors:
    operator = codes.get("operator") or ""
    yield from _choice(operator, f"{path}.operator", _OPERATORS)
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        yield invalid(f"{path}.containerName", name, detail)
    values: list[int] | None = codes.get("values")
    if not values:
        yield invalid(f"{path}.values", values, "at least one value is required")
        return
    if len(values) > _MAX_VALUES:
        yield too_many(f"{path}.values", len(values), _MAX_VALUES)
    seen: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in seen:
            yield duplicate(f"{path}.values[{index}]", value)
        seen.add(value)
    if values != sorted(values):
        yield invalid(f"{path}.values", values, "must be ordered")


def _conditions(patterns: Sequence[Tree], path: str) -> Errors:
    if len(patterns) > _MAX_PATTERNS:
        yield too_many(path, len(patterns), _MAX_PATTERNS)
    for index, pattern in enumerate(patterns):
        yield from names.label_key(pattern.get("type") or "", f"{path}[{index}].type")
        yield from _choice(pattern.get("status") or "", f"{path}[{index}].status", _STATUSES)


def success_policy(spec: Tree, path: str) -> Errors:
    """Validate ``successPolicy``, which only indexed jobs can have."""
    rules: Sequence[Tree] | None = spec["successPolicy"].get("rules")
    if spec.get("completionMode") != "Indexed":
        printed_rules = [
            GoStruct(SucceededIndexes=rule.get("succeededIndexes"), SucceededCount=rule.get("succeededCount"))
            for rule in rules or ()
        ]
        yield invalid(path, {"Rules": None if rules is None else printed_rules}, "requires indexed completion mode")
        return
    if not rules:
        yield required(f"{path}.rules", "at least one rules must be specified when the successPolicy is specified")
        return
    if len(rules) > _MAX_RULES:
        yield too_many(f"{path}.rules", len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _success_rule(rule, f"{path}.rules[{index}]", spec.get("completions") or 0)


def _success_rule(rule: Tree, path: str, completions: int) -> Errors:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    if indexes is None and count is None:
        yield required(path, "at least one of succeededCount or succeededIndexes must be specified")
    total = 0
    if indexes is not None:
        item_path = f"{path}.succeededIndexes"
        if len(indexes) > _MAX_INDEXES_LENGTH:
            yield too_long(item_path, _MAX_INDEXES_LENGTH)
        try:
            total = _count_indexes(indexes, completions)
        except ValueError as error:
            yield invalid(item_path, indexes, f"error parsing succeededIndexes: {error}")
    if count is not None:
        item_path = f"{path}.succeededCount"
        yield from field_validation.non_negative(count, item_path)
        if count > completions:
            detail = f"must be less than or equal to {completions} (the number of specified completions)"
            yield invalid(item_path, count, detail)
        if indexes is not None and count > total:
            detail = (
                f"must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
            )
            yield invalid(item_path, count, detail)


def _count_indexes(text: str, completions: int) -> int:
    """The number of indexes in a string such as ``0,2-4``; raises ValueError if it is invalid."""
    total, last = 0, None
    for part in text.split(",") if text else ():
        ends = part.split("-")
        if len(ends) > 2:
            reason = "violates the requirement that an index interval can have at most two parts separated by '-'"
            raise ValueError(f"the fragment {quote(part)} {reason}")
        first, *rest = (_index(end, completions) for end in ends)
        end = rest[0] if rest else first
        if rest and first >= end:
            raise ValueError(f"non-increasing order, previous: {first}, current: {end}")
        if last is not None and last >= first:
            raise ValueError(f"non-increasing order, previous: {last}, current: {first}")
        total, last = total + end - first + 1, end
    return total


def _index(text: str, completions: int) -> int:
    if not text.isascii() or not text.lstrip("+").isdigit():
        raise ValueError(f"cannot convert string to integer for index: {quote(text)}")
    if int(text) >= completions:
        raise ValueError(f"too large index: {quote(text)}")
    return int(text)
