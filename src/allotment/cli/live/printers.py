"""Prints objects as kubectl does for ``-o yaml``, ``json``, ``name`` and ``jsonpath=``."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from allotment.cli.output.errors import Failure
from allotment.cluster.inspection.discovery import ServedResource
from allotment.model.jsonpath import EvaluationError, TemplateError, parse, relax
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree

Printer = Callable[[Tree], str]

FORMS = "wide, yaml, json, name, jsonpath=TEMPLATE"


def printer(form: str) -> Printer | None:
    """Return the function that prints an object, or None for a table. Raises Failure for an unknown format."""
    if form in ("", "wide", "name"):
        return None
    if form == "yaml":
        return lambda tree: to_yaml([in_order(tree)])
    if form == "json":
        return lambda tree: as_json(tree) + "\n"
    name, equals, text = form.partition("=")
    if name == "jsonpath" and equals:
        return _rendered(text)
    raise Failure(f'error: unable to match a printer suitable for the output format "{form}"', f"known: {FORMS}")


def _rendered(text: str) -> Printer:
    try:
        template = parse(relax(text))
    except TemplateError as error:
        raise Failure(f"error: error parsing jsonpath {text}, {error}") from None

    def render(tree: Tree) -> str:
        try:
            return template.render(tree)
        except EvaluationError as error:
            raise Failure(f'error: error executing jsonpath "{text}": {error}') from None

    return render


def as_json(tree: Tree) -> str:
    """Return JSON as Go writes it: keys sorted, HTML characters escaped."""
    text = json.dumps(in_order(tree), indent=4, ensure_ascii=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def in_order(value: Any) -> Any:
    """Return a copy with the keys of every mapping sorted."""
    if isinstance(value, dict):
        return {key: in_order(value[key]) for key in sorted(value)}
    return [in_order(item) for item in value] if isinstance(value, list) else value


def shown(tree: Tree) -> Tree:
    """Return an object without its managed fields."""
    metadata = tree.get("metadata") or {}
    if "managedFields" not in metadata:
        return tree
    return {**tree, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def as_list(items: Sequence[Tree]) -> Tree:
    """Return a List of objects."""
    return {"apiVersion": "v1", "items": list(items), "kind": "List", "metadata": {"resourceVersion": ""}}


def name_of(served: ServedResource, tree: Tree) -> str:
    """``pod/web-0``, ``deployment.apps/web``."""
    return f"{served.label}/{(tree.get('metadata') or {}).get('name', '')}"
