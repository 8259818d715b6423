"""JSON Schemas (2020-12) of requests and answers, from their types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from allotment.explanation.report import Explanation
from allotment.model.quantity import Quantity

_LITERAL: Final = re.compile(r"``(.+?)``", re.DOTALL)
#: Properties that `to_dict` adds to the fields of a type.
_ADDED: Final[Mapping[str, Mapping[str, Any]]] = {
    Explanation.__name__: {"fits": {"type": "boolean", "description": "Whether everything fits."}}
}


def schemas(types: Iterable[Any], template: str) -> tuple[tuple[dict[str, Any], ...], dict[str, Any]]:
    """Return the schema of each type, and the schemas by name to which they refer.

    ``template``: of references, such as ``#/$defs/{name}``.
    """
    found, components = msgspec.json.schema_components(types, schema_hook=_of_other, ref_template=template)
    for name, schema in components.items():
        _complete(name, schema)
    return tuple(_described(schema) for schema in found), {
        name: _described(components[name]) for name in sorted(components)
    }


def request_schema(request: type[msgspec.Struct], more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the schema of a request without references, as tools of programs take it. ``more``: other properties."""
    _, components = schemas([request], "{name}")
    schema: dict[str, Any] = _inlined(components[request.__name__], components)
    schema["properties"] = {**schema["properties"], **(more or {})}
    del schema["title"]
    return schema


def _inlined(value: Any, components: Mapping[str, Any]) -> Any:
    """Return a schema with the schemas to which it refers; requests are no recursive types."""
    if isinstance(value, dict):
        if "$ref" in value:
            return _inlined(components[value["$ref"]], components)
        return {key: _inlined(inner, components) for key, inner in value.items()}
    return [_inlined(inner, components) for inner in value] if isinstance(value, list) else value


def _of_other(type_: type) -> dict[str, Any]:
    """Return the schema of a type that msgspec does not know."""
    if type_ is Quantity:
        return {"type": "string", "description": "A quantity of Kubernetes, such as 40Gi."}
    raise NotImplementedError(type_)


def _complete(name: str, schema: dict[str, Any]) -> None:
    """Add the properties that only JSON has."""
    added = _ADDED.get(name)
    if added:
        schema["properties"] = {**added, **schema["properties"]}
        schema["required"] = [*added, *schema.get("required", ())]


def _described(value: Any) -> Any:
    """Return a schema whose descriptions are Markdown in one line for each paragraph."""
    if isinstance(value, dict):
        return {
            key: _markdown(inner) if key == "description" and isinstance(inner, str) else _described(inner)
            for key, inner in value.items()
        }
    return [_described(inner) for inner in value] if isinstance(value, list) else value


def _markdown(text: str) -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.split("\n\n")]
    return _LITERAL.sub(r"`\1`", "\n\n".join(paragraphs))
