"""Whole objects inside objects (``x-kubernetes-embedded-resource``): they must say what they are."""

from __future__ import annotations

from typing import Any

from allotment.apiserver.custom_resources.shapes import EMBEDDED
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, required


def embedded_problems(value: Any, schema: Tree, path: str = "") -> Errors:
    """Every embedded object that does not say what it is."""
    if type(value) is dict:
        if schema.get(EMBEDDED):
            yield from _identity(value, path)
        properties, others = schema.get("properties") or {}, schema.get("additionalProperties")
        for name, each in value.items():
            if name in properties:
                yield from embedded_problems(each, properties[name], f"{path}.{name}" if path else name)
            elif isinstance(others, dict):
                yield from embedded_problems(each, others, f"{path}[{name}]")
    elif type(value) is list and isinstance(schema.get("items"), dict):
        for index, each in enumerate(value):
            yield from embedded_problems(each, schema["items"], f"{path}[{index}]")


def _identity(tree: Tree, path: str) -> Errors:
    for field in ("apiVersion", "kind"):
        if not tree.get(field):
            yield required(f"{path}.{field}")
