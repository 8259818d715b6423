"""Claims of PodGroups: which of a pod's claims are its group's, and whether a pod may use what the group has.

A pod names its group; when an entry of its claims is also one of the group's, word for word, the claim behind it is
made once, owned by the group and reserved for it (KEP-5729). A pod knows its group's name and not its uid, so it is by
name that a pod finds itself among owners and users. Objects are trees here: programs see those, and not all of them
typed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

GROUP: Final = "scheduling.k8s.io"
RESOURCE: Final = "podgroups"
KIND: Final = "PodGroup"
VERSION: Final = f"{GROUP}/v1alpha2"
#: The gate of it all. It needs GenericWorkload, which is taken to be on with it.
GATE: Final = "DRAWorkloadResourceClaims"
#: Keeps a group until the last of its pods is done.
FINALIZER: Final = "scheduling.k8s.io/podgroup-protection"

Tree = Mapping[str, Any]

_SAME: Final = ("name", "resourceClaimName", "resourceClaimTemplateName")


def group_name(spec: Tree) -> str:
    """The name of the PodGroup that a pod with such a spec belongs to; empty for none.

    >>> group_of({"schedulingGroup": {"podGroupName": "g"}}), group_of({})
    ('g', '')
    """
    return (spec.get("schedulingGroup") or {}).get("podGroupName") or ""


def has_claim_entry(group: Tree, entry: Tree) -> bool:
    """Whether an entry of a pod's claims is one of its group's as well."""
    return any(
        all(own.get(field) == entry.get(field) for field in _SAME)
        for own in (group.get("spec") or {}).get("resourceClaims") or ()
    )


def consumer_reference(group: Tree) -> dict[str, Any]:
    """The entry of ``status.reservedFor`` that stands for a group."""
    metadata = group["metadata"]
    return {"apiGroup": GROUP, "resource": RESOURCE, "name": metadata["name"], "uid": metadata["uid"]}


def is_group(user: Tree) -> bool:
    """Whether an entry of ``status.reservedFor`` stands for a PodGroup."""
    return user.get("apiGroup") == GROUP and user.get("resource") == RESOURCE


def is_consumer(users: Iterable[Tree], uid: str, group: str = "") -> bool:
    """Whether a pod is one of a claim's users, or a group of this name is.

    >>> is_among([{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "1"}], "u", "g")
    True
    """
    return any(user.get("uid") == uid or (group and is_group(user) and user.get("name") == group) for user in users)


def owning_group(claim: Tree) -> str:
    """The name of the group that a claim was made for; empty if it was not made for one."""
    for owner in claim["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            mine = owner.get("kind") == KIND and str(owner.get("apiVersion", "")).startswith(f"{GROUP}/")
            return str(owner["name"]) if mine else ""
    return ""


def not_found_message(name: str) -> str:
    """What Kubernetes says of a group that is not there.

    >>> absent("g")
    'podgroup.scheduling.k8s.io "g" not found'
    """
    return f'podgroup.{GROUP} "{name}" not found'


def not_owner_message(claim: str, pod: str, group: str = "") -> str:
    """What Kubernetes says when a generated claim belongs to somebody else: neither pod nor, if it has one, group."""
    owners = f"neither Pod nor PodGroup {group} is the owner" if group else "Pod is not owner"
    return f"ResourceClaim {claim} was not created for Pod {pod} ({owners})"
