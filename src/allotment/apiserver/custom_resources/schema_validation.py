"""Values judged by a schema, with Kubernetes' paths and texts.

On an update, what did not change is not judged again (KEP-4008): an object that an older schema let in can still be
worked with. Schemas in ``anyOf`` and the like tell only that they failed, and what the most promising one had to say.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from allotment.apiserver.custom_resources import formats
from allotment.apiserver.custom_resources.list_types import ABSENT, matching
from allotment.apiserver.custom_resources.shapes import INT_OR_STRING
from allotment.cel import regex
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import ErrorType, FieldError, invalid, not_supported, required
from allotment.model.validation.gotext import float_text
from allotment.phrases import counted

#: What Kubernetes prints for the path of a problem that is about no field.
NOWHERE: Final = "<nil>"

_FORMATS_OF_NUMBERS: Final = {"integer": "int64", "number": "float64"}


def problems(value: Any, schema: Tree, old: Any = ABSENT, path: str = "") -> list[FieldError]:
    """What is wrong with a value; ``old`` is what it was before."""
    return _judge(value, schema, old, path).errors


class _Verdict(NamedTuple):
    """Errors, and how many checks passed: of several schemas the one that passed most is told about."""

    errors: list[FieldError]
    passed: int


def _judge(value: Any, schema: Tree, old: Any, path: str) -> _Verdict:
    if old is not ABSENT and old == value and type(old) is type(value):
        return _Verdict([], 1)
    errors = list(_type(value, schema, path))
    passed = 2 - bool(errors)
    if value is not None:
        combined = _combined(value, schema, old, path)
        errors += combined.errors
        passed += combined.passed + 1
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
    return _Verdict(errors, passed)


# --- types -----------------------------------------------------------------------------------------------------------


def _type(value: Any, schema: Tree, path: str) -> Iterator[FieldError]:
    wanted = ("integer", "string") if schema.get(INT_OR_STRING) else tuple(filter(None, (schema.get("type"),)))
    form = schema.get("format") or ""
    if not wanted:
        return
    if value is None:
        if not schema.get("nullable"):
            yield type_invalid(path, ",".join(wanted), "null")
        return
    found = _JSON_TYPES[type(value)]
    fits = (
        found in wanted
        or (found == "integer" and "number" in wanted)
        or (type(value) is float and value.is_integer() and "integer" in wanted)
    )
    if form and type(value) not in (str, list) and not fits and _FORMATS_OF_NUMBERS.get(found, "") != form:
        yield type_invalid(path, form, _FORMATS_OF_NUMBERS.get(found, ""))
    elif form and type(value) in (str, list) and not {"integer", "number"} & set(wanted):
        return  # formats go before types there, also where they should not
    elif not fits:
        yield type_invalid(path, ",".join(wanted), found)


_JSON_TYPES: Final[dict[type, str]] = {
    str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array",
}  # fmt: skip


def type_invalid(path: str, wanted: str, found: str) -> FieldError:
    """A value of a wrong type, or of no such format."""
    detail = f"{path} in body must be of type {wanted}: {quote(found)}"
    return FieldError(ErrorType.TYPE_INVALID, path or NOWHERE, found, detail)


# --- texts and numbers -----------------------------------------------------------------------------------------------


def _text(value: str, schema: Tree, path: str) -> Iterator[FieldError]:
    most, least, pattern = schema.get("maxLength"), schema.get("minLength"), schema.get("pattern")
    if most is not None and len(value) > most:
        detail = f"may not be more than {counted(most, 'byte')}"
        yield FieldError(ErrorType.TOO_LONG, path, None, detail)
    elif least is not None and len(value) < least:
        yield invalid(path, value, f"{path} in body should be at least {least} chars long")
    elif pattern and not _matches(pattern, value):
        yield invalid(path, value, f"{path} in body should match '{pattern}'")
    check = formats.known(schema.get("format") or "")
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
            how = f"with format {schema['format']} in {path}" if schema.get("format") else f"(default format) in {path}"
            yield invalid(NOWHERE, "", f"Checked value must be of type integer {how}")
    factor, most, least = schema.get("multipleOf"), schema.get("maximum"), schema.get("minimum")
    whole = type(value) is int
    if factor and Decimal(repr(value)) % Decimal(repr(factor)):
        yield invalid(path, value, f"{path} in body should be a multiple of {_bound(factor, whole)}")
    if most is not None:
        if schema.get("exclusiveMaximum") and value >= most:
            yield invalid(path, value, f"{path} in body should be less than {_bound(most, whole)}")
        elif value > most:
            yield invalid(path, value, f"{path} in body should be less than or equal to {_bound(most, whole)}")
    if least is not None:
        if schema.get("exclusiveMinimum") and value <= least:
            yield invalid(path, value, f"{path} in body should be greater than {_bound(least, whole)}")
        elif value < least:
            yield invalid(path, value, f"{path} in body should be greater than or equal to {_bound(least, whole)}")


def _bound(number: float, whole: bool) -> str:
    """A bound as Go prints it: as an integer beside integers, else without needless digits."""
    return str(int(number)) if whole and number == int(number) else float_text(float(number))


def _enum(value: Any, schema: Tree, path: str) -> Iterator[FieldError]:
    choices = schema.get("enum")
    if choices and not any(_equal(value, choice) for choice in choices):
        texts = [choice if type(choice) is str else json.dumps(choice, separators=(",", ":")) for choice in choices]
        yield not_supported(path, value, texts)


def _equal(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


# --- lists and objects -----------------------------------------------------------------------------------------------


def _items(values: list[Any], schema: Tree, old: Any, path: str) -> _Verdict:
    errors: list[FieldError] = []
    passed = 1
    items = schema.get("items")
    if isinstance(items, dict):
        before = matching(values, schema, old)
        for index, value in enumerate(values):
            verdict = _judge(value, items, before[index] if before else ABSENT, f"{path}[{index}]")
            errors += verdict.errors
            passed += verdict.passed
    errors += _size(len(values), schema, path, "Items", "items")
    return _Verdict(errors, passed)


def _size(count: int, schema: Tree, path: str, keyword: str, what: str) -> Iterator[FieldError]:
    least, most = schema.get(f"min{keyword}"), schema.get(f"max{keyword}")
    if least is not None and count < least:
        yield invalid(path or NOWHERE, count, f"{path} in body should have at least {least} {what}")
    if most is not None and count > most:
        detail = f"must have at most {counted(most, 'item')}"
        yield FieldError(ErrorType.TOO_MANY, path or NOWHERE, count, detail)


def _fields(tree: Tree, schema: Tree, old: Any, path: str) -> _Verdict:
    errors = list(_size(len(tree), schema, path, "Properties", "properties"))
    passed = 1
    properties = schema.get("properties") or {}
    others = schema.get("additionalProperties")
    before = old if type(old) is dict else {}
    for name, value in tree.items():
        inner = properties.get(name)
        where = f"{path}.{name}" if path else name
        if inner is None and isinstance(others, dict):
            inner = others
        if inner is not None:
            verdict = _judge(value, inner, before.get(name, ABSENT), where)
            errors += verdict.errors
            passed += verdict.passed
    errors += [
        required(f"{path}.{name}" if path else name) for name in schema.get("required") or () if name not in tree
    ]
    return _Verdict(errors, passed)


# --- schemas of schemas ----------------------------------------------------------------------------------------------


def _combined(value: Any, schema: Tree, old: Any, path: str) -> _Verdict:
    errors: list[FieldError] = []
    passed = 1
    alternatives: Sequence[Tree] = schema.get("anyOf") or ()
    if alternatives:
        verdicts = [_judge(value, each, old, path) for each in alternatives]
        if all(verdict.errors for verdict in verdicts):
            errors.append(_whole(f"{quote(path)} must validate at least one schema (anyOf)"))
            errors += _best(verdicts).errors
        passed += _best(verdicts).passed
    alternatives = schema.get("oneOf") or ()
    if alternatives:
        verdicts = [_judge(value, each, old, path) for each in alternatives]
        valid = sum(not verdict.errors for verdict in verdicts)
        if valid != 1:
            why = "Found none valid" if not valid else f"Found {valid} valid alternatives"
            errors.append(_whole(f"{quote(path)} must validate one and only one schema (oneOf). {why}"))
            if not valid:
                errors += _best(verdicts).errors
        passed += _best(verdicts).passed
    alternatives = schema.get("allOf") or ()
    if alternatives:
        verdicts = [_judge(value, each, old, path) for each in alternatives]
        failed = [verdict for verdict in verdicts if verdict.errors]
        errors += [error for verdict in failed for error in verdict.errors]
        if failed:
            none = ". None validated" if len(failed) == len(verdicts) else ""
            errors.append(_whole(f"{quote(path)} must validate all the schemas (allOf){none}"))
        passed += sum(verdict.passed for verdict in verdicts)
    refused = schema.get("not")
    if refused is not None and not _judge(value, refused, ABSENT, path).errors:
        errors.append(_whole(f"{quote(path)} must not validate the schema (not)"))
    return _Verdict(errors, passed)


def _best(verdicts: Sequence[_Verdict]) -> _Verdict:
    good = [verdict for verdict in verdicts if not verdict.errors]
    return good[0] if good else max(verdicts, key=lambda verdict: verdict.passed)


def _whole(detail: str) -> FieldError:
    return invalid(NOWHERE, "", detail)
