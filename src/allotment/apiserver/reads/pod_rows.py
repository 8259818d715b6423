"""The table row of a pod; its STATUS cell summarizes containers and conditions as kubectl shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from allotment.apiserver.reads.columns import NONE, age, age_of, name_of, table
from allotment.model.trees import Tree

_FINISHED: Final = ("Succeeded", "Failed")


class _ContainerSummary(NamedTuple):
    """A summary of container statuses: the STATUS text, ready containers, restarts and time of the last restart."""

    status_text: str
    ready: int
    restarts: int
    last: str


def _last_restart(status: Tree, last: str) -> str:
    terminated = (status.get("lastState") or {}).get("terminated") or {}
    return max(last, terminated.get("finishedAt") or "")


def _failure(terminated: Tree) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    return (
        f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode') or 0}"
    )


def _is_sidecar(name: str, init_specs: Mapping[str, Tree]) -> bool:
    return (init_specs.get(name) or {}).get("restartPolicy") == "Always"


def _init_containers(
    statuses: Sequence[Tree], init_specs: Mapping[str, Tree], status_text: str
) -> tuple[_ContainerSummary, _ContainerSummary, bool]:
    """Summaries of all init containers and of sidecars only, and whether the pod is still initializing."""
    all_of, sidecars = _ContainerSummary(status_text, 0, 0, ""), _ContainerSummary(status_text, 0, 0, "")
    for index, status in enumerate(statuses):
        sidecar = _is_sidecar(status.get("name") or "", init_specs)
        count = status.get("restartCount") or 0
        all_of = all_of._replace(restarts=all_of.restarts + count, last=_last_restart(status, all_of.last))
        if sidecar:
            sidecars = sidecars._replace(restarts=sidecars.restarts + count, last=_last_restart(status, sidecars.last))
        state = status.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting") or {}
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if sidecar and status.get("started"):
            if status.get("ready"):
                all_of = all_of._replace(ready=all_of.ready + 1)
            continue
        if terminated is not None:
            summary = f"Init:{_failure(terminated)}"
        elif waiting.get("reason") not in (None, "", "PodInitializing"):
            summary = f"Init:{waiting['reason']}"
        else:
            summary = f"Init:{index}/{len(init_specs)}"
        return all_of._replace(status_text=summary), sidecars, True
    return all_of, sidecars, False


def _running(statuses: Sequence[Tree], started: _ContainerSummary, conditions: Mapping[str, Tree]) -> _ContainerSummary:
    status_text, ready, restarts, last = started
    some_run, failed = False, ""
    for status in reversed(statuses):
        restarts += status.get("restartCount") or 0
        last = _last_restart(status, last)
        state = status.get("state") or {}
        waiting, terminated = state.get("waiting") or {}, state.get("terminated")
        if waiting.get("reason"):
            status_text = waiting["reason"]
        elif terminated is not None:
            status_text = _failure(terminated)
            if terminated.get("exitCode"):
                failed = status_text
        elif status.get("ready") and state.get("running") is not None:
            some_run = True
            ready += 1
    if status_text == "Completed":
        if some_run and (conditions.get("Ready") or {}).get("status") == "True":
            status_text = "Running"
        elif failed:
            status_text = failed
        elif some_run:
            status_text = "NotReady"
    return _ContainerSummary(status_text, ready, restarts, last)


def _summary(pod: Tree) -> _ContainerSummary:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    conditions = {item.get("type"): item for item in status.get("conditions") or ()}
    status_text = status.get("reason") or status.get("phase") or ""
    if (conditions.get("PodScheduled") or {}).get("reason") == "SchedulingGated":
        status_text = "SchedulingGated"
    init_specs = {item.get("name"): item for item in spec.get("initContainers") or ()}
    summary, sidecars, starting = _init_containers(status.get("initContainerStatuses") or (), init_specs, status_text)
    if not starting or (conditions.get("Initialized") or {}).get("status") == "True":
        started = _ContainerSummary(summary.status_text, summary.ready, sidecars.restarts, sidecars.last)
        summary = _running(status.get("containerStatuses") or (), started, conditions)
    if pod["metadata"].get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            return summary._replace(status_text="Unknown")
        if status.get("phase") not in _FINISHED:
            return summary._replace(status_text="Terminating")
    return summary


def _gates(spec: Tree, status: Tree) -> str:
    gates = [gate.get("conditionType") for gate in spec.get("readinessGates") or ()]
    if not gates:
        return NONE
    true = {item.get("type") for item in status.get("conditions") or () if item.get("status") == "True"}
    return f"{sum(name in true for name in gates)}/{len(gates)}"


def _pod(pod: Tree, now: str) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    summary = _summary(pod)
    sidecars = sum(item.get("restartPolicy") == "Always" for item in spec.get("initContainers") or ())
    total = len(spec.get("containers") or ()) + sidecars
    restarts = str(summary.restarts)
    if summary.restarts and summary.last:
        restarts = f"{restarts} ({age(summary.last, now)} ago)"
    addresses = status.get("podIPs") or [{}]
    return [
        name_of(pod), f"{summary.ready}/{total}", summary.status_text, restarts, age_of(pod, now),
        addresses[0].get("ip") or NONE,
        spec.get("nodeName") or NONE, status.get("nominatedNodeName") or NONE, _gates(spec, status),
    ]  # fmt: skip


PODS: Final = table(
    _pod, "Name", "Ready", "Status", "Restarts", "Age", "IP*", "Node*", "Nominated Node*", "Readiness Gates*"
)
