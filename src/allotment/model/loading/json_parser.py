"""One JSON text to a tree of plain values: the C parser for values, a small scanner for positions when asked.

Kubernetes reads JSON as JSON, not as YAML: tabs may indent, ``yes`` is no value, and numbers keep 64 bits.
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

_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TOKEN: Final = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+)', re.DOTALL)
_START: Final = re.compile(r"(?:---(?=\s))?\s*(?=[{\[])")


class _Unfit(ValueError):
    """Raised for what JSON or Python would accept and Kubernetes does not."""


def json_start(text: str) -> int | None:
    """Where JSON would begin in a document that opens like JSON; YAML's flow style may open the same way."""
    match = _START.match(text)
    return match.end() if match else None


def parse(text: str, offset: int = 0) -> Iterator[tuple[Any, int, list[DuplicateKey]]]:
    """Every value of a stream of JSON values from ``offset`` on: value, offset, keys that stand twice.

    Raises ``Fault``.
    """
    repeated: list[bool] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(items)
        if len(mapping) != len(items):
            repeated.append(True)
        return mapping

    decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_float=_float, parse_constant=_constant)
    offset = _space(text, offset)
    while offset < len(text):
        try:
            value, end = decoder.raw_decode(text, offset)
        except json.JSONDecodeError as error:
            raise DocumentError("bad-json", f"not JSON: {_lower_first(error.msg)}", error.lineno - 1, error.colno - 1) from None
        except RecursionError:
            raise _fault(text, offset, "too-deep", f"nested deeper than {MAX_DEPTH} levels") from None
        except _Unfit as error:
            raise _fault(text, offset, "bad-json", f"not JSON for Kubernetes: {error}") from None
        except ValueError:  # Python converts no longer ones
            message = "not JSON for Kubernetes: an integer of thousands of digits"
            raise _fault(text, offset, "bad-json", message) from None
        if (type(value) is dict or type(value) is list) and too_deep(value):
            raise _fault(text, offset, "too-deep", f"nested deeper than {MAX_DEPTH} levels")
        yield value, offset, marks(text, offset)[1] if repeated else []
        repeated.clear()
        offset = _space(text, end)


def marks(text: str, offset: int) -> tuple[ValueMark, list[DuplicateKey]]:
    """Positions of the JSON value at ``offset``, which ``read`` has accepted, and the keys that stand twice."""
    line_starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(at: int) -> tuple[int, int]:
        line = bisect_right(line_starts, at) - 1
        return line, at - line_starts[line]

    duplicates: list[DuplicateKey] = []
    stack: list[ValueMark] = []
    keys: list[str | int] = []  # the step being filled, one per open container
    pending: tuple[int, int, int, int] | None = None  # where the key stands whose value comes next
    while True:
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
        line, column = place(start)
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
    """Puts a container whose end is now known in the place of the open one."""
    if parent.items is not None:
        parent.items[-1] = mark
    elif parent.entries is not None and parent.entries[str(step)].value.start == mark.start:  # else it stands twice
        parent.entries[str(step)] = parent.entries[str(step)]._replace(value=mark)


def _float(text: str) -> int | float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _Unfit(f"number {text[:40]} is out of range")
    return json_float(number)


def _constant(text: str) -> NoReturn:
    raise _Unfit(f"{text} is no JSON value")


def _space(text: str, offset: int) -> int:
    match = _SPACE.match(text, offset)
    return match.end() if match else offset


def _fault(text: str, offset: int, code: str, message: str) -> DocumentError:
    return DocumentError(code, message, text.count("\n", 0, offset), offset - (text.rfind("\n", 0, offset) + 1))


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:]
