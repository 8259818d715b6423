"""Prints the server's tables as kubectl does."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from allotment.cli.output.errors import Failure
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

Query = list[tuple[str, str]]

ACCEPT = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
#: The page size of kubectl.
_PAGE = "500"


class Layout(NamedTuple):
    """The columns to show in addition to the default ones. ``label`` is a prefix of names: ``pod/``."""

    wide: bool = False
    namespaces: bool = False
    labels: bool = False
    label: str = ""


class Table:
    """Columns and rows of the server's responses; the rows of several responses form one table."""

    def __init__(self) -> None:
        self.columns: list[Tree] = []
        self.rows: list[Tree] = []
        self.revision = ""

    def add(self, tree: Tree) -> None:
        """Add the rows of a response."""
        if tree.get("kind") != "Table":
            tree = _made(tree)
        self.columns = tree.get("columnDefinitions") or self.columns
        self.rows += tree.get("rows") or ()
        self.revision = (tree.get("metadata") or {}).get("resourceVersion") or self.revision

    def header(self, layout: Layout) -> list[str]:
        """Return the names of the columns that the layout shows."""
        names = [column["name"].upper() for column in self.columns if layout.wide or not column.get("priority")]
        return [*(["NAMESPACE"] if layout.namespaces else ()), *names, *(["LABELS"] if layout.labels else ())]

    def cells(self, layout: Layout) -> Iterator[list[str]]:
        """Return the rows as text."""
        shown = [n for n, column in enumerate(self.columns) if layout.wide or not column.get("priority")]
        names = {n for n in shown if self.columns[n].get("format") == "name" or self.columns[n].get("name") == "Name"}
        named = min(names, default=-1)
        for row in self.rows:
            cells = row.get("cells") or ()
            line = [_text(cells[n]) if n < len(cells) else "" for n in shown]
            if layout.label and named in shown:
                line[shown.index(named)] = f"{layout.label}/{line[shown.index(named)]}"
            metadata = (row.get("object") or {}).get("metadata") or {}
            if layout.namespaces:
                line.insert(0, metadata.get("namespace", ""))
            if layout.labels:
                line.append(",".join(f"{k}={v}" for k, v in sorted((metadata.get("labels") or {}).items())) or "<none>")
            yield line


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    text = str(cell)
    line = text.splitlines()[0] if text.splitlines() else ""
    return text if line == text else f"{line}..."


def _made(tree: Tree) -> Tree:
    """Return a table of objects, for a server without table support."""
    items = tree.get("items", [tree])
    return {
        "columnDefinitions": [{"name": "Name", "format": "name"}, {"name": "Created At"}],
        "rows": [
            {"cells": [item["metadata"].get("name"), item["metadata"].get("creationTimestamp")], "object": item}
            for item in items
        ],
        "metadata": tree.get("metadata") if "items" in tree else {},
    }


async def listed(client: HttpClient, resource: Resource, namespace: str, query: Query) -> Table:
    """Return all objects, read page by page."""
    table, token = Table(), ""
    while True:
        more = [("limit", _PAGE), *([("continue", token)] if token else [])]
        tree = await client.read(resource.path(namespace), [*query, *more], ACCEPT)
        table.add(tree)
        token = (tree.get("metadata") or {}).get("continue") or ""
        if not token:
            return table


async def table_of(client: HttpClient, resource: Resource, namespace: str, name: str) -> Table:
    """Return a table of one object."""
    table = Table()
    table.add(await client.read(path_of(resource, namespace, name), (), ACCEPT))
    return table


def path_of(resource: Resource, namespace: str, name: str) -> str:
    """Return the path of an object. Raises Failure for a name that is not a path segment."""
    if "/" in name or name in (".", ".."):
        raise Failure(f"error: {name!r} is not a valid object name")
    from urllib.parse import quote

    return resource.path(namespace, quote(name, safe=":@!$&'()*+,;=~"))


async def followed(
    client: HttpClient, resource: Resource, namespace: str, query: Query, revision: str, accept: str = ACCEPT
) -> AsyncIterator[tuple[str, Tree]]:
    """Yield changes after a revision, as tables or (by ``accept``) as objects, until the server closes the watch."""
    more = [("watch", "true"), ("resourceVersion", revision), ("allowWatchBookmarks", "true")]
    kept = b""
    async for piece in client.stream(resource.path(namespace), [*query, *more], accept):
        *lines, kept = (kept + piece).split(b"\n")
        for line in lines:
            if not line.strip():
                continue
            event = msgspec.json.decode(line, type=dict[str, Any])
            if event.get("type") == "ERROR":
                raise StatusError(event.get("object") or {})
            yield str(event.get("type")), event.get("object") or {}


def selection(labels: str | None, fields: str | None) -> Query:
    """Return the query parameters of the selectors."""
    return [(key, value) for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value]
