"""Pods: admission, validation, and the parts that each subresource can change.

LimitRanges are checked after validation, so that an invalid pod gets its validation errors first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from allotment.apiserver.kinds import pod_admission
from allotment.apiserver.kinds.kept_metadata import STATUS_KEEPS, with_kept
from allotment.apiserver.kinds.kind import Errors, KindRules, Write
from allotment.apiserver.kinds.limit_range_admission import check_pod_limits
from allotment.apiserver.kinds.pod_spec import pod_spec
from allotment.apiserver.kinds.pod_updates import ephemeral_update, resize_update, spec_update
from allotment.apiserver.kinds.qos import qos_class
from allotment.model.core import Pod
from allotment.model.trees import Tree, to_value
from allotment.model.validation import names
from allotment.model.validation.errors import Errors as ErrorIterator
from allotment.model.validation.errors import forbidden, immutable, invalid
from allotment.model.validation.pods import pod_claim_statuses

GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"
#: Metadata that a write to a subresource of pods does not change.
_STATUS_KEEPS: Final = ("deletionTimestamp", "ownerReferences", "deletionGracePeriodSeconds", "generation")
_SYSTEM_CONDITIONS: Final = frozenset({"PodScheduled", "Ready", "Initialized"})


def _admit(pod: Tree, write: Write) -> Tree:
    pod = pod_admission.admit(pod, write)
    status: Tree = {"phase": "Pending", "qosClass": qos_class(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled", "status": "False", "lastProbeTime": None, "lastTransitionTime": write.now,
                "reason": "SchedulingGated", "message": GATED,
            }
        ]  # fmt: skip
    pod["status"] = status
    return pod


def _validate(pod: Tree) -> ErrorIterator:
    spec: Tree = pod["spec"]
    yield from pod_spec(spec, pod["metadata"].get("annotations") or {}, "spec")
    if not spec.get("serviceAccountName"):
        for index, volume in enumerate(spec.get("volumes") or ()):
            for position, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
                if source.get("serviceAccountToken") is not None:
                    yield forbidden(
                        f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken",
                        "must not be specified when serviceAccountName is not set",
                    )
    for part in ("containers", "initContainers"):
        for index, item in enumerate(spec.get(part) or ()):
            image = item.get("image") or ""
            if image != image.strip():
                yield invalid(f"spec.{part}[{index}].image", image, "must not have leading or trailing whitespace")


def _validate_create(pod: Tree, write: Write) -> Errors:
    errors = list(_validate(pod))
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        errors.append(forbidden("spec.ephemeralContainers", "cannot be set on create"))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.append(forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared"))
    if not errors:
        check_pod_limits(pod, write)
        pod_admission.check_overhead(pod, write)
    return errors


# --- updates ---------------------------------------------------------------------------------------------------------


def _prepare_update(new: Tree, old: Tree, write: Write) -> Tree:
    prepare = _PREPARE_BY_SUBRESOURCE.get(write.subresource)
    if prepare is not None:
        return prepare(new, old)
    return {**new, "status": old["status"]}


def _prepare_status(new: Tree, old: Tree) -> Tree:
    status: Tree = new.get("status") or {}
    if not status.get("qosClass") and old["status"].get("qosClass"):
        status = {**status, "qosClass": old["status"]["qosClass"]}
    return {**old, "metadata": with_kept(new["metadata"], old["metadata"], _STATUS_KEEPS), "status": status}


def _prepare_ephemeral(new: Tree, old: Tree) -> Tree:
    spec = {**old["spec"], "ephemeralContainers": (new.get("spec") or {}).get("ephemeralContainers") or []}
    if not spec["ephemeralContainers"]:
        del spec["ephemeralContainers"]
    return {**old, "metadata": with_kept(new["metadata"], old["metadata"], STATUS_KEEPS), "spec": spec}


def _prepare_resize(new: Tree, old: Tree) -> Tree:
    requested, spec = new.get("spec") or {}, dict(old["spec"])
    for part in ("containers", "initContainers"):
        after, before = requested.get(part) or [], spec.get(part) or []
        if len(after) != len(before):
            return {**new, "status": old["status"]}
        if [item.get("name") for item in after] == [item.get("name") for item in before]:
            after = [_with_resources(item, new_item) for item, new_item in zip(before, after, strict=True)]
        if after:
            spec[part] = after
    if "resources" in requested:
        spec["resources"] = requested["resources"]
    return {**old, "metadata": with_kept(new["metadata"], old["metadata"], STATUS_KEEPS), "spec": spec}


def _with_resources(container: Tree, requested: Tree) -> Tree:
    return container | {name: requested[name] for name in ("resources", "resizePolicy") if name in requested}


_PREPARE_BY_SUBRESOURCE: Final[dict[str, Callable[[Tree, Tree], Tree]]] = {
    "status": _prepare_status, "ephemeralcontainers": _prepare_ephemeral, "resize": _prepare_resize,
}  # fmt: skip


def _admit_update(new: Tree, old: Tree, write: Write) -> Tree:
    if write.subresource:
        return new
    spec = {**new["spec"]}
    # Fields that admission set are kept when a manifest without them is applied.
    for name in ("priority", "preemptionPolicy"):
        if spec.get(name) is None and old["spec"].get(name) is not None:
            spec[name] = old["spec"][name]
    pod_admission.add_default_tolerations(spec)
    return {**new, "spec": spec}


def _validate_update(new: Tree, old: Tree, write: Write) -> Errors:
    if write.subresource == "status":
        return _status_update(new, old)
    if write.subresource == "ephemeralcontainers":
        return [*_validate(new), *ephemeral_update(new["spec"], old["spec"])]
    if write.subresource == "resize":
        return [*_validate(new), *resize_update(new, old)]
    if new["spec"] == old["spec"]:
        return ()
    return [*_validate(new), *spec_update(new["spec"], old["spec"], write.features.kube)]


def _status_update(new: Tree, old: Tree) -> ErrorIterator:
    status, before = new["status"], old["status"]
    for index, condition in enumerate(status.get("conditions") or ()):
        if condition.get("type") not in _SYSTEM_CONDITIONS:
            yield from names.label_key(condition.get("type") or "", f"status.conditions[{index}].Type")
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        yield from names.subdomain(nominated, "status.nominatedNodeName")
        if old["spec"].get("nodeName"):
            yield forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
    if status.get("qosClass") != before.get("qosClass"):
        yield immutable("status.qosClass", status.get("qosClass") or "")
    policy = new["spec"].get("restartPolicy")
    yield from _stays_terminated(status, before, "containerStatuses", policy)
    if status.get("resourceClaimStatuses") or status.get("extendedResourceClaimStatus"):
        yield from pod_claim_statuses(to_value(_claims_only(new), Pod))


def _claims_only(pod: Tree) -> Tree:
    spec, status = pod["spec"], pod["status"]
    return {
        "spec": {name: spec[name] for name in ("resourceClaims", "containers", "initContainers") if name in spec},
        "status": {
            name: status[name] for name in ("resourceClaimStatuses", "extendedResourceClaimStatus") if name in status
        },
    }


def _stays_terminated(status: Tree, before: Tree, part: str, policy: str | None) -> ErrorIterator:
    if policy == "Always":
        return
    after = {item.get("name"): item for item in status.get(part) or ()}
    for index, item in enumerate(before.get(part) or ()):
        terminated = (item.get("state") or {}).get("terminated")
        if terminated is None or (terminated.get("exitCode") and policy == "OnFailure"):
            continue
        current = after.get(item.get("name"))
        if current is not None and (current.get("state") or {}).get("terminated") is None:
            yield forbidden(f"status.{part}[{index}].state", "may not be transitioned to non-terminated state")


RULES: Final = KindRules(
    admit=_admit, validate_create=_validate_create, prepare_update=_prepare_update, admit_update=_admit_update,
    validate_update=_validate_update, has_generation=True,
)  # fmt: skip
