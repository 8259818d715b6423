"""Proposed changes of objects for a pod that cannot be scheduled as it is.

A change is reported only after it was applied to the objects (`apply_change`) and the pod fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from allotment.engine.diagnosis.published_names import PublishedNames, similar_names
from allotment.engine.diagnosis.selector_corrections import selector_corrections
from allotment.engine.refusal import SuggestedChange
from allotment.engine.remedies import REMEDIES
from allotment.explanation.node_eligibility import EligibilityNode, required_affinity, why_excluded
from allotment.explanation.node_nearness import ANY_HARDWARE, NamedHardware, affinity_rules, label_change, similar_label
from allotment.explanation.stated_hardware import lost_hardware
from allotment.explanation.taint_remedies import recovery_text, remedy_of, uncordon_text
from allotment.model.core import Pod, Taint, Toleration
from allotment.model.editing.edits import Remove, SetValue
from allotment.model.field_advice import rejected_value_advice
from allotment.model.loading.marks import Path, join_path, split_path
from allotment.model.meta import ObjectKey, Value
from allotment.model.trees import to_tree, to_value
from allotment.model.validation import FieldError
from allotment.model.validation.admin_access import LABEL
from allotment.model.validation.errors import ErrorType
from allotment.phrases import listed

_V = TypeVar("_V", bound=Value)
#: Maximum number of changes that are proposed together to make a node eligible.
_MAX_CHANGES = 3
#: Remedies that change a node, not the pod.
_OF_NODE: Final = frozenset({"uncordon", "recover"})


def apply_change(value: _V, path: str, becomes: Any) -> _V:
    """The object after a change, with the path syntax of `SuggestedChange`. ``LookupError`` if the path does not exist.

    A key that contains dots is quoted: ``spec.nodeSelector["example.com/pool"]``.
    """
    tree: Any = to_tree(value)
    change_tree(tree, path_steps(path), becomes)
    return to_value(tree, type(value))


def path_steps(path: str) -> Path:
    """The steps of a path of `SuggestedChange`."""
    found = re.findall(r'\["([^"]+)"\]|([^.\[\]]+)', path)
    return tuple(quoted or (int(plain) if plain.isdigit() else plain) for quoted, plain in found)


def change_tree(tree: Any, path: Path, becomes: Any) -> None:
    """Change the value at a path of a tree in place: see `SuggestedChange`. ``LookupError`` if it does not exist."""
    *steps, last = path
    for step in steps:
        tree = tree.setdefault(step, {}) if isinstance(tree, dict) else tree[step]
    if becomes is None:
        del tree[last]
    elif isinstance(becomes, dict):
        old = tree.get(last) if isinstance(tree, dict) else tree[last]
        tree[last] = {**(old or {}), **becomes}
    else:
        tree[last] = becomes


# --- objects that the API server rejects ----------------------------------------------------------------------------


def admission_fixes(
    kind: str,
    key: ObjectKey,
    errors: list[FieldError],
    classes: Iterable[str],
    published: Callable[[], PublishedNames] = PublishedNames,
) -> Iterator[SuggestedChange]:
    """Changes that may make an object valid for the API server, from the first of its errors.

    ``published`` returns the names that the devices of the cluster have.
    """
    first, object_ = errors[0], f"{kind} {key}"
    path = first.path
    if path.endswith("adminAccess"):
        text = f"label namespace {key.namespace} to allow admin access"
        label = {LABEL: "true"}
        object_ = f"Namespace {key.namespace}"
        yield SuggestedChange(text=text, object=object_, path="metadata.labels", becomes=label, remedy="allow")
    elif path.endswith(".expression") and isinstance(first.value, str):
        for proposal in selector_corrections(first.value, published()):
            yield SuggestedChange(
                text=proposal.text, object=object_, path=path, becomes=proposal.expression, remedy=proposal.remedy
            )
    elif first.type is ErrorType.NOT_SUPPORTED:
        for name in similar_names(str(first.value), re.findall(r'"([^"]+)"', first.detail)):
            yield SuggestedChange(text=f"use {name}", object=object_, path=path, becomes=name, remedy="name")
    elif first.type is ErrorType.REQUIRED and len(only := list(classes)) == 1:
        # If only one class exists, it is the one to request.
        if path.endswith(".deviceClassName"):
            yield SuggestedChange(
                text=f"request class {only[0]}", object=object_, path=path, becomes=only[0], remedy="correction"
            )
        elif path.endswith("]") and "exactly" in first.detail:
            value = {"deviceClassName": only[0]}
            path = f"{path}.exactly"
            yield SuggestedChange(
                text=f"request class {only[0]}", object=object_, path=path, becomes=value, remedy="correction"
            )
    elif (advice := rejected_value_advice(split_path(path), first.body)) is not None:
        match advice.edits:
            case (SetValue(field, str() as written),):
                where = join_path(field)
                yield SuggestedChange(text=advice.fix, object=object_, path=where, becomes=written, remedy="correction")
            case (Remove(field),):
                yield SuggestedChange(text=advice.fix, object=object_, path=join_path(field), remedy="correction")


# --- nodes that the pod excludes ------------------------------------------------------------------------------------


class EligibilityFix(NamedTuple):
    """Changes that make a node eligible for a pod, empty if there are none, and the changed pod and node."""

    changes: tuple[SuggestedChange, ...]
    pod: Pod
    node: EligibilityNode


def make_eligible(
    pod: Pod, node: EligibilityNode, where: tuple[str, str], daemon: bool, hardware: NamedHardware = ANY_HARDWARE
) -> EligibilityFix:
    """The changes that make a node eligible for a pod.

    ``daemon``: a DaemonSet created the pod for its node, so the pod's node affinity is not written by a user.
    ``hardware``: that of the nodes which the pod's rules name.
    """
    name, own = node.facts.name, pod.spec.tolerations
    is_other = hardware.is_other(name)
    found: list[SuggestedChange] = []
    while why_excluded(pod, node):
        change = _next_change(pod, node, daemon, is_other)
        if change is None or len(found) == _MAX_CHANGES:
            return EligibilityFix((), pod, node)
        if change.remedy in _OF_NODE:
            text = uncordon_text(node, own) if change.remedy == "uncordon" else change.text
            node = node._replace(taints=tuple(taint for taint in node.taints if remedy_of(taint) != change.remedy))
            found.append(replace(change, text=text, node=name))
        else:
            before, pod = pod, apply_change(pod, change.path, change.becomes)
            if lost := lost_hardware(before, pod):
                text = f"{change.text}, which loses {listed([stated.label for stated in lost])}"
                change = replace(change, text=text, remedy="unselect-hardware")
            found.append(replace(change, object=where[0], path=f"{where[1]}{change.path}", node=name))
    return EligibilityFix(tuple(found), pod, node)


def _next_change(pod: Pod, node: EligibilityNode, daemon: bool, is_other: bool) -> SuggestedChange | None:
    """The next change; it applies to the pod if it names no object. ``is_other``: see `label_change`."""
    spec, labels = pod.spec, node.facts.labels
    if spec.node_name and spec.node_name != node.facts.name:
        return None if daemon else _select(text=f"remove nodeName {spec.node_name}", path="spec.nodeName")
    unmet = {key: value for key, value in spec.node_selector.items() if labels.get(key) != value}
    if unmet:
        return _other_key(spec.node_selector, unmet, labels, is_other) or _other_labels(
            unmet, labels, is_whole=len(unmet) == len(spec.node_selector), is_other=is_other
        )
    if not why_excluded(pod, node._replace(taints=())):
        taint = next(taint for taint in node.taints if why_excluded(pod, node._replace(taints=(taint,))))
        return _against(pod, node, taint)
    return None if daemon else _other_affinity(pod, labels, is_other)


def _other_key(
    selector: Mapping[str, str], unmet: Mapping[str, str], labels: Mapping[str, str], is_other: bool
) -> SuggestedChange | None:
    """The next change of a misspelled key to a similar one with the node's value; None if there is none."""
    for key, value in unmet.items():
        right = similar_label(key, [value], labels) if key not in labels else ""
        if right in selector:
            return _select(text=f"remove {key} from the nodeSelector", path=f'spec.nodeSelector["{key}"]')
        if right:
            actual = labels[right]
            remedy = label_change([value], actual, is_other=is_other).remedy if actual != value else "select"
            text = f"set nodeSelector {right}={actual}{_lost_memory(remedy)}"
            return _select(text=text, path="spec.nodeSelector", becomes={right: actual}, remedy=remedy)
    return None


def _other_labels(
    unmet: Mapping[str, str], labels: Mapping[str, str], *, is_whole: bool, is_other: bool
) -> SuggestedChange:
    """A nodeSelector with the node's own values; keys that the node does not have are removed last.

    ``is_whole``: the nodeSelector has no other keys.
    """
    has = {key: labels[key] for key in unmet if key in labels}
    if has:
        text = "set nodeSelector " + ", ".join(f"{key}={value}" for key, value in has.items())
        changes = [label_change([unmet[key]], value, is_other=is_other) for key, value in has.items()]
        remedy = max((change.remedy for change in changes), key=lambda name: REMEDIES[name].loss)
        return _select(text=f"{text}{_lost_memory(remedy)}", path="spec.nodeSelector", becomes=has, remedy=remedy)
    if is_whole:
        return _select(text="remove the nodeSelector", path="spec.nodeSelector", remedy="unselect")
    key = next(iter(unmet))
    return _select(text=f"remove {key} from the nodeSelector", path=f'spec.nodeSelector["{key}"]', remedy="unselect")


def _lost_memory(remedy: str) -> str:
    return ", which has less memory" if remedy == "select-less" else ""


def _other_affinity(pod: Pod, labels: Mapping[str, str], is_other: bool) -> SuggestedChange:
    """A required node affinity with the node's own value of a label, if that is what excludes the node."""
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    rules = [rule for rule in affinity_rules(required_affinity(pod.spec)) if labels.get(rule.key) not in rule.values]
    if rules and rules[0].key in labels:
        key, value = rules[0].key, labels[rules[0].key]
        path += f".nodeSelectorTerms[0].matchExpressions[{rules[0].position}].values"
        remedy = label_change(rules[0].values, value, is_other=is_other).remedy
        return _select(text=f"set node affinity {key} in ({value})", path=path, becomes=[value], remedy=remedy)
    return _select(text="remove the required node affinity", path=path, remedy="unselect")


def _select(text: str, path: str, becomes: Any = None, remedy: str = "select") -> SuggestedChange:
    return SuggestedChange(text=text, path=path, becomes=becomes, remedy=remedy)


def _against(pod: Pod, node: EligibilityNode, taint: Taint) -> SuggestedChange | None:
    """The change against a taint of a node; None if pods must not tolerate it."""
    name, remedy = node.facts.name, remedy_of(taint)
    if remedy == "uncordon":
        return SuggestedChange(text=f"uncordon {name}", object=f"Node {name}", path="spec.unschedulable", remedy=remedy)
    if remedy == "recover":
        return SuggestedChange(text=recovery_text(name, taint), remedy=remedy)
    if not remedy:
        return None
    operator = "Equal" if taint.value else "Exists"
    toleration = Toleration(key=taint.key, operator=operator, value=taint.value, effect=taint.effect)
    # Tolerations that Kubernetes adds to daemon pods are not part of the DaemonSet.
    before = [t for t in pod.spec.tolerations if not t.key.startswith("node.kubernetes.io/")]
    becomes = [to_builtins(t) for t in (*before, toleration)]
    text = f"tolerate the node's taint {taint.key}"
    return SuggestedChange(text=text, path="spec.tolerations", becomes=becomes, remedy="tolerate-node")
