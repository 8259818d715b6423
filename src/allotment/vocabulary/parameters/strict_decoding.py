"""Decodes driver parameters strictly: rejects unknown fields and wrong types, and reports all problems together.

The kinds of a driver are msgspec structs by (apiVersion, kind); their types are all that decoding needs.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, TypeAlias

import msgspec
from msgspec import inspect

from allotment.decoding import decodable
from allotment.model.quantity import Quantity, QuantityError
from allotment.vocabulary.parameters.problem import ParameterProblem, Path

Kinds: TypeAlias = Mapping[tuple[str, str], type]


class ParameterError(Exception):
    """Raised for parameters that cannot be decoded, with all their problems."""

    def __init__(self, problems: Iterable[ParameterProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def decode_parameters(parameters: Any, kinds: Kinds) -> Any:
    """Decode a driver's parameters. Raises ParameterError with the path, and what was expected and found.

    >>> class Mode(msgspec.Struct):
    ...     speed: int = 1
    >>> decode_parameters({"apiVersion": "v1", "kind": "Mode", "sped": 2}, {("v1", "Mode"): Mode})
    Traceback (most recent call last):
    ...
    allotment.vocabulary.parameters.strict_decoding.ParameterError: sped: unknown field of Mode; did you mean "speed"?
    """
    if not isinstance(parameters, dict):
        raise ParameterError([ParameterProblem((), "parameters", f"expected an object, found {_format(parameters)}")])
    version, kind = parameters.get("apiVersion"), parameters.get("kind")
    parameter_type = kinds.get((version, kind)) if isinstance(version, str) and isinstance(kind, str) else None
    if parameter_type is None:
        raise ParameterError([_unknown_kind(version, kind, kinds)])
    tree = {key: value for key, value in parameters.items() if key not in ("apiVersion", "kind")}
    problems = list(_problems(tree, _type_info(parameter_type), ()))
    if problems:
        raise ParameterError(problems)
    try:
        return msgspec.convert(tree, decodable(parameter_type), dec_hook=_decode)
    except (msgspec.ValidationError, QuantityError) as error:
        # The walk below finds wrong names and values of closed sets; only bounds and patterns of types remain.
        text, _, location = str(error).partition(" - at `$")
        location = location.rstrip("`").lstrip(".")
        raise ParameterError([ParameterProblem((), location or "parameters", text)]) from None


@lru_cache(maxsize=64)
def _type_info(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


def _decode(type_: type, value: Any) -> Any:
    if type_ is Quantity:
        return Quantity.parse(value) if isinstance(value, str) else Quantity.of_int(value)
    raise NotImplementedError(type_)


def _unknown_kind(version: object, kind: object, kinds: Kinds) -> ParameterProblem:
    supported = (
        ", ".join(f"{kind} of {version}" for version, kind in sorted(kinds))
        or "none, because this driver has no parameters"
    )
    if version is None or kind is None:
        missing = [name for name, value in (("apiVersion", version), ("kind", kind)) if value is None]
        return ParameterProblem((), " and ".join(missing), f"expected a value, found none; supported: {supported}")
    for known_version, known_kind in kinds:
        if known_kind == kind:
            text = f'expected "{known_version}" for kind {kind}, found {_format(version)}'
            return ParameterProblem(("apiVersion",), "apiVersion", text, near=known_version)
    near = nearest(kind, [known_kind for _, known_kind in kinds])
    text = f"unknown kind {_format(kind)} of {_format(version)}; supported: {supported}{_did_you_mean(near)}"
    return ParameterProblem(("kind",), "kind", text, near=near)


def _problems(value: Any, type: inspect.Type, path: Path) -> Iterator[ParameterProblem]:
    """Yield problems for names and values that the type does not have."""
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
            yield _type_problem(path, "an object", value)
            return
        for key, each in value.items():
            yield from _problems(each, type.value_type, (*path, _Key(key)))
    elif isinstance(type, inspect.VarTupleType | inspect.ListType):
        if not isinstance(value, list):
            yield _type_problem(path, "a list", value)
            return
        for index, each in enumerate(value):
            yield from _problems(each, type.item_type, (*path, index))
    elif isinstance(type, inspect.LiteralType | inspect.EnumType):
        known = [each.value for each in type.cls] if isinstance(type, inspect.EnumType) else list(type.values)
        if value not in known or isinstance(value, bool):
            expected = ", ".join(_format(each) for each in known)
            near = nearest(value, known)
            yield ParameterProblem(
                path, path_text(path), f"expected one of {expected}, found {_format(value)}{_did_you_mean(near)}", near
            )
    elif isinstance(type, inspect.CustomType) and type.cls is Quantity:
        if not _is_quantity(value):
            yield _type_problem(path, 'a quantity such as "512Mi"', value)
    else:
        for kind, (fits, expected) in _PLAIN_TYPES.items():
            if isinstance(type, kind) and (
                not isinstance(value, fits) or (isinstance(value, bool) and fits is not bool)
            ):
                yield _type_problem(path, expected, value)


def _of_struct(value: Any, type: inspect.StructType, path: Path) -> Iterator[ParameterProblem]:
    if not isinstance(value, dict):
        yield _type_problem(path, "an object", value)
        return
    fields = {field.encode_name: field for field in type.fields}
    for key, item in value.items():
        field_path = (*path, str(key))
        if key in fields:
            yield from _problems(item, fields[key].type, field_path)
        else:
            near = nearest(key, fields)
            hint = _did_you_mean(near) or f"; its fields are {', '.join(fields) or 'none'}"
            yield ParameterProblem(
                field_path, path_text(field_path), f"unknown field of {type.cls.__name__}{hint}", near, key=True
            )
    for name, field in fields.items():
        if field.required and name not in value:
            yield ParameterProblem((*path, name), path_text((*path, name)), "expected a value, found none")


def _is_quantity(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, int) and not isinstance(value, bool)
    try:
        Quantity.parse(value)
    except QuantityError:
        return False
    return True


_PLAIN_TYPES: Final[Mapping[type[inspect.Type], tuple[type | tuple[type, ...], str]]] = {
    inspect.IntType: (int, "a whole number"),
    inspect.FloatType: ((int, float), "a number"),
    inspect.StrType: (str, "a string"),
    inspect.BoolType: (bool, "true or false"),
}


# --- words -----------------------------------------------------------------------------------------------------------


class _Key(str):
    """A key of a map, which the text of a path shows in brackets."""

    __slots__ = ()


def path_text(path: Path) -> str:
    """Return the text of a path: ``sharing.limits["0"]``, ``names[1]``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif isinstance(step, _Key):
            text += f"[{_format(str(step))}]"
        else:
            text += f".{step}" if text else step
    return text


def nearest(name: Any, names: Iterable[Any]) -> str:
    """Return the most similar known name, ignoring case; empty if none is similar."""
    by_case = {str(item).casefold(): str(item) for item in names}
    close = difflib.get_close_matches(str(name).casefold(), by_case, 1, 0.6)
    return by_case[close[0]] if close else ""


def _type_problem(path: Path, expected: str, found: Any) -> ParameterProblem:
    return ParameterProblem(path, path_text(path), f"expected {expected}, found {_format(found)}")


def _did_you_mean(near: str) -> str:
    return f'; did you mean "{near}"?' if near else ""


def _format(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
