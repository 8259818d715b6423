"""Validates values against an OpenAPI schema, with Kubernetes' paths and texts.

On an update, unchanged values are not validated again (KEP-4008): objects that an older schema accepted remain usable.
For ``anyOf`` and ``oneOf`` the errors are a summary and those of the best match.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from allotment.apiserver.custom_resources import formats
from allotment.apiserver.custom_resources.list_types import ABSENT, previous_items
from allotment.apiserver.kinds.schema_extensions import INT_OR_STRING
from allotment.cel import regex
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import ErrorType, FieldError, invalid, not_supported, required
from allotment.model.validation.gotext import float_text
from allotment.phrases import counted

#: What Kubernetes prints as the path of an error without a field.
NO_PATH: Final = "<nil>"

_NUMBER_FORMATS: Final = {"integer": "int64", "number": "float64"}


def value_problems(value: Any, schema: Tree, old: Any = ABSENT, path: str = "") -> list[FieldError]:
    """The errors of a value; ``old`` is the value before the update."""
    return _validate(value, schema, old, path).errors


class _Result(NamedTuple):
    """Errors, and the number of checks that passed, which selects the best match of several schemas."""

    errors: list[FieldError]
    passed: int


def _validate(value: Any, schema: Tree, old: Any, path: str) -> _Result:
    if old is not ABSENT and old == value and type(old) is type(value):
        return _Result([], 1)
    errors = list(_type(value, schema, path))
    passed = 2 - bool(errors)
    if value is not None:
        composition = _composition(value, schema, old, path)
        errors += composition.errors
        passed += composition.passed + 1
        if type(value) is str:
            errors += _text(value, schema, path)
        elif type(value) in (int, float):
            errors += _number(value, schema, path)
        elif type(value) is list:
            inner = _items(value, schema, old, path)
            errors += inner.errors
            passed += inner.passed
    errors += _enum(value, schema, path)
    if type(value) is dict:
        inner = _fields(value, schema, old, path)
        errors += inner.errors
        passed += inner.passed
    return _Result(errors, passed)


# --- types -----------------------------------------------------------------------------------------------------------


def _type(value: Any, schema: Tree, path: str) -> Iterator[FieldError]:
    expected = ("integer", "string") if schema.get(INT_OR_STRING) else tuple(filter(None, (schema.get("type"),)))
    format_ = schema.get("format") or ""
    if not expected:
        return
    if value is None:
        if not schema.get("nullable"):
            yield type_invalid(path, ",".join(expected), "null")
        return
    actual = _JSON_TYPES[type(value)]
    fits = (
        actual in expected
        or (actual == "integer" and "number" in expected)
        or (type(value) is float and value.is_integer() and "integer" in expected)
    )
    if format_ and type(value) not in (str, list) and not fits and _NUMBER_FORMATS.get(actual, "") != format_:
        yield type_invalid(path, format_, _NUMBER_FORMATS.get(actual, ""))
    elif format_ and type(value) in (str, list) and not {"integer", "number"} & set(expected):
        return  # upstream checks formats before types, even for values of other types
    elif not fits:
        yield type_invalid(path, ",".join(expected), actual)


_JSON_TYPES: Final[dict[type, str]] = {
    str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array",
}  # fmt: skip


def type_invalid(path: str, expected: str, actual: str) -> FieldError:
    """An error for a value of the wrong type or format."""
    detail = f"{path} in body must be of type {expected}: {quote(actual)}"
    return FieldError(ErrorType.TYPE_INVALID, path or NO_PATH, actual, detail)


# --- strings and numbers ---------------------------------------------------------------------------------------------


def _text(value: str, schema: Tree, path: str) -> Iterator[FieldError]:
    maximum, minimum, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if maximum is not None and len(value) > maximum:
        detail = f"may not be more than {counted(maximum, 'byte')}"
        yield FieldError(ErrorType.TOO_LONG, path, None, detail)
    elif minimum is not None and len(value) < minimum:
        yield invalid(path, value, f"{path} in body should be at least {minimum} chars long")
    elif pattern and not _matches(pattern, value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
    check = formats.format_check(schema.get("format") or "")
    if check is not None and not check(value):
        yield type_invalid(path, str(schema["format"]), value)


def _matches(pattern: str, value: str) -> bool:
    try:
        return regex.compile(pattern).matches(value)
    except regex.RegexError:
        return False


def _number(value: float, schema: Tree, path: str) -> Iterator[FieldError]:
    if schema.get("type") == "integer":
        bits = 31 if schema.get("format") == "int32" else 63
        if not -(2**bits) <= value < 2**bits:
            location = (
                f"with format {schema['format']} in {path}" if schema.get("format") else f"(default format) in {path}"
            )
            yield invalid(NO_PATH, "", f"Checked value must be of type integer {location}")
    factor, maximum, minimum = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
    is_integer = type(value) is int
    if factor and Decimal(repr(value)) % Decimal(repr(factor)):
        yield invalid(path, value, f"{path} in body should be a multiple of {_bound(factor, is_integer)}")
    if maximum is not None:
        if schema.get("exclusiveMaximum") and value >= maximum:
            yield invalid(path, value, f"{path} in body should be less than {_bound(maximum, is_integer)}")
        elif value > maximum:
            yield invalid(path, value, f"{path} in body should be less than or equal to {_bound(maximum, is_integer)}")
    if minimum is not None:
        if schema.get("exclusiveMinimum") and value <= minimum:
            yield invalid(path, value, f"{path} in body should be greater than {_bound(minimum, is_integer)}")
        elif value < minimum:
            yield invalid(
                path, value, f"{path} in body should be greater than or equal to {_bound(minimum, is_integer)}"
            )


def _bound(number: float, is_integer: bool) -> str:
    """A bound as Go prints it: as an integer for integer values, else with the fewest digits."""
    return str(int(number)) if is_integer and number == int(number) else float_text(float(number))


def _enum(value: Any, schema: Tree, path: str) -> Iterator[FieldError]:
    choices = schema.get("enum")
    if choices and not any(_equal(value, choice) for choice in choices):
        texts = [choice if type(choice) is str else json.dumps(choice, separators=(",", ":")) for choice in choices]
        yield not_supported(path, value, texts)


def _equal(left: Any, right: Any) -> bool:
    return bool(left == right) and isinstance(left, bool) is isinstance(right, bool)


# --- lists and objects -----------------------------------------------------------------------------------------------


def _items(values: list[Any], schema: Tree, old: Any, path: str) -> _Result:
    errors: list[FieldError] = []
    passed = 1
    items = schema.get("items")
    if isinstance(items, dict):
        previous = previous_items(values, schema, old)
        for index, value in enumerate(values):
            result = _validate(value, items, previous[index] if previous else ABSENT, f"{path}[{index}]")
            errors += result.errors
            passed += result.passed
    errors += _size(len(values), schema, path, "Items", "items")
    return _Result(errors, passed)


def _size(count: int, schema: Tree, path: str, keyword: str, noun: str) -> Iterator[FieldError]:
    minimum, maximum = schema.get(f"min{keyword}"), schema.get(f"max{keyword}")
    if minimum is not None and count < minimum:
        yield invalid(path or NO_PATH, count, f"{path} in body should have at least {minimum} {noun}")
    if maximum is not None and count > maximum:
        detail = f"must have at most {counted(maximum, 'item')}"
        yield FieldError(ErrorType.TOO_MANY, path or NO_PATH, count, detail)


def _fields(tree: Tree, schema: Tree, old: Any, path: str) -> _Result:
    errors = list(_size(len(tree), schema, path, "Properties", "properties"))
    passed = 1
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    previous = old if type(old) is dict else {}
    for name, value in tree.items():
        inner = properties.get(name)
        field_path = f"{path}.{name}" if path else name
        if inner is None and isinstance(additional, dict):
            inner = additional
        if inner is not None:
            result = _validate(value, inner, previous.get(name, ABSENT), field_path)
            errors += result.errors
            passed += result.passed
    errors += [
        required(f"{path}.{name}" if path else name) for name in schema.get("required") or () if name not in tree
    ]
    return _Result(errors, passed)


# --- anyOf, oneOf, allOf, not ----------------------------------------------------------------------------------------


def _composition(value: Any, schema: Tree, old: Any, path: str) -> _Result:
    errors: list[FieldError] = []
    passed = 1
    alternatives: Sequence[Tree] = schema.get("anyOf") or ()
    if alternatives:
        results = [_validate(value, alternative, old, path) for alternative in alternatives]
        if all(result.errors for result in results):
            errors.append(_object_error(f"{quote(path)} must validate at least one schema (anyOf)"))
            errors += _best_match(results).errors
        passed += _best_match(results).passed
    alternatives = schema.get("oneOf") or ()
    if alternatives:
        results = [_validate(value, alternative, old, path) for alternative in alternatives]
        valid = sum(not result.errors for result in results)
        if valid != 1:
            reason = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            errors.append(_object_error(f"{quote(path)} must validate one and only one schema (oneOf). {reason}"))
            if not valid:
                errors += _best_match(results).errors
        passed += _best_match(results).passed
    alternatives = schema.get("allOf") or ()
    if alternatives:
        results = [_validate(value, alternative, old, path) for alternative in alternatives]
        failed = [result for result in results if result.errors]
        errors += [error for result in failed for error in result.errors]
        if failed:
            suffix = ". None validated" if len(failed) == len(results) else ""
            errors.append(_object_error(f"{quote(path)} must validate all the schemas (allOf){suffix}"))
        passed += sum(result.passed for result in results)
    negated = schema.get("not")
    if negated is not None and not _validate(value, negated, ABSENT, path).errors:
        errors.append(_object_error(f"{quote(path)} must not validate the schema (not)"))
    return _Result(errors, passed)


def _best_match(results: Sequence[_Result]) -> _Result:
    valid = [result for result in results if not result.errors]
    return valid[0] if valid else max(results, key=lambda result: result.passed)


def _object_error(detail: str) -> FieldError:
    return invalid(NO_PATH, "", detail)
