"""Printer columns: how objects of a user's kind are shown as rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from allotment.apiserver.custom.json_paths import PathError, Step, find, parse
from allotment.apiserver.kinds.kind import Column, Reader, Table
from allotment.apiserver.reading.ages import age

Tree = dict[str, Any]

_NAME: Final = Column("Name", "string", "The object's name, unique in its namespace.", 0, "name")
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_DESCRIBED: Final = {".metadata.creationTimestamp": "When the server created the object."}


def table_of(columns: list[Tree]) -> Table:
    """The table for the ``additionalPrinterColumns`` of a version; without any, name and age are shown."""
    shown = columns or [_AGE]
    paths = [(_steps(column["jsonPath"]), column["type"]) for column in shown]
    heads = [
        Column(
            column["name"],
            column["type"],
            column.get("description") or _DESCRIBED.get(column["jsonPath"], f"The value at {column['jsonPath']}."),
            column.get("priority", 0),
            column.get("format", ""),
        )
        for column in shown
    ]

    def cells(tree: Tree, now: str, _: Reader) -> list[Any]:
        return [tree["metadata"]["name"], *(_cell(tree, steps, sort, now) for steps, sort in paths)]

    return Table((_NAME, *heads), cells)


def _steps(path: str) -> tuple[Step, ...] | None:
    try:
        return parse(path)
    except PathError:
        return None


def _cell(tree: Tree, steps: tuple[Step, ...] | None, sort: str, now: str) -> Any:
    if steps is None:
        return None
    for value in find(tree, steps):
        return _CELLS[sort](value, now)
    return None


def _text(value: Any, _: str) -> Any:
    if type(value) is str:
        return value
    if value is None:
        return "<nil>"
    if type(value) is bool:
        return "true" if value else "false"
    return msgspec.json.encode(value).decode()


def _whole(value: Any, _: str) -> Any:
    return int(value) if type(value) in (int, float) else None


def _number(value: Any, _: str) -> Any:
    return float(value) if type(value) in (int, float) else None


def _truth(value: Any, _: str) -> Any:
    return value if type(value) is bool else None


def _date(value: Any, now: str) -> Any:
    return age(value, now) if type(value) is str else None


_CELLS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "string": _text, "integer": _whole, "number": _number, "boolean": _truth, "date": _date,
}  # fmt: skip
