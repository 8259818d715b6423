"""Printer columns: how objects of a user's kind are shown as rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from allotment.apiserver.kinds.kind import Column, Reader, Table
from allotment.apiserver.reads.columns import age
from allotment.apiserver.reads.columns import columns as named
from allotment.model.jsonpath import EvaluationError, Template, TemplateError, parse, text_of
from allotment.model.trees import Tree

_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_WHERE: Final = "Custom resource definition column (in JSONPath format): "


def table_of(columns: list[Tree]) -> Table:
    """The table for the ``additionalPrinterColumns`` of a version; without any, name and age are shown.

    A path that cannot be parsed ends the columns, as in kube-apiserver.
    """
    shown, paths = list[Tree](), list[tuple[Template, str]]()
    for column in columns or [_AGE]:
        try:
            paths.append((parse(f"{{{column['jsonPath']}}}"), column["type"]))
        except TemplateError:
            break
        shown.append(column)
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
        return [tree["metadata"]["name"], *(_cell(tree, path, form, now) for path, form in paths)]

    return Table((*named("Name"), *heads), cells)


def _cell(tree: Tree, path: Template, form: str, now: str) -> Any:
    try:
        found = path.first(tree)
    except EvaluationError:
        return None
    return _CELLS[form](found[0], now) if found else None


def _text(value: Any, _: str) -> Any:
    return "<no value>" if value is None else text_of(value)


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
