"""A pod's quality of service: Guaranteed, Burstable or BestEffort, by its requests and limits of cpu and memory."""

from __future__ import annotations

from typing import Any, Final

from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

_COMPUTE: Final = ("cpu", "memory")


def qos_class(spec: Tree) -> str:
    """``status.qosClass`` of a pod with this spec.

    >>> qos_class({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    'Burstable'
    """
    whole = spec.get("resources") or {}
    if whole.get("requests") or whole.get("limits"):
        return _class_of([whole])
    return _class_of(
        [item.get("resources") or {} for item in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))]
    )


def _class_of(requirements: list[Tree]) -> str:
    guaranteed, some = True, False
    for resources in requirements:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        if not requests and not limits:
            guaranteed = False
            continue
        for name in _COMPUTE:
            request, limit = _positive(requests.get(name)), _positive(limits.get(name))
            some = some or request is not None or limit is not None
            guaranteed = guaranteed and limit is not None and (request is None or request == limit)
    if not some:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(text: Any) -> Quantity | None:
    if text is None:
        return None
    amount = Quantity.parse(str(text))
    return amount if amount.nano > 0 else None
