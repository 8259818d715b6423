"""Claims that are reserved for something that is no pod."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import about, of, remedy

_KNOWN = frozenset({("", "pods"), ("scheduling.k8s.io", "podgroups")})


def find(case: Case) -> Iterable[Sign]:
    """By kind of consumer."""
    by_kind: dict[str, list[str]] = {}
    for claim in case.claims.values():
        for one in claim.status.reserved_for:
            if (one.api_group, one.resource) not in _KNOWN:
                kind = f"{one.resource}.{one.api_group}" if one.api_group else one.resource
                by_kind.setdefault(kind, []).append(name_of(claim))
    for kind, claims in by_kind.items():
        names = list(dict.fromkeys(claims))
        text = f"{about('claim', names)} reserved for {kind}, which Kubernetes' own claim controller does not know"
        words = f"Whatever made the entry must take it away: look for the controller of {kind}."
        look = f"kubectl get resourceclaim {of(names[0])} -o jsonpath='{{.status.reservedFor}}'"
        yield Sign.of("claim", names, text, remedy(words, look))


CHECK = Check(
    code="D506",
    severity="warning",
    summary="a claim is reserved for something that is no pod",
    why="The claim controller takes away pods and pod groups that are gone. Entries of any other kind are left, and"
    " keep the devices until their own controller, if there is one, removes them.",
    find=find,
    needs=("resourceclaims",),
)
