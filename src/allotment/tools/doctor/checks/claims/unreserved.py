"""Allocated claims that are not reserved for any pod."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from allotment.model.contested_claims import is_contested
from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import allocated_at, name_of, results_of
from allotment.tools.doctor.wording import duration_text, named, remedy

_MIN_AGE = timedelta(minutes=5)


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such claims as one symptom, the oldest first."""
    idle = [
        claim
        for claim in cluster.claims.values()
        if claim.status.allocation is not None
        and not claim.status.reserved_for
        and not is_contested(claim)
        and claim.metadata.deletion_timestamp is None
        and cluster.is_old(allocated_at(claim), _MIN_AGE)
    ]
    if not idle:
        return
    idle.sort(key=lambda claim: (allocated_at(claim) or "", name_of(claim)))
    names = [name_of(claim) for claim in idle]
    held = sum(not result.admin_access for claim in idle for result in results_of(claim))
    oldest = cluster.age(allocated_at(idle[0]))
    since = ""
    if oldest is not None:
        since = f" for {duration_text(oldest)}" if len(idle) == 1 else f" (the oldest for {duration_text(oldest)})"
    verb, hold = ("has", "it holds") if len(idle) == 1 else ("have", "they hold")
    text = (
        f"{named('claim', names)} {verb} been allocated{since} without being reserved for any pod; {hold} "
        f"{counted(held, 'device')}"
    )
    namespace, _, name = names[0].partition("/")
    help_ = remedy(
        "If no pod will use the claim, delete it. Pods that reference a deleted claim stay Pending.",
        f"kubectl delete resourceclaim -n {namespace} {name}",
    )
    yield Symptom.of("claim", names, text, help_)


CHECK = ClusterCheck(
    code="D504",
    severity="warning",
    summary="a claim is allocated but not reserved for any pod",
    why="The scheduler writes the allocation and the first reservation together, and a claim is deallocated after its "
    "last consumer has ended. A claim keeps its devices without a reservation only if its pod was deleted while "
    "it was being scheduled, or if the claim controller is not running. The duration is counted from the "
    "allocation, or from the claim's creation if the time of the allocation is not recorded.",
    find=find,
    needs=("resourceclaims",),
)
