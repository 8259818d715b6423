"""Determines whether the devices of an allocated claim are ready for a pod (binding conditions, KEP-5007)."""

from __future__ import annotations

from typing import NamedTuple

from allotment.model.trees import Tree


class Readiness(NamedTuple):
    """``failure`` is Kubernetes' text of what failed; the devices then never become ready."""

    ready: bool
    failure: str = ""


def has_conditions(claim: Tree) -> bool:
    """Whether any device of the claim has binding conditions."""
    return any(result.get("bindingConditions") for result in _results(claim))


def of(claim: Tree) -> Readiness:
    """Return ready if every device that has binding conditions reports all of them as true."""
    statuses = {
        (d.get("driver"), d.get("pool"), d.get("device"), d.get("shareID")): d
        for d in (claim.get("status") or {}).get("devices") or ()
    }
    ready = True
    for result in _results(claim):
        wanted = result.get("bindingConditions")
        if not wanted:
            continue
        device = statuses.get((result.get("driver"), result.get("pool"), result.get("device"), result.get("shareID")))
        if device is None:
            ready = False
            continue
        conditions = {c.get("type"): c for c in device.get("conditions") or ()}
        for name in result.get("bindingFailureConditions") or ():
            failed = conditions.get(name)
            if failed is not None and failed.get("status") == "True":
                return Readiness(False, f'reason={failed.get("reason", "")}, message="{failed.get("message", "")}"')
        for name in wanted:
            if (conditions.get(name) or {}).get("status") != "True":
                ready = False
    return Readiness(ready)


def _results(claim: Tree) -> list[Tree]:
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or []
