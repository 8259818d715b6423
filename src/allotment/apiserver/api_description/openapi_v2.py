"""The OpenAPI v2 document, converted from the v3 documents.

It contains nothing that the v3 documents do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.apiserver.api_description.schemas import PREFIX
from allotment.model.trees import Tree

_KINDS: Final = "x-kubernetes-group-version-kind"
_UNIONS: Final = ("oneOf", "anyOf", "allOf", "not", "nullable")


def openapi_v2(documents: Iterable[Tree], release: str) -> Tree:
    """Convert the v3 documents to one v2 document."""
    definitions: dict[str, Tree] = {}
    paths: dict[str, Tree] = {}
    for document in documents:
        for name, schema in document["components"]["schemas"].items():
            older = _schema(schema)
            if name in definitions:
                kinds = definitions[name].get(_KINDS, [])
                more = [kind for kind in older.get(_KINDS, ()) if kind not in kinds]
                if more:
                    definitions[name][_KINDS] = [*kinds, *more]
            else:
                definitions[name] = older
        for path, item in document["paths"].items():
            paths[path] = {
                method: [_parameter(each) for each in what] if method == "parameters" else _operation(what)
                for method, what in item.items()
            }
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": f"v{release}"},
        "paths": dict(sorted(paths.items())),
        "definitions": dict(sorted(definitions.items())),
        "securityDefinitions": {
            "BearerToken": {"type": "apiKey", "description": "A token", "name": "authorization", "in": "header"}
        },
        "security": [{"BearerToken": []}],
    }


def _schema(schema: Tree) -> Tree:
    """A schema without v3-only features."""
    if "$ref" in schema:
        return {"$ref": "#/definitions/" + schema["$ref"].removeprefix(PREFIX)}
    whole: list[Tree] = schema.get("allOf") or []
    if len(whole) == 1 and "$ref" in whole[0]:
        beside = {name: value for name, value in schema.items() if name != "allOf"}
        return {**_schema(whole[0]), **beside}
    older = {name: value for name, value in schema.items() if name not in _UNIONS}
    if schema.get("oneOf") and "type" not in schema:
        older["type"] = "string"
    if "properties" in schema:
        older["properties"] = {name: _schema(value) for name, value in schema["properties"].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            older[name] = _schema(schema[name])
    return older


def _operation(operation: Tree) -> Tree:
    parameters = [_parameter(each) for each in operation.get("parameters", ())]
    body = operation.get("requestBody")
    older = {name: value for name, value in operation.items() if name not in ("requestBody", "responses")}
    older["consumes"] = ["*/*"]
    if body:
        older["consumes"] = list(body["content"])
        schema = _schema(next(iter(body["content"].values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        parameters = [{"name": "body", "in": "body", "schema": schema, **required}, *parameters]
    older["parameters"] = parameters
    older["produces"] = ["application/json", "application/yaml"]
    older["schemes"] = ["https"]
    older["responses"] = {code: _response(response) for code, response in operation["responses"].items()}
    return older


def _response(response: Tree) -> Tree:
    content = response.get("content")
    schema = {"schema": _schema(next(iter(content.values()))["schema"])} if content else {}
    return {"description": response["description"], **schema}


def _parameter(parameter: Tree) -> Tree:
    return {**{name: value for name, value in parameter.items() if name != "schema"}, **parameter["schema"]}
