"""Strict decoding: checks the fields and types of an object as the API server does, and reports every error's path.

The server decodes JSON into Go types and stops at the first value of a wrong type; with ``fieldValidation=Strict``,
kubectl's default, it then reports every unknown field. Both messages are kept to the letter. The result is the tree
without nulls, with integers instead of integral floats and with quantities as strings, ready for conversion to a value.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from allotment.model.base64_text import base64_error_offset, is_base64
from allotment.model.field_advice import unknown_field_advice
from allotment.model.field_history import release_advice, version_advice
from allotment.model.fields import TypeShape
from allotment.model.pruning import Path, prune
from allotment.model.quantity import Quantity, QuantityError
from allotment.model.quoting import quote
from allotment.model.strict_fast_path import fits
from allotment.model.times import MICROSECONDS, SECONDS, TimeError, canonical
from allotment.model.written_amounts import intended_amount

_UNKNOWN_MAX: Final = 100  # upstream stops collecting there
_LIMITS: Final = {"int32": 2**31, "int64": 2**63}
_PASS_THROUGH: Final[dict[str, type]] = {"string": str, "bool": bool}


class SchemaViolation(NamedTuple):
    """One error of a tree. ``category``: an unknown field, a wrong type, or a value that its type does not accept."""

    category: Literal["unknown", "type", "value"]
    message: str
    path: Path
    hint: str = ""
    suggestion: str = ""


class StrictlyDecoded(NamedTuple):
    """The cleaned tree, and all violations in the order of the values."""

    tree: dict[str, Any]
    violations: list[SchemaViolation]


def strict_decode(
    tree: dict[str, Any], api_version: str, kind: str, shape: TypeShape, *, exact: bool = False,
    previous: dict[str, Any] | None = None, release: str = "",
) -> StrictlyDecoded:  # fmt: skip
    """Check and clean ``tree`` by its type ``shape``. Does not raise and does not change ``tree``.

    ``exact``: the tree was JSON, where Go does not accept 2.0 as an integer; YAML is converted and 2.0 becomes 2.
    ``previous``: a tree of the same type without violations; parts that are identical to its parts are skipped.
    ``release``: the release of ``shape``, for hints about fields of other releases; empty for the newest one.
    """
    if shape.package and fits(tree, shape, previous):
        return StrictlyDecoded(tree, [])
    decoder = _Decoder(api_version, kind, shape, exact, release)
    cleaned = decoder.struct(shape, tree) if shape.package else decoder.custom(shape, tree)
    return StrictlyDecoded(cleaned, decoder.violations)


def server_text(violations: list[SchemaViolation]) -> str:
    """The API server's message for violations, after "cannot be handled as a …: "."""
    # An error in a type's own decoder ends decoding; otherwise the first wrong type is reported, or all unknown fields.
    for category in ("value", "type"):
        for violation in violations:
            if violation.category == category:
                return violation.message
    return "strict decoding error: " + ", ".join(violation.message for violation in violations)


class _Decoder:
    def __init__(self, api_version: str, kind: str, shape: TypeShape, exact: bool, release: str) -> None:
        self.exact = exact
        self.release = release
        self.api_version = api_version
        self.kind = kind
        self.root = shape
        self.violations: list[SchemaViolation] = []
        self.path: list[str | int] = []
        self.names: list[str] = []  # Go's field stack: fields only, no indices and keys
        self.owner = ""  # the innermost struct
        self.unknown_count = 0

    # --- containers ----------------------------------------------------------------------------------------------

    def struct(self, shape: TypeShape, tree: dict[str, Any]) -> dict[str, Any]:
        fields = shape.fields
        cleaned = tree
        outer = self.owner
        self.owner = shape.bare_name
        for name, value in tree.items():
            field = fields.get(name)
            if field is None:
                self.unknown(shape, name, tree)
                cleaned = _without(cleaned, tree, name)
                continue
            inner = field.shape
            form = inner.form
            if type(value) is _PASS_THROUGH.get(form):
                continue
            if value is None:
                cleaned = _without(cleaned, tree, name)
                continue
            self.path.append(name)
            self.names.append(f"{field.embedded}.{name}" if field.embedded else name)
            cleaned_value = self.value(inner, value)
            if cleaned_value is not value:
                cleaned = _with(cleaned, tree, name, cleaned_value)
            self.path.pop()
            self.names.pop()
        self.owner = outer
        return cleaned

    def value(self, shape: TypeShape, value: Any) -> Any:
        """The cleaned value; ``None`` if it does not fit, so that the field is dropped."""
        form = shape.form
        if form == "struct":
            return self.struct(shape, value) if type(value) is dict else self.wrong_type(shape, value)
        if form == "slice":
            return self.slice(shape, value) if type(value) is list else self.wrong_type(shape, value)
        if form == "map":
            return self.map(shape, value) if type(value) is dict else self.wrong_type(shape, value)
        return _SCALARS[form](self, shape, value)

    def slice(self, shape: TypeShape, values: list[Any]) -> list[Any]:
        element = shape.element
        assert element is not None
        pass_through = _PASS_THROUGH.get(element.form)
        cleaned = values
        path = self.path
        path.append(0)
        for index, value in enumerate(values):
            if type(value) is pass_through:
                continue
            path[-1] = index
            cleaned_value = _zero(element) if value is None else self.value(element, value)
            if cleaned_value is not value:
                if cleaned is values:
                    cleaned = list(values)
                cleaned[index] = _zero(element) if cleaned_value is None else cleaned_value
        path.pop()
        return cleaned

    def map(self, shape: TypeShape, values: dict[str, Any]) -> dict[str, Any]:
        element = shape.element
        assert element is not None
        pass_through = _PASS_THROUGH.get(element.form)
        cleaned = values
        path = self.path
        path.append("")
        for key, value in values.items():
            if type(value) is pass_through:
                continue
            path[-1] = key
            cleaned_value = _zero(element) if value is None else self.value(element, value)
            if cleaned_value is not value:
                cleaned = _with(cleaned, values, key, _zero(element) if cleaned_value is None else cleaned_value)
        path.pop()
        return cleaned

    def custom(self, shape: TypeShape, tree: dict[str, Any]) -> dict[str, Any]:
        """A custom object: only its metadata has a Go type."""
        identity = TypeShape("struct", shape.name)
        identity.fields = {name: shape.fields[name] for name in ("apiVersion", "kind")}
        cleaned = self.struct(identity, {name: tree[name] for name in tree if name in identity.fields})
        metadata = tree.get("metadata")
        if type(metadata) is dict:
            self.path = ["metadata"]
            cleaned["metadata"] = self.struct(shape.fields["metadata"].shape, metadata)
            self.path = []
        elif metadata is not None:
            self.wrong_type(shape.fields["metadata"].shape, metadata)
        unknown: list[Path] = []
        rest = {name: tree[name] for name in tree if name not in identity.fields and name != "metadata"}
        pruned = prune(rest, shape, (), unknown)
        for text, path in sorted((_dotted(path), path) for path in unknown)[:_UNKNOWN_MAX]:
            self.violations.append(SchemaViolation("unknown", f"unknown field {quote(text)}", path))
        return {**cleaned, **pruned}

    # --- violations ----------------------------------------------------------------------------------------------

    def wrong_type(self, shape: TypeShape, value: Any, literal: bool = False) -> None:
        actual = _JSON_NAMES.get(type(value), "number")
        if literal:
            actual += f" {_number_text(value)}"
        message = self.cannot_read(actual, shape.name)
        self.violations.append(SchemaViolation("type", message, tuple(self.path), _expectation(shape, value)))

    def cannot_read(self, actual: str, expected: str) -> str:
        """Go's message; it contains the innermost struct and the whole path, also for types with their own decoder."""
        field = ".".join(self.names)
        return f"json: cannot unmarshal {actual} into Go struct field {self.owner}.{field} of type {expected}"

    def wrong_value(self, message: str, hint: str = "") -> None:
        self.violations.append(SchemaViolation("value", message, tuple(self.path), hint))

    def unknown(self, shape: TypeShape, name: str, parent: dict[str, Any]) -> None:
        self.unknown_count += 1
        if self.unknown_count > _UNKNOWN_MAX:
            return
        path = (*self.path, name)
        hint, suggestion = self.suggest(shape, name, parent)
        self.violations.append(
            SchemaViolation("unknown", f"unknown field {quote(_dotted(path))}", path, hint, suggestion)
        )

    def suggest(self, shape: TypeShape, name: str, parent: dict[str, Any]) -> tuple[str, str]:
        """The probably intended field for an unknown one: a hint, and the bare name if it is a name."""
        advice = unknown_field_advice(shape.bare_name, (*self.path, name), parent)
        if advice is not None:
            return advice.sentence, ""
        for sibling, field in shape.fields.items():
            if field.shape.form == "struct" and name in field.shape.fields and sibling != "metadata":
                return f"did you mean {sibling}.{name}?", f"{sibling}.{name}"
        path = (*self.path, name)
        elsewhere = release_advice(self.api_version, self.kind, path, self.release, shape.bare_name)
        if elsewhere:
            return elsewhere, ""
        close = difflib.get_close_matches(name, shape.fields, n=1, cutoff=0.7) or [
            known for known in shape.fields if known.lower() == name.lower()
        ]
        if close:
            return f"did you mean {close[0]}?", close[0]
        return version_advice(self.api_version, self.kind, path, shape.bare_name), ""

    # --- values --------------------------------------------------------------------------------------------------

    def string(self, shape: TypeShape, value: Any) -> Any:
        return value if type(value) is str else self.wrong_type(shape, value)

    def boolean(self, shape: TypeShape, value: Any) -> Any:
        return value if type(value) is bool else self.wrong_type(shape, value)

    def integer(self, shape: TypeShape, value: Any) -> Any:
        if type(value) is float and not self.exact and value.is_integer():
            value = int(value)
        if type(value) is int:
            limit = _LIMITS[shape.form]
            return value if -limit <= value < limit else self.wrong_type(shape, value, literal=True)
        return self.wrong_type(shape, value, literal=type(value) is float)

    def bytes(self, shape: TypeShape, value: Any) -> Any:
        if type(value) is not str:
            return self.wrong_type(shape, value)
        if not is_base64(value):
            fault = base64_error_offset(value.encode("utf-8", "replace"))
            if fault is not None:
                self.wrong_value(f"illegal base64 data at input byte {fault}")
        return value

    def quantity(self, _: TypeShape, value: Any) -> Any:
        if type(value) is str:
            text = value.strip()
        elif type(value) is bool or type(value) is dict or type(value) is list:
            text = "x"  # not a quantity
        else:
            text = _number_text(value)
        try:
            Quantity.parse(text)
        except QuantityError as error:
            intended = intended_amount(value) if type(value) is str else ""
            hint = f"{value!r} is not a quantity" if type(value) is str else ""
            self.wrong_value(str(error), f"{hint}: write {intended}" if intended else hint)
            return None
        return text if text != value else value

    def time(self, shape: TypeShape, value: Any) -> Any:
        if type(value) is not str:
            actual = _JSON_NAMES.get(type(value), "number")
            self.wrong_value(self.cannot_read(actual, "string"))
            return None
        try:
            text = canonical(value, SECONDS if shape.form == "Time" else MICROSECONDS)
        except TimeError as error:
            self.wrong_value(str(error))
            return None
        return text if text != value else value

    def int_or_string(self, _: TypeShape, value: Any) -> Any:
        if type(value) is str or (type(value) is int and -(2**31) <= value < 2**31):
            return value
        actual = _JSON_NAMES.get(type(value)) or f"number {_number_text(value)}"
        self.wrong_value(self.cannot_read(actual, "int32"))
        return None

    def anything(self, _: TypeShape, value: Any) -> Any:
        return value

    def number(self, shape: TypeShape, value: Any) -> Any:
        return value if type(value) in (int, float) else self.wrong_type(shape, value)

    # The alternatives to a schema in a JSON schema. Go has custom decoders for these types, which drop unknown fields
    # without an error.

    def schema_or_list(self, shape: TypeShape, value: Any) -> Any:
        if type(value) is list:
            return [self.without_unknown_fields(shape, item) for item in value]
        return self.without_unknown_fields(shape, value)

    def schema_or_bool(self, shape: TypeShape, value: Any) -> Any:
        if type(value) is bool:
            return value
        if type(value) is dict:
            return self.without_unknown_fields(shape, value)
        self.wrong_value("boolean or JSON schema expected")
        return None

    def schema_or_strings(self, shape: TypeShape, value: Any) -> Any:
        return value if type(value) is list else self.without_unknown_fields(shape, value)

    def without_unknown_fields(self, shape: TypeShape, value: Any) -> Any:
        schema = shape.element
        assert schema is not None
        if type(value) is not dict:
            return None
        inner = _Decoder(self.api_version, self.kind, self.root, self.exact, self.release)
        cleaned = inner.struct(schema, value)
        self.violations.extend(
            SchemaViolation("value", violation.message, (*self.path, *violation.path), violation.hint)
            for violation in inner.violations
            if violation.category != "unknown"
        )
        return cleaned


_SCALARS: Final[dict[str, Callable[[_Decoder, TypeShape, Any], Any]]] = {
    "string": _Decoder.string,
    "bool": _Decoder.boolean,
    "int32": _Decoder.integer,
    "int64": _Decoder.integer,
    "bytes": _Decoder.bytes,
    "Quantity": _Decoder.quantity,
    "Time": _Decoder.time,
    "MicroTime": _Decoder.time,
    "IntOrString": _Decoder.int_or_string,
    "RawExtension": _Decoder.anything,
    "FieldsV1": _Decoder.anything,
    "JSON": _Decoder.anything,
    "any": _Decoder.anything,
    "float64": _Decoder.number,
    "JSONSchemaPropsOrArray": _Decoder.schema_or_list,
    "JSONSchemaPropsOrBool": _Decoder.schema_or_bool,
    "JSONSchemaPropsOrStringArray": _Decoder.schema_or_strings,
}
_JSON_NAMES: Final[dict[type, str]] = {str: "string", bool: "bool", dict: "object", list: "array"}
_TYPE_NAMES: Final = {
    "struct": "an object", "map": "an object", "slice": "a list", "string": "a string", "bool": "true or false",
    "int32": "an integer", "int64": "an integer", "float64": "a number", "bytes": "base64 text",
}  # fmt: skip


def _dotted(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


def _expectation(shape: TypeShape, value: Any) -> str:
    expected = _TYPE_NAMES.get(shape.form)
    if expected is None:
        return ""
    if shape.form == "string" and type(value) in (int, float, bool):
        return f"expected {expected}: put it in quotes"
    return f"expected {expected}"


def _number_text(number: float) -> str:
    """A number as Go's JSON encoder prints it: with an exponent below 1e-6 and from 1e21."""
    if type(number) is int:
        return str(number) if abs(number) < 10**21 else f"{Decimal(number):e}"
    if 1e-6 <= abs(number) < 1e21:
        return format(Decimal(repr(number)), "f")
    return repr(number)


def _zero(shape: TypeShape) -> Any:
    """Go's zero value, which replaces a null in a list or map."""
    return {"struct": {}, "map": {}, "slice": [], "bool": False, "int32": 0, "int64": 0, "Quantity": "0"}.get(
        shape.form, ""
    )


def _without(cleaned: dict[str, Any], tree: dict[str, Any], name: str) -> dict[str, Any]:
    if cleaned is tree:
        cleaned = dict(tree)
    del cleaned[name]
    return cleaned


def _with(cleaned: dict[str, Any], tree: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    if value is None:
        return _without(cleaned, tree, name)
    if cleaned is tree:
        cleaned = dict(tree)
    cleaned[name] = value
    return cleaned
