"""Pods that were created with nodeName and a claim that is not allocated."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All such pods as one symptom."""
    stuck = [
        pod
        for pod in cluster.pods
        if pod.spec.node_name
        and pod.status.phase in ("", "Pending")
        and not is_finished(pod)
        and pod.metadata.deletion_timestamp is None
        and cluster.is_old(pod.metadata.creation_timestamp)
        and any(claim.status.allocation is None for _, claim in cluster.claims_of(pod))
    ]
    if not stuck:
        return
    names = [name_of(pod) for pod in stuck]
    verb, have = ("is", "has") if len(names) == 1 else ("are", "have")
    text = (
        f"{pods_text(cluster, names)} {verb} assigned to a node ({stuck[0].spec.node_name}), but {have} a claim that "
        "is not allocated: no scheduler will allocate the claim, so the kubelet never starts the pod"
    )
    help_ = remedy(
        "Remove nodeName from the pod; to select that node, use nodeSelector kubernetes.io/hostname instead. Then "
        "recreate the pod; the pods of a workload are recreated automatically.",
        f"kubectl delete pod {kubectl_args(names[0])}",
    )
    yield Symptom.of("pod", names, text, help_)


CHECK = ClusterCheck(
    code="D601",
    severity="error",
    summary="a pod is on a node, but its claim is not allocated: the scheduler was bypassed",
    why="The scheduler allocates claims when it selects a node. A pod that is created with nodeName bypasses it. For"
    " such a pod the claim controller reserves allocated claims, but does not allocate any; the kubelet then repeatedly"
    " reports `pod … is not allowed to use ResourceClaim …`.",
    find=find,
    needs=("resourceclaims", "pods"),
    transient=True,
)
