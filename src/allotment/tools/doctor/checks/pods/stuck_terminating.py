"""Pods that stay Terminating and keep their devices."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from allotment.phrases import counted
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of, results_of
from allotment.tools.doctor.wording import kubectl_args, named, remedy, unique
from allotment.tools.doctor.workload_groups import pods_text

_MIN_AGE: Final = timedelta(minutes=5)


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such pods as one symptom."""
    stuck = [
        pod
        for pod in cluster.pods
        if pod.metadata.deletion_timestamp is not None
        and pod.spec.node_name
        and not is_finished(pod)
        and cluster.is_old(pod.metadata.deletion_timestamp, _MIN_AGE)
        and any(True for _, claim in cluster.claims_of(pod) for _ in results_of(claim))
    ]
    if not stuck:
        return
    names = [name_of(pod) for pod in stuck]
    nodes = unique(pod.spec.node_name for pod in stuck)
    claims = {name_of(claim): claim for pod in stuck for _, claim in cluster.claims_of(pod)}
    held = sum(1 for claim in claims.values() for _ in results_of(claim))
    verb, hold = ("is", "holds") if len(names) == 1 else ("are", "hold")
    text = (
        f"{pods_text(cluster, names)} {verb} still Terminating on {named('node', nodes)} after the grace period, and "
        f"{hold}"
    )
    text += f" {counted(held, 'device')}"
    help_ = remedy(
        "The kubelet does not respond, or a driver does not unprepare the claim: check both. If the node will not "
        "return, force-delete the pod; if the pod is still running, another pod may get the same device.",
        f"kubectl describe pod {kubectl_args(names[0])}",
        f"kubectl get node {nodes[0]}",
    )
    yield Symptom.of("pod", names, text, help_)


CHECK = ClusterCheck(
    code="D609",
    severity="warning",
    summary="a pod with devices does not terminate",
    why="The kubelet unprepares claims before it reports that a pod has ended, and retries while a driver fails. Until"
    " then the devices stay allocated.",
    find=find,
    needs=("pods", "resourceclaims"),
)
