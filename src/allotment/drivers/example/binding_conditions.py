"""A controller that sets the binding conditions of allocated devices to true (KEP-5007).

A real one would first attach the devices to the node. The scheduler binds the pod after the condition is true, so this
cannot be part of the node's driver: the kubelet does not know the claim yet.
"""

from __future__ import annotations

from typing import Any, Final

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import CLAIMS
from allotment.cluster.work_queue import WorkQueue
from allotment.model.resource import DeviceRequestAllocationResult, ResourceClaim
from allotment.model.trees import Tree

MANAGER: Final = "dra-example-controller"


def controller(driver: str, pool: str) -> Program:
    """Return the controller for the devices of a driver's pool."""

    async def run(context: ProgramContext) -> None:
        client = context.client_for(MANAGER, MANAGER)
        claims: Cache[ResourceClaim] = context.caches.of(CLAIMS, ResourceClaim)

        async def work(key: tuple[str, str]) -> None:
            item = claims.item(*key)
            devices = _pending_status(item, driver, pool, context.clock.now()) if item is not None else []
            if item is None or not devices:
                return
            tree: Tree = {
                "apiVersion": CLAIMS.api_version,
                "kind": CLAIMS.kind,
                "metadata": {"name": item.name, "namespace": item.namespace, "uid": item.uid},
                "status": {"devices": devices},
            }
            try:
                await client.patch(
                    CLAIMS, item.name, tree, item.namespace, kind="apply", subresource="status", force=True
                )
            except StatusError as error:
                if error.code not in (404, 409):  # deleted or replaced
                    raise

        queue: WorkQueue[tuple[str, str]] = WorkQueue("binding", work, clock=context.clock, random=context.random)

        def changed(_: CachedItem[ResourceClaim] | None, new: CachedItem[ResourceClaim] | None) -> None:
            if new is not None and (new.tree.get("status") or {}).get("allocation"):
                queue.add(new.key)

        await run_queues([queue], [(claims, changed)])

    return run


def _pending_status(item: CachedItem[ResourceClaim], driver: str, pool: str, now: str) -> list[Tree]:
    """Return the status of all devices with binding conditions, or nothing if all of them are true."""
    claim = item.value
    allocation = claim.status.allocation
    if allocation is None:
        return []
    results = [r for r in allocation.devices.results if (r.driver, r.pool) == (driver, pool) and r.binding_conditions]
    if all(_is_ready(claim, result) for result in results):
        return []
    return [_status(result, now) for result in results]


def _is_ready(claim: ResourceClaim, result: DeviceRequestAllocationResult) -> bool:
    key = (result.driver, result.pool, result.device, result.share_id)
    true = {
        condition.type
        for device in claim.status.devices
        if (device.driver, device.pool, device.device, device.share_id) == key
        for condition in device.conditions
        if condition.status == "True"
    }
    return true.issuperset(result.binding_conditions)


def _status(result: DeviceRequestAllocationResult, now: str) -> Tree:
    status: dict[str, Any] = {"driver": result.driver, "pool": result.pool, "device": result.device}
    if result.share_id:
        status["shareID"] = result.share_id
    status["conditions"] = [
        {
            "type": condition,
            "status": "True",
            "reason": "Ready",
            "message": "Device is ready",
            "lastTransitionTime": now,
        }
        for condition in result.binding_conditions
    ]
    return status
