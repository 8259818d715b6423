"""Claims that are reserved for consumers other than pods and PodGroups."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import is_or_are, kubectl_args, named, remedy

_KNOWN = frozenset({("", "pods"), ("scheduling.k8s.io", "podgroups")})


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Claims by kind of consumer."""
    by_kind: dict[str, list[str]] = {}
    for claim in cluster.claims.values():
        for ref in claim.status.reserved_for:
            if (ref.api_group, ref.resource) not in _KNOWN:
                kind = f"{ref.resource}.{ref.api_group}" if ref.api_group else ref.resource
                by_kind.setdefault(kind, []).append(name_of(claim))
    for kind, claims in by_kind.items():
        names = list(dict.fromkeys(claims))
        text = (
            f"{named('claim', names)} {is_or_are(names)} reserved for {kind}, which Kubernetes' claim controller "
            "does not handle"
        )
        words = f"The controller that made the reservation must remove it: check the controller of {kind}."
        look = f"kubectl get resourceclaim {kubectl_args(names[0])} -o jsonpath='{{.status.reservedFor}}'"
        yield Symptom.of("claim", names, text, remedy(words, look))


CHECK = ClusterCheck(
    code="D506",
    severity="warning",
    summary="a claim is reserved for something other than a pod",
    why="The claim controller removes only entries for deleted pods and PodGroups. Entries for other kinds remain, and"
    " keep the devices allocated, until their own controller, if any, removes them.",
    find=find,
    needs=("resourceclaims",),
)
