"""The taint controller evicts a pod from a tainted device, and cancels the eviction of one that may stay."""

from __future__ import annotations

import asyncio
from functools import partial

from allotment.cluster.client import Client
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIMS, EVENTS, PODS, TAINT_RULES
from allotment.controllers.device_taints import device_taints
from allotment.model.trees import Tree
from tests.kube.permissions.environment import NODE, Account, ScenarioCluster, temporary_objects
from tests.kube.permissions.runner import is_leaving, running_component, scrape, wait_for_lease, wait_until
from tests.kube.permissions.scheduler import claim, pod

_KEY = "example.com/broken"


def rule(name: str, device: str) -> Tree:
    taint = {"key": _KEY, "effect": "NoExecute"}
    selector = {"driver": "gpu.nvidia.com", "pool": NODE, "device": device}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario."""
    mark = cluster.unique_name()
    goes, stays = f"goes-{mark}", f"stays-{mark}"
    async with cluster.client() as admin, HttpClient(account.target) as client:
        await scrape(client, account.target.token)

        async def pending() -> bool:
            status = (await admin.get(TAINT_RULES, stays)).get("status") or {}
            return any(condition["reason"] == "PodsPendingEviction" for condition in status.get("conditions") or ())

        async def cancelled() -> int:
            events = (await admin.list(EVENTS, "default", fields=f"involvedObject.name={stays}")).items
            return sum(event["count"] for event in events if event["message"] == "Cancelling deletion")

        async with (
            running_component(client, "taints", device_taints(cluster.features)),
            temporary_objects(
                admin, (CLAIMS, claim(goes)), (CLAIMS, claim(stays)), (PODS, pod(goes, goes, nodeName=NODE)),
                (PODS, pod(stays, stays, nodeName=NODE)),
            ) as (first, second, going, staying),
        ):  # fmt: skip
            await _allocated(admin, first, going, "gpu-0")
            await _allocated(admin, second, staying, "gpu-1", tolerationSeconds=100_000)
            async with temporary_objects(admin, (TAINT_RULES, rule(goes, "gpu-0"))):
                await wait_until(partial(is_leaving, admin, goes))
            # If a rule is deleted before the controller has seen the pod, there is nothing to cancel, and the next rule
            # follows. And an event that was written must be repeated: two occurrences before the first write need only
            # one request.
            known = 0
            while not known or await cancelled() == known:
                async with temporary_objects(admin, (TAINT_RULES, rule(stays, "gpu-1"))):
                    await wait_until(pending)
                    await asyncio.sleep(0.1)
                await asyncio.sleep(0.1)
                known = known or await cancelled()
            await wait_for_lease(admin, "taints")


async def _allocated(admin: Client, claim: Tree, pod: Tree, device: str, **tolerated: int) -> None:
    result: Tree = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": NODE, "device": device}
    if tolerated:
        result["tolerations"] = [{"key": _KEY, "operator": "Exists", "effect": "NoExecute", **tolerated}]
    user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    await admin.update(CLAIMS, {**claim, "status": status}, subresource="status")
