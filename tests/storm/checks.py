"""Invariants of a lab's objects, and conditions that must hold once no client writes any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from aiohttp import ClientSession, ClientTimeout

from allotment.model.trees import Tree
from tests.storm.ledger import Key
from tests.storm.load import HELD, PATHS


class LabObjects(NamedTuple):
    """All objects of the kinds that the load writes."""

    pods: dict[str, Tree]
    claims: dict[str, Tree]
    counters: dict[str, Tree]
    revision: int = 0

    def found(self) -> dict[Key, tuple[str, int]]:
        """By key: uid and counter. An object that is being deleted counts as deleted, because it may only wait for a
        finalizer, except if that is the finalizer of a client."""
        counts = {
            name: int(tree["data"]["count"])
            for name, tree in self.counters.items()
            if "count" in (tree.get("data") or {})
        }
        held = {name: tree for name, tree in self.counters.items() if name.startswith(HELD)}
        counters = {name: tree for name, tree in self.counters.items() if name not in held}
        buckets = {"pods": self.pods, "resourceclaims": self.claims, "configmaps": counters, "held": held}
        return {
            (bucket, name): (tree["metadata"]["uid"], counts.get(name, 0) if bucket == "configmaps" else 0)
            for bucket, trees in buckets.items()
            for name, tree in trees.items()
            if "deletionTimestamp" not in tree["metadata"] or bucket == "held"
        }


async def read_objects(url: str) -> LabObjects:
    """Read all objects."""
    async with ClientSession(url, timeout=ClientTimeout(total=60)) as client:
        pods, claims, counters = [
            await _listed(client, PATHS[bucket]) for bucket in ("pods", "resourceclaims", "configmaps")
        ]
    revision = int(counters["metadata"]["resourceVersion"])
    return LabObjects(_by_name(pods), _by_name(claims), _by_name(counters), revision)


async def _listed(client: ClientSession, path: str) -> Tree:
    async with client.get(path) as answer:
        assert answer.status == 200, await answer.text()
        listed: Tree = await answer.json()
        return listed


def _by_name(listed: Tree) -> dict[str, Tree]:
    return {tree["metadata"]["name"]: tree for tree in listed["items"]}


def doubly_allocated(objects: LabObjects) -> Iterator[str]:
    """Devices that are allocated to more than one claim."""
    holders = defaultdict(list)
    for name, claim in objects.claims.items():
        allocation = (claim.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            if not result.get("adminAccess"):
                holders[result["driver"], result["pool"], result["device"]].append(name)
    for device, claims in holders.items():
        if len(claims) > 1:
            yield f"device {'/'.join(device)} is allocated to {', '.join(sorted(claims))}"


def pending_work(objects: LabObjects) -> Iterator[str]:
    """Work that is still pending: pods without a node or a reason, claims that outlive their pods."""
    uids = {tree["metadata"]["uid"] for tree in objects.pods.values()}
    for name, pod in objects.pods.items():
        if "deletionTimestamp" in pod["metadata"]:
            yield f"pod {name} is being deleted"
        elif not pod["spec"].get("nodeName") and not _reason(pod):
            yield f"pod {name} has neither a node nor a reason"
        elif pod["spec"].get("nodeName") and (pod.get("status") or {}).get("phase") == "Pending":
            yield f"pod {name} has a node and does not run"
    for name, claim in objects.claims.items():
        status = claim.get("status") or {}
        reserved = [user["uid"] for user in status.get("reservedFor") or ()]
        if "deletionTimestamp" in claim["metadata"] and not uids & set(reserved):
            finalizers = claim["metadata"].get("finalizers")
            yield f"claim {name} is being deleted, with {finalizers} and the status {sorted(status)}"
        owners = [owner["uid"] for owner in claim["metadata"].get("ownerReferences") or ()]
        if owners and not uids & set(owners):
            yield f"claim {name} outlives its pod"
        if any(uid not in uids for uid in reserved):
            yield f"claim {name} is reserved for a pod that is gone"
        if status.get("allocation") and not reserved:
            yield f"claim {name} is allocated without a consumer"


def _reason(pod: Tree) -> str:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message") or "")
    return ""
