"""In-place resize (KEP-1287): whether a node admits new resources of a pod, and what changes in its containers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from allotment.model.pod_resources import pod_requests
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

#: Units in which messages show amounts, in units of 10^-9.
_UNITS: Final = {"cpu": 10**6, "memory": 10**9}


class ResizePending(NamedTuple):
    """The reason for which a resize is not admitted, as in the condition PodResizePending."""

    reason: str
    message: str


def refusal(pod: Tree, node: Tree, others: Iterable[Tree]) -> ResizePending | None:
    """Return why the node does not admit the pod's resources; None if it does. ``others``: its other pods."""
    allocatable = (node.get("status") or {}).get("allocatable") or {}
    requests = pod_requests(pod["spec"])
    used: dict[str, int] | None = None
    for resource, unit in _UNITS.items():
        if resource not in allocatable:
            continue
        wanted, capacity = requests.get(resource, Quantity.ZERO).nano, Quantity.parse(allocatable[resource]).nano
        if wanted > capacity:
            text = f"requested: {_amount(wanted, unit)}, capacity: {_amount(capacity, unit)}"
            return ResizePending("Infeasible", f"Node didn't have enough capacity: {resource}, {text}")
        if used is None:
            used = _used(others)
        if wanted + used[resource] > capacity:
            text = (
                f"requested: {_amount(wanted, unit)}, used: {_amount(used[resource], unit)},"
                f" capacity: {_amount(capacity, unit)}"
            )
            return ResizePending("Deferred", f"Node didn't have enough resource: {resource}, {text}")
    return None


def _used(pods: Iterable[Tree]) -> dict[str, int]:
    total = dict.fromkeys(_UNITS, 0)
    for pod in pods:
        if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            requests = pod_requests(pod["spec"], pod.get("status") or {})
            for resource in total:
                total[resource] += requests.get(resource, Quantity.ZERO).nano
    return total


def _amount(nano: int, unit: int) -> int:
    return -(-nano // unit)


def restarts(before: Tree, after: Tree) -> bool:
    """Whether a change of a container's resources restarts it, according to its ``resizePolicy``."""
    policies = {each["resourceName"]: each.get("restartPolicy") for each in after.get("resizePolicy") or ()}
    old, new = before.get("resources") or {}, after.get("resources") or {}
    return any(
        policies.get(resource) == "RestartContainer"
        and any((old.get(part) or {}).get(resource) != (new.get(part) or {}).get(resource) for part in _PARTS)
        for resource in _UNITS
    )


_PARTS: Final = ("requests", "limits")


def summary(prefix: str, pod: Tree, error: str = "") -> str:
    """The message of an event about a resize, with the resources of all containers."""
    content: Tree = {}
    for kind in ("initContainers", "containers"):
        if specs := pod["spec"].get(kind):
            content[kind] = [{"name": spec["name"], "resources": _resources(spec)} for spec in specs]
    content["generation"] = pod["metadata"].get("generation", 0)
    if error:
        content["error"] = error
    return f"{prefix}: {msgspec.json.encode(content).decode()}"


def _resources(spec: Tree) -> Tree:
    resources = spec.get("resources") or {}
    return {
        part: dict(sorted(resources[part].items())) if isinstance(resources[part], dict) else resources[part]
        for part in ("limits", "requests", "claims")
        if resources.get(part)
    }


def container_resources(spec: Tree) -> Tree:
    """The fields of a container's status about its resources."""
    resources = {part: (spec.get("resources") or {}).get(part) for part in _PARTS}
    status: Tree = {}
    if any(resources.values()):
        status["resources"] = {part: amounts for part, amounts in resources.items() if amounts}
    if resources["requests"]:
        status["allocatedResources"] = resources["requests"]
    return status
