"""ResourceQuotas for devices or claims that are used up."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.quantity import Quantity
from allotment.model.quota import limits_devices
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.checks.pods.claims_not_made import pods_without_claims
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import kubectl_args, remedy


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Quotas that are used up, except limits of zero; notes if no pod waits for a claim in the namespace."""
    blocked = {pod.metadata.namespace for pod in pods_without_claims(cluster)}
    for quota in cluster.quotas:
        full = [
            f"{name} ({quota.status.used[name]} of {hard})"
            for name, hard in quota.status.hard.items()
            if limits_devices(name) and hard.sign() > 0 and quota.status.used.get(name, Quantity.ZERO) >= hard
        ]
        if full:
            text = (
                f"the quota is used up for {', '.join(full)}. Further claims are rejected; for claims from templates, "
                "only an event reports the rejection"
            )
            words = "Delete unused claims, or raise the quota."
            look = f"kubectl describe resourcequota {kubectl_args(name_of(quota))}"
            severity: Severity = "warning" if quota.metadata.namespace in blocked else "note"
            yield Symptom(f"quota {name_of(quota)}", text, remedy(words, look), severity)


CHECK = ClusterCheck(
    code="D512",
    severity="warning",
    summary="a ResourceQuota for devices or claims is used up",
    why="The API server rejects claims beyond the quota. If the claim controller creates the claim from a template, "
    "the pod stays Pending with an event FailedResourceClaimCreation but without a condition. allocationMode All "
    "counts as"
    " 32 devices. This is only a note if no pod is waiting for such a claim.",
    find=find,
    needs=("resourcequotas",),
)
