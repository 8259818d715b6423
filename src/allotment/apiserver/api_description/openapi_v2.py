"""The OpenAPI v2 document, converted from the v3 documents.

It contains nothing that the v3 documents do not.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final

from allotment.apiserver.api_description.custom_schemas import for_v2
from allotment.apiserver.api_description.schemas import PREFIX
from allotment.model.trees import Tree

_KINDS: Final = "x-kubernetes-group-version-kind"
_UNIONS: Final = ("oneOf", "anyOf", "allOf", "not", "nullable")


def openapi_v2(documents: Iterable[Tree], release: str, custom: Container[str] = ()) -> Tree:
    """Convert the v3 documents to one v2 document. ``custom``: the names of the schemas of custom resources."""
    definitions: dict[str, Tree] = {}
    paths: dict[str, Tree] = {}
    for document in documents:
        for name, schema in document["components"]["schemas"].items():
            converted = _schema(schema, is_custom=name in custom)
            if name in definitions:
                kinds = definitions[name].get(_KINDS, [])
                new_kinds = [kind for kind in converted.get(_KINDS, ()) if kind not in kinds]
                if new_kinds:
                    definitions[name][_KINDS] = [*kinds, *new_kinds]
            else:
                definitions[name] = converted
        for path, item in document["paths"].items():
            paths[path] = {
                method: [_parameter(each) for each in value] if method == "parameters" else _operation(value)
                for method, value in item.items()
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


def _schema(schema: Tree, *, is_custom: bool = False) -> Tree:
    """A schema without v3-only features."""
    if is_custom:
        schema = for_v2(schema)
    if "$ref" in schema:
        return {"$ref": "#/definitions/" + schema["$ref"].removeprefix(PREFIX)}
    all_of: list[Tree] = schema.get("allOf") or []
    if len(all_of) == 1 and "$ref" in all_of[0]:
        siblings = {name: value for name, value in schema.items() if name != "allOf"}
        return {**_schema(all_of[0]), **siblings}
    converted = {name: value for name, value in schema.items() if name not in _UNIONS}
    if schema.get("oneOf") and "type" not in schema:
        converted["type"] = "string"
    if "properties" in schema:
        converted["properties"] = {
            name: _schema(value, is_custom=is_custom) for name, value in schema["properties"].items()
        }
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            converted[name] = _schema(schema[name], is_custom=is_custom)
    return converted


def _operation(operation: Tree) -> Tree:
    parameters = [_parameter(each) for each in operation.get("parameters", ())]
    body = operation.get("requestBody")
    converted = {name: value for name, value in operation.items() if name not in ("requestBody", "responses")}
    converted["consumes"] = ["*/*"]
    if body:
        converted["consumes"] = list(body["content"])
        schema = _schema(next(iter(body["content"].values()))["schema"])
        required = {"required": True} if body.get("required") else {}
        parameters = [{"name": "body", "in": "body", "schema": schema, **required}, *parameters]
    converted["parameters"] = parameters
    converted["produces"] = ["application/json", "application/yaml"]
    converted["schemes"] = ["https"]
    converted["responses"] = {code: _response(response) for code, response in operation["responses"].items()}
    return converted


def _response(response: Tree) -> Tree:
    content = response.get("content")
    schema = {"schema": _schema(next(iter(content.values()))["schema"])} if content else {}
    return {"description": response["description"], **schema}


def _parameter(parameter: Tree) -> Tree:
    return {**{name: value for name, value in parameter.items() if name != "schema"}, **parameter["schema"]}
