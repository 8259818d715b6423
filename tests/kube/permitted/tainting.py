"""The taint controller evicts a pod from a tainted device, and takes its mark back from one that may stay."""

from __future__ import annotations

import asyncio
from functools import partial

from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIMS, EVENTS, PODS, TAINT_RULES
from allotment.controllers.device_taints import device_taints
from allotment.model.trees import Tree
from tests.kube.permitted.ground import FEATURES, NODE, Account, Ground, there
from tests.kube.permitted.playing import is_leaving, renewed, running, scraped, until
from tests.kube.permitted.scheduling import claim, pod

_KEY = "example.com/broken"


def rule(name: str, device: str) -> Tree:
    taint = {"key": _KEY, "effect": "NoExecute"}
    selector = {"driver": "gpu.nvidia.com", "pool": NODE, "device": device}
    return {"metadata": {"name": name}, "spec": {"deviceSelector": selector, "taint": taint}}


async def play(ground: Ground, account: Account) -> None:
    """All of it."""
    mark = ground.mark()
    goes, stays = f"goes-{mark}", f"stays-{mark}"
    async with ground.client() as admin, HttpClient(account.target) as client:
        await scraped(client, account.target.token)

        async def pending() -> bool:
            status = (await admin.get(TAINT_RULES, stays)).get("status") or {}
            return any(one["reason"] == "PodsPendingEviction" for one in status.get("conditions") or ())

        async def cancelled() -> int:
            events = (await admin.list(EVENTS, "default", fields=f"involvedObject.name={stays}")).items
            return sum(one["count"] for one in events if one["message"] == "Cancelling deletion")

        async with (
            running(client, "taints", device_taints(FEATURES)),
            there(
                admin, (CLAIMS, claim(goes)), (CLAIMS, claim(stays)), (PODS, pod(goes, goes, nodeName=NODE)),
                (PODS, pod(stays, stays, nodeName=NODE)),
            ) as (first, second, going, staying),
        ):  # fmt: skip
            await _allocated(admin, first, going, "gpu-0")
            await _allocated(admin, second, staying, "gpu-1", tolerationSeconds=100_000)
            async with there(admin, (TAINT_RULES, rule(goes, "gpu-0"))):
                await until(partial(is_leaving, admin, goes))
            # Where a rule is gone before the pod was looked at, there is nothing to cancel: the next one comes. And an
            # event that was written must be told again: of two that come before, one request tells.
            known = 0
            while not known or await cancelled() == known:
                async with there(admin, (TAINT_RULES, rule(stays, "gpu-1"))):
                    await until(pending)
                    await asyncio.sleep(0.1)
                await asyncio.sleep(0.1)
                known = known or await cancelled()
            await renewed(admin, "taints")


async def _allocated(admin: HttpClient, claim: Tree, pod: Tree, device: str, **tolerated: int) -> None:
    result: Tree = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": NODE, "device": device}
    if tolerated:
        result["tolerations"] = [{"key": _KEY, "operator": "Exists", "effect": "NoExecute", **tolerated}]
    user = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
    await admin.update(CLAIMS, {**claim, "status": status}, subresource="status")
