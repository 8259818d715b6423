"""Printer columns: how objects of a user's kind are shown as rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from allotment.apiserver.custom_resources.jsonpath import PathError, Step, find, parse
from allotment.apiserver.kinds.kind import Column, Reader, Table
from allotment.apiserver.reads.columns import age
from allotment.apiserver.reads.columns import columns as named
from allotment.model.trees import Tree

_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_WHERE: Final = "Custom resource definition column (in JSONPath format): "


def table_of(columns: list[Tree]) -> Table:
    """The table for the ``additionalPrinterColumns`` of a version; without any, name and age are shown."""
    shown = columns or [_AGE]
    paths = [(_steps(column["jsonPath"]), column["type"]) for column in shown]
    heads = [
        Column(
            column["name"],
            column["type"],
            column.get("description") or f"{_WHERE}{column['jsonPath']}",
            column.get("priority", 0),
            column.get("format", ""),
        )
        for column in shown
    ]

    def cells(tree: Tree, now: str, _: Reader) -> list[Any]:
        return [tree["metadata"]["name"], *(_cell(tree, steps, sort, now) for steps, sort in paths)]

    return Table((*named("Name"), *heads), cells)


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
    if type(value) is not str:
        return None
    try:
        return age(value, now)
    except ValueError:
        return "<invalid>"


_CELLS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "string": _text, "integer": _whole, "number": _number, "boolean": _truth, "date": _date,
}  # fmt: skip
