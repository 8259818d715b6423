"""S108: values whose type differs from that of the field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from allotment.model.decoding import DecodingError
from allotment.model.editing.edits import SetValue
from allotment.model.fields import TypeShape
from allotment.model.loading import Document
from allotment.model.loading.marks import Path, split_path
from allotment.model.written_amounts import intended_amount
from allotment.tools.check import examples
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.decoding_errors import AttributedError, decoding_errors_for
from allotment.tools.check.objects.field_shapes import shape_for
from allotment.tools.check.objects.placeholders import is_placeholder
from allotment.tools.check.rule import Fix, Rule, RuleMatch
from allotment.tools.views import at

_TYPE_NAMES: Final = {
    "struct": "an object", "map": "an object", "slice": "a list", "string": "a string", "bool": "true or false",
    "int32": "an integer", "int64": "an integer", "float64": "a number", "bytes": "base64 text",
    "Quantity": "a quantity", "Time": "a time", "MicroTime": "a time", "IntOrString": "an integer or a string",
}  # fmt: skip


def _find(bundle: Bundle) -> Iterator[RuleMatch]:
    """Values of the wrong type, with the value that was intended if it is clear."""
    for error in decoding_errors_for(bundle, "wrong-type"):
        path, document = error.misfit.path, error.document
        value, expected = at(document.tree, path), error.expected_shape
        if is_placeholder(value):
            continue  # its final type is unknown
        type_name = _TYPE_NAMES.get(expected.form, "") if expected else ""
        message = f"{path[-1] if isinstance(path[-1], str) else 'the item'} is {_describe(value)}"
        message = f"{message}, expected {type_name}" if type_name else f"{message}: {error.misfit.message}"
        yield RuleMatch(document, path, message, fix=_fix(error))

    yield from _check_custom_kinds(bundle)


def _check_custom_kinds(bundle: Bundle) -> Iterator[RuleMatch]:
    """Wrong types of metadata fields in custom kinds."""
    for document, decoded in bundle.decoded.items():
        if isinstance(decoded, DecodingError) and shape_for(document, bundle.features.kube) is None:
            for problem in decoded.problems:
                if problem.code == "wrong-type":
                    yield RuleMatch(document, split_path(problem.path), problem.message)


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f'the string "{value}"' if len(value) < 40 else "a string"
    return str(value).lower()


def _fix(error: AttributedError) -> Fix | None:
    expected, path = error.expected_shape, error.misfit.path
    value = at(error.document.tree, path)
    converted = _convert(expected, value) if expected else None
    if isinstance(value, bool | int | float) and converted is not None and isinstance(converted[0], str):
        # y, on and no are intended as strings, and 1.10 and 0x10 are not 1.1 and 16.
        source = _as_written(error.document, path)
        converted = converted if source.startswith(("&", "*", "!")) else (source, True)
    if converted is None:
        return None
    new, safe = converted
    return Fix(f"write {_format_value(new)}", ((error.document, SetValue(path, new)),), safe)


def _as_written(document: Document, path: Path) -> str:
    """The source text of a plain scalar."""
    start, end = document.extent(path)
    line = document.origin.source.removeprefix("\ufeff").splitlines()[start.line - 1]
    return line[start.column - 1 : end.column - 1]


def _format_value(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"' if len(value) < 40 else "it as a string"
    if isinstance(value, dict):
        return f"it under {next(iter(value))}"
    return "it as a list" if isinstance(value, list) else str(value).lower()


def _convert(expected: TypeShape, value: Any) -> tuple[Any, bool] | None:
    """The value that was intended, and whether it is certain."""
    form = expected.form
    if form in ("int32", "int64") and isinstance(value, str) and re.fullmatch(r"\s*-?[0-9]{1,9}\s*", value):
        return int(value), True
    if form == "bool" and isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true", True
    if form == "string" and isinstance(value, bool):
        return str(value).lower(), False
    if form == "string" and isinstance(value, int):
        return str(value), True
    if form == "string" and isinstance(value, float):
        return repr(value), False  # 1.10 is parsed as 1.1
    if form == "Quantity" and isinstance(value, str):
        return (intended, True) if (intended := intended_amount(value)) else None
    if form == "slice" and expected.element is not None and isinstance(value, str | int | bool):
        inner = expected.element
        if inner.form == "string" and isinstance(value, str):
            return [value], True
    if form == "slice" and isinstance(value, dict) and expected.element is not None:
        # A single item instead of a list.
        fields = expected.element.fields if expected.element.form == "struct" else {}
        return ([value], True) if value and value.keys() <= fields.keys() else None
    if form == "struct" and isinstance(value, str):
        return _wrap_in_struct(expected.bare_name, value)
    return None


def _wrap_in_struct(struct: str, text: str) -> tuple[Any, bool] | None:
    """The struct for a value that is written instead of its struct."""
    if struct == "CELDeviceSelector":
        return {"expression": text}, True
    if struct == "DeviceSelector":
        return {"cel": {"expression": text}}, True
    if struct == "ResourceClaim":  # of a container: the name of a claim of the pod
        return {"name": text}, True
    return None


RULE = Rule(
    code="S108",
    name="wrong-type",
    family="shape",
    level="error",
    summary="a value does not have the type of its field",
    why=(
        "The API server decodes objects into typed fields and rejects the first value that has the wrong type: a "
        "number in quotes is a string, and an unquoted true is a boolean. A quantity is a number with one of "
        "Kubernetes' own suffixes: 16Gi or 16G, never 16GB (which means 16G) or 16 Gi."
    ),
    bad=examples.claim("inference", request_extra='count: "2"'),
    good=examples.claim("inference", request_extra="count: 2"),
    find=_find,
    fixable="safe or unsafe",
    see="https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/",
)
