"""Pods that are held back on purpose."""

from __future__ import annotations

from collections.abc import Iterable

from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import name_of
from allotment.tools.doctor.wording import of, remedy
from allotment.tools.doctor.workload_groups import crowd


def find(case: Case) -> Iterable[Sign]:
    """By gate."""
    by_gate: dict[str, list[str]] = {}
    for pod in case.waiting:
        if pod.spec.scheduling_gates and case.asks_for_devices(pod):
            by_gate.setdefault(pod.spec.scheduling_gates[0].name, []).append(name_of(pod))
    for gate, names in by_gate.items():
        verb = "is" if len(names) == 1 else "are"
        text = f"{crowd(case, names)} {verb} held back by scheduling gate {gate}"
        words = f"Whoever set it removes it: a queue, such as Kueue, or the controller of {gate.partition('/')[0]}."
        look = f"kubectl describe pod {of(names[0])}"
        yield Sign.of("pod", names, text, remedy(words, look))


CHECK = Check(
    code="D604",
    severity="note",
    summary="pods that want devices are held back by a scheduling gate",
    why="No scheduler looks at a pod with scheduling gates; it waits for whoever set them, not for devices.",
    find=find,
    needs=("pods",),
)
