"""The description of the HTTP API (OpenAPI 3.1), generated from the table of queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from msgspec.structs import fields

from allotment import __version__
from allotment.queries.problems import MEDIA_TYPE, Problem
from allotment.queries.schemas import schemas
from allotment.queries.table import QUERIES, Query

#: The path of the API: the name of a query follows.
PREFIX: Final = "/api/v1/"
#: Where the server returns this description.
DESCRIPTION: Final = f"{PREFIX}openapi.json"
_COMPONENTS: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_ABOUT: Final = (
    "Read-only questions about the GPUs of a Kubernetes cluster with dynamic resource allocation. The answers are those"
    " of the commands of the same name with `-o json`. Codes of reasons, rules and checks are stable. Additions are"
    " compatible: ignore properties that you do not know."
)
#: Which state of the cluster an answer is about.
_HEADERS: Final[Mapping[str, Any]] = {
    name: {"description": text, "schema": {"type": kind}}
    for name, kind, text in (
        ("Allotment-Revision", "integer", "Increases with each change of the cluster."),
        ("Allotment-Connected", "boolean", "False if the cluster does not respond: this is its last state."),
        ("Allotment-Seen-At", "string", "When this state was last confirmed, RFC 3339."),
    )
}
#: Statuses with a problem as the answer.
_PROBLEMS: Final[Mapping[str, str]] = {
    "400": "The request is invalid, names something unknown, or leaves nothing to answer.",
    "401": "The token is missing or wrong.",
    "413": "The request is larger than 5 MB.",
    "415": "The request is not JSON.",
    "422": "The manifests are invalid; `errors` has the place of each problem.",
    "501": "The server lacks an optional package.",
    "503": "The cluster has not been read yet, or does not respond.",
}


@cache
def openapi() -> dict[str, Any]:
    """Return the description as data."""
    types = [Problem, *(type_ for query in QUERIES for type_ in (query.request, *query.answers))]
    references, components = schemas(types, _COMPONENTS)
    by_type = dict(zip(types, references, strict=True))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Allotment",
            "version": __version__,
            "summary": "Why GPUs are not allocated, and what would help",
            "description": _ABOUT,
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": {f"{PREFIX}{query.name}": dict(_operations(query, by_type, components)) for query in QUERIES},
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token that `allot web` prints, or in a cluster the visitor's.",
                }
            },
            "responses": {
                f"problem-{status}": {"description": text, "content": {MEDIA_TYPE: {"schema": by_type[Problem]}}}
                for status, text in _PROBLEMS.items()
            },
        },
    }


def _operations(
    query: Query[Any], by_type: Mapping[Any, dict[str, Any]], components: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    schemas_ = [by_type[type_] for type_ in query.answers]
    schema = schemas_[0] if len(schemas_) == 1 else {"anyOf": schemas_}
    common = {
        "summary": query.title,
        "description": query.summary,
        "responses": {
            "200": {"description": "The answer.", "headers": _HEADERS, "content": {_JSON: {"schema": schema}}},
            **{status: {"$ref": f"#/components/responses/problem-{status}"} for status in _PROBLEMS},
        },
    }
    if query.is_get:
        yield (
            "get",
            {
                "operationId": f"get-{query.name}",
                **common,
                "parameters": list(_parameters(query, components[query.request.__name__])),
            },
        )
    yield (
        "post",
        {
            "operationId": query.name,
            **common,
            "requestBody": {"required": True, "content": {_JSON: {"schema": by_type[query.request]}}},
        },
    )


def _parameters(query: Query[Any], schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the fields of a request as parameters of a URL, without manifests, which are too long for one."""
    for field in fields(query.request):
        if field.name == "manifests":
            continue
        found = dict(schema["properties"][field.encode_name])
        description = found.pop("description", "")
        yield {
            "name": field.encode_name,
            "in": "query",
            "required": field.encode_name in schema.get("required", ()),
            **({"description": description} if description else {}),
            "schema": found,
        }
