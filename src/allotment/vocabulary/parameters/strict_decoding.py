"""The strict reading of parameters: nothing unknown, every value of its type, all that is wrong at once.

A driver's kinds are msgspec structs by (apiVersion, kind); nothing but their types is needed to read them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import inspect

from allotment.model.quantity import Quantity, QuantityError
from allotment.vocabulary.parameters.problem import Path, Problem

Kinds: TypeAlias = Mapping[tuple[str, str], type]


class Misread(Exception):
    """Raised for parameters that no kind has, with all that is wrong with them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def read(parameters: Any, kinds: Kinds) -> Any:
    """The value of a driver's parameters. Raises Misread with the path, what was found and what is expected.

    >>> class Mode(msgspec.Struct):
    ...     speed: int = 1
    >>> read({"apiVersion": "v1", "kind": "Mode", "sped": 2}, {("v1", "Mode"): Mode})
    Traceback (most recent call last):
    ...
    allotment.vocabulary.parameters.strict_decoding.Misread: sped: Mode has no such field; did you mean "speed"?
    """
    if not isinstance(parameters, dict):
        raise Misread([Problem((), "parameters", f"expected an object, found {_shown(parameters)}")])
    version, kind = parameters.get("apiVersion"), parameters.get("kind")
    wanted = kinds.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if wanted is None:
        raise Misread([_unknown_kind(version, kind, kinds)])
    tree = {key: value for key, value in parameters.items() if key not in ("apiVersion", "kind")}
    problems = list(_problems(tree, _type_info(wanted), ()))
    if problems:
        raise Misread(problems)
    try:
        return msgspec.convert(tree, wanted, dec_hook=_decode)
    except (msgspec.ValidationError, QuantityError) as error:
        # The walk knows names and closed sets; what is left are bounds and patterns of the type itself.
        text, _, place = str(error).partition(" - at `$")
        place = place.rstrip("`").lstrip(".")
        raise Misread([Problem((), place or "parameters", text)]) from None


@lru_cache(maxsize=64)
def _type_info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _decode(wanted: type, value: Any) -> Any:
    if wanted is Quantity:
        return Quantity.parse(value) if isinstance(value, str) else Quantity.of_int(value)
    raise NotImplementedError(wanted)


def _unknown_kind(version: object, kind: object, kinds: Kinds) -> Problem:
    known = (
        ", ".join(f"{kind} of {version}" for version, kind in sorted(kinds)) or "none: this driver has no parameters"
    )
    if version is None or kind is None:
        missing = [name for name, value in (("apiVersion", version), ("kind", kind)) if value is None]
        return Problem((), " and ".join(missing), f"expected a value, found none; known are {known}")
    for known_version, known_kind in kinds:
        if known_kind == kind:
            text = f'{kind} is of "{known_version}", found {_shown(version)}'
            return Problem(("apiVersion",), "apiVersion", text, near=known_version)
    near = nearest(kind, [known_kind for _, known_kind in kinds])
    text = f"found {_shown(kind)} of {_shown(version)}; known are {known}{_meant(near)}"
    return Problem(("kind",), "kind", text, near=near)


def _problems(value: Any, type: inspect.Type, path: Path) -> Iterator[Problem]:
    """Names and values that a type has not, at their paths."""
    if isinstance(type, inspect.UnionType):
        if value is None and any(isinstance(each, inspect.NoneType) for each in type.types):
            return
        fitting = [each for each in type.types if not isinstance(each, inspect.NoneType)]
        if len(fitting) == 1:
            yield from _problems(value, fitting[0], path)
    elif isinstance(type, inspect.StructType):
        yield from _of_struct(value, type, path)
    elif isinstance(type, inspect.DictType):
        if not isinstance(value, dict):
            yield _wrong(path, "an object", value)
            return
        for key, each in value.items():
            yield from _problems(each, type.value_type, (*path, _Key(key)))
    elif isinstance(type, inspect.VarTupleType | inspect.ListType):
        if not isinstance(value, list):
            yield _wrong(path, "a list", value)
            return
        for index, each in enumerate(value):
            yield from _problems(each, type.item_type, (*path, index))
    elif isinstance(type, inspect.LiteralType | inspect.EnumType):
        known = [each.value for each in type.cls] if isinstance(type, inspect.EnumType) else list(type.values)
        if value not in known or isinstance(value, bool):
            wanted = ", ".join(_shown(each) for each in known)
            near = nearest(value, known)
            yield Problem(path, place_of(path), f"expected one of {wanted}, found {_shown(value)}{_meant(near)}", near)
    elif isinstance(type, inspect.CustomType) and type.cls is Quantity:
        if not _is_quantity(value):
            yield _wrong(path, 'a quantity such as "512Mi"', value)
    else:
        for kind, (fits, wanted) in _PLAIN.items():
            if isinstance(type, kind) and (
                not isinstance(value, fits) or (isinstance(value, bool) and fits is not bool)
            ):
                yield _wrong(path, wanted, value)


def _of_struct(value: Any, type: inspect.StructType, path: Path) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield _wrong(path, "an object", value)
        return
    fields = {field.encode_name: field for field in type.fields}
    for key, each in value.items():
        at = (*path, str(key))
        if key in fields:
            yield from _problems(each, fields[key].type, at)
        else:
            near = nearest(key, fields)
            more = _meant(near) or f"; its fields are {', '.join(fields) or 'none'}"
            yield Problem(at, place_of(at), f"{type.cls.__name__} has no such field{more}", near, key=True)
    for name, field in fields.items():
        if field.required and name not in value:
            yield Problem((*path, name), place_of((*path, name)), "expected a value, found none")


def _is_quantity(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int) and not isinstance(value, bool)
    try:
        Quantity.parse(value)
    except QuantityError:
        return False
    return True


_PLAIN: Final[Mapping[type[inspect.Type], tuple[type | tuple[type, ...], str]]] = {
    inspect.IntType: (int, "a whole number"),
    inspect.FloatType: ((int, float), "a number"),
    inspect.StrType: (str, "a string"),
    inspect.BoolType: (bool, "true or false"),
}


# --- words -----------------------------------------------------------------------------------------------------------


class _Key(str):
    """A key of a map, which a path in words shows in brackets."""

    __slots__ = ()


def place_of(path: Path) -> str:
    """A path in words: ``sharing.limits["0"]``, ``names[1]``."""
    words = ""
    for step in path:
        if isinstance(step, int):
            words += f"[{step}]"
        elif isinstance(step, _Key):
            words += f"[{_shown(str(step))}]"
        else:
            words += f".{step}" if words else step
    return words


def nearest(name: Any, known: Iterable[Any]) -> str:
    """The known name that is nearest, also where only the case differs; empty where nothing is near."""
    by_case = {str(each).casefold(): str(each) for each in known}
    close = difflib.get_close_matches(str(name).casefold(), by_case, 1, 0.6)
    return by_case[close[0]] if close else ""


def _wrong(path: Path, wanted: str, found: Any) -> Problem:
    return Problem(path, place_of(path), f"expected {wanted}, found {_shown(found)}")


def _meant(near: str) -> str:
    return f'; did you mean "{near}"?' if near else ""


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
