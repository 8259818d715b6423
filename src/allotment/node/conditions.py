"""A pod's status as its node writes it: container states, conditions, phase (Kubernetes' pod lifecycle)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from allotment.cluster.clock import stamp
from allotment.node.containers import Container, Ended

Tree = dict[str, Any]


def phase_of(pod: Tree, inits: Sequence[Container], mains: Sequence[Container]) -> str:
    """``Pending`` until the first main container ran; ended when all have and none will run again."""
    policy = pod["spec"].get("restartPolicy", "Always")
    if policy == "Never" and any(c.ended is not None and c.ended.code != 0 for c in inits):
        return "Failed"
    if all(c.started is None for c in mains):
        return "Pending"
    if policy == "Always" or any(c.ended is None for c in mains):
        return "Running"
    if all(c.ended is not None and c.ended.code == 0 for c in mains):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def status_patch(
    pod: Tree, inits: Sequence[Container], mains: Sequence[Container], *, host_ip: str, pod_ip: str, now: str,
    waiting: str = "",
) -> Tree:  # fmt: skip
    """A strategic patch of the status. ``waiting``: why containers that never ran do not run yet."""
    phase = phase_of(pod, inits, mains)
    ended = phase in ("Succeeded", "Failed")
    initialized = all(c.ended is not None and c.ended.code == 0 for c in inits)
    ready = not ended and bool(mains) and all(c.running for c in mains)
    begun = any(c.started is not None for c in (*inits, *mains))
    pending = "PodCompleted" if phase == "Succeeded" else "" if initialized else "ContainersNotInitialized"
    conditions = [
        _condition(pod, "PodReadyToStartContainers", begun and not ended, now),
        _condition(pod, "Initialized", initialized or ended, now, pending),
        _condition(pod, "Ready", ready, now, _unready(phase, ready)),
        _condition(pod, "ContainersReady", ready, now, _unready(phase, ready)),
    ]
    status: Tree = {
        "phase": phase,
        "conditions": conditions,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": (pod.get("status") or {}).get("startTime") or now,
        "containerStatuses": [_container(pod, c, waiting or "PodInitializing") for c in mains],
    }
    if begun:
        status |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    if inits:
        status["initContainerStatuses"] = [_container(pod, c, waiting or "PodInitializing") for c in inits]
    return {"status": status}


def _unready(phase: str, ready: bool) -> str:
    if ready:
        return ""
    return {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")


def _condition(pod: Tree, type: str, true: bool, now: str, reason: str = "") -> Tree:
    value = "True" if true else "False"
    for known in (pod.get("status") or {}).get("conditions") or ():
        if known["type"] == type and known["status"] == value:
            now = known.get("lastTransitionTime") or now
    condition: Tree = {"type": type, "status": value, "lastProbeTime": None, "lastTransitionTime": now}
    return {**condition, "reason": reason} if reason else {**condition, "reason": None}


def _container(pod: Tree, container: Container, waiting: str) -> Tree:
    state: Tree
    identity = _id(pod, container)
    if container.running and container.started is not None:
        state = {"running": {"startedAt": stamp(container.started)}}
    elif container.ended is None:
        state = {"waiting": {"reason": waiting}}
    elif waiting == "CrashLoopBackOff" and _restarts(pod, container.ended):
        where = f"pod={pod['metadata']['name']}_{pod['metadata']['namespace']}"
        message = f"back-off restarting failed container={container.name} {where}"
        state = {"waiting": {"reason": waiting, "message": message}}
    else:
        state = {"terminated": _terminated(container.ended, identity)}
    last = container.ended if "waiting" in state and container.ended else container.previous
    status: Tree = {
        "name": container.name,
        "image": container.image,
        "imageID": f"simulated://{hashlib.sha256(container.image.encode()).hexdigest()}",
        "ready": container.running,
        "started": container.running,
        "restartCount": container.restarts,
        "state": state,
        "lastState": {"terminated": _terminated(last, identity)} if last else {},
    }
    return status if container.started is None else {**status, "containerID": identity}


def _restarts(pod: Tree, ended: Ended) -> bool:
    policy = pod["spec"].get("restartPolicy", "Always")
    return policy == "Always" or (policy == "OnFailure" and ended.code != 0)


def _terminated(ended: Ended, identity: str) -> Tree:
    return {
        "exitCode": ended.code,
        "reason": "Completed" if ended.code == 0 else "Error",
        "startedAt": stamp(ended.started),
        "finishedAt": stamp(ended.finished),
        "containerID": identity,
    }


def _id(pod: Tree, container: Container) -> str:
    text = f"{pod['metadata'].get('uid', '')}/{container.name}/{container.restarts}"
    return f"simulated://{hashlib.sha256(text.encode()).hexdigest()}"


def restart_delay(restarts: int, ran: float) -> float:
    """Seconds before a container is run again: 10, 20, 40 … 300; one that ran ten minutes starts anew (kubelet)."""
    return 0.0 if restarts == 0 or ran > 600 else float(min(10 * 2 ** (restarts - 1), 300))
