"""The merge structure of types for server-side apply: atomic values, maps, keyed lists and sets.

Built on demand from :class:`~allotment.model.fields.TypeShape`: each struct adds a field when an object first has it.
Types without a schema are deduced from the value: maps are granular, lists are atomic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from allotment.model.fields import Field, TypeShape

Relation = Literal["leaf", "struct", "map", "keyed", "set", "deduced"]

_DEDUCED_FORMS: Final = frozenset(
    {
        "any",
        "RawExtension",
        "FieldsV1",
        "JSON",
        "JSONSchemaPropsOrArray",
        "JSONSchemaPropsOrBool",
        "JSONSchemaPropsOrStringArray",
    }
)


class UnkeyedError(Exception):
    """Raised for a list item without a path element, such as a keyed item without keys; upstream has none either."""


class Structure:
    """The merge structure of a type. ``keys`` and ``defaults`` apply to keyed lists."""

    __slots__ = ("_elements", "defaults", "element", "fields", "keys", "relation", "shape")

    def __init__(self, relation: Relation, shape: TypeShape | None) -> None:
        self.relation: Relation = relation
        self.shape = shape
        self.fields: dict[str, tuple[str, Structure]] = {}
        self.element: Structure | None = None
        self.keys: tuple[str, ...] = ()
        self.defaults: dict[str, Any] = {}
        self._elements: dict[Any, str] = {}

    def field(self, name: str) -> tuple[str, Structure]:
        """The path element and the structure of a member of a map or struct. Unknown fields are deduced."""
        cached = self.fields.get(name)
        if cached is not None:
            return cached
        element = f"f:{name}"
        if self.element is not None:
            return element, self.element
        assert self.shape is not None
        field = self.shape.fields.get(name)
        if field is not None:
            result = element, _field_structure(field)
        elif self.shape.rest is not None:
            return element, structure_of(self.shape.rest)
        else:
            return element, DEDUCED
        self.fields[name] = result
        return result

    def declares(self, name: str) -> bool:
        """Whether a struct has a field of this name."""
        return self.relation == "struct" and self.shape is not None and name in self.shape.fields

    def item(self, value: Any) -> str:
        """The path element of an item of a list."""
        if self.relation == "set":
            return self._set_item(value)
        if type(value) is not dict:
            found = "a null element" if value is None else "non-map elements"
            raise UnkeyedError(f"associative list with keys may not have {found}")
        defaults = self.defaults
        key = tuple([value.get(name, defaults.get(name)) for name in self.keys])
        try:
            element = self._elements.get(key)
        except TypeError:
            return self._item_element(value, key)
        if element is None or (type(key[0]) is not str and type(key[0]) is not int):
            element = self._item_element(value, key)
            if len(self._elements) < 4096:
                self._elements[key] = element
        return element

    def _item_element(self, value: dict[str, Any], key: tuple[Any, ...]) -> str:
        parts = [
            f"{_json(name)}:{_json(part)}"
            for name, part in zip(self.keys, key, strict=True)
            if part is not None or name in value
        ]
        if not parts:
            names = " ".join(f'"{name}"' for name in self.keys)
            raise UnkeyedError(
                f"associative list with keys has an element that omits all key fields [{names}] "
                "(and doesn't have default values for any key fields)"
            )
        return f"k:{{{','.join(parts)}}}"

    def _set_item(self, value: Any) -> str:
        if type(value) is dict:
            raise UnkeyedError("associative list without keys has an element that's a map type")
        if type(value) is list:
            raise UnkeyedError("not supported: associative list with lists as elements")
        if value is None:
            raise UnkeyedError("associative list without keys has an element that's an explicit null")
        return f"v:{_json(value)}"


DEDUCED: Final = Structure("deduced", None)
DEDUCED.element = DEDUCED

_CACHE: dict[tuple[int, str, tuple[str, ...], str], Structure] = {}
_CACHE_SIZE: Final = 20_000


def structure_of(shape: TypeShape | None) -> Structure:
    """The structure of a type outside a field, such as a whole object; deduced if the shape is None."""
    if shape is None:
        return DEDUCED
    return _structure(shape, shape.list_type, shape.list_keys, shape.map_type)


def _field_structure(field: Field) -> Structure:
    return _structure(field.shape, field.list_type, field.list_keys, field.map_type)


def _structure(shape: TypeShape, list_type: str, list_keys: tuple[str, ...], map_type: str) -> Structure:
    key = (id(shape), list_type, list_keys, map_type)
    cached = _CACHE.get(key)
    if cached is not None:
        return cached
    if len(_CACHE) >= _CACHE_SIZE:
        _CACHE.clear()  # drops the types of deleted definitions
    structure = Structure(_relation(shape, list_type, map_type), shape)
    _CACHE[key] = structure
    if structure.relation == "deduced":
        structure.element = DEDUCED
    if structure.relation in ("map", "keyed", "set"):
        assert shape.element is not None
        structure.element = structure_of(shape.element)
        if structure.relation == "keyed":
            structure.keys = tuple(sorted(list_keys))
            fields = shape.element.fields
            defaults = {name: _key_default(fields[name]) for name in structure.keys if name in fields}
            structure.defaults = {name: value for name, value in defaults.items() if value is not None}
    return structure


_ZEROS: Final[dict[str, Any]] = {"string": "", "bool": False, "int32": 0, "int64": 0}


def _key_default(field: Field) -> Any:
    """The value of a missing key: the schema's default, or the zero value for fields that are always printed."""
    if field.default is None and field.always_printed and not field.pointer:
        return _ZEROS.get(field.shape.form)
    return field.default


_LISTS: Final[Mapping[str, Relation]] = {"map": "keyed", "set": "set"}


def _relation(shape: TypeShape, list_type: str, map_type: str) -> Relation:
    form = shape.form
    if form == "struct":
        return "leaf" if map_type == "atomic" else "struct"
    if form == "map":
        return "leaf" if map_type == "atomic" else "map"
    if form == "slice":
        return _LISTS.get(list_type, "leaf")
    return "deduced" if form in _DEDUCED_FORMS else "leaf"


def _json(value: Any) -> str:
    """JSON as Go encodes it, with HTML characters escaped."""
    text = msgspec.json.encode(value).decode()
    if "<" in text or ">" in text or "&" in text or "\u2028" in text or "\u2029" in text:
        for character in "<>&\u2028\u2029":
            text = text.replace(character, f"\\u{ord(character):04x}")
    return text
