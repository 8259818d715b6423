"""The scale subresource: reads and writes the replicas of an object of any scalable kind.

A Scale is a view of the object; writing it changes only ``spec.replicas``. For custom resources, the definition gives
the paths of these fields.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.apiserver import api_errors, bodies
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.operation import Operation
from allotment.apiserver.storage.store import Entry
from allotment.apiserver.verbs import Verbs, check_name
from allotment.model.trees import Tree
from allotment.model.validation.errors import invalid

API_VERSION: Final = "autoscaling/v1"
_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def view(entry: Entry, kind: ServedKind) -> Tree:
    """The Scale of a stored object."""
    tree = entry.tree
    replicas = _value_at(tree, kind.scale.spec)
    status: Tree = {"replicas": _value_at(tree, kind.scale.status) or 0}
    if selector := _selector(tree, kind):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": API_VERSION,
        "metadata": {key: tree["metadata"][key] for key in _METADATA if key in tree["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def write(verbs: Verbs, operation: Operation, scale: Tree) -> Entry:
    """Set an object's replicas from a Scale; its uid and resourceVersion are preconditions."""
    requested = bodies.in_namespace(scale, operation.namespace).get("metadata") or {}
    check_name(requested.get("name"), operation.name)
    entry = verbs.entry(operation)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise api_errors.invalid("autoscaling", "Scale", operation.name, (error,))
    tree = _with_value(entry.tree, operation.kind.scale.spec, replicas)
    expected = {key: requested[key] for key in ("uid", "resourceVersion") if requested.get(key)}
    if not operation.kind.unconditional_update:  # a Scale may omit what an update of the object requires
        expected.setdefault("resourceVersion", tree["metadata"]["resourceVersion"])
    meta = {key: value for key, value in tree["metadata"].items() if key not in ("uid", "resourceVersion")}
    before = view(entry, operation.kind)
    after = {**before, "spec": {"replicas": replicas} if replicas else {}}
    admitted = verbs.admission.admit(operation, "UPDATE", after, before, body_kind=(API_VERSION, "Scale"))
    if admitted is not None and admitted is not after:
        tree = _with_value(tree, operation.kind.scale.spec, (admitted.get("spec") or {}).get("replicas") or 0)
    stored = operation._replace(version=operation.kind.storage_version, is_admitted=True)
    return verbs.update(stored, {**tree, "metadata": {**meta, **expected}})


def _value_at(tree: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        tree = tree.get(step) if isinstance(tree, dict) else None
    return tree


def _with_value(tree: Tree, path: tuple[str, ...], value: Any) -> Tree:
    step, rest = path[0], path[1:]
    return {**tree, step: _with_value(tree.get(step) or {}, rest, value) if rest else value}


def _selector(tree: Tree, kind: ServedKind) -> str:
    """The selector in string form; a field that is already a string is returned unchanged."""
    value = _value_at(tree, kind.scale.selector) if kind.scale.selector else None
    if not isinstance(value, dict):
        return value if isinstance(value, str) else ""
    if "matchLabels" not in value and "matchExpressions" not in value:
        return ",".join(f"{key}={value[key]}" for key in sorted(value))
    labels = value.get("matchLabels") or {}
    terms = [(key, f"{key}={labels[key]}") for key in labels]
    for expression in value.get("matchExpressions") or ():
        key, operator = expression["key"], expression["operator"]
        values = ",".join(sorted(expression.get("values") or ()))
        text = {
            "In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}",
        }.get(operator, key)  # fmt: skip
        terms.append((key, text))
    return ",".join(text for _, text in sorted(terms, key=lambda term: term[0]))
