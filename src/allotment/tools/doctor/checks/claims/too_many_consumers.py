"""Claims with the maximum number of consumers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import kubectl_args, remedy

_MOST: Final = 256


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Claims with the maximum number of consumers."""
    for claim in cluster.claims.values():
        if len(claim.status.reserved_for) < _MOST:
            continue
        name = name_of(claim)
        waiting = sum(
            any(entry.resource_claim_name == claim.metadata.name for entry in pod.spec.resource_claims)
            for pod in cluster.pending_pods
            if pod.metadata.namespace == claim.metadata.namespace
        )
        text = f"the claim is reserved for {len(claim.status.reserved_for)} consumers, which is the maximum"
        text += (
            f"; {counted(waiting, 'more pod')} {'references' if waiting == 1 else 'reference'} it" if waiting else ""
        )
        words = "Use a ResourceClaimTemplate or a second claim for further pods."
        look = f"kubectl describe resourceclaim {kubectl_args(name)}"
        yield Symptom(f"claim {name}", text, remedy(words, look), "error" if waiting else "warning")


CHECK = ClusterCheck(
    code="D509",
    severity="warning",
    summary="a claim has the maximum number of consumers (256)",
    why="status.reservedFor has at most 256 entries (KEP-4381). If another pod references the claim, the scheduler "
    "reports `resourceclaim in use`.",
    find=find,
    needs=("resourceclaims", "pods"),
)
