"""Printer columns: table output of custom resources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from allotment.apiserver.kinds.kind import Column, StoreReader, TableConverter
from allotment.apiserver.reads.columns import age
from allotment.apiserver.reads.columns import columns as standard_columns
from allotment.model.jsonpath import EvaluationError, Template, TemplateError, parse, text_of
from allotment.model.trees import Tree

_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
_DESCRIPTION_PREFIX: Final = "Custom resource definition column (in JSONPath format): "


def table_converter(columns: list[Tree]) -> TableConverter:
    """The table converter for the ``additionalPrinterColumns`` of a version; by default name and age.

    Columns from the first one whose path cannot be parsed are dropped, as in kube-apiserver.
    """
    parsed_columns, paths = list[Tree](), list[tuple[Template, str]]()
    for column in columns or [_AGE]:
        try:
            paths.append((parse(f"{{{column['jsonPath']}}}"), column["type"]))
        except TemplateError:
            break
        parsed_columns.append(column)
    headers = [
        Column(
            column["name"],
            column["type"],
            column.get("description") or f"{_DESCRIPTION_PREFIX}{column['jsonPath']}",
            column.get("priority", 0),
            column.get("format", ""),
        )
        for column in parsed_columns
    ]

    def cells(tree: Tree, now: str, _: StoreReader) -> list[Any]:
        return [tree["metadata"]["name"], *(_cell(tree, path, column_type, now) for path, column_type in paths)]

    return TableConverter((*standard_columns("Name"), *headers), cells)


def _cell(tree: Tree, path: Template, column_type: str, now: str) -> Any:
    try:
        values = path.first(tree)
    except EvaluationError:
        return None
    return _CELL_VALUES[column_type](values[0], now) if values else None


def _text(value: Any, _: str) -> Any:
    return "<no value>" if value is None else text_of(value)


def _integer(value: Any, _: str) -> Any:
    return int(value) if type(value) in (int, float) else None


def _number(value: Any, _: str) -> Any:
    return float(value) if type(value) in (int, float) else None


def _boolean(value: Any, _: str) -> Any:
    return value if type(value) is bool else None


def _date(value: Any, now: str) -> Any:
    if type(value) is not str:
        return None
    try:
        return age(value, now)
    except ValueError:
        return "<invalid>"


_CELL_VALUES: Final[dict[str, Callable[[Any, str], Any]]] = {
    "string": _text, "integer": _integer, "number": _number, "boolean": _boolean, "date": _date,
}  # fmt: skip
