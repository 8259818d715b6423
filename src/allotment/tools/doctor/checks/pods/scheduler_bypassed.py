"""Pods that were put on a node by name, with a claim that nobody allocates."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import is_finished, name_of
from allotment.tools.doctor.wording import of, remedy
from allotment.tools.doctor.workload_groups import crowd


def find(case: Case) -> Iterable[Sign]:
    """All of them together."""
    stuck = [
        pod
        for pod in case.pods
        if pod.spec.node_name
        and pod.status.phase in ("", "Pending")
        and not is_finished(pod)
        and pod.metadata.deletion_timestamp is None
        and case.is_old(pod.metadata.creation_timestamp)
        and any(claim.status.allocation is None for _, claim in case.claims_of(pod))
    ]
    if not stuck:
        return
    names = [name_of(pod) for pod in stuck]
    verb = "has" if len(names) == 1 else "have"
    text = (
        f"{crowd(case, names)} {verb} a node ({stuck[0].spec.node_name}) and a claim that is not allocated: nobody"
        " allocates it any more, and the kubelet refuses the pod for ever"
    )
    help_ = remedy(
        "Leave nodeName out of the pod; to keep it on that node, use nodeSelector kubernetes.io/hostname instead. Then"
        " create it again: a pod that a workload made comes back by itself.",
        f"kubectl delete pod {of(names[0])}",
    )
    yield Sign.of("pod", names, text, help_)


CHECK = Check(
    code="D601",
    severity="error",
    summary="a pod has a node but its claim is not allocated: the scheduler was bypassed",
    why="Claims are allocated by the scheduler, on the way to choosing a node. A pod that is created with nodeName"
    " never meets it. The claim controller reserves for such a pod what is allocated already, but allocates nothing;"
    " the kubelet then says `pod … is not allowed to use ResourceClaim …` again and again.",
    find=find,
    needs=("resourceclaims", "pods"),
    fleeting=True,
)
