"""PodGroups of v1alpha2, the only version in 1.36: validation of scheduling policies and shared claims (KEP-4671,
KEP-5729).

Kubernetes generates this validation from its types, so values in messages have JSON names. Fields of other alpha
features (topology, disruption, group priority) are dropped, as if those gates were off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.apiserver.kinds.admission_errors import forbidden
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.model.pod_groups import FINALIZER
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation import names
from allotment.model.validation.errors import duplicate, immutable, invalid, required, too_many

_BUCKET: Final = "podgroups.scheduling.k8s.io"
_WORKLOADS: Final = "workloads.scheduling.k8s.io"
_MAX_CLAIMS: Final = 4
_GATED_FIELDS: Final = frozenset({"schedulingConstraints", "disruptionMode", "priorityClassName", "priority"})
_IMMUTABLE: Final = ("podGroupTemplateRef", "schedulingPolicy", "resourceClaims")
_CLAIM_SOURCES: Final = ("resourceClaimName", "resourceClaimTemplateName")


def _without_gated_fields(tree: Tree) -> Tree:
    spec = tree.get("spec") or {}
    if not _GATED_FIELDS & spec.keys():
        return tree
    return {**tree, "spec": {field: value for field, value in spec.items() if field not in _GATED_FIELDS}}


def _admit(tree: Tree, write: Write) -> Tree:
    """Check the template reference, and add the finalizer that protects the group while its pods can run."""
    _check_template(tree, write)
    metadata = tree["metadata"]
    finalizers: Sequence[str] = metadata.get("finalizers") or ()
    if FINALIZER in finalizers:
        return tree
    return {**tree, "metadata": {**metadata, "finalizers": [*finalizers, FINALIZER]}}


def _check_template(tree: Tree, write: Write) -> None:
    reference = ((tree.get("spec") or {}).get("podGroupTemplateRef") or {}).get("workload")
    if not reference:
        return
    name, template = reference.get("workloadName") or "", reference.get("podGroupTemplateName") or ""
    entry = write.reader.get(_WORKLOADS, write.namespace, name)
    workload: Tree = entry.tree if entry is not None else {}
    templates = (workload.get("spec") or {}).get("podGroupTemplates") or ()
    if not workload:
        reason = f"Workload {quote(name)} not found"
    elif workload["metadata"].get("deletionTimestamp"):
        reason = f"Workload {quote(name)} is being deleted"
    elif all(item.get("name") != template for item in templates):
        reason = f"PodGroupTemplate {quote(template)} not found in Workload {quote(name)}"
    else:
        return
    raise forbidden(_BUCKET, tree["metadata"].get("name") or "", f"PodGroup rejected: {reason}")


def _group(tree: Tree, write: Write) -> Errors:
    spec = tree.get("spec") or {}
    if (reference := spec.get("podGroupTemplateRef")) is not None:
        yield from _reference(reference, "spec.podGroupTemplateRef")
    yield from _policy(spec.get("schedulingPolicy") or {}, "spec.schedulingPolicy")
    yield from _claims(spec.get("resourceClaims") or (), "spec.resourceClaims")


def _one_of(tree: Tree, choices: Sequence[str], path: str) -> Errors:
    present = [name for name in choices if tree.get(name) is not None]
    quoted = ", ".join(f"`{name}`" for name in choices)
    if not present:
        yield invalid(path, "", f"must specify one of: {quoted}")
    elif len(present) > 1:
        yield invalid(path, "{" + ", ".join(present) + "}", f"must specify exactly one of: {quoted}")


def _reference(reference: Tree, path: str) -> Errors:
    yield from _one_of(reference, ("workload",), path)
    workload = reference.get("workload")
    if workload is None:
        return
    for field, check in (("workloadName", names.subdomain), ("podGroupTemplateName", names.label)):
        value = workload.get(field)
        if value:
            yield from check(value, f"{path}.workload.{field}")
        else:
            yield required(f"{path}.workload.{field}")


def _policy(policy: Tree, path: str) -> Errors:
    yield from _one_of(policy, ("basic", "gang"), path)
    if (gang := policy.get("gang")) is not None:
        count = gang.get("minCount") or 0
        if not count:
            yield required(f"{path}.gang.minCount")
        elif count < 1:
            yield invalid(f"{path}.gang.minCount", count, "must be greater than or equal to 1")


def _claims(claims: Sequence[Tree], path: str) -> Errors:
    if len(claims) > _MAX_CLAIMS:
        yield too_many(path, len(claims), _MAX_CLAIMS)
        return
    yield from _unique(claims, path)
    for index, claim in enumerate(claims):
        item_path = f"{path}[{index}]"
        yield from _one_of(claim, _CLAIM_SOURCES, item_path)
        if claim.get("name"):
            yield from names.label(claim["name"], f"{item_path}.name")
        else:
            yield required(f"{item_path}.name")
        for field in _CLAIM_SOURCES:
            if claim.get(field) is not None:
                yield from names.subdomain(claim[field], f"{item_path}.{field}")


def _unique(entries: Sequence[Tree], path: str) -> Errors:
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        name = entry.get("name") or ""
        if name in seen:
            yield duplicate(f"{path}[{index}]", entry)
        seen.add(name)


def _group_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource == "status":
        yield from _status(new, old)
        return
    before, after = old.get("spec") or {}, new.get("spec") or {}
    for field in _IMMUTABLE:
        if (before.get(field) or None) != (after.get(field) or None):
            yield immutable(f"spec.{field}", None)


def _status(new: Tree, old: Tree) -> Errors:
    path = "status.resourceClaimStatuses"
    statuses: Sequence[Tree] = (new.get("status") or {}).get("resourceClaimStatuses") or ()
    claim_names = {claim.get("name") for claim in (new.get("spec") or {}).get("resourceClaims") or ()}
    for index, status in enumerate(statuses):
        if status.get("name") not in claim_names:
            name = status.get("name") or ""
            yield invalid(f"{path}[{index}].name", name, "must match the name of an entry in `spec.resourceClaims`")
    if statuses == ((old.get("status") or {}).get("resourceClaimStatuses") or ()):
        return
    if len(statuses) > _MAX_CLAIMS:
        yield too_many(path, len(statuses), _MAX_CLAIMS)
        return
    yield from _unique(statuses, path)
    for index, status in enumerate(statuses):
        if status.get("resourceClaimName") is not None:
            yield from names.subdomain(status["resourceClaimName"], f"{path}[{index}].resourceClaimName")


RULES: Final = KindRules(
    prepare_create=lambda tree, write: _without_gated_fields(tree),
    admit=_admit,
    validate_create=_group,
    prepare_update=lambda new, old, write: new if write.subresource else _without_gated_fields(new),
    validate_update=_group_update,
)
