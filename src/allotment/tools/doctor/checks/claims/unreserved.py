"""Claims that hold devices for nobody."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from allotment.model.contested_claims import is_contested
from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import allocated_at, name_of, results_of
from allotment.tools.doctor.wording import about, remedy, told

_PATIENCE = timedelta(minutes=5)


def find(case: Case) -> Iterable[Sign]:
    """All of them together, the oldest first."""
    idle = [
        claim
        for claim in case.claims.values()
        if claim.status.allocation is not None
        and not claim.status.reserved_for
        and not is_contested(claim)
        and claim.metadata.deletion_timestamp is None
        and case.is_old(allocated_at(claim), _PATIENCE)
    ]
    if not idle:
        return
    idle.sort(key=lambda claim: (allocated_at(claim) or "", name_of(claim)))
    names = [name_of(claim) for claim in idle]
    held = sum(not result.admin_access for claim in idle for result in results_of(claim))
    oldest = case.age(allocated_at(idle[0]))
    since = f", {'for' if len(idle) == 1 else 'the oldest for'} {told(oldest)}" if oldest is not None else ""
    verb = "is" if len(idle) == 1 else "are"
    text = f"{about('claim', names)} {verb} allocated and reserved by nobody{since}: {counted(held, 'device')} held"
    namespace, _, name = names[0].partition("/")
    help_ = remedy(
        "A pod that uses the claim takes it over. If none will, delete the claim; whoever still names it waits then.",
        f"kubectl delete resourceclaim -n {namespace} {name}",
    )
    yield Sign.of("claim", names, text, help_)


CHECK = Check(
    code="D504",
    severity="warning",
    summary="a claim is allocated, and no pod has reserved it",
    why="Allocation and the first reservation are one write, and a claim whose last consumer goes is deallocated. Only"
    " if a pod vanished between (its scheduling failed at the last step), or the claim controller does not run, the"
    " devices stay with the claim until some pod uses it. How long is counted from the allocation, or where no time of"
    " that is kept from the claim's creation.",
    find=find,
    needs=("resourceclaims",),
)
