"""Parses JSON text into trees of plain values with the C parser; a small scanner computes positions on demand.

Kubernetes parses JSON as JSON, not as YAML: tabs are allowed as indentation, ``yes`` is not a value, and integers have
64 bits.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, Final, NoReturn

from allotment.model.loading.marks import (
    MAX_DEPTH,
    MAX_PROBLEMS,
    DocumentError,
    DuplicateKey,
    EntryMark,
    ValueMark,
    join_path,
    too_deep,
)
from allotment.model.loading.scalars import json_float
from allotment.time_limits import check_time

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TOKEN: Final = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+)', re.DOTALL)
_START: Final = re.compile(r"(?:---(?=\s))?\s*(?=[{\[])")


class _UnsupportedValue(ValueError):
    """Raised for values that JSON or Python accepts and Kubernetes does not."""


def json_start(text: str) -> int | None:
    """The offset of the first bracket if a document starts like JSON, as YAML in flow style can, else None."""
    match = _START.match(text)
    return match.end() if match else None


def parse(text: str, offset: int = 0) -> Iterator[tuple[Any, int, list[DuplicateKey]]]:
    """Yield every value of a stream of JSON values, starting at ``offset``: value, offset, and duplicate keys.

    Raises ``DocumentError``.
    """
    has_duplicates: list[bool] = []

    def build_mapping(items: list[tuple[str, Any]]) -> dict[str, Any]:
        check_time()
        mapping = dict(items)
        if len(mapping) != len(items):
            has_duplicates.append(True)
        return mapping

    decoder = json.JSONDecoder(object_pairs_hook=build_mapping, parse_float=_float, parse_constant=_constant)
    offset = _skip_space(text, offset)
    while offset < len(text):
        try:
            value, end = decoder.raw_decode(text, offset)
        except json.JSONDecodeError as error:
            raise DocumentError(
                "bad-json", f"invalid JSON: {_lower_first(error.msg)}", error.lineno - 1, error.colno - 1
            ) from None
        except RecursionError:
            raise _document_error(text, offset, "too-deep", f"nested deeper than {MAX_DEPTH} levels") from None
        except _UnsupportedValue as error:
            raise _document_error(text, offset, "bad-json", f"not valid in Kubernetes: {error}") from None
        except ValueError:  # Python limits the number of digits of an integer
            message = "not valid in Kubernetes: an integer has thousands of digits"
            raise _document_error(text, offset, "bad-json", message) from None
        if (type(value) is dict or type(value) is list) and too_deep(value):
            raise _document_error(text, offset, "too-deep", f"nested deeper than {MAX_DEPTH} levels")
        yield value, offset, marks(text, offset)[1] if has_duplicates else []
        has_duplicates.clear()
        offset = _skip_space(text, end)


def marks(text: str, offset: int) -> tuple[ValueMark, list[DuplicateKey]]:
    """The positions and the duplicate keys of the JSON value at ``offset``, which ``parse`` has accepted."""
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def line_and_column(position: int) -> tuple[int, int]:
        line = bisect_right(line_starts, position) - 1
        return line, position - line_starts[line]

    duplicates: list[DuplicateKey] = []
    stack: list[ValueMark] = []
    keys: list[str | int] = []  # the current step in each open container
    pending: tuple[int, int, int, int] | None = None  # the position of the key whose value is next
    while True:
        check_time()
        match = _TOKEN.match(text, offset)
        assert match is not None
        offset = match.end()
        token = match[1]
        if token in ":,":
            continue
        if token in "}]":
            mark = stack.pop()._replace(stop=offset)
            keys.pop()
            if not stack:
                return mark, duplicates
            _close(stack[-1], keys[-1], mark)
            continue
        start = match.start(1)
        line, column = line_and_column(start)
        if stack and stack[-1].entries is not None and pending is None:
            pending = (line, column, start, offset)
            keys[-1] = json.loads(token)
            continue
        entries: dict[str, EntryMark] | None = {} if token == "{" else None
        mark = ValueMark(line, column, False, entries, [] if token == "[" else None, start, offset)
        if stack:
            parent = stack[-1]
            if parent.entries is not None:
                assert pending is not None
                key = str(keys[-1])
                earlier = parent.entries.get(key)
                if earlier is None:
                    parent.entries[key] = EntryMark(pending[0], pending[1], mark, pending[2], pending[3])
                elif len(duplicates) < MAX_PROBLEMS:
                    duplicates.append(DuplicateKey(join_path(tuple(keys)), *pending[:2], earlier.line))
                pending = None
            elif parent.items is not None:
                keys[-1] = len(parent.items)
                parent.items.append(mark)
        if token in "{[":
            stack.append(mark)
            keys.append("")
        elif not stack:
            return mark, duplicates


def _close(parent: ValueMark, step: str | int, mark: ValueMark) -> None:
    """Replace an open container by the one whose end is known."""
    if parent.items is not None:
        parent.items[-1] = mark
    elif parent.entries is not None and parent.entries[str(step)].value.start == mark.start:  # else a duplicate key
        parent.entries[str(step)] = parent.entries[str(step)]._replace(value=mark)


def _float(text: str) -> int | float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _UnsupportedValue(f"number {text[:40]} is out of range")
    return json_float(number)


def _constant(text: str) -> NoReturn:
    raise _UnsupportedValue(f"{text} is not a JSON value")


def _skip_space(text: str, offset: int) -> int:
    match = _SPACE.match(text, offset)
    return match.end() if match else offset


def _document_error(text: str, offset: int, code: str, message: str) -> DocumentError:
    return DocumentError(code, message, text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1))


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]
