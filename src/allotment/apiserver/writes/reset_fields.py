"""What a write cannot touch, and so nobody comes to own by it: the status through the object, the spec through status.

Kubernetes states this per kind and subresource (``GetResetFields`` of its registries); here the rule and what departs
from it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from allotment.apiserver.writes.field_sets import MEMBER, Fields, of_path, without_below

Filter = Callable[[Fields], Fields | None]

_SPEC: Final = of_path("spec")
_STATUS: Final = of_path("status")
_SPEC_AND_STATUS: Final[Fields] = {"f:spec": MEMBER, "f:status": MEMBER}
_METADATA_AND_SPEC: Final[Fields] = {"f:metadata": MEMBER, "f:spec": MEMBER}

#: Kinds whose status nobody resets (they have none, or it is written through the object).
_FREE: Final = frozenset(
    {
        "APIService", "Binding", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "ControllerRevision", "CSIDriver",
        "CSINode", "CSIStorageCapacity", "DeviceClass", "Endpoints", "EndpointSlice", "Event", "IPAddress",
        "IngressClass", "Lease", "LeaseCandidate", "LimitRange", "MutatingWebhookConfiguration", "NetworkPolicy",
        "PodTemplate", "PriorityClass", "ResourceClaimTemplate", "ResourceSlice", "Role", "RoleBinding",
        "RuntimeClass", "Scale", "Secret", "ServiceAccount", "StorageClass", "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration", "VolumeAttributesClass", "Workload", "ComponentStatus",
    }
)  # fmt: skip
#: Kinds whose status subresource leaves metadata alone, too.
_METADATA_FIXED: Final = frozenset(
    {
        "PodGroup", "ServiceCIDR", "StorageVersionMigration", "ResourceClaim", "DeviceTaintRule",
        "ResourcePoolStatusRequest", "StorageVersion", "VolumeAttachment", "FlowSchema", "PriorityLevelConfiguration",
        "ValidatingAdmissionPolicy",
    }
)  # fmt: skip
_SPECIAL: Final[dict[tuple[str, str], Fields]] = {
    ("Pod", "status"): {"f:spec": MEMBER, "f:metadata": {"f:deletionTimestamp": MEMBER, "f:ownerReferences": MEMBER}},
    ("Deployment", "status"): {"f:spec": MEMBER, "f:metadata": {"f:labels": MEMBER}},
    ("CertificateSigningRequest", ""): _SPEC_AND_STATUS,
    ("CertificateSigningRequest", "status"): {"f:spec": MEMBER, "f:status": {"f:conditions": MEMBER}},
    ("CertificateSigningRequest", "approval"): {"f:spec": MEMBER, "f:status": {"f:certificate": MEMBER}},
    ("Namespace", "finalize"): _STATUS,
}
_RESIZABLE: Final = frozenset({"f:resources", "f:resizePolicy"})


@functools.cache
def reset(kind: str, subresource: str, *, custom: bool = False) -> Fields | None:
    """The fields that a write resets; None if there are none. ``custom``: of a custom resource with a status."""
    special = _SPECIAL.get((kind, subresource))
    if special is not None and not custom:
        return special
    if custom:
        return {"": _STATUS, "status": _METADATA_AND_SPEC}.get(subresource)
    if kind in _FREE:
        return None
    if subresource == "status":
        return _METADATA_AND_SPEC if kind in _METADATA_FIXED else _SPEC
    return _STATUS if subresource == "" else None


def kept(kind: str, subresource: str, fields: Fields, resets: Fields | None) -> Fields | None:
    """Of the fields that a write names, those it can touch."""
    if kind == "Pod":
        if subresource == "ephemeralcontainers":
            return _only(fields, "f:ephemeralContainers", lambda below: below)
        if subresource == "resize":
            return _resized(fields)
    return fields if resets is None else without_below(fields, resets)


def _only(fields: Fields, element: str, choose: Callable[[Any], Fields | None]) -> Fields | None:
    below = fields.get("f:spec", MEMBER).get(element)
    chosen = None if below is None else choose(below)
    return None if chosen is None else {"f:spec": {element: chosen}}


def _resized(fields: Fields) -> Fields | None:
    def of_items(below: Fields) -> Fields | None:
        items = {
            item: chosen
            for item, inner in below.items()
            if (chosen := {name: value for name, value in inner.items() if name in _RESIZABLE})
        }
        return items or None

    spec = {
        element: chosen
        for element in ("f:containers", "f:initContainers")
        if (below := fields.get("f:spec", MEMBER).get(element)) is not None
        if (chosen := of_items(below)) is not None
    }
    return {"f:spec": spec} if spec else None
