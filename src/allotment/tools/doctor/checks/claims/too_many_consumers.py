"""Claims that no further pod can use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.phrases import counted
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import of, remedy

_MOST: Final = 256


def find(case: Case) -> Iterable[Sign]:
    """Claim by claim."""
    for claim in case.claims.values():
        if len(claim.status.reserved_for) < _MOST:
            continue
        name = name_of(claim)
        waiting = sum(
            any(entry.resource_claim_name == claim.metadata.name for entry in pod.spec.resource_claims)
            for pod in case.waiting
            if pod.metadata.namespace == claim.metadata.namespace
        )
        text = f"reserved for {len(claim.status.reserved_for)} consumers, as many as may be"
        text += f"; {counted(waiting, 'pod')} more name it" if waiting else ""
        words = "Use a ResourceClaimTemplate, or a second claim, for further pods."
        look = f"kubectl describe resourceclaim {of(name)}"
        yield Sign(f"claim {name}", text, remedy(words, look), "error" if waiting else "warning")


CHECK = Check(
    code="D509",
    severity="warning",
    summary="a claim has as many consumers as a claim may have (256)",
    why="status.reservedFor holds 256 entries at most (KEP-4381). The scheduler says `resourceclaim in use` of the"
    " next pod.",
    find=find,
    needs=("resourceclaims", "pods"),
)
