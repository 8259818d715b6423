"""Pods that were put on a node by name, with a claim that nobody allocates."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """All of them together."""
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
    verb = "has" if len(names) == 1 else "have"
    text = (
        f"{pods_text(cluster, names)} {verb} a node ({stuck[0].spec.node_name}) and a claim that is not allocated: nobody"
        " allocates it any more, and the kubelet refuses the pod for ever"
    )
    help_ = remedy(
        "Leave nodeName out of the pod; to keep it on that node, use nodeSelector kubernetes.io/hostname instead. Then"
        " create it again: a pod that a workload made comes back by itself.",
        f"kubectl delete pod {kubectl_args(names[0])}",
    )
    yield Symptom.of("pod", names, text, help_)


CHECK = ClusterCheck(
    code="D601",
    severity="error",
    summary="a pod has a node but its claim is not allocated: the scheduler was bypassed",
    why="Claims are allocated by the scheduler, on the way to choosing a node. A pod that is created with nodeName"
    " never meets it. The claim controller reserves for such a pod what is allocated already, but allocates nothing;"
    " the kubelet then says `pod … is not allowed to use ResourceClaim …` again and again.",
    find=find,
    needs=("resourceclaims", "pods"),
    transient=True,
)
