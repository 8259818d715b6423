"""Missing permissions of the current user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import remedy, unique

#: Commands that create the role and bind it to a user.
_COMMANDS: Final = (
    "allot rbac reader | kubectl apply -f -",
    "kubectl create clusterrolebinding allotment-you --clusterrole=allotment-reader --user=YOU",
)


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All missing permissions as one symptom."""
    denied = cluster.snapshot.denied
    if not denied:
        return
    by_resource: dict[str, list[str]] = {}
    for request in denied:
        by_resource.setdefault(str(request), []).append(request.verb)
    by_verbs: dict[str, list[str]] = {}
    for resource, verbs in by_resource.items():
        by_verbs.setdefault(" or ".join(verbs), []).append(resource)
    names = unique(f"{'/'.join(verbs)} {resource}" for resource, verbs in by_resource.items())
    text = (
        "you are not allowed to "
        f"{'; '.join(f'{verbs} {first_few(resources)}' for verbs, resources in by_verbs.items())}."
    )
    text += " These objects are not checked, and checks that need them are skipped"
    words = (
        f"{counted(len(denied), 'permission')} {'is' if len(denied) == 1 else 'are'} missing. An administrator "
        "can grant exactly these permissions with:"
    )
    unreadable = {"nodes", "pods", "resourceslices", "resourceclaims"} & cluster.snapshot.unread.keys()
    severity: Severity = "error" if unreadable else "warning"
    yield Symptom("you", text, remedy(words, *_COMMANDS), severity, names)


CHECK = ClusterCheck(
    code="D104",
    severity="warning",
    summary="permissions required by the read-only tools are missing",
    why="The API server evaluates the permissions (SelfSubjectAccessReview), so all authorizers, such as RBAC and "
    "webhooks, are considered. `allot rbac reader` prints the minimal permissions. If nodes, pods, slices or "
    "claims cannot be read, this is an error, because hardly anything can be checked.",
    find=find,
    needs=("permissions",),
)
