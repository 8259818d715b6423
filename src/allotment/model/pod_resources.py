"""The total requests and limits of a pod, computed from its containers.

The rules are those of Kubernetes' scheduler, quotas and kubectl (``k8s.io/component-helpers/resource``):

- Containers and sidecars run together, so their amounts are added. Init containers run one after the other, each
  together with the sidecars started before it; the largest amount of each resource at any time counts (KEP-753).
- Pod-level requests replace the sum, for cpu, memory and huge pages (KEP-2837).
- The overhead of the pod's RuntimeClass is added to the requests, and to limits that are not zero (KEP-688).
- During an in-place resize, the maximum of the spec, the amounts admitted by the kubelet (``allocatedResources``) and
  the actual amounts (``resources`` of the status) counts. An infeasible resize does not count (KEP-1287, for pod-level
  resources KEP-5419).
- The devices of a pod may use cpu, memory or huge pages of the node, as its status says (KEP-5517, 1.37).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

#: By resource name.
Amounts = dict[str, Quantity]
RequirementPart = Literal["requests", "limits"]

_HUGE_PAGES: Final = "hugepages-"
#: Resources whose requests can be lower than their limits; huge pages are never overcommitted.
_OVERCOMMITTABLE: Final = ("cpu", "memory")


def pod_requests(
    spec: Tree, status: Tree | None = None, *, overhead: bool = True, missing: Mapping[str, Quantity] = {},
    devices: Mapping[str, Quantity] = {},
) -> Amounts:  # fmt: skip
    """The total requests of a pod.

    ``status``: the status of a pod on a node, to include a resize; None for the spec only. ``overhead``: whether to add
    the overhead of the RuntimeClass. ``missing``: the amounts for containers that do not request these resources.
    ``devices``: what the pod's devices use of the node (`claim_amounts`).

    >>> main = {"resources": {"requests": {"cpu": "200m"}}}
    >>> sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    >>> init = {"resources": {"requests": {"cpu": "500m"}}}
    >>> pod = {"initContainers": [sidecar, init], "containers": [main], "overhead": {"cpu": "50m"}}
    >>> str(pod_requests(pod)["cpu"])
    '650m'
    """
    total = container_amounts(spec, "requests", status, missing)
    add_amounts(total, devices)
    _replace(total, spec, "requests", status)
    if overhead:
        add_amounts(total, _parse_amounts(spec.get("overhead")))
    return total


def claim_amounts(status: Tree) -> Amounts:
    """The resources of its node that a pod's devices use, according to ``status.nodeAllocatableResourceClaimStatuses``.

    >>> memory = {"name": "memory", "perPod": "100Mi", "perContainer": "50Mi"}
    >>> use = {"containers": ["a", "b"], "mapping": [{"name": "cpu", "quantity": "4"}], "overhead": [memory]}
    >>> {n: str(a) for n, a in claim_amounts({"nodeAllocatableResourceClaimStatuses": [use]}).items()}
    {'cpu': '4', 'memory': '200Mi'}
    """
    total: Amounts = {}
    for claim in status.get("nodeAllocatableResourceClaimStatuses") or ():
        for mapping in claim.get("mapping") or ():
            add_amounts(total, _parse_amounts({mapping["name"]: mapping.get("quantity") or "0"}))
        for overhead in claim.get("overhead") or ():
            parts = [overhead.get("perPod"), *(overhead.get("perContainer") for _ in claim.get("containers") or ())]
            for amount in parts:
                if amount is not None:
                    add_amounts(total, _parse_amounts({overhead["name"]: amount}))
    return total


def pod_limits(spec: Tree, status: Tree | None = None, *, overhead: bool = True) -> Amounts:
    """The total limits of a pod. Containers without a limit for a resource are ignored in its total."""
    total = container_amounts(spec, "limits", status)
    _replace(total, spec, "limits", status)
    if overhead:
        add_amounts(
            total,
            {n: amount for n, amount in _parse_amounts(spec.get("overhead")).items() if n in total and total[n].sign()},
        )
    return total


def container_amounts(
    spec: Tree, part: RequirementPart, status: Tree | None = None, missing: Mapping[str, Quantity] = {}
) -> Amounts:
    """The totals of the containers of a pod, without pod-level resources and overhead."""
    resized = _ResizedContainers(status) if status else None
    running: Amounts = {}
    for container in spec.get("containers") or ():
        add_amounts(running, _container_amounts(container, part, resized, missing))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        is_sidecar = container.get("restartPolicy") == "Always"
        amounts = _container_amounts(container, part, resized if is_sidecar else None, missing)
        if is_sidecar:
            add_amounts(running, amounts)
            add_amounts(sidecars, amounts)
            amounts = sidecars
        else:
            add_amounts(amounts, sidecars)
        _raise_to(starting, amounts)
    _raise_to(running, starting)
    return running


def is_pod_level_resource(resource: str) -> bool:
    """Whether a resource can be requested at the pod level.

    >>> [is_pod_level_resource(name) for name in ("cpu", "hugepages-2Mi", "ephemeral-storage", "nvidia.com/gpu")]
    [True, True, False, False]
    """
    return resource in _OVERCOMMITTABLE or resource.startswith(_HUGE_PAGES)


# --- defaults --------------------------------------------------------------------------------------------------------


def with_default_requests(spec: Tree) -> Tree:
    """The spec with the requests that the API server derives from limits; the same object if nothing changes."""
    changed: Tree = {}
    for part in ("containers", "initContainers"):
        before = spec.get(part) or ()
        after = [with_requests_from_limits(container) for container in before]
        if any(new is not old for new, old in zip(after, before, strict=True)):
            changed[part] = after
    return with_pod_requests({**spec, **changed} if changed else spec)


def with_requests_from_limits(container: Tree) -> Tree:
    """A container with requests equal to its limits for resources that it limits but does not request."""
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    requests = resources.get("requests") or {}
    missing = {name: value for name, value in limits.items() if name not in requests}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**requests, **missing}}}


def with_pod_requests(spec: Tree) -> Tree:
    """A spec with default pod-level requests and huge page limits, if it has pod-level resources (KEP-2837).

    The defaults of the containers must be set before.
    """
    resources = spec.get("resources")
    if not resources:
        return spec
    limits: dict[str, Any] = resources.get("limits") or {}
    requests: dict[str, Any] = resources.get("requests") or {}
    if limits or requests:
        huge = {
            name: str(value)
            for name, value in container_amounts(spec, "limits").items()
            if name.startswith(_HUGE_PAGES) and name not in requests and name not in limits
        }
        if huge:
            limits = {**limits, **huge}
            resources = {**resources, "limits": limits}
    if limits:
        missing = {
            name: str(value)
            for name, value in container_amounts(spec, "requests").items()
            if name in _OVERCOMMITTABLE and name not in requests
        }
        for name, value in limits.items():
            if name not in requests and name not in missing and is_pod_level_resource(name):
                missing[name] = value
        if missing:
            resources = {**resources, "requests": {**requests, **missing}}
    return spec if resources is spec["resources"] else {**spec, "resources": resources}


# --- resizes ---------------------------------------------------------------------------------------------------------


class _ResizedContainers:
    """The amounts of containers according to the status of a pod."""

    def __init__(self, status: Tree) -> None:
        self._infeasible = _is_infeasible(status)
        self._statuses: dict[str, Tree] = {
            item.get("name", ""): item
            for part in ("containerStatuses", "initContainerStatuses")
            for item in status.get(part) or ()
        }

    def amounts(self, container: Tree, part: RequirementPart) -> Amounts:
        spec = _parse_amounts((container.get("resources") or {}).get(part))
        status = self._statuses.get(container.get("name", ""))
        if status is None or status.get("resources") is None:
            return spec
        return _maximum_amounts(spec, part, self._infeasible, status["resources"], status.get("allocatedResources"))


def _maximum_amounts(
    spec: Amounts, part: RequirementPart, infeasible: bool, in_force: Tree, admitted: Tree | None
) -> Amounts:
    """The maximum of the amounts in a spec and a status. Limits have no admitted amount."""
    result = {} if infeasible else dict(spec)
    _raise_to(result, _parse_amounts(in_force.get(part)))
    if part == "requests":
        _raise_to(result, _parse_amounts(admitted))
    return result


def _is_infeasible(status: Tree) -> bool:
    pending = (item for item in status.get("conditions") or () if item.get("type") == "PodResizePending")
    return next((item.get("reason") == "Infeasible" for item in pending), False)


# --- amounts ---------------------------------------------------------------------------------------------------------


def sum_amounts(parts: Iterable[Mapping[str, Quantity]]) -> Amounts:
    """The sum of amounts, by resource name."""
    total: Amounts = {}
    for amounts in parts:
        add_amounts(total, amounts)
    return total


def add_amounts(total: Amounts, amounts: Mapping[str, Quantity]) -> None:
    """Add amounts to ``total`` in place."""
    for name, amount in amounts.items():
        total[name] = total[name].add(amount) if name in total else amount


def _container_amounts(
    container: Tree, part: RequirementPart, resized: _ResizedContainers | None, missing: Mapping[str, Quantity]
) -> Amounts:
    if resized is not None:
        amounts = resized.amounts(container, part)
    else:
        amounts = _parse_amounts((container.get("resources") or {}).get(part))
    for name, amount in missing.items():
        amounts.setdefault(name, amount)
    return amounts


def _replace(total: Amounts, spec: Tree, part: RequirementPart, status: Tree | None) -> None:
    """Replace the sums in ``total`` by the pod-level amounts."""
    pod_level = {
        n: a for n, a in _parse_amounts((spec.get("resources") or {}).get(part)).items() if is_pod_level_resource(n)
    }
    if status and status.get("resources") is not None:
        current = _maximum_amounts(
            pod_level, part, _is_infeasible(status), status["resources"], status.get("allocatedResources")
        )
        pod_level = {name: current.get(name, Quantity.ZERO) for name in pod_level}
    total |= pod_level


def _parse_amounts(tree: Mapping[str, Any] | None) -> Amounts:
    return {name: Quantity.parse(str(amount)) for name, amount in (tree or {}).items()}


def _raise_to(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
