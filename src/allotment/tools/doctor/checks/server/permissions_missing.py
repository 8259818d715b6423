"""What we may not see."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.phrases import counted, first_few
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import remedy, unique

#: The role, and who has it.
_COMMANDS: Final = (
    "allot rbac reader | kubectl apply -f -",
    "kubectl create clusterrolebinding allotment-you --clusterrole=allotment-reader --user=YOU",
)


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All of it together."""
    denied = cluster.found.denied
    if not denied:
        return
    by_resource: dict[str, list[str]] = {}
    for ask in denied:
        by_resource.setdefault(str(ask), []).append(ask.verb)
    by_verbs: dict[str, list[str]] = {}
    for resource, verbs in by_resource.items():
        by_verbs.setdefault(" or ".join(verbs), []).append(resource)
    names = unique(f"{'/'.join(verbs)} {resource}" for resource, verbs in by_resource.items())
    text = f"you may not {'; '.join(f'{verbs} {first_few(resources)}' for verbs, resources in by_verbs.items())}."
    text += " What cannot be read is not looked at, and checks that need it are silent"
    words = f"{counted(len(denied), 'permission')} missing. An administrator lets you do this, and nothing more, with"
    blind = {"nodes", "pods", "resourceslices", "resourceclaims"} & cluster.found.unread.keys()
    severity: Severity = "error" if blind else "warning"
    yield Symptom("you", text, remedy(words, *_COMMANDS), severity, names)


CHECK = ClusterCheck(
    code="D104",
    severity="warning",
    summary="permissions are missing that the tools which only read need",
    why="Asked of the API server itself (SelfSubjectAccessReview), so roles, webhooks and whatever else decides are"
    " all heard. `allot rbac reader` prints the least that is needed. Without nodes, pods, slices or claims it is an"
    " error: then hardly anything is looked at.",
    find=find,
    needs=("permissions",),
)
