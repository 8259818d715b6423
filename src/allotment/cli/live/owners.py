"""The pods of a workload, by who made whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allotment.cluster.client import Resource
from allotment.cluster.resources import JOBS, PODS, REPLICA_SETS
from allotment.model.trees import Tree

if TYPE_CHECKING:
    from allotment.cluster.client import Client


#: What stands between a workload and its pods.
_BETWEEN: dict[str, Resource] = {"Deployment": REPLICA_SETS, "CronJob": JOBS}


async def pods_of(client: Client, owner: Tree) -> list[Tree]:
    """The pods that an object has made, itself or through what it made."""
    namespace, uids = owner["metadata"].get("namespace", ""), {owner["metadata"].get("uid")}
    between = _BETWEEN.get(owner.get("kind", ""))
    if between is not None:
        uids = {
            tree["metadata"].get("uid") for tree in (await client.list(between, namespace)).items if owned(tree, uids)
        }
    return [tree for tree in (await client.list(PODS, namespace)).items if owned(tree, uids)]


def owned(tree: Tree, uids: set[Any]) -> bool:
    """Whether one of these is an owner of an object."""
    return any(owner.get("uid") in uids for owner in tree["metadata"].get("ownerReferences") or ())
