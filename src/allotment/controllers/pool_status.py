"""ResourcePoolStatusRequest controller: counts the pools of a driver once for each request (KEP-5677, alpha).

A request is deleted an hour after it is complete. Until 1.36, a pool with missing slices is reported as incomplete,
without counts. From 1.37, a request is not answered while a pool is incomplete, and is deleted after a day; tainted
devices are unavailable, and partitions and shareable devices are summarized.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import CLAIMS, POOL_STATUS_REQUESTS, SLICES, TAINT_RULES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.conditions import condition_of, with_condition
from allotment.controllers.pool_views import CompletePool, pool_views
from allotment.controllers.release import controller_release
from allotment.controllers.taint_rules import effect_of, selects
from allotment.model.features import Features
from allotment.model.quantity import Quantity
from allotment.model.trees import Tree

_ANSWERED_SECONDS: Final = 3600.0
_PENDING_SECONDS: Final = 24 * 3600.0
_DEFAULT_LIMIT: Final = 100
_LONGEST_ERROR: Final = 256
_UNAVAILABLE: Final = ("NoSchedule", "NoExecute")


class _DeviceUse(NamedTuple):
    """The use of a driver's devices. ``results``: number of allocation results by pool.

    ``devices``: the devices that claims have without admin access, by pool; ``consumed``: the capacity that these
    claims consume, by pool and name.
    """

    results: Counter[str]
    devices: dict[str, set[str]]
    consumed: dict[str, dict[str, Quantity]]


def pool_status(features: Features) -> Program:
    """Create the pool status controller."""

    async def run(context: ProgramContext) -> None:
        await _PoolStatus(context, features).run()

    return run


class _PoolStatus:
    def __init__(self, context: ProgramContext, features: Features) -> None:
        self._client = context.client_for("resourcepoolstatusrequest-controller")
        self._clock = context.clock
        self._requests = context.caches.trees(POOL_STATUS_REQUESTS)
        self._slices = context.caches.trees(SLICES)
        self._claims = context.caches.trees(CLAIMS)
        self._has_views = controller_release(features).pool_views
        has_rules = self._has_views and features.enabled("DRADeviceTaintRules")
        self._rules = context.caches.trees(TAINT_RULES) if has_rules else None
        self._of_driver = self._slices.index("driver", lambda item: (item.spec["driver"],))
        self._queue: WorkQueue[str] = WorkQueue("pool_status", self._sync, clock=context.clock, random=context.random)

    async def run(self) -> None:
        for cache in (self._slices, self._claims, self._rules):
            if cache is not None:
                await cache.synced.wait()
        await run_queues([self._queue], [(self._requests, self._changed), (self._slices, self._slice_changed)])

    def _changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if new is not None and not new.deleting:
            self._queue.add(new.name)

    def _slice_changed(self, old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        """Try the unanswered requests again: an incomplete pool may be complete now."""
        slice_ = new or old
        for request in self._requests.items() if slice_ is not None else ():
            if slice_ is not None and not request.status and request.spec["driver"] == slice_.spec["driver"]:
                self._queue.add(request.name)

    async def _sync(self, name: str) -> float | None:
        request = self._requests.item("", name)
        if request is None or request.deleting:
            return None
        done = condition_of(request.status.get("conditions"), "Complete") or condition_of(
            request.status.get("conditions"), "Failed"
        )
        if done is None:
            pools = list(self._pools(request))
            limit = request.spec.get("limit")
            returned = pools[: _DEFAULT_LIMIT if limit is None else limit]
            incomplete = any("resourceSliceCount" not in pool for pool in returned)
            if not (incomplete and self._has_views):
                tree = {**request.tree, "status": self._answer(returned, len(pools))}
                self._requests.record_write(await self._client.update(POOL_STATUS_REQUESTS, tree, subresource="status"))
                return _ANSWERED_SECONDS
            left = self._clock.left(request.metadata["creationTimestamp"], _PENDING_SECONDS)
        else:
            left = self._clock.left(done["lastTransitionTime"], _ANSWERED_SECONDS)
        if left > 0:
            return left
        try:
            await self._client.delete(POOL_STATUS_REQUESTS, name, uid=request.uid)
        except StatusError as error:
            if error.code != 404:
                raise
        return None

    def _answer(self, returned: Sequence[Tree], count: int) -> Tree:
        """The status with the returned pools. ``count``: of all requested pools."""
        incomplete = sum("validationError" in pool for pool in returned)
        message = f"Calculated status for {len(returned)} pools"
        if incomplete:
            message += f" ({incomplete} incomplete)"
        status: Tree = {"poolCount": count}
        if returned:
            status["pools"] = returned
        status["conditions"] = with_condition(
            (), "Complete", "True", "CalculationComplete", message, now=self._clock.now()
        )
        return status

    def _pools(self, request: CachedItem[Any]) -> Iterator[Tree]:
        """The status of the requested pools, by name."""
        driver, wanted = request.spec["driver"], request.spec.get("poolName")
        slices: dict[str, list[Tree]] = {}
        for item in self._of_driver[driver]:
            name = item.spec["pool"]["name"]
            if wanted in (None, "", name):
                slices.setdefault(name, []).append(item.spec)
        use = self._use_of(driver)
        for name, specs in sorted(slices.items()):
            yield self._pool(request, name, specs, use)

    def _use_of(self, driver: str) -> _DeviceUse:
        use = _DeviceUse(Counter(), {}, {})
        for claim in self._claims.items():
            for result in ((claim.status.get("allocation") or {}).get("devices") or {}).get("results") or ():
                if result["driver"] != driver:
                    continue
                pool = result["pool"]
                use.results[pool] += 1
                if result.get("adminAccess"):
                    continue
                use.devices.setdefault(pool, set()).add(result["device"])
                consumed = use.consumed.setdefault(pool, {})
                for capacity, amount in (result.get("consumedCapacity") or {}).items():
                    consumed[capacity] = consumed.get(capacity, Quantity.ZERO).add(Quantity.parse(str(amount)))
        return use

    def _pool(self, request: CachedItem[Any], name: str, specs: Sequence[Tree], use: _DeviceUse) -> Tree:
        driver = request.spec["driver"]
        generation = max(spec["pool"].get("generation", 0) for spec in specs)
        current = [spec for spec in specs if spec["pool"].get("generation", 0) == generation]
        pool: Tree = {"driver": driver, "poolName": name, "generation": generation}
        nodes = {spec.get("nodeName", "") for spec in current}
        if len(nodes) == 1 and (node := nodes.pop()):
            pool["nodeName"] = node
        expected = max(spec["pool"]["resourceSliceCount"] for spec in current)
        if len(current) < expected:
            text = (
                f"{'PoolIncomplete: ' if self._has_views else ''}pool {driver}/{name} is incomplete:"
                f" observed {len(current)}/{expected} slices at generation {generation}"
            )
            return {**pool, "validationError": text[:_LONGEST_ERROR]}
        devices = sum(len(spec.get("devices") or ()) for spec in current)
        in_use = use.devices.get(name, set())
        # 1.36 counts allocations, and no device is unavailable.
        allocated = len(in_use) if self._has_views else use.results[name]
        unavailable = self._unavailable(driver, name, current) if self._has_views else 0
        pool |= {
            "resourceSliceCount": len(current),
            "totalDevices": devices,
            "allocatedDevices": allocated,
            "availableDevices": max(devices - allocated - unavailable, 0),
            "unavailableDevices": unavailable,
        }
        if not self._has_views:
            return pool
        views = CompletePool(driver, name, current, in_use, use.consumed.get(name, {}))
        return pool | pool_views(views, request.spec.get("defaultPartitionTypeAttribute") or "")

    def _unavailable(self, driver: str, pool: str, specs: Sequence[Tree]) -> int:
        """The number of devices with a taint, of their own or by a rule, that excludes pods."""
        known = self._rules.items() if self._rules is not None else ()
        rules = [rule for rule in known if effect_of(rule) in _UNAVAILABLE]
        return sum(
            any(taint["effect"] in _UNAVAILABLE for taint in device.get("taints") or ())
            or any(selects(rule, (driver, pool, device["name"])) for rule in rules)
            for spec in specs
            for device in spec.get("devices") or ()
        )
