"""Pods whose claims cannot be prepared on their node."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from allotment.tools.doctor.check import Check, Sign
from allotment.tools.doctor.cluster_index import Case
from allotment.tools.doctor.object_state import moment_of, name_of
from allotment.tools.doctor.objects import Event, Pod
from allotment.tools.doctor.wording import about, remedy, unique
from allotment.tools.doctor.workload_groups import crowd

#: A kubelet that fails says so again every five minutes at the latest: that is as often as it may say one thing.
_OVER: Final = timedelta(minutes=12)
_REASON: Final = "FailedPrepareDynamicResources"
_PREFIX: Final = "Failed to prepare dynamic resources: "
_UNREGISTERED: Final = re.compile(r"DRA driver (\S+) is not registered")
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def find(case: Case) -> Iterable[Sign]:
    """By what the kubelet said, without the names in it."""
    alike: dict[str, list[tuple[Pod, str]]] = {}
    for pod in case.pods:
        if pod.status.phase not in ("", "Pending") or not pod.spec.node_name:
            continue
        said = [one for one in case.events.get(pod.metadata.uid, ()) if one.reason == _REASON and _lasts(case, one)]
        if not said:
            continue
        message = max(said, key=_when).message.removeprefix(_PREFIX).removeprefix("prepare dynamic resources: ")
        alike.setdefault(_without_names(case, pod, message), []).append((pod, message))
    for group in alike.values():
        pods = [pod for pod, _ in group]
        message = group[0][1]
        names = [name_of(pod) for pod in pods]
        nodes = unique(pod.spec.node_name for pod in pods)
        told = message or "what the kubelet said is not known"
        text = f"{crowd(case, names)} cannot start on {about('node', nodes)}: {told}"
        driver = _UNREGISTERED.search(message)
        words = (
            f"The kubelet does not know {driver[1]}: its pod on the node does not run, or its socket in"
            " /var/lib/kubelet/plugins_registry is not seen. Restart it."
            if driver
            else "Look at the driver's log on the node."
        )
        look = f"kubectl get pods -A -o wide --field-selector spec.nodeName={nodes[0]}"
        yield Sign.of("pod", names, text, remedy(words, look))


def _lasts(case: Case, event: Event) -> bool:
    """Whether it may still be so: what was said long ago and not repeated is over, and the pod pulls its image."""
    now = case.found.now
    return now is None or not _when(event) or now.timestamp() - _when(event) <= _OVER.total_seconds()


def _when(event: Event) -> float:
    times = (event.last_timestamp, event.event_time, event.first_timestamp, event.metadata.creation_timestamp)
    moment = next((found for text in times if (found := moment_of(text)) is not None), None)
    return moment.timestamp() if moment is not None else 0.0


def _without_names(case: Case, pod: Pod, message: str) -> str:
    names = [pod.metadata.name, *(claim.metadata.name for _, claim in case.claims_of(pod))]
    for name in sorted(names, key=len, reverse=True):
        message = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])", "…", message)
    return _UID.sub("…", message)


CHECK = Check(
    code="D205",
    severity="error",
    summary="claims cannot be prepared: pods have a node and do not start",
    why="The scheduler has done its part; the kubelet asks the drivers to prepare the claim's devices and is refused,"
    " over and over. Known by the event FailedPrepareDynamicResources, which the API server keeps for an hour.",
    find=find,
    needs=("pods", "events"),
)
