"""What a pod requests of its node, and is limited to, as a whole: the one place where its containers are added up.

The rules are those of Kubernetes' scheduler, quotas and kubectl (``k8s.io/component-helpers/resource``):

- Containers and sidecars run together, so their amounts add up. Init containers run one after the other, each beside
  the sidecars that were started before it; of every resource the largest amount at any moment counts (KEP-753).
- What the pod requests as a whole replaces the sum, for cpu, memory and huge pages (KEP-2837).
- The overhead of the pod's RuntimeClass is added to the requests, and to limits that are not zero (KEP-688).
- While a pod is resized in place, it counts with the most of what its spec says, what its kubelet has admitted
  (``allocatedResources``) and what is in force (``resources`` of the status). A resize that is infeasible does not
  count (KEP-1287, for the pod as a whole KEP-5419).
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
#: Requests of these may be lower than limits (huge pages are never overcommitted).
_OVERCOMMITTED: Final = ("cpu", "memory")


def pod_requests(
    spec: Tree, status: Tree | None = None, *, overhead: bool = True, missing: Mapping[str, Quantity] = {}
) -> Amounts:
    """The requests of a pod.

    ``status``: of a pod on a node, where its resize counts; None: as the spec has it. ``overhead``: whether that of the
    RuntimeClass is included. ``missing``: what a container counts with that does not request these resources.

    >>> main = {"resources": {"requests": {"cpu": "200m"}}}
    >>> sidecar = {"restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}
    >>> init = {"resources": {"requests": {"cpu": "500m"}}}
    >>> pod = {"initContainers": [sidecar, init], "containers": [main], "overhead": {"cpu": "50m"}}
    >>> str(pod_requests(pod)["cpu"])
    '650m'
    """
    total = container_amounts(spec, "requests", status, missing)
    _replace(total, spec, "requests", status)
    if overhead:
        add_amounts(total, _parsed(spec.get("overhead")))
    return total


def pod_limits(spec: Tree, status: Tree | None = None, *, overhead: bool = True) -> Amounts:
    """The limits of a pod; resources that a container does not limit are limited by what the others have."""
    total = container_amounts(spec, "limits", status)
    _replace(total, spec, "limits", status)
    if overhead:
        add_amounts(total, {n: more for n, more in _parsed(spec.get("overhead")).items() if n in total and total[n].sign()})
    return total


def container_amounts(
    spec: Tree, part: RequirementPart, status: Tree | None = None, missing: Mapping[str, Quantity] = {}
) -> Amounts:
    """What the containers of a pod come to, without what is said of the pod as a whole."""
    resized = _Resized(status) if status else None
    running: Amounts = {}
    for container in spec.get("containers") or ():
        add_amounts(running, _of_container(container, part, resized, missing))
    sidecars: Amounts = {}
    starting: Amounts = {}
    for container in spec.get("initContainers") or ():
        lasts = container.get("restartPolicy") == "Always"
        moment = _of_container(container, part, resized if lasts else None, missing)
        if lasts:
            add_amounts(running, moment)
            add_amounts(sidecars, moment)
            moment = sidecars
        else:
            add_amounts(moment, sidecars)
        _raise(starting, moment)
    _raise(running, starting)
    return running


def is_pod_level_resource(resource: str) -> bool:
    """Whether a pod can request a resource as a whole.

    >>> [is_for_pods(name) for name in ("cpu", "hugepages-2Mi", "ephemeral-storage", "nvidia.com/gpu")]
    [True, True, False, False]
    """
    return resource in _OVERCOMMITTED or resource.startswith(_HUGE_PAGES)


# --- defaults --------------------------------------------------------------------------------------------------------


def with_default_requests(spec: Tree) -> Tree:
    """The spec with the requests that the API server sets from limits; the same object if there is nothing to set."""
    changed: Tree = {}
    for part in ("containers", "initContainers"):
        before = spec.get(part) or ()
        after = [with_requests_from_limits(container) for container in before]
        if any(new is not old for new, old in zip(after, before, strict=True)):
            changed[part] = after
    return with_pod_requests({**spec, **changed} if changed else spec)


def with_requests_from_limits(container: Tree) -> Tree:
    """A container that requests in full what it limits and does not request."""
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
    """A spec with requests and huge page limits of the whole pod, where it has some of its own (KEP-2837).

    The containers must have their defaults.
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
            if name in _OVERCOMMITTED and name not in requests
        }
        for name, value in limits.items():
            if name not in requests and name not in missing and is_pod_level_resource(name):
                missing[name] = value
        if missing:
            resources = {**resources, "requests": {**requests, **missing}}
    return spec if resources is spec["resources"] else {**spec, "resources": resources}


# --- resizes ---------------------------------------------------------------------------------------------------------


class _Resized:
    """What the status of a pod says of the amounts of its containers."""

    def __init__(self, status: Tree) -> None:
        self._infeasible = _is_infeasible(status)
        self._statuses: dict[str, Tree] = {
            one.get("name", ""): one
            for part in ("containerStatuses", "initContainerStatuses")
            for one in status.get(part) or ()
        }

    def amounts(self, container: Tree, part: RequirementPart) -> Amounts:
        spec = _parsed((container.get("resources") or {}).get(part))
        status = self._statuses.get(container.get("name", ""))
        if status is None or status.get("resources") is None:
            return spec
        return _most(spec, part, self._infeasible, status["resources"], status.get("allocatedResources"))


def _most(spec: Amounts, part: RequirementPart, infeasible: bool, in_force: Tree, admitted: Tree | None) -> Amounts:
    """The most of what a spec and a status say; limits are not admitted, only in force."""
    found = {} if infeasible else dict(spec)
    _raise(found, _parsed(in_force.get(part)))
    if part == "requests":
        _raise(found, _parsed(admitted))
    return found


def _is_infeasible(status: Tree) -> bool:
    pending = (one for one in status.get("conditions") or () if one.get("type") == "PodResizePending")
    return next((one.get("reason") == "Infeasible" for one in pending), False)


# --- amounts ---------------------------------------------------------------------------------------------------------


def sum_amounts(parts: Iterable[Mapping[str, Quantity]]) -> Amounts:
    """Amounts added up."""
    total: Amounts = {}
    for amounts in parts:
        add_amounts(total, amounts)
    return total


def add_amounts(total: Amounts, more: Mapping[str, Quantity]) -> None:
    """Add amounts to others, which change."""
    for name, amount in more.items():
        total[name] = total[name].add(amount) if name in total else amount


def _of_container(container: Tree, part: RequirementPart, resized: _Resized | None, missing: Mapping[str, Quantity]) -> Amounts:
    if resized is not None:
        amounts = resized.amounts(container, part)
    else:
        amounts = _parsed((container.get("resources") or {}).get(part))
    for name, amount in missing.items():
        amounts.setdefault(name, amount)
    return amounts


def _replace(total: Amounts, spec: Tree, part: RequirementPart, status: Tree | None) -> None:
    """Put the amounts of the pod as a whole in place of the sums."""
    own = {n: a for n, a in _parsed((spec.get("resources") or {}).get(part)).items() if is_pod_level_resource(n)}
    if status and status.get("resources") is not None:
        now = _most(own, part, _is_infeasible(status), status["resources"], status.get("allocatedResources"))
        own = {name: now.get(name, Quantity.ZERO) for name in own}
    total |= own


def _parsed(tree: Mapping[str, Any] | None) -> Amounts:
    return {name: Quantity.parse(str(amount)) for name, amount in (tree or {}).items()}


def _raise(total: Amounts, other: Mapping[str, Quantity]) -> None:
    for name, amount in other.items():
        if name not in total or amount > total[name]:
            total[name] = amount
