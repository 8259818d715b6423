"""Proposed changes of objects for a pod that cannot be scheduled as it is.

A change is reported only after it was applied to the objects (`apply_change`) and the pod fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from allotment.engine.diagnosis.expression_correction import correct_expression
from allotment.engine.diagnosis.published_names import similar_names
from allotment.engine.refusal import SuggestedChange
from allotment.model.core import Pod, Taint, Toleration
from allotment.model.meta import ObjectKey, Value
from allotment.model.trees import to_tree, to_value
from allotment.model.validation import FieldError
from allotment.model.validation.admin_access import LABEL
from allotment.model.validation.errors import ErrorType
from allotment.tools.explain.node_eligibility import UNSCHEDULABLE, EligibilityNode, why_excluded

_V = TypeVar("_V", bound=Value)
#: Maximum number of changes that are proposed together to make a node eligible.
_MAX_CHANGES = 3


def apply_change(value: _V, path: str, becomes: Any) -> _V:
    """The object after a change, with the path syntax of `SuggestedChange`. ``LookupError`` if the path does not exist.

    A key that contains dots is quoted: ``spec.nodeSelector["example.com/pool"]``.
    """
    tree: Any = to_tree(value)
    parent = tree
    found = re.findall(r'\["([^"]+)"\]|([^.\[\]]+)', path)
    *steps, last = [quoted or (int(plain) if plain.isdigit() else plain) for quoted, plain in found]
    for step in steps:
        parent = parent.setdefault(step, {}) if isinstance(parent, dict) else parent[step]
    if becomes is None:
        del parent[last]
    elif isinstance(becomes, dict):
        old = parent.get(last) if isinstance(parent, dict) else parent[last]
        parent[last] = {**(old or {}), **becomes}
    else:
        parent[last] = becomes
    return to_value(tree, type(value))


# --- objects that the API server rejects ----------------------------------------------------------------------------


def admission_fixes(
    kind: str, key: ObjectKey, errors: list[FieldError], classes: Iterable[str]
) -> Iterator[SuggestedChange]:
    """Changes that may make an object valid for the API server, from the first of its errors."""
    first, object_ = errors[0], f"{kind} {key}"
    path = first.path
    if path.endswith("adminAccess"):
        text = f"label namespace {key.namespace} to allow admin access"
        label = {LABEL: "true"}
        object_ = f"Namespace {key.namespace}"
        yield SuggestedChange(text=text, object=object_, path="metadata.labels", becomes=label, remedy="allow")
    elif path.endswith(".expression") and isinstance(first.value, str):
        if (proposal := correct_expression(first.value)) is not None:
            yield SuggestedChange(
                text=proposal.text, object=object_, path=path, becomes=proposal.expression, remedy="slip"
            )
    elif first.type is ErrorType.NOT_SUPPORTED:
        for name in similar_names(str(first.value), re.findall(r'"([^"]+)"', first.detail)):
            yield SuggestedChange(text=f"use {name}", object=object_, path=path, becomes=name, remedy="name")
    elif first.type is ErrorType.REQUIRED and len(only := list(classes)) == 1:
        # If only one class exists, it is the one to request.
        if path.endswith(".deviceClassName"):
            yield SuggestedChange(
                text=f"request class {only[0]}", object=object_, path=path, becomes=only[0], remedy="slip"
            )
        elif path.endswith("]") and "exactly" in first.detail:
            value = {"deviceClassName": only[0]}
            path = f"{path}.exactly"
            yield SuggestedChange(
                text=f"request class {only[0]}", object=object_, path=path, becomes=value, remedy="slip"
            )


# --- nodes that the pod excludes ------------------------------------------------------------------------------------


class EligibilityFix(NamedTuple):
    """Changes that make a node eligible for a pod, empty if there are none, and the changed pod and node."""

    changes: tuple[SuggestedChange, ...]
    pod: Pod
    node: EligibilityNode


def make_eligible(pod: Pod, node: EligibilityNode, where: tuple[str, str], daemon: bool) -> EligibilityFix:
    """The changes that make a node eligible for a pod.

    ``daemon``: a DaemonSet created the pod for its node, so the pod's node affinity is not written by a user.
    """
    name = node.facts.name
    found: list[SuggestedChange] = []
    while why_excluded(pod, node):
        change = _next_change(pod, node, daemon)
        if change is None or len(found) == _MAX_CHANGES:
            return EligibilityFix((), pod, node)
        if change.object:
            node = node._replace(taints=tuple(taint for taint in node.taints if taint != UNSCHEDULABLE))
            found.append(replace(change, node=name))
        else:
            pod = apply_change(pod, change.path, change.becomes)
            found.append(replace(change, object=where[0], path=f"{where[1]}{change.path}", node=name))
    return EligibilityFix(tuple(found), pod, node)


def _next_change(pod: Pod, node: EligibilityNode, daemon: bool) -> SuggestedChange | None:
    """The next change; it applies to the pod if it names no object."""
    spec, labels = pod.spec, node.facts.labels
    if spec.node_name and spec.node_name != node.facts.name:
        return None if daemon else _select(text=f"remove nodeName {spec.node_name}", path="spec.nodeName")
    unmet = {key: value for key, value in spec.node_selector.items() if labels.get(key) != value}
    if unmet:
        has = {key: labels[key] for key in unmet if key in labels}
        if len(has) == len(unmet):
            text = "set nodeSelector " + ", ".join(f"{key}={value}" for key, value in has.items())
            return _select(text=text, path="spec.nodeSelector", becomes=has)
        whole = len(unmet) == len(spec.node_selector)
        return _select(text="remove the nodeSelector", path="spec.nodeSelector") if whole else None
    if not why_excluded(pod, node._replace(taints=())):
        taint = next(taint for taint in node.taints if why_excluded(pod, node._replace(taints=(taint,))))
        return _tolerate(pod, node, taint)
    if daemon:
        return None
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    return _select(text="remove the required node affinity", path=path)


def _select(text: str, path: str, becomes: Any = None) -> SuggestedChange:
    return SuggestedChange(text=text, path=path, becomes=becomes, remedy="select")


def _tolerate(pod: Pod, node: EligibilityNode, taint: Taint) -> SuggestedChange | None:
    if taint == UNSCHEDULABLE:
        name = node.facts.name
        return SuggestedChange(
            text=f"uncordon {name}", object=f"Node {name}", path="spec.unschedulable", remedy="uncordon"
        )
    if taint.key.startswith("node.kubernetes.io/"):  # the node is unhealthy; pods must not tolerate that
        return None
    operator = "Equal" if taint.value else "Exists"
    toleration = Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
    # Tolerations that Kubernetes adds to daemon pods are not part of the DaemonSet.
    before = [t for t in pod.spec.tolerations if not t.key.startswith("node.kubernetes.io/")]
    becomes = [to_builtins(t) for t in (*before, toleration)]
    text = f"tolerate the node's taint {taint.key}"
    return SuggestedChange(text=text, path="spec.tolerations", becomes=becomes, remedy="tolerate-node")
