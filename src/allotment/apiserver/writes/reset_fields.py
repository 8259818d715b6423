"""The fields that a write resets and therefore cannot own, such as the status in a write to the object.

Kubernetes declares them per kind and subresource (``GetResetFields`` of its registries); this module has the common
rule and the exceptions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from allotment.apiserver.writes.field_sets import MEMBER, Fields, from_path, recursive_difference

Filter = Callable[[Fields], Fields | None]

_SPEC: Final = from_path("spec")
_STATUS: Final = from_path("status")
_SPEC_AND_STATUS: Final[Fields] = {"f:spec": MEMBER, "f:status": MEMBER}
_METADATA_AND_SPEC: Final[Fields] = {"f:metadata": MEMBER, "f:spec": MEMBER}

#: Kinds whose status is not reset: they have none, or it is part of the object's own writes.
_WITHOUT_RESET: Final = frozenset(
    {
        "APIService", "Binding", "ClusterRole", "ClusterRoleBinding", "ConfigMap", "ControllerRevision", "CSIDriver",
        "CSINode", "CSIStorageCapacity", "DeviceClass", "Endpoints", "EndpointSlice", "Event", "IPAddress",
        "IngressClass", "Lease", "LeaseCandidate", "LimitRange", "MutatingWebhookConfiguration", "NetworkPolicy",
        "PodTemplate", "PriorityClass", "ResourceClaimTemplate", "ResourceSlice", "Role", "RoleBinding",
        "RuntimeClass", "Scale", "Secret", "ServiceAccount", "StorageClass", "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration", "VolumeAttributesClass", "Workload", "ComponentStatus",
    }
)  # fmt: skip
#: Kinds whose status subresource resets metadata too.
_STATUS_RESETS_METADATA: Final = frozenset(
    {
        "CompositePodGroup", "PodGroup", "ServiceCIDR", "StorageVersionMigration", "ResourceClaim", "DeviceTaintRule",
        "ResourcePoolStatusRequest", "StorageVersion", "VolumeAttachment", "FlowSchema", "PriorityLevelConfiguration",
        "ValidatingAdmissionPolicy",
    }
)  # fmt: skip
_EXCEPTIONS: Final[dict[tuple[str, str], Fields]] = {
    ("Pod", "status"): {"f:spec": MEMBER, "f:metadata": {"f:deletionTimestamp": MEMBER, "f:ownerReferences": MEMBER}},
    ("Deployment", "status"): {"f:spec": MEMBER, "f:metadata": {"f:labels": MEMBER}},
    ("CertificateSigningRequest", ""): _SPEC_AND_STATUS,
    ("CertificateSigningRequest", "status"): {"f:spec": MEMBER, "f:status": {"f:conditions": MEMBER}},
    ("CertificateSigningRequest", "approval"): {"f:spec": MEMBER, "f:status": {"f:certificate": MEMBER}},
    ("Namespace", "finalize"): _STATUS,
}
_RESIZABLE: Final = frozenset({"f:resources", "f:resizePolicy"})


@functools.cache
def reset_fields(kind: str, subresource: str, *, custom: bool = False) -> Fields | None:
    """The fields that a write resets; None if there are none. ``custom``: a custom resource with a status."""
    special = _EXCEPTIONS.get((kind, subresource))
    if special is not None and not custom:
        return special
    if custom:
        return {"": _STATUS, "status": _METADATA_AND_SPEC}.get(subresource)
    if kind in _WITHOUT_RESET:
        return None
    if subresource == "status":
        return _METADATA_AND_SPEC if kind in _STATUS_RESETS_METADATA else _SPEC
    return _STATUS if subresource == "" else None


def writable_fields(kind: str, subresource: str, fields: Fields, resets: Fields | None) -> Fields | None:
    """The fields of a write that it can change."""
    if kind == "Pod":
        if subresource == "ephemeralcontainers":
            return _spec_field(fields, "f:ephemeralContainers", lambda below: below)
        if subresource == "resize":
            return _resize_fields(fields)
    return fields if resets is None else recursive_difference(fields, resets)


def _spec_field(fields: Fields, element: str, choose: Callable[[Any], Fields | None]) -> Fields | None:
    children = fields.get("f:spec", MEMBER).get(element)
    chosen = None if children is None else choose(children)
    return None if chosen is None else {"f:spec": {element: chosen}}


def _resize_fields(fields: Fields) -> Fields | None:
    def item_fields(children: Fields) -> Fields | None:
        items = {
            item: chosen
            for item, inner in children.items()
            if (chosen := {name: value for name, value in inner.items() if name in _RESIZABLE})
        }
        return items or None

    spec = {
        element: chosen
        for element in ("f:containers", "f:initContainers")
        if (children := fields.get("f:spec", MEMBER).get(element)) is not None
        if (chosen := item_fields(children)) is not None
    }
    return {"f:spec": spec} if spec else None
