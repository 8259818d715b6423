"""Workloads, PodGroups and CompositePodGroups of v1beta1 and v1alpha3, from 1.37 on (KEP-4671, KEP-5729, KEP-5732).

Most of the validation is declared by the types (:mod:`allotment.model.validation.declarative`); rules that span several
templates are in :mod:`allotment.model.validation.workload_templates`. 1.36 has v1alpha2 with rules of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from allotment.apiserver.kinds import pod_groups_v1alpha2
from allotment.apiserver.kinds.defaults.combinators import fill_within, when_absent
from allotment.apiserver.kinds.disabled_fields import Gates, without_disabled
from allotment.apiserver.kinds.kept_metadata import STATUS_KEEPS, with_kept
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.priority_admission import PREEMPTION_POLICY, admit_group
from allotment.model.features import Features
from allotment.model.meta import Condition
from allotment.model.pod_groups import FINALIZER, GATE
from allotment.model.trees import Tree, to_value
from allotment.model.validation.conditions import check_conditions
from allotment.model.validation.declarative import declared_errors, merged
from allotment.model.validation.errors import Errors as ErrorIterator
from allotment.model.validation.errors import invalid, required
from allotment.model.validation.workload_templates import workload_templates

_GROUPS: Final = "podgroups.scheduling.k8s.io"
_COMPOSITES: Final = "compositepodgroups.scheduling.k8s.io"
_WORKLOADS: Final = "workloads.scheduling.k8s.io"
#: The version of PodGroups whose rules are in :mod:`allotment.apiserver.kinds.pod_groups_v1alpha2`.
_OLD_VERSION: Final = "v1alpha2"

_TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
_COMPOSITE: Final = "CompositePodGroup"
_COMPOSITE_GATES: Final[Gates] = {"preemptionPolicy": PREEMPTION_POLICY}
_TEMPLATE_GATES: Final[Gates] = {"schedulingConstraints": _TOPOLOGY, "resourceClaims": GATE, **_COMPOSITE_GATES}
_GROUP_GATES: Final[Gates] = {**_TEMPLATE_GATES, "parentCompositePodGroupName": _COMPOSITE}
_NESTED_GATES: Final[Gates] = {"compositePodGroupTemplates": _COMPOSITE}


def _spec(tree: Tree) -> Tree:
    return tree.get("spec") or {}


# --- defaults --------------------------------------------------------------------------------------------------------


def defaults(features: Features) -> Callable[[Tree, Tree | None], Tree]:
    """The defaults of PodGroups and CompositePodGroups: pods can be disrupted one by one, and may preempt others."""
    policy = {"preemptionPolicy": "PreemptLowerPriority"} if features.enabled(PREEMPTION_POLICY) else {}
    fill = when_absent(disruptionMode={"single": {}}, **policy)
    return lambda tree, stored: fill_within(tree, "spec", fill)


# --- fields of disabled gates ----------------------------------------------------------------------------------------


def _drop_from_group(tree: Tree, old: Tree | None, write: Write, gates: Gates) -> Tree:
    features, before = write.features, None if old is None else _spec(old)
    if write.subresource == "status":
        if not features.enabled(GATE) and not (before or {}).get("resourceClaims"):
            status = without_disabled(tree.get("status") or {}, None, {"resourceClaimStatuses": GATE}, features)
            return {**tree, "status": status}
        return tree
    spec = _spec(tree)
    remaining = without_disabled(spec, before, gates, features)
    return tree if remaining is spec else {**tree, "spec": remaining}


def _drop_from_workload(tree: Tree, old: Tree | None, write: Write) -> Tree:
    return {**tree, "spec": _enabled_templates(_spec(tree), None if old is None else _spec(old), write.features)}


def _enabled_templates(parent: Tree, old: Tree | None, features: Features) -> Tree:
    """A WorkloadSpec or a composite template without disabled fields in its templates."""
    parent = without_disabled(parent, old, _NESTED_GATES, features)
    before: Sequence[Tree] = (old or {}).get("podGroupTemplates") or ()
    groups = [
        _enabled_template(template, before[index] if index < len(before) else None, features)
        for index, template in enumerate(parent.get("podGroupTemplates") or ())
    ]
    stored = {template.get("name"): template for template in (old or {}).get("compositePodGroupTemplates") or ()}
    composites = [
        _enabled_templates(
            without_disabled(template, stored.get(template.get("name")), _COMPOSITE_GATES, features),
            stored.get(template.get("name")),
            features,
        )
        for template in parent.get("compositePodGroupTemplates") or ()
    ]
    lists = {"podGroupTemplates": groups, "compositePodGroupTemplates": composites}
    return {**parent, **{name: items for name, items in lists.items() if items}}


def _enabled_template(template: Tree, old: Tree | None, features: Features) -> Tree:
    remaining = without_disabled(template, old, _TEMPLATE_GATES, features)
    if "schedulingConstraints" in remaining:
        return remaining
    # Unset constraints of a template are printed, and in their place.
    return {name: remaining.get(name) for name in template if name in remaining or name == "schedulingConstraints"}


# --- admission and validation ----------------------------------------------------------------------------------------


def _admit_pod_group(tree: Tree, write: Write) -> Tree:
    """Set the priority, and the finalizer that protects the group while its pods can run."""
    tree = admit_group(tree, _GROUPS, "pod group", write)
    metadata = tree["metadata"]
    finalizers: Sequence[str] = metadata.get("finalizers") or ()
    if FINALIZER in finalizers:
        return tree
    return {**tree, "metadata": {**metadata, "finalizers": [*finalizers, FINALIZER]}}


def _new_pod_group(tree: Tree, write: Write) -> Errors:
    spec, errors = _spec(tree), []
    if spec.get("parentCompositePodGroupName") is not None and spec.get("workloadRef") is None:
        errors.append(required("spec.workloadRef", "must be set when parentCompositePodGroupName is set"))
    return merged(errors, declared_errors(tree, None, write.features))


def _new_composite(tree: Tree, write: Write) -> Errors:
    return merged((), declared_errors(tree, None, write.features))


def _changed_group(new: Tree, old: Tree, write: Write) -> Errors:
    coded = _status(new, write) if write.subresource == "status" else ()
    return merged(coded, declared_errors(new, old, write.features))


def _status(tree: Tree, write: Write) -> ErrorIterator:
    status = tree.get("status") or {}
    conditions = [to_value(condition, Condition) for condition in status.get("conditions") or ()]
    yield from check_conditions(conditions, "status.conditions", write.features)
    names = {claim.get("name") for claim in _spec(tree).get("resourceClaims") or ()}
    for index, claim in enumerate(status.get("resourceClaimStatuses") or ()):
        name = claim.get("name") or ""
        if name not in names:
            path = f"status.resourceClaimStatuses[{index}].name"
            yield invalid(path, name, "must match the name of an entry in `spec.resourceClaims`")


def _new_workload(tree: Tree, write: Write) -> Errors:
    return merged(workload_templates(_spec(tree), "spec"), declared_errors(tree, None, write.features))


def _changed_workload(new: Tree, old: Tree, write: Write) -> Errors:
    return merged(workload_templates(_spec(new), "spec"), declared_errors(new, old, write.features))


def _prepare_update(new: Tree, old: Tree, write: Write) -> Tree:
    if write.subresource != "status":
        return new
    return {**new, "metadata": with_kept(new["metadata"], old["metadata"], STATUS_KEEPS)}


_POD_GROUP: Final = KindRules(
    admit=_admit_pod_group,
    drop_disabled=lambda tree, old, write: _drop_from_group(tree, old, write, _GROUP_GATES),
    validate_create=_new_pod_group,
    prepare_update=_prepare_update,
    validate_update=_changed_group,
)
_COMPOSITE_GROUP: Final = KindRules(
    admit=lambda tree, write: admit_group(tree, _COMPOSITES, "composite pod group", write),
    drop_disabled=lambda tree, old, write: _drop_from_group(tree, old, write, _COMPOSITE_GATES),
    validate_create=_new_composite,
    prepare_update=_prepare_update,
    validate_update=_changed_group,
)
_WORKLOAD: Final = KindRules(
    drop_disabled=_drop_from_workload, validate_create=_new_workload, validate_update=_changed_workload
)


def group_rules(bucket: str, version: str, features: Features) -> KindRules | None:
    """The rules of a kind that is stored in this version; None if it is not one of the kinds of this module."""
    if version == _OLD_VERSION:
        return pod_groups_v1alpha2.RULES if bucket == _GROUPS else None
    rules: Mapping[str, KindRules] = {
        _GROUPS: _POD_GROUP._replace(default=defaults(features)),
        _COMPOSITES: _COMPOSITE_GROUP._replace(default=defaults(features)),
        _WORKLOADS: _WORKLOAD,
    }
    return rules.get(bucket)
