"""ResourcePoolStatusRequest controller: counts the pools of a driver once for each request (KEP-5677, alpha).

A pool with missing slices is reported as incomplete, without counts. A request is deleted an hour after it is complete.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import CLAIMS, POOL_STATUS_REQUESTS, SLICES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.conditions import condition_of, with_condition
from allotment.model.trees import Tree

_ANSWERED_SECONDS: Final = 3600.0
_DEFAULT_LIMIT: Final = 100
_LONGEST_ERROR: Final = 256


async def pool_status(context: ProgramContext) -> None:
    """Run the pool status controller."""
    await _PoolStatus(context).run()


class _PoolStatus:
    def __init__(self, context: ProgramContext) -> None:
        self._client = context.client_for("resourcepoolstatusrequest-controller")
        self._clock = context.clock
        self._requests = context.caches.trees(POOL_STATUS_REQUESTS)
        self._slices = context.caches.trees(SLICES)
        self._claims = context.caches.trees(CLAIMS)
        self._of_driver = self._slices.index("driver", lambda item: (item.spec["driver"],))
        self._queue: WorkQueue[str] = WorkQueue("pool_status", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        await self._slices.synced.wait()
        await self._claims.synced.wait()
        await run_queues([self._queue], [(self._requests, self._changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and not new.deleting:
            self._queue.add(new.name)

    async def _sync(self, name: str) -> float | None:
        request = self._requests.item("", name)
        if request is None or request.deleting:
            return None
        done = condition_of(request.status.get("conditions"), "Complete") or condition_of(
            request.status.get("conditions"), "Failed"
        )
        if done is None:
            tree = {**request.tree, "status": self._answer(request)}
            self._requests.record_write(await self._client.update(POOL_STATUS_REQUESTS, tree, subresource="status"))
            return _ANSWERED_SECONDS
        left = self._clock.left(done["lastTransitionTime"], _ANSWERED_SECONDS)
        if left > 0:
            return left
        try:
            await self._client.delete(POOL_STATUS_REQUESTS, name, uid=request.uid)
        except StatusError as error:
            if error.code != 404:
                raise
        return None

    def _answer(self, request: CachedItem[Any]) -> Tree:
        driver, wanted = request.spec["driver"], request.spec.get("poolName")
        pools: dict[str, list[CachedItem[Any]]] = {}
        for slice in self._of_driver[driver]:
            name = slice.spec["pool"]["name"]
            if wanted in (None, "", name):
                pools.setdefault(name, []).append(slice)
        allocated = Counter(
            result["pool"]
            for claim in self._claims.items()
            for result in ((claim.status.get("allocation") or {}).get("devices") or {}).get("results") or ()
            if result["driver"] == driver
        )
        statuses = [_pool(driver, name, slices, allocated[name]) for name, slices in sorted(pools.items())]
        limit = request.spec.get("limit")
        returned = statuses[: _DEFAULT_LIMIT if limit is None else limit]
        incomplete = sum("validationError" in pool for pool in returned)
        message = f"Calculated status for {len(returned)} pools"
        if incomplete:
            message += f" ({incomplete} incomplete)"
        status: Tree = {"poolCount": len(statuses)}
        if returned:
            status["pools"] = returned
        status["conditions"] = with_condition(
            (), "Complete", "True", "CalculationComplete", message, now=self._clock.now()
        )
        return status


def _pool(driver: str, name: str, slices: Sequence[CachedItem[Any]], allocated: int) -> Tree:
    generation = max(slice_.spec["pool"].get("generation", 0) for slice_ in slices)
    current = [slice_ for slice_ in slices if slice_.spec["pool"].get("generation", 0) == generation]
    expected = max(slice_.spec["pool"]["resourceSliceCount"] for slice_ in current)
    pool: Tree = {"driver": driver, "poolName": name, "generation": generation}
    nodes = {slice_.spec.get("nodeName", "") for slice_ in current}
    if len(nodes) == 1 and (node := nodes.pop()):
        pool["nodeName"] = node
    if len(current) < expected:
        text = (
            f"pool {driver}/{name} is incomplete: observed {len(current)}/{expected} slices at generation {generation}"
        )
        return {**pool, "validationError": text[:_LONGEST_ERROR]}
    devices = sum(len(slice_.spec.get("devices") or ()) for slice_ in current)
    return {
        **pool,
        "resourceSliceCount": len(current),
        "totalDevices": devices,
        "allocatedDevices": allocated,
        "availableDevices": max(devices - allocated, 0),
        "unavailableDevices": 0,  # as in 1.36, which ignores taints
    }
