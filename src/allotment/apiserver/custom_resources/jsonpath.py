"""Paths into an object, as printer columns and scale subresources name them: a small part of kubectl's JSONPath."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple


class PathError(ValueError):
    """Raised for a text that is no path."""


class Filter(NamedTuple):
    """``[?(@.type=="Ready")]``: the items where a path has (or has not) a value."""

    path: tuple[Step, ...]
    operator: str
    value: Any


#: A field or key, an index, every item (``*``), or a filter.
Step = str | int | None | Filter

_FIELD: Final = re.compile(r"\.((?:[^.\[\]{}()*'\"\s\\]|\\.)+)")
_INDEX: Final = re.compile(r"\[(-?[0-9]+)\]")
_KEY: Final = re.compile(r"\[(?:'((?:[^'\\]|\\.)*)'|\"((?:[^\"\\]|\\.)*)\")\]")
_FILTER: Final = re.compile(r"\[\?\(\s*@([^=!<>]*?)\s*(==|!=|<=|>=|<|>)\s*(.+?)\s*\)\]")
_EVERY: Final = re.compile(r"\[\*\]|\.\*")


@lru_cache(1024)
def parse(text: str) -> tuple[Step, ...]:
    r"""The steps of a path. Raises PathError.

    >>> parse(".status.conditions[?(@.type=='Ready')].status")[1]
    'conditions'
    >>> parse(r".metadata.labels.example\.com/name")
    ('metadata', 'labels', 'example.com/name')
    """
    steps: list[Step] = []
    at = 0
    while at < len(text):
        for pattern, read in _STEPS:
            match = pattern.match(text, at)
            if match is not None:
                steps.append(read(match))
                at = match.end()
                break
        else:
            raise PathError(f"is an invalid path: {text}")
    return tuple(steps)


def _filter(match: re.Match[str]) -> Filter:
    literal = match[3]
    value: Any
    if literal[:1] in "'\"":
        value = literal[1:-1]
    elif literal in ("true", "false"):
        value = literal == "true"
    else:
        try:
            value = float(literal)
        except ValueError:
            raise PathError(f"unrecognized literal {literal}") from None
    return Filter(parse(match[1]), match[2], value)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text)


_STEPS: Final[tuple[tuple[re.Pattern[str], Any], ...]] = (
    (_EVERY, lambda match: None),
    (_FIELD, lambda match: _unescaped(match[1])),
    (_INDEX, lambda match: int(match[1])),
    (_KEY, lambda match: _unescaped(match[1] if match[1] is not None else match[2])),
    (_FILTER, _filter),
)


def find(value: Any, steps: tuple[Step, ...]) -> Iterator[Any]:
    """Everything that a path leads to; what is missing is passed over."""
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if isinstance(step, Filter):
        for each in value if type(value) is list else ():
            if _passes(each, step):
                yield from find(each, rest)
    elif step is None:
        for each in value if type(value) is list else value.values() if type(value) is dict else ():
            yield from find(each, rest)
    elif isinstance(step, int):
        if type(value) is list and -len(value) <= step < len(value):
            yield from find(value[step], rest)
    elif type(value) is dict and step in value:
        yield from find(value[step], rest)


def _passes(value: Any, wanted: Filter) -> bool:
    for found in find(value, wanted.path):
        if isinstance(found, str) is not isinstance(wanted.value, str):
            return False
        match wanted.operator:
            case "==":
                return bool(found == wanted.value)
            case "!=":
                return bool(found != wanted.value)
            case "<":
                return bool(found < wanted.value)
            case "<=":
                return bool(found <= wanted.value)
            case ">":
                return bool(found > wanted.value)
            case ">=":
                return bool(found >= wanted.value)
    return False
