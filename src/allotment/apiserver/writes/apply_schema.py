"""How server-side apply sees a type: what is one value, and what is a map, a list by keys or a set with owners inside.

Made from :class:`~allotment.model.fields.TypeShape` as far as objects need it: each struct learns a field when it first
meets one. Types without a schema are deduced from the value: maps have owners inside, lists are one value.
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
    """An item of a list by keys has none of them; upstream cannot name it either."""


class Structure:
    """A type as apply sees it. ``keys`` and ``defaults`` are those of a list by keys."""

    __slots__ = ("_elements", "defaults", "element", "fields", "keys", "kinship", "relation", "shape")

    def __init__(self, relation: Relation, shape: TypeShape | None) -> None:
        self.relation: Relation = relation
        self.shape = shape
        self.fields: dict[str, tuple[str, Structure]] = {}
        self.element: Structure | None = None
        self.keys: tuple[str, ...] = ()
        self.defaults: dict[str, Any] = {}
        self._elements: dict[Any, str] = {}

    def field(self, name: str) -> tuple[str, Structure]:
        """A member of a map or struct: its path element and its type. Fields nobody knows are deduced."""
        known = self.fields.get(name)
        if known is not None:
            return known
        element = f"f:{name}"
        if self.element is not None:
            return element, self.element
        assert self.shape is not None
        field = self.shape.fields.get(name)
        if field is not None:
            found = element, _of_field(field)
        elif self.shape.rest is not None:
            return element, structure_of(self.shape.rest)
        else:
            return element, DEDUCED
        self.fields[name] = found
        return found

    def declares(self, name: str) -> bool:
        """Whether a struct has a field of this name."""
        return self.relation == "struct" and self.shape is not None and name in self.shape.fields

    def item(self, value: Any) -> str:
        """The path element of an item of a list."""
        if self.relation == "set":
            return self._set_item(value)
        if type(value) is not dict:
            what = "a null element" if value is None else "non-map elements"
            raise UnkeyedError(f"associative list with keys may not have {what}")
        defaults = self.defaults
        key = tuple([value.get(name, defaults.get(name)) for name in self.keys])
        try:
            known = self._elements.get(key)
        except TypeError:
            return self._spell(value, key)
        if known is None or (type(key[0]) is not str and type(key[0]) is not int):
            known = self._spell(value, key)
            if len(self._elements) < 4096:
                self._elements[key] = known
        return known

    def _spell(self, value: dict[str, Any], key: tuple[Any, ...]) -> str:
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

_KNOWN: dict[tuple[int, str, tuple[str, ...], str], Structure] = {}
_MOST_KNOWN: Final = 20_000


def structure_of(shape: TypeShape | None) -> Structure:
    """The structure of a whole object, or of a value that no field holds. ``None``: nothing is known of it."""
    if shape is None:
        return DEDUCED
    return _structure(shape, shape.list_type, shape.list_keys, shape.map_type)


def _of_field(field: Field) -> Structure:
    return _structure(field.shape, field.list_type, field.list_keys, field.map_type)


def _structure(shape: TypeShape, list_type: str, list_keys: tuple[str, ...], map_type: str) -> Structure:
    key = (id(shape), list_type, list_keys, map_type)
    known = _KNOWN.get(key)
    if known is not None:
        return known
    if len(_KNOWN) >= _MOST_KNOWN:
        _KNOWN.clear()  # types of definitions long gone
    made = Structure(_relation(shape, list_type, map_type), shape)
    _KNOWN[key] = made
    if made.relation == "deduced":
        made.element = DEDUCED
    if made.relation in ("map", "keyed", "set"):
        assert shape.element is not None
        made.element = structure_of(shape.element)
        if made.relation == "keyed":
            made.keys = tuple(sorted(list_keys))
            fields = shape.element.fields
            defaults = {name: _key_default(fields[name]) for name in made.keys if name in fields}
            made.defaults = {name: value for name, value in defaults.items() if value is not None}
    return made


_ZEROS: Final[dict[str, Any]] = {"string": "", "bool": False, "int32": 0, "int64": 0}


def _key_default(field: Field) -> Any:
    """What a missing key counts as: the schema's default, which for fields that are always printed is their zero."""
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
    """JSON as Go writes it: safe for HTML."""
    text = msgspec.json.encode(value).decode()
    if "<" in text or ">" in text or "&" in text or "\u2028" in text or "\u2029" in text:
        for character in "<>&\u2028\u2029":
            text = text.replace(character, f"\\u{ord(character):04x}")
    return text
