"""Validation and admission of nodes, namespaces, priority classes, leases, disruption budgets, runtime classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds import field_validation
from allotment.apiserver.kinds.admission_errors import forbidden as forbidden_error
from allotment.apiserver.kinds.containers import resource_requirements
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.pod_spec import tolerations
from allotment.apiserver.kinds.service_spec import INVALID_CIDR, is_cidr
from allotment.model.trees import Tree
from allotment.model.validation import container_resources, names
from allotment.model.validation.errors import duplicate, forbidden, immutable, invalid, not_supported, required
from allotment.model.validation.gotext import GoNamedString, GoStruct

#: The user that creates a lab's simulated nodes: they start ready, so they need no taint.
SIMULATED_NODE_USER: Final = "system:node:simulated"
NOT_READY: Final = "node.kubernetes.io/not-ready"
_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_FINALIZERS: Final = ("kubernetes", "orphan", "foregroundDeletion")
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
_MAX_USER_PRIORITY: Final = 1_000_000_000
_SYSTEM_CLASSES: Final = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}


# --- nodes -----------------------------------------------------------------------------------------------------------


def _admit_node(tree: Tree, write: Write) -> Tree:
    if write.user.name == SIMULATED_NODE_USER:
        return tree
    spec: Tree = tree.get("spec") or {}
    taints: list[Tree] = spec.get("taints") or []
    if not any(taint.get("key") == NOT_READY for taint in taints):
        return {**tree, "spec": {**spec, "taints": [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]}}
    return tree


def _taints(spec: Tree) -> Errors:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(spec.get("taints") or ()):
        # Upstream reports taints under "metadata".
        path, key, effect = f"metadata.taints[{index}]", taint.get("key") or "", taint.get("effect") or ""
        yield from names.label_key(key, f"{path}.key")
        value = taint.get("value") or ""
        if problems := names.label_value_problems(value):
            yield invalid(f"{path}.value", value, ";".join(problems))
        if effect not in _EFFECTS:
            yield (
                not_supported(f"{path}.effect", GoNamedString(effect), _EFFECTS)
                if effect
                else required(f"{path}.effect")
            )
        if (key, effect) in seen:
            taint_value = GoStruct(Key=key, Value=value, Effect=effect, TimeAdded=taint.get("timeAdded"))
            yield duplicate(path, taint_value)._replace(detail="taints must be unique by key and effect pair")
        seen.add((key, effect))


def _node_resources(tree: Tree) -> Errors:
    for part in ("capacity", "allocatable"):
        for name, amount in sorted(((tree.get("status") or {}).get(part) or {}).items()):
            yield from container_resources.amount(name, amount, f"status.{part}.{name}")


def _node(tree: Tree, write: Write) -> Errors:
    yield from _taints(tree.get("spec") or {})
    yield from _node_resources(tree)
    for index, text in enumerate((tree.get("spec") or {}).get("podCIDRs") or ()):
        if not is_cidr(text):
            yield invalid(f"spec.podCIDRs[{index}]", text, INVALID_CIDR)


def _node_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource:
        return
    yield from _node(new, write)
    yield from _node_resources(new)
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if before.get("providerID") and after.get("providerID") != before["providerID"]:
        yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
    if before.get("podCIDRs") and after.get("podCIDRs") != before["podCIDRs"]:
        yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
    yield from _taints(after)


# --- namespaces ------------------------------------------------------------------------------------------------------


def _with_name_label(tree: Tree) -> Tree:
    metadata: Tree = tree["metadata"]
    labels = metadata.get("labels") or {}
    if labels.get(_NAME_LABEL) != metadata.get("name"):
        return {**tree, "metadata": {**metadata, "labels": {**labels, _NAME_LABEL: metadata.get("name")}}}
    return tree


def _prepare_namespace_create(tree: Tree, write: Write) -> Tree:
    finalizers = (tree.get("spec") or {}).get("finalizers") or []
    if "kubernetes" not in finalizers:
        finalizers = [*finalizers, "kubernetes"]
    return _with_name_label({**tree, "spec": {"finalizers": finalizers}, "status": {"phase": "Active"}})


def _prepare_namespace_update(new: Tree, old: Tree, write: Write) -> Tree:
    return _with_name_label(new if write.subresource else {**new, "spec": old.get("spec") or {}})


def _namespace(tree: Tree, write: Write) -> Errors:
    for finalizer in (tree.get("spec") or {}).get("finalizers") or ():
        problems = names.label_key_problems(finalizer)
        if "/" not in finalizer and finalizer not in _FINALIZERS:
            problems = (*problems, "name is neither a standard finalizer name nor is it fully qualified")
        yield from (invalid("spec.finalizers", finalizer, problem) for problem in problems)


def _namespace_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource == "finalize":
        yield from _namespace(new, write)
    phase = (new.get("status") or {}).get("phase")
    if write.subresource == "status":
        if new["metadata"].get("deletionTimestamp"):
            if phase != "Terminating":
                detail = "may only be 'Terminating' if `deletionTimestamp` is not empty"
                yield invalid("status.Phase", phase or "", detail)
        elif phase != "Active":
            yield invalid("status.Phase", phase or "", "may only be 'Active' if `deletionTimestamp` is empty")


# --- priority classes ------------------------------------------------------------------------------------------------

_CLASSES: Final = "priorityclasses.scheduling.k8s.io"


def _admit_priority_class(tree: Tree, write: Write) -> Tree:
    if tree.get("globalDefault"):
        name = tree["metadata"].get("name")
        for entry in write.reader.list(_CLASSES):
            if entry.tree.get("globalDefault") and entry.name != name:
                raise forbidden_error(
                    _CLASSES,
                    name,
                    f"PriorityClass {entry.name} is already marked as default. Only one default can exist",
                )
    return tree


def _priority_class(tree: Tree, write: Write) -> Errors:
    name, value = tree["metadata"].get("name") or "", tree.get("value") or 0
    if name.startswith("system-"):
        if _SYSTEM_CLASSES.get(name) != value:
            yield forbidden(
                "metadata.name",
                f"priority class names with 'system-' prefix are reserved for system use only. error: {name} is not a "
                "known system priority class",
            )
    elif value > _MAX_USER_PRIORITY:
        yield forbidden("value", f"maximum allowed value of a user defined priority is {_MAX_USER_PRIORITY}")
    policy = tree.get("preemptionPolicy")
    if policy is not None and policy not in ("PreemptLowerPriority", "Never"):
        choices = ("PreemptLowerPriority", "Never")
        yield (
            not_supported("preemptionPolicy", GoNamedString(policy), choices)
            if policy
            else required("preemptionPolicy")
        )


def _priority_class_update(new: Tree, old: Tree, write: Write) -> Errors:
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield forbidden("value", "may not be changed in an update.")
    if new.get("preemptionPolicy") != old.get("preemptionPolicy"):
        yield invalid("preemptionPolicy", new.get("preemptionPolicy"), "field is immutable")


# --- leases, budgets -------------------------------------------------------------------------------------------------


def _lease(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    seconds = spec.get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        yield invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
    yield from field_validation.non_negative(spec.get("leaseTransitions"), "spec.leaseTransitions")


def _budget(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    min_available, max_unavailable = spec.get("minAvailable"), spec.get("maxUnavailable")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if min_available is not None and max_unavailable is not None:
        value = GoStruct(
            MinAvailable=min_available,
            Selector=spec.get("selector"),
            MaxUnavailable=max_unavailable,
            UnhealthyPodEvictionPolicy=policy,
        )
        yield invalid("spec", value, "minAvailable and maxUnavailable cannot be both set")
    for name, limit in (("minAvailable", min_available), ("maxUnavailable", max_unavailable)):
        if limit is not None:
            yield from field_validation.int_or_percent(limit, f"spec.{name}")
            yield from field_validation.at_most_100_percent(limit, f"spec.{name}")
    yield from field_validation.label_selector(spec.get("selector"), "spec.selector")
    if policy is not None and policy not in ("AlwaysAllow", "IfHealthyBudget"):
        yield not_supported("spec.unhealthyPodEvictionPolicy", policy, ("AlwaysAllow", "IfHealthyBudget"))


def _runtime_class(tree: Tree, write: Write) -> Errors:
    handler, scheduling = tree.get("handler") or "", tree.get("scheduling") or {}
    yield from names.label(handler, "handler") if handler else (required("handler"),)
    yield from resource_requirements({"limits": (tree.get("overhead") or {}).get("podFixed")}, frozenset(), "overhead")
    yield from field_validation.labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    tolerated: Sequence[Tree] = scheduling.get("tolerations") or ()
    yield from tolerations(tolerated, "scheduling.tolerations")
    keys = [tuple(item.get(part) or "" for part in ("key", "operator", "value", "effect")) for item in tolerated]
    for index, key in enumerate(keys):
        if key in keys[:index]:
            toleration_value = GoStruct(zip(("Key", "Operator", "Value", "Effect"), key, strict=True))
            toleration_value["TolerationSeconds"] = tolerated[index].get("tolerationSeconds")
            yield duplicate(f"scheduling.tolerations[{index}]", toleration_value)


def _runtime_class_update(new: Tree, old: Tree, write: Write) -> Errors:
    if new.get("handler") != old.get("handler"):
        yield immutable("handler", new.get("handler") or "")
        yield from names.label(new.get("handler") or "", "handler")


RULES: Final[Mapping[str, KindRules]] = {
    "nodes": KindRules(
        admit=_admit_node, validate_create=_node, validate_update=_node_update, keeps_status_on_create=True
    ),
    "namespaces": KindRules(
        prepare_create=_prepare_namespace_create, validate_create=_namespace, prepare_update=_prepare_namespace_update,
        validate_update=_namespace_update, name=names.label_problems,
    ),
    "priorityclasses.scheduling.k8s.io": KindRules(
        admit=_admit_priority_class, validate_create=_priority_class, validate_update=_priority_class_update,
        admit_update=lambda new, old, write: _admit_priority_class(new, write), has_generation=True,
    ),
    "leases.coordination.k8s.io": KindRules(
        validate_create=_lease, validate_update=lambda new, old, write: _lease(new, write)
    ),
    "poddisruptionbudgets.policy": KindRules(
        validate_create=_budget, has_generation=True,
        validate_update=lambda new, old, write: () if write.subresource else _budget(new, write),
        name=field_validation.path_segment_problems,
    ),
    "runtimeclasses.node.k8s.io": KindRules(validate_create=_runtime_class, validate_update=_runtime_class_update),
}  # fmt: skip
