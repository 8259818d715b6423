"""Pods that are held back on purpose."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import kubectl_args, remedy
from allotment.tools.doctor.workload_groups import pods_text


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """By gate."""
    by_gate: dict[str, list[str]] = {}
    for pod in cluster.pending_pods:
        if pod.spec.scheduling_gates and cluster.requests_devices(pod):
            by_gate.setdefault(pod.spec.scheduling_gates[0].name, []).append(name_of(pod))
    for gate, names in by_gate.items():
        verb = "is" if len(names) == 1 else "are"
        text = f"{pods_text(cluster, names)} {verb} held back by scheduling gate {gate}"
        words = f"Whoever set it removes it: a queue, such as Kueue, or the controller of {gate.partition('/')[0]}."
        look = f"kubectl describe pod {kubectl_args(names[0])}"
        yield Symptom.of("pod", names, text, remedy(words, look))


CHECK = ClusterCheck(
    code="D604",
    severity="note",
    summary="pods that want devices are held back by a scheduling gate",
    why="No scheduler looks at a pod with scheduling gates; it waits for whoever set them, not for devices.",
    find=find,
    needs=("pods",),
)
