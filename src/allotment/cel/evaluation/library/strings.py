"""Functions on strings: strings library v2, the core predicates, regular expressions. Positions are code points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.cel import regex
from allotment.cel.evaluation import value_format
from allotment.cel.evaluation.equality import NO_SUCH_OVERLOAD
from allotment.cel.evaluation.library import format_string
from allotment.cel.evaluation.library.arithmetic import MAX_STRING_LENGTH, raise_no_such_overload
from allotment.cel.evaluation.values import CelError, CostLimitExceeded, ListValue, Optional, TypeValue, Value

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER: Final = {c: c + 32 for c in range(65, 91)}
_UPPER: Final = {c: c - 32 for c in range(97, 123)}
# fmt: off
_QUOTED: Final = str.maketrans(
    {
        "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
        '"': '\\"',
    }
)
# fmt: on


def _out_of_range(index: int) -> CelError:
    return CelError(f"index out of range: {index}")


def char_at(text: str, index: int) -> str:
    """The character at an index; empty if the index is the length."""
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    """The index of the first occurrence of ``part`` at or after ``start``, or -1."""
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.find(part, start) if start < len(text) else -1


def last_index_of(text: str, part: str) -> int:
    """The index of the last occurrence of ``part``, or -1."""
    return text.rfind(part) if part else len(text)


def last_index_of_from(text: str, part: str, start: int) -> int:
    """The index of the last occurrence of ``part`` at or before ``start``, or -1; -1 for a start beyond the end."""
    if not part:
        return start
    if start < 0:
        raise _out_of_range(start)
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """Replaces at most ``limit`` occurrences, all if negative; an empty ``old`` occurs around every character."""
    if len(new) > len(old):
        times = len(text) + 1 if not old else text.count(old)
        if 0 <= limit < times:
            times = limit
        if len(text) + times * (len(new) - len(old)) > MAX_STRING_LENGTH:
            raise CostLimitExceeded
    return text.replace(old, new, limit if limit >= 0 else -1)


def split(text: str, separator: str, limit: int = -1) -> ListValue:
    """Splits into at most ``limit`` parts, no limit if negative; an empty separator gives the characters."""
    if limit == 0:
        return ListValue([])
    if separator:
        return ListValue(list(text.split(separator, limit - 1 if limit > 0 else -1)))
    if 0 < limit < len(text):
        return ListValue([*text[: limit - 1], text[limit - 1 :]])
    return ListValue(list(text))


def substring(text: str, start: int) -> str:
    """The characters from ``start`` to the end."""
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    return text[start:]


def substring_range(text: str, start: int, end: int) -> str:
    """The characters from ``start`` to ``end``, exclusive."""
    if start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def quote(text: str) -> str:
    """The text as a CEL string literal."""
    return '"' + text.translate(_QUOTED) + '"'


def join(parts: ListValue, separator: str = "") -> str:
    """Joins strings with a separator."""
    total = 0
    for part in parts.items:
        if type(part) is not str:
            raise CelError(f"join: invalid input: {value_format.go_format(part)}")
        total += len(part) + len(separator)
    if total > MAX_STRING_LENGTH:
        raise CostLimitExceeded
    return separator.join(parts.items)


def _string_predicate(compute: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    """A core predicate: it has no type guard and checks its arguments itself."""

    def test(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            raise CelError(NO_SUCH_OVERLOAD)
        return compute(text, part)

    return test


# --- regular expressions -----------------------------------------------------------------------------------------


def matches(text: Value, pattern: Value) -> bool:
    """Whether the pattern occurs in the text, for patterns computed at run time."""
    if type(text) is not str:
        raise_no_such_overload("matches", text)
    if type(pattern) is not str:
        raise CelError(NO_SUCH_OVERLOAD)
    try:
        return regex.compile(pattern).matches(text)
    except regex.RegexError as error:
        raise CelError(str(error)) from None


def _compiled(pattern: str) -> regex.Regex:
    try:
        return regex.compile(pattern)
    except regex.RegexError as error:
        raise CelError(f"Illegal regex: {error}") from None


def find(text: str, pattern: str) -> str:
    """The first match or an empty string."""
    return _compiled(pattern).find(text)


def find_all(text: str, pattern: str, limit: int = -1) -> ListValue:
    """At most ``limit`` matches, all if negative."""
    found = _compiled(pattern)
    return ListValue(list(found.find_all(text, limit))) if limit else ListValue([])


def _as_native(value: Value, expected: type) -> Value:
    """An argument as its native Go value: an optional as its content, a type as its name."""
    while type(value) is Optional:
        value = value.value
    if type(value) is TypeValue:
        value = value.name
    if type(value) is not expected:
        raise CelError(NO_SUCH_OVERLOAD)
    return value


def constant_pattern(function: str, pattern: str) -> Callable[..., Value]:
    """``matches``, ``find`` or ``findAll`` for a constant pattern, without type guards. Raises RegexError."""
    compiled = regex.compile(pattern)

    def checked(text: Value) -> str:
        return _as_native(text, str)

    def find_all(text: Value, _: Value, limit: Value = -1) -> ListValue:
        subject, count = checked(text), _as_native(limit, int)
        return ListValue(list(compiled.find_all(subject, count))) if count else ListValue([])

    if function == "matches":
        return lambda text, _: compiled.matches(checked(text))
    if function == "find":
        return lambda text, _: compiled.find(checked(text))
    return find_all


OVERLOADS: Final[dict[str, Callable[..., Value]]] = {
    "contains_string": _string_predicate(lambda text, part: part in text),
    "ends_with_string": _string_predicate(str.endswith),
    "starts_with_string": _string_predicate(str.startswith),
    "string_char_at_int": char_at,
    "string_index_of_string": index_of,
    "string_index_of_string_int": index_of,
    "string_last_index_of_string": last_index_of,
    "string_last_index_of_string_int": last_index_of_from,
    "string_lower_ascii": lambda text: text.translate(_LOWER),
    "string_upper_ascii": lambda text: text.translate(_UPPER),
    "string_replace_string_string": replace,
    "string_replace_string_string_int": replace,
    "string_split_string": split,
    "string_split_string_int": split,
    "string_substring_int": substring,
    "string_substring_int_int": substring_range,
    "string_trim": lambda text: text.strip(_SPACE),
    "string_format": format_string.format_string,
    "strings_quote": quote,
    "string_jsonpatch_escapeKey_string": lambda text: text.replace("~", "~0").replace("/", "~1"),
    "list_join": join,
    "list_join_string": join,
    "string_find_string": find,
    "string_find_all_string": find_all,
    "string_find_all_string_int": find_all,
}

#: Overloads that upstream calls without type guards.
UNGUARDED: Final = frozenset({"contains_string", "ends_with_string", "starts_with_string"})

SINGLETONS: Final[dict[str, Callable[..., Value]]] = {"matches": matches}
