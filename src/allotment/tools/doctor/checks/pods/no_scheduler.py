"""Pods whose scheduler does not run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.objects import Lease, Pod
from allotment.tools.doctor.wording import duration_text, kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text

_DEFAULT: Final = "default-scheduler"
_LEASES: Final = {_DEFAULT: "kube-scheduler"}


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Such pods by scheduler."""
    unseen: dict[str, list[str]] = {}
    for pod in unscheduled_pods(cluster):
        unseen.setdefault(pod.spec.scheduler_name or _DEFAULT, []).append(name_of(pod))
    for scheduler, names in unseen.items():
        lease = _lease(cluster, scheduler)
        seen = _lease_text(cluster, scheduler, lease)
        verb, them = ("is waiting", "it") if len(names) == 1 else ("are waiting", "them")
        text = f"{pods_text(cluster, names)} {verb} for scheduler {scheduler}, which has not processed {them}: {seen}"
        start = f"Start {_LEASES.get(scheduler, scheduler)}"
        start += "" if scheduler == _DEFAULT else " (or add a profile of that name to kube-scheduler)"
        words = f"{start}, or correct schedulerName in the manifest."
        look = (
            "kubectl get lease -A",
            f"kubectl get pod {kubectl_args(names[0])} -o jsonpath='{{.spec.schedulerName}}'",
        )
        yield Symptom.of("pod", names, text, remedy(words, *look))


def unscheduled_pods(cluster: ClusterIndex) -> Iterator[Pod]:
    """Schedulable pods that no scheduler has processed for a minute."""
    for pod in cluster.pending_pods:
        processed = any(condition.type == "PodScheduled" for condition in pod.status.conditions)
        if processed or pod.spec.scheduling_gates or not cluster.requests_devices(pod):
            continue
        claims = [claim for _, claim in cluster.claims_of(pod)]
        has_claims = len(claims) >= len(pod.spec.resource_claims)
        if has_claims and not any(claim.metadata.deletion_timestamp for claim in claims):
            if cluster.is_old(pod.metadata.creation_timestamp):
                yield pod


def _lease(cluster: ClusterIndex, scheduler: str) -> Lease | None:
    return next((lease for lease in cluster.leases if lease.metadata.name == _LEASES.get(scheduler, scheduler)), None)


def _lease_text(cluster: ClusterIndex, scheduler: str, lease: Lease | None) -> str:
    if lease is None:
        return f"there is no Lease {_LEASES.get(scheduler, scheduler)}, no event and no condition"
    age = cluster.age(lease.spec.renew_time)
    if age is not None and age > timedelta(seconds=3 * (lease.spec.lease_duration_seconds or 15)):
        return f"its Lease was last renewed {duration_text(age)} ago, so the scheduler is not running"
    return "its Lease is held, so it is running but has not processed the pod yet"


CHECK = ClusterCheck(
    code="D605",
    severity="error",
    summary="pods specify a scheduler that does not process them",
    why="A pod is processed only by the scheduler named in spec.schedulerName, which sets the PodScheduled condition "
    "to False if no node fits. A pod that has all its claims but no such condition has not been processed.",
    find=find,
    needs=("pods", "resourceclaims", "leases"),
)
