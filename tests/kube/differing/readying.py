"""A driver that makes devices ready as soon as they are given, or says that they failed: what pods wait for."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS
from allotment.model.trees import Tree
from tests.kube.differing.worlds.world import READY

_SINCE: Final = "2026-01-01T00:00:00Z"


async def made_ready(client: Client, namespace: str) -> None:
    """Tell it of all devices for which somebody waits."""
    for tree in (await client.list(CLAIMS, namespace)).items:
        told = [_told(one) for one in _results(tree) if one.get("bindingConditions")]
        if told and told != (tree["status"].get("devices") or []):
            with suppress(StatusError):  # it has been given back meanwhile, or somebody else writes
                tree["status"]["devices"] = told
                await client.update(CLAIMS, tree, subresource="status")


def _results(claim: Tree) -> list[Tree]:
    allocation: Tree = (claim.get("status") or {}).get("allocation") or {}
    found: list[Tree] = (allocation.get("devices") or {}).get("results") or []
    return found


def _told(result: Tree) -> Tree:
    """The status of a device: ready, or failed where it never gets ready."""
    conditions = result["bindingConditions"]
    if READY not in conditions:
        conditions = result["bindingFailureConditions"]
    told = [
        {"type": one, "status": "True", "reason": "Drawn", "message": "so it was drawn", "lastTransitionTime": _SINCE}
        for one in conditions
    ]
    share = {"shareID": result["shareID"]} if "shareID" in result else {}
    return {**{key: result[key] for key in ("driver", "pool", "device")}, **share, "conditions": told}
