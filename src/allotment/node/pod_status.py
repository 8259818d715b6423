"""The pod status that a node writes: container states, conditions, phase (Kubernetes' pod lifecycle)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from allotment.cluster.clock import stamp
from allotment.model.trees import Tree
from allotment.node.containers import Container, ContainerExit
from allotment.node.pod_resize import ResizePending, container_resources


class Outlook(NamedTuple):
    """Inputs of a pod's status besides its containers.

    ``final``: its containers will not restart, whatever the restart policy. ``held``: claims are still prepared, so
    the phase may not be Succeeded or Failed yet. ``reason`` and ``message``: why the node terminated the pod.
    """

    final: bool = False
    held: bool = False
    reason: str = ""
    message: str = ""


_DEFAULT_OUTLOOK: Final = Outlook()


def phase_of(
    pod: Tree, inits: Sequence[Container], mains: Sequence[Container], outlook: Outlook = _DEFAULT_OUTLOOK
) -> str:
    """``Pending`` until the first main container started; an ended phase when none will run again."""
    ended = ended_phase(pod, inits, mains, outlook)
    if ended and not outlook.held:
        return ended
    return "Pending" if all(c.started is None for c in mains) else "Running"


def ended_phase(pod: Tree, inits: Sequence[Container], mains: Sequence[Container], outlook: Outlook) -> str:
    """``Succeeded`` or ``Failed`` once no container will run again; empty before."""
    policy = pod["spec"].get("restartPolicy", "Always")
    if outlook.reason:
        return "Failed" if all(c.ended is not None or c.started is None for c in mains) else ""
    sidecars = _sidecars(pod)
    first = [c for c in inits if c.name not in sidecars]
    if policy == "Never" and any(c.ended is not None and c.ended.code != 0 for c in first):
        return "Failed"
    started = any(c.started is not None for c in mains)
    if outlook.final and (started or inits) and all(c.ended is not None or c.started is None for c in mains):
        return "Succeeded" if started and all(c.ended is not None and c.ended.code == 0 for c in mains) else "Failed"
    if not started or policy == "Always" or any(c.ended is None for c in mains):
        return ""
    if all(c.ended is not None and c.ended.code == 0 for c in mains):
        return "Succeeded"
    return "Failed" if policy == "Never" else ""


def status_patch(
    pod: Tree, inits: Sequence[Container], mains: Sequence[Container], *, host_ip: str, pod_ip: str, now: str,
    outlook: Outlook = _DEFAULT_OUTLOOK, allocated: Callable[[Tree], list[Tree]] = lambda spec: [],
    ephemerals: Sequence[Container] = (), pending: ResizePending | None = None,
) -> Tree:  # fmt: skip
    """A strategic patch of the status. ``allocated(spec)``: the health of a container's devices.

    ``pending``: why new resources of the pod are not admitted.
    """
    phase = phase_of(pod, inits, mains, outlook)
    ended = phase in ("Succeeded", "Failed")
    first = pod["spec"].get("initContainers") or ()
    sidecars = _sidecars(pod)
    done = {c.name for c in inits if (c.up.is_set() if c.name in sidecars else _succeeded(c))}
    incomplete = [spec["name"] for spec in first if spec["name"] not in done]
    serving = [*(c for c in inits if c.name in sidecars), *mains]
    names = [spec["name"] for spec in pod["spec"]["containers"]]
    unready = [c.name for c in serving if not c.ready] if mains else names
    started = any(c.started is not None for c in (*inits, *mains))
    # Once a main container has started, init containers do not matter any more, even if a sidecar restarts.
    initialized = not incomplete or any(c.started is not None for c in mains)
    ready = not ended and not unready
    why = _unready(phase, unready)
    conditions = [
        _condition(pod, "PodReadyToStartContainers", started and not ended, now),
        _condition(pod, "Initialized", initialized, now, *_uninitialized(phase, initialized, incomplete)),
        _condition(pod, "Ready", ready, now, *(("", "") if ready else why)),
        _condition(pod, "ContainersReady", ready, now, *(("", "") if ready else why)),
    ]
    if pending is not None:
        conditions.append(_condition(pod, _PENDING, True, now, *pending))
    elif any(known["type"] == _PENDING for known in (pod.get("status") or {}).get("conditions") or ()):
        conditions.append({"$patch": "delete", "type": _PENDING})
    waiting = "PodInitializing" if first and started else "ContainerCreating"
    status: Tree = {
        **_observed_generation(pod),
        "phase": phase,
        "conditions": conditions,
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": (pod.get("status") or {}).get("startTime") or now,
        "containerStatuses": [_container(pod, c, waiting, allocated(c.spec)) for c in mains]
        or [_not_started(spec, waiting) for spec in pod["spec"]["containers"]],
    }
    if outlook.reason:
        status |= {"reason": outlook.reason, "message": outlook.message}
    if started:
        status |= {"podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    if inits:
        status["initContainerStatuses"] = [
            {
                **_container(pod, c, waiting, allocated(c.spec)),
                "ready": c.ready if c.name in sidecars else _succeeded(c),
            }
            for c in inits
        ]
    if ephemerals:
        status["ephemeralContainerStatuses"] = [
            {**_container(pod, c, "ContainerCreating", []), "ready": False} for c in ephemerals
        ]
    return {"status": status}


#: The condition of a pod whose new resources are not admitted.
_PENDING: Final = "PodResizePending"


def _sidecars(pod: Tree) -> frozenset[str]:
    inits = pod["spec"].get("initContainers") or ()
    return frozenset(spec["name"] for spec in inits if spec.get("restartPolicy") == "Always")


def _succeeded(container: Container) -> bool:
    return container.ended is not None and container.ended.code == 0


def _uninitialized(phase: str, initialized: bool, incomplete: Sequence[str]) -> tuple[str, str]:
    if phase == "Succeeded":
        return "PodCompleted", ""
    if initialized:
        return "", ""
    return "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(incomplete)}]"


def _unready(phase: str, unready: Sequence[str]) -> tuple[str, str]:
    if phase in ("Succeeded", "Failed"):
        return ("PodCompleted" if phase == "Succeeded" else "PodFailed"), ""
    return "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"


def _condition(pod: Tree, type: str, true: bool, now: str, reason: str = "", message: str = "") -> Tree:
    value = "True" if true else "False"
    times = {"lastProbeTime": None, "lastTransitionTime": now}
    condition: Tree = {"type": type, **_observed_generation(pod), "status": value, **times}
    for known in (pod.get("status") or {}).get("conditions") or ():
        if known["type"] == type:
            if known["status"] == value:
                condition["lastTransitionTime"] = known.get("lastTransitionTime") or now
            condition |= {key: None for key in ("reason", "message") if key in known}  # a patch keeps what it omits
    if reason:
        condition["reason"] = reason
    return {**condition, "message": message} if message else condition


def _observed_generation(pod: Tree) -> Tree:
    """The generation of the spec that the status describes (KEP-5067); older API servers count none for pods."""
    generation = pod["metadata"].get("generation")
    return {"observedGeneration": generation} if generation else {}


def _not_started(spec: Tree, waiting: str) -> Tree:
    """The status of a container that has not been created yet."""
    state = {"waiting": {"reason": waiting}}
    named = {"name": spec["name"], "image": spec.get("image", ""), "imageID": ""}
    return {**named, "ready": False, "started": False, "restartCount": 0, "state": state, "lastState": {}}


def _container(pod: Tree, container: Container, waiting: str, allocated: list[Tree]) -> Tree:
    state: Tree
    identity = _id(pod, container)
    if container.running and container.started is not None:
        state = {"running": {"startedAt": stamp(container.started)}}
    elif container.waiting is not None:
        reason, message = container.waiting
        state = {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}
    elif container.ended is None:
        state = {"waiting": {"reason": waiting}}
    else:
        state = {"terminated": _terminated(container.ended, identity)}
    last = container.ended if "waiting" in state and container.ended else container.previous
    status: Tree = {
        "name": container.name,
        "image": container.image,
        "imageID": f"{container.runtime}://{hashlib.sha256(container.image.encode()).hexdigest()}",
        "ready": container.ready,
        "started": container.running and container.up.is_set(),
        "restartCount": container.restarts,
        "state": state,
        "lastState": {"terminated": _terminated(last, identity)} if last else {},
    }
    if allocated:
        status["allocatedResourcesStatus"] = allocated
    if container.started is not None:
        status |= container_resources(container.spec)
    return status if container.started is None else {**status, "containerID": identity}


def _terminated(ended: ContainerExit, identity: str) -> Tree:
    return {
        "exitCode": ended.code,
        "reason": "Completed" if ended.code == 0 else "Error",
        **({"message": ended.message} if ended.message else {}),
        "startedAt": stamp(ended.started),
        "finishedAt": stamp(ended.finished),
        "containerID": identity,
    }


def _id(pod: Tree, container: Container) -> str:
    text = f"{pod['metadata'].get('uid', '')}/{container.name}/{container.restarts}"
    return f"{container.runtime}://{hashlib.sha256(text.encode()).hexdigest()}"
