"""Namespaces that may have no further devices."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.model.quantity import Quantity
from allotment.model.quota import limits_devices
from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.checks.pods.claims_not_made import without_claims
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import of, remedy


def find(case: Case) -> Iterable[Sign]:
    """Quota by quota; a limit of zero is meant. Where nobody is kept waiting, all of it is in use, as it should be."""
    kept = {pod.metadata.namespace for pod in without_claims(case)}
    for quota in case.quotas:
        full = [
            f"{name} {quota.status.used[name]} of {hard}"
            for name, hard in quota.status.hard.items()
            if limits_devices(name) and hard.sign() > 0 and quota.status.used.get(name, Quantity.ZERO) >= hard
        ]
        if full:
            text = f"used up: {', '.join(full)}. Claims beyond are refused; of those from templates only an event tells"
            words = "Delete claims that nobody needs, or raise the quota."
            look = f"kubectl describe resourcequota {of(name_of(quota))}"
            severity: Severity = "warning" if quota.metadata.namespace in kept else "note"
            yield Sign(f"quota {name_of(quota)}", text, remedy(words, look), severity)


CHECK = Check(
    code="D512",
    severity="warning",
    summary="a ResourceQuota for devices or claims is used up",
    why="The API server refuses a claim beyond it. For a pod with a template the claim controller is refused, and the"
    " pod is Pending with an event FailedResourceClaimCreation and no condition. allocationMode All counts as 32"
    " devices. Where no pod waits for such a claim, it is a note.",
    find=find,
    needs=("resourcequotas",),
)
