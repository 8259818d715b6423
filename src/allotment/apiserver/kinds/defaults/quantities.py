"""Amounts in defaults: rounding to what the API keeps, requests from limits, and what a pod's containers add up to."""

from __future__ import annotations

import functools
from typing import Any, Final

from allotment.model.quantity import Quantity, QuantityError
from allotment.model.trees import Tree

Amounts = dict[str, Any]

_MILLI: Final = 10**6
_HUGE_PAGES: Final = "hugepages-"


@functools.lru_cache(4096)
def _rounded(text: str) -> str:
    try:
        quantity = Quantity.parse(text)
    except QuantityError:
        return text
    if quantity.nano % _MILLI == 0:
        return text
    # Away from zero, as Go rounds.
    millis = -(-abs(quantity.nano) // _MILLI) * quantity.sign()
    return str(Quantity.parse(f"{millis}m"))


def rounded_up(amounts: Amounts) -> Amounts:
    """Amounts of resources, none finer than a thousandth."""
    for value in amounts.values():
        text = value if type(value) is str else str(value)
        if _rounded(text) != text:
            return {name: _rounded(item if type(item) is str else str(item)) for name, item in amounts.items()}
    return amounts


def with_requests_from_limits(container: Tree) -> Tree:
    """What is limited and not requested is requested in full."""
    resources = container.get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return container
    requests = resources.get("requests") or {}
    missing = {name: value for name, value in limits.items() if name not in requests}
    if not missing:
        return container
    return {**container, "resources": {**resources, "requests": {**requests, **missing}}}


def pod_level(spec: Tree) -> Tree:
    """Requests and huge page limits of the whole pod, where it has some of its own (KEP-2837)."""
    resources = spec.get("resources")
    if not resources:
        return spec
    limits: Amounts = resources.get("limits") or {}
    requests: Amounts = resources.get("requests") or {}
    if limits or requests:
        huge = {
            name: value
            for name, value in _total(spec, "limits").items()
            if name.startswith(_HUGE_PAGES) and name not in requests and name not in limits
        }
        if huge:
            limits = {**limits, **huge}
            resources = {**resources, "limits": limits}
    if limits:
        missing = {
            name: value
            for name, value in _total(spec, "requests").items()
            if name in ("cpu", "memory") and name not in requests
        }
        for name, value in limits.items():
            if name not in requests and name not in missing and _is_for_pods(name):
                missing[name] = value
        if missing:
            resources = {**resources, "requests": {**requests, **missing}}
    return spec if resources is spec["resources"] else {**spec, "resources": resources}


def _is_for_pods(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith(_HUGE_PAGES)


def _total(spec: Tree, part: str) -> Amounts:
    """What the containers come to: the running ones together, or the hungriest moment of starting, if that is more."""
    running: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add(running, _amounts(container, part))
    sidecars: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        amounts = _amounts(container, part)
        if container.get("restartPolicy") == "Always":
            _add(running, amounts)
            _add(sidecars, amounts)
            moment = sidecars
        else:
            moment = dict(sidecars)
            _add(moment, amounts)
        _raise(starting, moment)
    _raise(running, starting)
    return {name: str(value) for name, value in running.items()}


def _amounts(container: Tree, part: str) -> dict[str, Quantity]:
    amounts = (container.get("resources") or {}).get(part) or {}
    return {name: Quantity.parse(str(value)) for name, value in amounts.items()}


def _add(total: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, value in amounts.items():
        total[name] = total[name].add(value) if name in total else value


def _raise(total: dict[str, Quantity], amounts: dict[str, Quantity]) -> None:
    for name, value in amounts.items():
        if name not in total or value > total[name]:
            total[name] = value
