"""What we may not see."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.case import Case
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import counted, remedy, unique


def find(case: Case) -> Iterable[Sign]:
    """All of it together."""
    denied = case.found.denied
    if not denied:
        return
    by_resource: dict[str, list[str]] = {}
    for ask in denied:
        by_resource.setdefault(str(ask), []).append(ask.verb)
    names = unique(f"{'/'.join(verbs)} {resource}" for resource, verbs in by_resource.items())
    text = f"you may not {', '.join(names[:4])}{f' and {len(names) - 4} more' if len(names) > 4 else ''}:"
    text += f" {denied[0].why}. What cannot be read is not looked at, and checks that need it are silent"
    words = f"{counted(len(denied), 'permission')} missing. An administrator makes an account that has them,"
    words += " for reading only, with"
    blind = {"nodes", "pods", "resourceslices", "resourceclaims"} & case.found.unread.keys()
    severity: Severity = "error" if blind else "warning"
    yield Sign("you", text, remedy(words, "allot rbac reader | kubectl apply -f -"), severity, names)


CHECK = Check(
    code="D104",
    severity="warning",
    summary="permissions are missing that the tools which only read need",
    why="Asked of the API server itself (SelfSubjectAccessReview), so roles, webhooks and whatever else decides are"
    " all heard. `allot rbac reader` prints the least that is needed. Without nodes, pods, slices or claims it is an"
    " error: then hardly anything is looked at.",
    find=find,
    needs=("permissions",),
)
