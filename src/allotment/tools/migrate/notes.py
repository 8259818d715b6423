"""Advice for a workload that changes: how its kind applies a new pod template, and what is not migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from allotment.tools.migrate.actions import Action
from allotment.tools.views import at, items, mapping, text

_SCHEDULER: Final = "default-scheduler"
_READ_BY_AUTOSCALERS: Final = (
    "cloud.google.com/gke-accelerator",
    "karpenter.k8s.aws/",
    "k8s.amazonaws.com/accelerator",
)


def notes_of(action: Action) -> tuple[str, ...]:
    """The notes for a workload, each one or two sentences."""
    found = [note for write in _ALWAYS for note in write(action)]
    if action.decision.changes:
        found += [note for write in _CHANGED for note in write(action)]
    return tuple(dict.fromkeys(found))


def _unknown(action: Action) -> Iterable[str]:
    for resource in action.workload.unknown if action.workload.requests else ():
        yield f"{resource} is an unknown resource; it is left unchanged."


def _kind(action: Action) -> Iterable[str]:
    view = action.workload.view
    if view.custom:
        yield (
            f"{view.kind} is a custom resource: if its CRD is too old for resourceClaims, the dry run rejects the "
            "object. If its operator does not recreate the pods, delete and recreate the object."
        )
        return
    spec = mapping(view.document.tree.get("spec"))
    match view.kind:
        case "Job":
            yield "A Job's pod template is immutable: delete the Job and create it again."
        case "Pod":
            yield "The claims of a pod are immutable: delete the pod and create it again."
        case "ReplicaSet" | "ReplicationController":
            yield "Running pods do not change: delete them one by one."
        case "Deployment" if _surges(spec) and action.decision.outcome == "template":
            yield (
                "The rolling update starts a new pod before it stops an old one and needs one more GPU: keep one "
                "free, or set strategy.rollingUpdate.maxSurge to 0."
            )
        case "StatefulSet" | "DaemonSet" if mapping(spec.get("updateStrategy")).get("type") == "OnDelete":
            yield "Pods are replaced only when they are deleted (updateStrategy OnDelete)."


def _surges(spec: dict[str, Any]) -> bool:
    strategy = mapping(spec.get("strategy"))
    if strategy.get("type") == "Recreate":
        return False
    return mapping(strategy.get("rollingUpdate")).get("maxSurge") not in (0, "0", "0%")


def _together(action: Action) -> Iterable[str]:
    if action.decision.outcome == "claim":
        yield "A claim is bound to one node: all pods that use it run there, and stay pending while that node is down."
        yield "During the rollout, old pods still share their GPU and new pods need another one: keep one GPU free."


def _autoscaler(action: Action) -> Iterable[str]:
    for label in action.affinity.labels:
        if label.term.startswith(_READ_BY_AUTOSCALERS) and (label.expression or label.dropped):
            yield f"Autoscalers select machines by {label.term}: make sure that yours also adds nodes for claims."


def _left(action: Action) -> Iterable[str]:
    for label in action.affinity.labels:
        if not label.expression and not label.dropped:
            yield f"{label.term} stays: {label.why}."
    if action.workload.preferred:
        yield "Preferred node affinity stays: it ranks nodes as long as they have the labels."


def _tolerations(action: Action) -> Iterable[str]:
    for key in action.tolerations:
        yield (
            f"Toleration {key} is added: the admission plugin ExtendedResourceToleration adds it only to pods that "
            "request the extended resource."
        )


def _priority(action: Action) -> Iterable[str]:
    name = text(action.workload.view.tree.get("priorityClassName"))
    if name and action.decision.outcome in ("class", "template", "claim"):
        yield (
            f"priorityClassName {name}: preemption does not free DRA devices, so it no longer makes room for this "
            "workload's GPUs."
        )


def _scheduler(action: Action) -> Iterable[str]:
    name = text(action.workload.view.tree.get("schedulerName"))
    if name and name != _SCHEDULER:
        yield f"schedulerName {name} stays: that scheduler must support ResourceClaims; otherwise remove the field."


def _queue(action: Action) -> Iterable[str]:
    labels = mapping(at(action.workload.view.document.tree, ("metadata", "labels")))
    if any(key.startswith("kueue.x-k8s.io/") for key in labels):
        yield "Kueue counts quota under the old resource name: map the DeviceClass to it (deviceClassMappings)."


def _ray(action: Action) -> Iterable[str]:
    if action.workload.view.custom and action.workload.view.document.api_version.startswith("ray.io/"):
        yield "Ray reads a pod's number of GPUs from its limits: set num-gpus in rayStartParams."


def _environment(action: Action) -> Iterable[str]:
    tree = action.workload.view.document.tree
    for container in action.workload.containers:
        for _, variable in items(mapping(at(tree, container.path)).get("env")):
            if variable.get("name") in ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"):
                name = variable["name"]
                yield f"Container {container.name} sets {name}, which bypasses the claim: remove it."


_Writer = Callable[[Action], Iterable[str]]
_ALWAYS: Final[tuple[_Writer, ...]] = (_unknown, _priority)
_CHANGED: Final[tuple[_Writer, ...]] = (
    _kind,
    _together,
    _left,
    _autoscaler,
    _tolerations,
    _scheduler,
    _queue,
    _ray,
    _environment,
)
