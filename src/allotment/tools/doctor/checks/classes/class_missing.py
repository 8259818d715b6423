"""Requested DeviceClasses that do not exist."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.engine.diagnosis.published_names import did_you_mean
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.finding import Severity
from allotment.tools.doctor.wording import named, remedy, unique


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Missing classes that pending claims or templates request; allocated claims do not need the class any more."""
    for name, users in cluster.class_users.items():
        if name in cluster.classes:
            continue
        claims = unique(user.name for user in users)
        severity: Severity = "error" if any(user.is_pending for user in users) else "warning"
        verb = "requests" if len(claims) == 1 else "request"
        text = f"{named('claim or template', claims)} {verb} this class, which does not exist"
        words = f"Install the driver that provides it, or correct deviceClassName.{did_you_mean(name, cluster.classes)}"
        yield Symptom(f"class/{name}", text, remedy(words, "kubectl get deviceclasses"), severity, claims)


CHECK = ClusterCheck(
    code="D405",
    severity="error",
    summary="a requested class does not exist",
    why="The API server accepts a claim with any class. Only the scheduler reports `device class … does not exist`, "
    "and the pod stays Pending until the class exists. If only templates request the class, this is a warning.",
    find=find,
    needs=("deviceclasses", "resourceclaims", "resourceclaimtemplates"),
)
