"""A pod's QoS class: Guaranteed, Burstable or BestEffort, by its requests and limits of cpu and memory."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

_COMPUTE_RESOURCES: Final = ("cpu", "memory")


def qos_class(spec: Tree) -> str:
    """The ``status.qosClass`` of a pod with this spec.

    >>> qos_class({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    'Burstable'
    """
    pod_level = spec.get("resources") or {}
    if pod_level.get("requests") or pod_level.get("limits"):
        return _class_of([pod_level])
    return _class_of(
        [item.get("resources") or {} for item in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
    )


def _class_of(requirements: list[Tree]) -> str:
    guaranteed, has_any = True, False
    for resources in requirements:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        if not requests and not limits:
            guaranteed = False
            continue
        for name in _COMPUTE_RESOURCES:
            request, limit = _positive(requests.get(name)), _positive(limits.get(name))
            has_any = has_any or request is not None or limit is not None
            guaranteed = guaranteed and limit is not None and (request is None or request == limit)
    if not has_any:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(text: Any) -> Quantity | None:
    if text is None:
        return None
    amount = Quantity.parse(str(text))
    return amount if amount.nano > 0 else None
