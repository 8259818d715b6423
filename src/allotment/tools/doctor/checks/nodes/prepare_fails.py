"""Pods whose claims cannot be prepared on their node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from allotment.explanation.prepare_errors import FAILED_PREPARE, PrepareError, prepare_error
from allotment.tools.doctor.check import ClusterCheck, Symptom
from allotment.tools.doctor.cluster_index import ClusterIndex
from allotment.tools.doctor.object_state import name_of, time_of
from allotment.tools.doctor.objects import Event, Pod
from allotment.tools.doctor.wording import named, remedy, unique
from allotment.tools.doctor.workload_groups import pods_text

#: Events older than this are resolved: a kubelet repeats an event at least every five minutes.
_MAX_AGE: Final = timedelta(minutes=12)
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def find(cluster: ClusterIndex) -> Iterable[Symptom]:
    """Pods by the kubelet's message, from which names are removed."""
    groups: dict[str, list[tuple[Pod, PrepareError]]] = {}
    for pod in cluster.pods:
        if pod.status.phase not in ("", "Pending") or not pod.spec.node_name:
            continue
        events = [
            e for e in cluster.events.get(pod.metadata.uid, ()) if e.reason == FAILED_PREPARE and _is_recent(cluster, e)
        ]
        if not events:
            continue
        error = prepare_error(max(events, key=_when).message)
        groups.setdefault(_without_names(cluster, pod, error.cause), []).append((pod, error))
    for group in groups.values():
        pods = [pod for pod, _ in group]
        error = group[0][1]
        names = [name_of(pod) for pod in pods]
        nodes = unique(pod.spec.node_name for pod in pods)
        text = f"{pods_text(cluster, names)} cannot start on {named('node', nodes)}: {error.cause}"
        look = f"kubectl get pods -A -o wide --field-selector spec.nodeName={nodes[0]}"
        yield Symptom.of("pod", names, text, remedy(error.advice, look))


def _is_recent(cluster: ClusterIndex, event: Event) -> bool:
    """Whether the failure may persist: an old event that was not repeated is resolved."""
    now = cluster.snapshot.now
    return now is None or not _when(event) or now.timestamp() - _when(event) <= _MAX_AGE.total_seconds()


def _when(event: Event) -> float:
    times = (event.last_timestamp, event.event_time, event.first_timestamp, event.metadata.creation_timestamp)
    moment = next((found for text in times if (found := time_of(text)) is not None), None)
    return moment.timestamp() if moment is not None else 0.0


def _without_names(cluster: ClusterIndex, pod: Pod, message: str) -> str:
    names = [pod.metadata.name, *(claim.metadata.name for _, claim in cluster.claims_of(pod))]
    for name in sorted(names, key=len, reverse=True):
        message = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", "…", message)
    return _UID.sub("…", message)


CHECK = ClusterCheck(
    code="D205",
    severity="error",
    summary="claims cannot be prepared: pods are scheduled but do not start",
    why="The pod is scheduled, but the drivers repeatedly fail to prepare the claim's devices for the kubelet. This "
    "is detected from the event FailedPrepareDynamicResources, which the API server keeps for one hour by default.",
    find=find,
    needs=("pods", "events"),
)
