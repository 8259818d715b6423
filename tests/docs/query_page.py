"""The page ``docs/reference/queries.md`` and the description of the HTTP API, generated from the table of queries.

``python -m tests.packaging.made_files`` writes them.
"""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import allotment
from allotment.queries.openapi import DESCRIPTION, PREFIX, openapi
from allotment.queries.schemas import request_schema
from allotment.queries.table import QUERIES, Query
from tests.docs.screens import DOCS, ROOT

PAGE: Final = DOCS / "reference" / "queries.md"
OPENAPI: Final = DOCS / "reference" / "schemas" / "openapi.json"
_wrap: Final[Callable[[str], str]] = runpy.run_path(str(ROOT / "scripts" / "wrap_docs"))["wrap"]
_MADE: Final = "<!-- generated from the table of queries by `python -m tests.packaging.made_files` -->"
_INTRO: Final = f"""\
Each query is a path of the HTTP API, `{PREFIX}NAME`, and a tool of `allot mcp` with the same name and fields:
[For programs](../how-to/programs.md). All of them only read. The answer is that of the command of the same name with
`-o json`; a query that has no command is described here. [openapi.json](schemas/openapi.json) describes requests,
answers and errors (OpenAPI 3.1); a server returns it as `{DESCRIPTION}`.

Requests are JSON objects; every field may be omitted unless it is marked as required. Queries with `GET` also accept
their fields, except for manifests, as parameters of the URL. Tools have one more field: `detail`, for the whole answer
instead of its essence in at most 2 kB. Manifests are texts; a query never reads a file of the server."""
#: The types of answers with a section in the pages of the Python API.
_SECTIONS: Final = {
    "Explanation": "../api/results.md#explanation",
    "FreeReport": "../api/results.md#freereport",
    **{name: f"../api/remote.md#{name.lower()}" for name in (
        "CheckAnswer", "ClassSelections", "CodeMeaning", "FitAnswer", "PlanAnswer", "WhatIfScreen",
    )},
}  # fmt: skip


def files() -> dict[Path, str]:
    """The generated files, and their content."""
    return {PAGE: page(), OPENAPI: json.dumps(_unversioned(), indent=1) + "\n"}


def page() -> str:
    """The text of the page."""
    parts = [_INTRO, *(part for query in QUERIES for part in _section(query))]
    return "\n\n".join(["# Queries of programs", _MADE, _wrap("\n\n".join(parts))]).rstrip("\n") + "\n"


def _unversioned() -> Mapping[str, Any]:
    """The description, which a new release changes only if the API changes."""
    found = openapi()
    assert found["info"]["version"] == allotment.__version__
    return {**found, "info": {**found["info"], "version": "0"}}


def _section(query: Query[Any]) -> Iterator[str]:
    yield f"## {query.name}"
    yield query.summary
    methods = "`GET` and `POST`" if query.is_get else "`POST`"
    answers = " or ".join(f"[`{answer.__name__}`]({_SECTIONS[answer.__name__]})" for answer in query.answers)
    yield f"{methods} `{PREFIX}{query.name}`. The answer is a value of {answers} as JSON."
    schema = request_schema(query.request)
    required = schema.get("required", ())
    rows = [
        f"| `{name}` | {_type(found)}{', required' if name in required else ''} | {_about(found)} |"
        for name, found in schema["properties"].items()
    ]
    yield "\n".join(["| field | type | |", "|---|---|---|", *rows])


def _about(schema: Mapping[str, Any]) -> str:
    text = str(schema.get("description", ""))
    items = schema.get("items", {})
    if "properties" in items:
        names = ", ".join(f"`{name}` ({_type(found)})" for name, found in items["properties"].items())
        text = f"Each has {names}. {items.get('description', '')}"
    return text.replace("|", "\\|").strip()


def _type(schema: Mapping[str, Any]) -> str:
    """The type of a field as text."""
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" for value in schema["enum"] if value != "")
    if "anyOf" in schema:
        return " or ".join(_type(each) for each in schema["anyOf"] if each != {"type": "null"})
    kind = schema.get("type", "value")
    if kind == "array":
        return f"list of {_type(schema['items'])}s"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"map of {_type(values)}s" if isinstance(values, dict) else "object"
    limits = [f"{sign} {schema[key]}" for key, sign in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return f"{kind} {' and '.join(limits)}".strip()
