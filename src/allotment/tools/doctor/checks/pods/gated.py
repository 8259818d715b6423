"""Pods with scheduling gates."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Gated pods by scheduling gate."""
    by_gate: dict[str, list[str]] = {}
    for pod in cluster.pending_pods:
        if pod.spec.scheduling_gates and cluster.requests_devices(pod):
            by_gate.setdefault(pod.spec.scheduling_gates[0].name, []).append(name_of(pod))
    for gate, names in by_gate.items():
        verb = "is" if len(names) == 1 else "are"
        text = f"{pods_text(cluster, names)} {verb} blocked by scheduling gate {gate}"
        words = f"The gate's owner removes it: a queue such as Kueue, or the controller of {gate.partition('/')[0]}."
        look = f"kubectl describe pod {kubectl_args(names[0])}"
        yield Symptom.of("pod", names, text, remedy(words, look))


CHECK = ClusterCheck(
    code="D604",
    severity="note",
    summary="pods that request devices are blocked by a scheduling gate",
    why=(
        "Schedulers ignore a pod until all its scheduling gates are removed by their owners. Such a pod is not "
        "waiting for devices."
    ),
    find=find,
    needs=("pods",),
)
