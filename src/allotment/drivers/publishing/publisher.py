"""Publication of pools as ResourceSlices: written when they change, repaired when other programs change them.

One publisher serves all drivers and nodes of a process. It processes only the pools that changed, many of them
concurrently. Slices stay when the driver ends, so that a restarted driver finds them and writes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Literal, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.caches import all_synced
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.instrumentation import UNOBSERVED, Instrumentation
from allotment.cluster.program import run_queues
from allotment.cluster.resources import SLICES
from allotment.cluster.work_queue import WorkQueue
from allotment.drivers.driver import DevicePool
from allotment.drivers.publishing.comparison import dropped_fields, same_content, with_taint_times
from allotment.drivers.publishing.reconciliation import match_slices, name_prefix, plan_writes
from allotment.drivers.publishing.slice_builder import InvalidPool, PoolSlices, build_slices
from allotment.model.core import Node
from allotment.model.features import Features
from allotment.model.resource import ResourceSlice, ResourceSliceSpec
from allotment.model.trees import Tree, read_value, to_tree

log = logging.getLogger(__name__)

#: Delay before slices are repaired: two programs that repair each other's changes immediately would never stop.
REPAIR_SECONDS: Final = 30.0
#: Maximum number of pools that are written concurrently.
MAX_WRITES: Final = 64
#: The label of slices with simulated devices.
SIMULATED: Final = "allotment.dev/simulated"


class PoolWarning(NamedTuple):
    """A problem with a pool that an administrator should know of; publishing continues.

    ``InvalidAttribute``: omitted, since the server would reject the slice. ``DroppedFields``: not stored by the server,
    because a feature gate is disabled. ``Failed``: the server rejected the write or is not reachable; it is retried.
    """

    driver: str
    node: str
    pool: str
    reason: Literal["InvalidAttribute", "DroppedFields", "Failed"]
    message: str


class PoolKey(NamedTuple):
    """A pool's driver, node and name."""

    driver: str
    node: str
    name: str


class _ServerState(NamedTuple):
    """The spec that the server stored for a desired spec, and its resource version."""

    revision: int
    desired: ResourceSliceSpec
    stored: ResourceSliceSpec


def _driver_and_node(item: CachedItem[ResourceSlice]) -> tuple[tuple[str, str], ...]:
    """Return the driver of a slice with its node, from nodeName or the owner."""
    node = item.spec.get("nodeName") or ""
    if not node and (owner := item.controller) is not None and owner.get("kind") == "Node":
        node = owner["name"]
    return ((item.spec.get("driver", ""), node),) if node else ()


class Publisher:
    """Publishes pools. The caches must contain at least the nodes of the drivers and their slices.

    ``simulated``: mark the slices with a label as those of simulated devices.
    """

    def __init__(
        self, client: Client, slices: Cache[ResourceSlice], nodes: Cache[Node], *, clock: Clock, features: Features,
        random: Random | None = None, report: Callable[[PoolWarning], None] | None = None,
        observing: Instrumentation = UNOBSERVED, simulated: bool = False,
    ) -> None:  # fmt: skip
        self._client = client
        self._label = {SIMULATED: "true"} if simulated else {}
        self._slices = slices
        self._nodes = nodes
        self._clock = clock
        self._features = features
        self._report = report or _log_warning
        self._observing = observing
        self._index = slices.index("driver and node", _driver_and_node)
        self._desired: dict[tuple[str, str], Mapping[str, PoolSlices]] = {}
        self._drivers: dict[str, set[str]] = {}  # by node
        self._server_states: dict[str, _ServerState] = {}  # by uid of a slice
        self._pending: dict[tuple[str, str], set[PoolKey]] = {}
        self._waiters: dict[tuple[str, str], list[asyncio.Future[None]]] = {}
        self._tainted: dict[PoolKey, tuple[ResourceSliceSpec, ...]] = {}  # last published, for the times of taints
        self._reported: set[PoolWarning] = set()
        self._synced = asyncio.Event()  # set when the published slices are known
        self._queue: WorkQueue[PoolKey] = WorkQueue(
            "publishing", self._work, clock=clock, random=random or Random(), workers=MAX_WRITES
        )
        observing.gauge("queue", self._queue.name, self._queue.__len__)

    # --- desired pools ----------------------------------------------------------------------------------------------

    def set_pools(self, driver: str, node: str, pools: Sequence[DevicePool]) -> None:
        """Publish these pools for a driver on a node, and no others. Returns immediately.

        Raises InvalidPool and changes nothing if a pool is invalid. Must be called again when a kubelet has registered
        the driver: kubelets remove slices at startup.
        """
        key = driver, node
        previous = self._desired.get(key, {})
        desired: dict[str, PoolSlices] = {}
        for pool in pools:
            name = pool.name or node
            if name in desired:
                raise InvalidPool([f"two pools are named {name!r}"])
            slices = build_slices(pool, driver, node, self._features)
            # Unchanged pools stay the same object, which makes comparisons fast.
            desired[name] = previous[name] if previous.get(name) == slices else slices
        for name, slices in desired.items():
            for text in slices.notes:
                self._report_once(PoolWarning(driver, node, name, "InvalidAttribute", text))
        self._desired[key] = desired
        self._drivers.setdefault(node, set()).add(driver)
        self._enqueue(key)

    def remove(self, driver: str, node: str) -> None:
        """Stop publishing for a driver on a node; its slices stay."""
        key = driver, node
        self._desired.pop(key, None)
        drivers = self._drivers.get(node, set())
        drivers.discard(driver)
        if not drivers:
            self._drivers.pop(node, None)
        self._pending.pop(key, None)
        self._tainted = {pool: specs for pool, specs in self._tainted.items() if pool[:2] != key}
        self._notify_waiters(key)

    async def wait_published(self, driver: str, node: str) -> None:
        """Wait until the cluster has the pools that were set last."""
        await self._synced.wait()
        if self._pending.get((driver, node)):
            done = asyncio.get_running_loop().create_future()
            self._waiters.setdefault((driver, node), []).append(done)
            await done

    async def run(self) -> None:
        """Publish until canceled."""
        await all_synced(self._slices, self._nodes)
        for key in self._desired:  # obsolete pools are known only now
            self._enqueue(key)
        self._synced.set()
        await run_queues([self._queue], [(self._slices, self._slice_changed), (self._nodes, self._node_changed)])

    def _enqueue(self, key: tuple[str, str]) -> None:
        pools = set(self._pools(*key))
        self._pending[key] = pools
        for pool in pools:
            self._queue.add(pool)
        self._notify_waiters(key)

    def _notify_waiters(self, key: tuple[str, str]) -> None:
        if not self._pending.get(key):
            for waiter in self._waiters.pop(key, ()):
                if not waiter.done():
                    waiter.set_result(None)

    def _pools(self, driver: str, node: str) -> Iterable[PoolKey]:
        """Return the desired pools and those that exist."""
        names = dict.fromkeys(self._desired.get((driver, node), ()))
        names.update(dict.fromkeys(item.spec["pool"]["name"] for item in self._index[driver, node]))
        return (PoolKey(driver, node, name) for name in names)

    def _report_once(self, warning: PoolWarning) -> None:
        if warning not in self._reported:
            self._reported.add(warning)
            self._report(warning)

    # --- changes in the cluster -------------------------------------------------------------------------------------

    def _slice_changed(self, old: CachedItem[ResourceSlice] | None, new: CachedItem[ResourceSlice] | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._server_states.pop(item.uid, None)
        elif (known := self._server_states.get(item.uid)) is not None and known.revision == item.revision:
            return  # this publisher's own write
        for driver, node in _driver_and_node(item):
            if (driver, node) in self._desired:
                self._queue.add(PoolKey(driver, node, item.spec["pool"]["name"]), after=REPAIR_SECONDS)

    def _node_changed(self, old: CachedItem[Node] | None, new: CachedItem[Node] | None) -> None:
        if old is None and new is not None:
            for driver in self._drivers.get(new.name, ()):
                for pool in self._pools(driver, new.name):
                    self._queue.add(pool)

    # --- one pool ---------------------------------------------------------------------------------------------------

    async def _work(self, pool: PoolKey) -> None:
        with self._observing.work("publish") as work:
            work.attributes["pool"] = pool.name
            await self._publish(pool)
            work.result = "published"

    async def _publish(self, pool: PoolKey) -> None:
        key = pool.driver, pool.node
        desired, node = self._desired.get(key), self._nodes.item("", pool.node)
        if desired is None or node is None:  # removed, or the kubelet has not registered the node yet
            return
        specs = desired[pool.name].specs if pool.name in desired else ()
        try:
            await self._reconcile(pool, specs, node)
        except (StatusError, Unreachable) as error:
            # Conflicts with other writers are not worth a warning.
            if not isinstance(error, StatusError) or error.code not in (404, 409):
                self._report_once(PoolWarning(*pool, "Failed", str(error)))
            raise
        if self._reported:  # a failure that occurs again is reported again
            self._reported = {warning for warning in self._reported if warning[:4] != (*pool, "Failed")}
        if self._desired.get(key) is desired:
            self._pending.get(key, set()).discard(pool)
            self._notify_waiters(key)

    async def _reconcile(self, pool: PoolKey, specs: Sequence[ResourceSliceSpec], node: CachedItem[Node]) -> None:
        present = self._slices_of(pool)
        matched = match_slices(present, specs)
        wrong = [
            index
            for index, item in matched.by_index.items()
            if not await self._is_current(pool, item, specs[index], node)
        ]
        plan = plan_writes(matched, frozenset(wrong), specs)
        # Obsolete slices are deleted first: even if nothing can be published any more, missing devices must not be
        # allocated.
        for item in matched.obsolete:
            await self._delete(item)
        pool_tree = {"name": pool.name, "generation": plan.generation, "resourceSliceCount": len(specs)}
        now = self._clock.now()
        # Updates before creations, in the order of the indexes.
        for index in sorted(plan.indexes, key=lambda index: (index not in matched.by_index, index)):
            # Kubelets remove slices at startup, but taints keep their times.
            known = itertools.chain(self._tainted.get(pool, ()), (item.value.spec for item in present))
            sent = with_taint_times(specs[index], known, now)
            spec = {**to_tree(sent), "pool": pool_tree}
            if index in matched.by_index:
                answer = await self._update(matched.by_index[index], spec, node)
            else:
                answer = await self._create(name_prefix(index, pool.driver, pool.node), spec, node)
            self._record(pool, specs[index], sent, spec, answer)
            self._slices.record_write(answer)
        if any(device.taints for spec in specs for device in spec.devices or ()):
            self._tainted[pool] = tuple(item.value.spec for item in self._slices_of(pool))
        else:
            self._tainted.pop(pool, None)

    def _slices_of(self, pool: PoolKey) -> list[CachedItem[ResourceSlice]]:
        return [item for item in self._index[pool.driver, pool.node] if item.spec["pool"]["name"] == pool.name]

    async def _is_current(
        self, pool: PoolKey, item: CachedItem[ResourceSlice], desired: ResourceSliceSpec, node: CachedItem[Node]
    ) -> bool:  # fmt: skip
        """Whether a slice has the desired content, as far as the server stores it."""
        known = self._server_states.get(item.uid)
        if not _is_owned_by(item, node) or not self._has_right_label(item):
            return False
        if known is not None and known.desired is desired and known.revision == item.revision:
            return True
        sent = with_taint_times(desired, (item.value.spec,), self._clock.now())
        spec = {**to_tree(sent), "pool": item.spec["pool"]}
        if spec == item.spec:  # the most frequent case, and cheap to detect
            self._record(pool, desired, sent, spec, item.tree)
            return True
        current = item.value.spec
        if same_content(current, sent) or (
            known is not None and known.desired == desired and same_content(current, known.stored)
        ):
            return True
        if known is not None:
            return False
        # Written by an earlier process. The server may have dropped fields or added defaults: a dry run shows what it
        # would store. A write without changes would wake up all watchers.
        answer = await self._client.update(SLICES, {**item.tree, "spec": spec}, dry_run=True)
        if not same_content(current, read_value(answer["spec"], ResourceSliceSpec)):
            return False
        self._record(pool, desired, sent, spec, item.tree)
        return True

    def _record(
        self, pool: PoolKey, desired: ResourceSliceSpec, sent: ResourceSliceSpec, spec: Tree, answer: Tree
    ) -> None:  # fmt: skip
        """Store what the server keeps of the desired spec, which is what the slice must have from now on."""
        metadata = answer["metadata"]
        stored = sent if answer["spec"] == spec else read_value(answer["spec"], ResourceSliceSpec)
        self._server_states[metadata["uid"]] = _ServerState(int(metadata["resourceVersion"]), desired, stored)
        if not same_content(stored, sent) and (fields := dropped_fields(sent, stored)):
            self._report_once(PoolWarning(*pool, "DroppedFields", f"the API server drops {fields}"))

    async def _create(self, prefix: str, spec: Tree, node: CachedItem[Node]) -> Tree:
        metadata: Tree = {"generateName": prefix, "ownerReferences": [_owner_reference(node)]}
        if self._label:
            metadata["labels"] = self._label
        tree = {"apiVersion": SLICES.api_version, "kind": SLICES.kind, "metadata": metadata, "spec": spec}
        return await self._client.create(SLICES, tree)

    async def _update(self, item: CachedItem[ResourceSlice], spec: Tree, node: CachedItem[Node]) -> Tree:
        """Update the slice as it is in the cache; the server rejects the update if it was changed since."""
        tree = {**item.tree, "spec": spec}
        if not _is_owned_by(item, node):
            tree["metadata"] = {**item.metadata, "ownerReferences": [_owner_reference(node)]}
        if not self._has_right_label(item):
            other_labels = {name: text for name, text in item.metadata.get("labels", {}).items() if name != SIMULATED}
            tree["metadata"] = {**tree["metadata"], "labels": other_labels | self._label}
        return await self._client.update(SLICES, tree)

    def _has_right_label(self, item: CachedItem[ResourceSlice]) -> bool:
        """Whether the slice is labeled correctly: slices of a simulation may be reused for real devices."""
        return (SIMULATED in (item.metadata.get("labels") or {})) == bool(self._label)

    async def _delete(self, item: CachedItem[ResourceSlice]) -> None:
        try:
            await self._client.delete(SLICES, item.name, uid=item.uid, revision=item.metadata["resourceVersion"])
        except StatusError as error:
            if error.code != 404:
                raise
        self._slices.record_deletion(item.tree)


def _is_owned_by(item: CachedItem[ResourceSlice], node: CachedItem[Node]) -> bool:
    return item.controller is not None and item.controller["uid"] == node.uid


def _owner_reference(node: CachedItem[Node]) -> Tree:
    """The garbage collector deletes the slices with the node."""
    return {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}


def _log_warning(warning: PoolWarning) -> None:
    log.warning(
        "%s on %s: pool %s: %s: %s", warning.driver, warning.node, warning.pool, warning.reason, warning.message
    )
