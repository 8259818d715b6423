"""A driver that sets the binding conditions of allocated devices to ready or failed."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS
from allotment.model.trees import Tree
from tests.kube.differential.scenarios.scenario import READY

_TRANSITION_TIME: Final = "2026-01-01T00:00:00Z"


async def set_binding_conditions(client: Client, namespace: str) -> None:
    """Set the conditions of all devices that pods wait for."""
    for tree in (await client.list(CLAIMS, namespace)).items:
        statuses = [_device_status(result) for result in _results(tree) if result.get("bindingConditions")]
        if statuses and statuses != (tree["status"].get("devices") or []):
            with suppress(StatusError):  # it was released meanwhile, or another client wrote it
                tree["status"]["devices"] = statuses
                await client.update(CLAIMS, tree, subresource="status")


def _results(claim: Tree) -> list[Tree]:
    allocation: Tree = (claim.get("status") or {}).get("allocation") or {}
    found: list[Tree] = (allocation.get("devices") or {}).get("results") or []
    return found


def _device_status(result: Tree) -> Tree:
    """The status of a device: ready, or failed where it never becomes ready."""
    conditions = result["bindingConditions"]
    if READY not in conditions:
        conditions = result["bindingFailureConditions"]
    conditions_ = [
        {
            "type": condition,
            "status": "True",
            "reason": "Drawn",
            "message": "so it was drawn",
            "lastTransitionTime": _TRANSITION_TIME,
        }
        for condition in conditions
    ]
    share = {"shareID": result["shareID"]} if "shareID" in result else {}
    return {**{key: result[key] for key in ("driver", "pool", "device")}, **share, "conditions": conditions_}
