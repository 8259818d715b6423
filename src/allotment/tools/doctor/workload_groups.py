"""Texts that summarize pods by their workloads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from allotment.phrases import counted, first_few
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.objects import Pod
from allotment.tools.doctor.wording import named


def pods_text(cluster: ClusterIndex, names: Sequence[str]) -> str:
    """Pods with these ``namespace/name`` in a sentence: ``12 pods of Deployment shop/web``."""
    if len(names) == 1:
        return f"pod {names[0]}"
    makers = Counter(workload_of(pod) for name in names if (pod := cluster.pods_by_name.get(name)) is not None)
    alone = makers.pop("", 0)
    if not makers:
        return named("pod", names)
    parts = [
        maker if len(makers) == 1 and not alone else f"{count} of {maker}" for maker, count in makers.most_common()
    ]
    if len(parts) == 1 and not alone:
        return f"{counted(len(names), 'pod')} of {parts[0]}"
    return f"{counted(len(names), 'pod')} ({first_few([*parts, *([f'{alone} without a workload'] if alone else [])])})"


def workload_of(pod: Pod) -> str:
    """The workload that owns the pod; empty for a pod without an owner."""
    owner = next((ref for ref in pod.metadata.owner_references if ref.controller), None)
    if owner is None:
        return ""
    kind, name = owner.kind, owner.name
    hash_ = pod.metadata.labels.get("pod-template-hash")
    if kind == "ReplicaSet" and hash_ and name.endswith(f"-{hash_}"):
        kind, name = "Deployment", name.removesuffix(f"-{hash_}")
    return f"{kind} {pod.metadata.namespace}/{name}"
