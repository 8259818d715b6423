"""Ways out for a pod that cannot be tried as it is: what to change in the objects that stand in its way.

These are proposals. A change is told only after it was made (`applied`) and the pod did fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from allotment.engine.diagnosis.miswritten import meant
from allotment.engine.diagnosis.published_names import near
from allotment.engine.refusal import Change
from allotment.model.core import Pod, PodResourceClaim, Taint, Toleration
from allotment.model.meta import ObjectKey, Value
from allotment.model.trees import to_tree, to_value
from allotment.model.validation import FieldError
from allotment.model.validation.admin_access import LABEL
from allotment.model.validation.errors import ErrorType
from allotment.tools.explain.node_eligibility import UNSCHEDULABLE, KnownNode, why_excluded

_V = TypeVar("_V", bound=Value)
#: Changes that are told together at most, so that a pod may go to a node.
_MOST = 3


def applied(value: _V, path: str, becomes: Any) -> _V:
    """The object after a change, as `Change` words it. ``LookupError`` if it has nothing at that place.

    A key with dots in it stands in quotes: ``spec.nodeSelector["example.com/pool"]``.
    """
    tree: Any = to_tree(value)
    at = tree
    found = re.findall(r'\["([^"]+)"\]|([^.\[\]]+)', path)
    *steps, last = [quoted or (int(plain) if plain.isdigit() else plain) for quoted, plain in found]
    for step in steps:
        at = at.setdefault(step, {}) if isinstance(at, dict) else at[step]
    if becomes is None:
        del at[last]
    elif isinstance(becomes, dict):
        there = at.get(last) if isinstance(at, dict) else at[last]
        at[last] = {**(there or {}), **becomes}
    else:
        at[last] = becomes
    return to_value(tree, type(value))


# --- objects that the API server refuses ----------------------------------------------------------------------------


def admitted(kind: str, key: ObjectKey, errors: list[FieldError], classes: Iterable[str]) -> Iterator[Change]:
    """What could make the API server accept an object. Of several errors the first is looked at."""
    first, object_ = errors[0], f"{kind} {key}"
    path = first.path
    if path.endswith("adminAccess"):
        text = f"label namespace {key.namespace}"
        label = {LABEL: "true"}
        object_ = f"Namespace {key.namespace}"
        yield Change(text=text, object=object_, path="metadata.labels", becomes=label, remedy="allow")
    elif path.endswith(".expression") and isinstance(first.value, str):
        if (proposal := meant(first.value)) is not None:
            yield Change(text=proposal.words, object=object_, path=path, becomes=proposal.expression, remedy="slip")
    elif first.type is ErrorType.NOT_SUPPORTED:
        for name in near(str(first.value), re.findall(r'"([^"]+)"', first.detail)):
            yield Change(text=f"write {name}", object=object_, path=path, becomes=name, remedy="name")
    elif first.type is ErrorType.REQUIRED and len(only := list(classes)) == 1:
        # What is to be asked for can be told if there is but one class.
        if path.endswith(".deviceClassName"):
            yield Change(text=f"ask for class {only[0]}", object=object_, path=path, becomes=only[0], remedy="slip")
        elif path.endswith("]") and "exactly" in first.detail:
            what = {"deviceClassName": only[0]}
            path = f"{path}.exactly"
            yield Change(text=f"ask for class {only[0]}", object=object_, path=path, becomes=what, remedy="slip")


# --- references that lead nowhere -----------------------------------------------------------------------------------


def moved(kind: str, key: ObjectKey, namespaces: Iterable[str]) -> Iterator[Change]:
    """The object of that name in another namespace, put where the pod looks for it."""
    for namespace in namespaces:
        yield Change(
            text=f"put {kind} {key.name} into namespace {key.namespace}",
            object=f"{kind} {namespace}/{key.name}",
            path="metadata.namespace",
            becomes=key.namespace,
            remedy="name",
        )


def referred(field: str, number: int, name: str, names: Iterable[str], pod: tuple[str, str]) -> Iterator[Change]:
    """A reference of the pod to what it may have meant. ``pod``: the object that it is written in, and where there."""
    for other in near(name, names):
        path = f"{pod[1]}spec.resourceClaims[{number}].{field}"
        yield Change(text=f"name {other}", object=pod[0], path=path, becomes=other, remedy="name")


def of_other_kind(
    field: str, right: str, number: int, entries: Sequence[PodResourceClaim], pod: tuple[str, str]
) -> tuple[Change, ...]:
    """The same name by the field of the other kind."""
    trees = [to_tree(entry) for entry in entries]
    trees[number] = {**trees[number], right: trees[number][field]}
    del trees[number][field]
    text = f"name it as {right}"
    path = f"{pod[1]}spec.resourceClaims"
    return (Change(text=text, object=pod[0], path=path, becomes=trees, remedy="name"),)


# --- nodes that the pod excludes ------------------------------------------------------------------------------------


class WayIn(NamedTuple):
    """What to change so that a pod may go to a node, nothing if that is not known; and both as they are then."""

    changes: tuple[Change, ...]
    pod: Pod
    node: KnownNode


def let_in(pod: Pod, node: KnownNode, where: tuple[str, str], daemon: bool) -> WayIn:
    """The way of a pod to a node that it may not go to.

    ``daemon``: the pod is bound to its node by the DaemonSet that made it, not by what anybody wrote.
    """
    name = node.facts.name
    found: list[Change] = []
    while why_excluded(pod, node):
        change = _towards(pod, node, daemon)
        if change is None or len(found) == _MOST:
            return WayIn((), pod, node)
        if change.object:
            node = node._replace(taints=tuple(taint for taint in node.taints if taint != UNSCHEDULABLE))
            found.append(replace(change, node=name))
        else:
            pod = applied(pod, change.path, change.becomes)
            found.append(replace(change, object=where[0], path=f"{where[1]}{change.path}", node=name))
    return WayIn(tuple(found), pod, node)


def _towards(pod: Pod, node: KnownNode, daemon: bool) -> Change | None:
    """The next change: of the pod where it names no object."""
    spec, labels = pod.spec, node.facts.labels
    if spec.node_name and spec.node_name != node.facts.name:
        return None if daemon else _select(text=f"leave nodeName {spec.node_name} out", path="spec.nodeName")
    unmet = {key: value for key, value in spec.node_selector.items() if labels.get(key) != value}
    if unmet:
        has = {key: labels[key] for key in unmet if key in labels}
        if len(has) == len(unmet):
            text = "select " + ", ".join(f"{key}={value}" for key, value in has.items())
            return _select(text=text, path="spec.nodeSelector", becomes=has)
        whole = len(unmet) == len(spec.node_selector)
        return _select(text="leave the nodeSelector out", path="spec.nodeSelector") if whole else None
    if not why_excluded(pod, node._replace(taints=())):
        taint = next(taint for taint in node.taints if why_excluded(pod, node._replace(taints=(taint,))))
        return _bearing(pod, node, taint)
    if daemon:
        return None
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    return _select(text="leave the required node affinity out", path=path)


def _select(text: str, path: str, becomes: Any = None) -> Change:
    return Change(text=text, path=path, becomes=becomes, remedy="select")


def _bearing(pod: Pod, node: KnownNode, taint: Taint) -> Change | None:
    if taint == UNSCHEDULABLE:
        name = node.facts.name
        return Change(text=f"uncordon {name}", object=f"Node {name}", path="spec.unschedulable", remedy="uncordon")
    if taint.key.startswith("node.kubernetes.io/"):  # the node is not well; the pod is to stay away
        return None
    operator = "Equal" if taint.value else "Exists"
    toleration = Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
    # What every daemon pod tolerates is not written in the DaemonSet.
    before = [t for t in pod.spec.tolerations if not t.key.startswith("node.kubernetes.io/")]
    becomes = [to_builtins(t) for t in (*before, toleration)]
    text = f"tolerate the node's taint {taint.key}"
    return Change(text=text, path="spec.tolerations", becomes=becomes, remedy="tolerate-node")
