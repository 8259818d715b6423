"""PodGroups: whether a cluster has them, the group of a pod, the claims that pods share with their group.

A pod names its group. If an entry of its claims equals an entry of the group, the claim is generated once, owned by the
group and reserved for it (KEP-5729). A pod has its group's name and not its uid, so owners and consumers are compared
by name. All objects are trees, because not all callers decode them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from allotment.model.features import Features

GROUP: Final = "scheduling.k8s.io"
RESOURCE: Final = "podgroups"
KIND: Final = "PodGroup"
VERSION: Final = f"{GROUP}/v1beta1"
#: The feature gate of groups.
GENERIC: Final = "GenericWorkload"
#: The feature gate of claims of groups. It requires GenericWorkload, which is assumed to be on with it.
GATE: Final = "DRAWorkloadResourceClaims"
#: The feature gate of topology constraints of groups.
TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"
#: The finalizer that keeps a group until its last pod has finished.
FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"

Tree = Mapping[str, Any]

_SAME: Final = ("name", "resourceClaimName", "resourceClaimTemplateName")


def are_groups_enabled(features: Features) -> bool:
    """Whether pods can belong to groups.

    >>> are_groups_enabled(Features("1.37")), are_groups_enabled(Features("1.37", {GENERIC: True}))
    (False, True)
    """
    return features.enabled(GENERIC) or features.enabled(GATE)


def are_pods_scheduled_together(features: Features) -> bool:
    """Whether kube-scheduler schedules the pods of a group together (KEP-4671). The alpha of 1.36 is not implemented:
    there, each pod is scheduled by itself.

    >>> are_pods_scheduled_together(Features("1.36", {GENERIC: True}))
    False
    >>> are_pods_scheduled_together(Features("1.37", {GENERIC: True}))
    True
    """
    return features.since("1.37") and features.enabled(GENERIC)


def group_name(spec: Tree) -> str:
    """The name of the PodGroup of a pod with this spec; empty if it has none.

    >>> group_name({"schedulingGroup": {"podGroupName": "g"}}), group_name({})
    ('g', '')
    """
    return (spec.get("schedulingGroup") or {}).get("podGroupName") or ""


def has_claim_entry(group: Tree, entry: Tree) -> bool:
    """Whether an entry of a pod's claims is also an entry of its group."""
    return any(
        all(own.get(field) == entry.get(field) for field in _SAME)
        for own in (group.get("spec") or {}).get("resourceClaims") or ()
    )


def consumer_reference(group: Tree) -> dict[str, Any]:
    """The entry of ``status.reservedFor`` for a group."""
    metadata = group["metadata"]
    return {"apiGroup": GROUP, "resource": RESOURCE, "name": metadata["name"], "uid": metadata["uid"]}


def is_group(user: Tree) -> bool:
    """Whether an entry of ``status.reservedFor`` refers to a PodGroup."""
    return user.get("apiGroup") == GROUP and user.get("resource") == RESOURCE


def is_consumer(users: Iterable[Tree], uid: str, group: str = "") -> bool:
    """Whether the pod with this uid, or the group of this name, is a consumer of a claim.

    >>> is_consumer([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "1"}], "u", "g")
    True
    """
    return any(user.get("uid") == uid or (group and is_group(user) and user.get("name") == group) for user in users)


def owning_group(claim: Tree) -> str:
    """The name of the PodGroup that a claim was generated for; empty if there is none."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            is_pod_group = owner.get("kind") == KIND and str(owner.get("apiVersion", "")).startswith(f"{GROUP}/")
            return str(owner["name"]) if is_pod_group else ""
    return ""


def not_found_message(name: str) -> str:
    """Kubernetes' message for a PodGroup that does not exist.

    >>> not_found_message("g")
    'podgroup.scheduling.k8s.io "g" not found'
    """
    return f'podgroup.{GROUP} "{name}" not found'


def not_owner_message(claim: str, pod: str, group: str = "") -> str:
    """Kubernetes' message for a generated claim that neither the pod nor its group, if any, owns."""
    owners = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
    return f"ResourceClaim {claim} was not created for Pod {pod} ({owners})"
