"""Mutable fields of existing pods: images, deadline, tolerations, gates; ephemeral containers; resize.

The error for a forbidden update contains a diff (see ``pod_spec_diff``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.kinds.pod_spec import tolerations
from allotment.apiserver.kinds.pod_spec_diff import pod_spec_text, unified_diff
from allotment.apiserver.kinds.qos import qos_class
from allotment.model.trees import Tree
from allotment.model.validation.errors import Errors, forbidden, invalid, required

_IMMUTABLE_FIELDS: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)
_IMMUTABLE_RESOURCES: Final = "only cpu and memory resources are mutable"


def spec_update(new: Tree, old: Tree, release: str) -> Errors:
    """Validate the update of a spec that is itself valid."""
    for part in ("containers", "initContainers"):
        after, before = new.get(part) or (), old.get(part) or ()
        if len(after) != len(before):
            yield forbidden(f"spec.{part}", "pod updates may not add or remove containers")
            return
        for index, item in enumerate(after):
            image = item.get("image") or ""
            if not image:
                yield required(f"spec.{part}[{index}].image")
            if image != image.strip():
                yield invalid(f"spec.{part}[{index}].image", image, "must not have leading or trailing whitespace")
    deadline_errors = list(_deadline_update(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")))
    yield from deadline_errors
    if deadline_errors and new.get("activeDeadlineSeconds") is not None:
        return
    yield from _only_additions(new.get("tolerations") or (), old.get("tolerations") or ())
    old_gates = {gate.get("name") for gate in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in old_gates:
            yield forbidden(
                f"spec.schedulingGates[{index}].name",
                f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
            )
    masked = _with_mutable_fields_of(new, old)
    if old_gates:
        yield from _gated_scheduling(masked, old)
    # Specs with equal texts are equal: as upstream, empty and unset are the same.
    before_text, after_text = pod_spec_text(old, release), pod_spec_text(masked, release)
    if before_text != after_text:
        yield forbidden("spec", _IMMUTABLE_FIELDS + unified_diff(before_text, after_text))


def _deadline_update(new: int | None, old: int | None) -> Errors:
    path = "spec.activeDeadlineSeconds"
    if new is None:
        if old is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= 2**31 - 1:
        yield invalid(path, new, "must be between 0 and 2147483647, inclusive")
    elif old is not None and old < new:
        yield invalid(path, new, "must be less than or equal to previous value")


def _only_additions(new: Sequence[Tree], old: Sequence[Tree]) -> Errors:
    def without_seconds(item: Tree) -> Tree:
        return {name: value for name, value in item.items() if name != "tolerationSeconds"}

    new_tolerations = [without_seconds(item) for item in new]
    if any(without_seconds(item) not in new_tolerations for item in old):
        yield forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
        return
    yield from tolerations(new, "spec.tolerations")


def _with_mutable_fields_of(new: Tree, old: Tree) -> Tree:
    """The new spec with all mutable fields as in the old one."""
    masked = dict(new)
    for part in ("containers", "initContainers"):
        if new.get(part):
            masked[part] = [
                {**item, "image": old_item.get("image")} for item, old_item in zip(new[part], old[part], strict=True)
            ]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        if name in old:
            masked[name] = old[name]
        else:
            masked.pop(name, None)
    before, after = old.get("terminationGracePeriodSeconds"), new.get("terminationGracePeriodSeconds")
    if before is not None and before < 0 and after == 1:
        masked["terminationGracePeriodSeconds"] = before
    return masked


def _gated_scheduling(masked: Tree, old: Tree) -> Errors:
    """Node selector and node affinity of a gated pod can become more restrictive (KEP-3838)."""
    before: Mapping[str, str] = old.get("nodeSelector") or {}
    after: Mapping[str, str] = masked.get("nodeSelector") or {}
    if before != after:
        if any(after.get(key) != value for key, value in before.items()):
            yield invalid(
                "spec.nodeSelector", dict(after), "only additions to existing node selector labels are allowed"
            )
        _set_or_remove(masked, "nodeSelector", old.get("nodeSelector"))
    old_nodes = (old.get("affinity") or {}).get("nodeAffinity")
    new_nodes = (masked.get("affinity") or {}).get("nodeAffinity")
    if old_nodes != new_nodes:
        yield from _only_narrower(new_nodes or {}, old_nodes or {})
        affinity = dict(masked.get("affinity") or {})
        _set_or_remove(affinity, "nodeAffinity", old_nodes)
        _set_or_remove(masked, "affinity", affinity or None)


def _set_or_remove(tree: Tree, name: str, value: Any) -> None:
    if value is None:
        tree.pop(name, None)
    else:
        tree[name] = value


def _only_narrower(new: Tree, old: Tree) -> Errors:
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    before, after = old.get(key), new.get(key)
    if before is None:
        return
    if after is None:
        yield invalid(path, None, "field is immutable")
        return
    old_terms, new_terms = before.get("nodeSelectorTerms") or [], after.get("nodeSelectorTerms") or []
    if len(old_terms) != len(new_terms):
        yield invalid(
            f"{path}.nodeSelectorTerms", new_terms,
            "no additions/deletions to non-empty NodeSelectorTerms list are allowed",
        )  # fmt: skip
        return
    for index, (old_term, new_term) in enumerate(zip(old_terms, new_terms, strict=True)):
        for part in ("matchExpressions", "matchFields"):
            if any(requirement not in (new_term.get(part) or ()) for requirement in old_term.get(part) or ()):
                yield invalid(
                    f"{path}.nodeSelectorTerms[{index}]",
                    new_term,
                    "only additions are allowed (no mutations or deletions)",
                )
                break


def ephemeral_update(new: Tree, old: Tree) -> Errors:
    """Ephemeral containers can only be added."""
    after = {item.get("name"): item for item in new.get("ephemeralContainers") or ()}
    for item in old.get("ephemeralContainers") or ():
        name = item.get("name")
        if name not in after:
            yield forbidden("spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be removed\n')
        elif after[name] != item:
            yield forbidden("spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be changed\n')


def resize_update(new: Tree, old: Tree) -> Errors:
    """Only cpu and memory of a pod can be resized, without changing its QoS class (KEP-1287)."""
    if (old["status"].get("qosClass") or qos_class(old["spec"])) != qos_class(new["spec"]):
        yield invalid(
            "spec", new["status"].get("qosClass") or "", "Pod QOS Class may not change as a result of resizing"
        )
    if old["status"].get("nodeAllocatableResourceClaimStatuses"):
        yield forbidden("spec", "pods with node allocatable resource claims cannot be resized")
    for part in ("containers", "initContainers"):
        after, before = new["spec"].get(part) or (), old["spec"].get(part) or ()
        names = [item.get("name") for item in before]
        if [item.get("name") for item in after] != names:
            verb = "added or removed" if len(after) != len(before) else "renamed or reordered"
            yield forbidden(f"spec.{part}", f"{part} may not be {verb} on resize")
            return
        for index, (old_item, new_item) in enumerate(zip(before, after, strict=True)):
            yield from _container_resize(new_item, old_item, f"spec.{part}[{index}]", sidecar=part == "initContainers")


def _container_resize(new: Tree, old: Tree, path: str, *, sidecar: bool) -> Errors:
    before, after = old.get("resources") or {}, new.get("resources") or {}
    for part, noun in (("requests", "requests"), ("limits", "limits")):
        removed = [name for name in before.get(part) or {} if name not in (after.get(part) or {})]
        if removed:
            yield forbidden(f"{path}.resources.{part}", f"resource {noun} cannot be removed")
        other_after, other_before = (
            {name: amount for name, amount in (resources.get(part) or {}).items() if name not in ("cpu", "memory")}
            for resources in (after, before)
        )
        if other_after != other_before:
            yield forbidden("spec", _IMMUTABLE_RESOURCES)
    if sidecar and before != after and old.get("restartPolicy") != "Always":
        yield forbidden("spec", "resources for non-sidecar init containers are immutable")
