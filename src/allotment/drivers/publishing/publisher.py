"""What drivers offer, as ResourceSlices in the cluster: written when it changes, mended when others change it.

One publisher serves all drivers and nodes of a process. Work is done for a pool that changed and for no other, and for
many pools at once. What a driver published stays when the driver goes, so that one that starts again finds all as it
should be and writes nothing.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Final, Literal, NamedTuple

from allotment.cluster.cache import Cache
from allotment.cluster.cached_item import Item
from allotment.cluster.caches import all_synced
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.instrumentation import UNOBSERVED, Observing
from allotment.cluster.program import follow
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

#: Others may have a reason for what they do, and two that mend each other's work at once would never end.
REPAIR_SECONDS: Final = 30.0
#: So many pools are written at once.
MAX_WRITES: Final = 64
#: The label of slices whose devices are not there.
SIMULATED: Final = "allotment.dev/simulated"


class PoolWarning(NamedTuple):
    """Something that an administrator should know of a pool; publishing goes on.

    ``InvalidAttribute``: left out, for the server would refuse the slice. ``DroppedFields``: the server does not keep
    them, because a feature gate is off. ``Failed``: the server refused or did not answer; it is tried again.
    """

    driver: str
    node: str
    pool: str
    reason: Literal["InvalidAttribute", "DroppedFields", "Failed"]
    message: str


class PoolKey(NamedTuple):
    """Whose pool, of which node, and its name."""

    driver: str
    node: str
    name: str


class _ServerState(NamedTuple):
    """What a server made of what was asked of it, and the revision that says so."""

    revision: int
    desired: ResourceSliceSpec
    kept: ResourceSliceSpec


def _driver_and_node(item: Item[ResourceSlice]) -> tuple[tuple[str, str], ...]:
    """The driver of a slice, and the node that it names or belongs to."""
    node = item.spec.get("nodeName") or ""
    if not node and (owner := item.controller) is not None and owner.get("kind") == "Node":
        node = owner["name"]
    return ((item.spec.get("driver", ""), node),) if node else ()


class Publisher:
    """See the module. ``slices`` and ``nodes`` must at least show what belongs to the nodes that are published for.

    ``simulated``: the devices are not there, which a label of the slices says.
    """

    def __init__(
        self, client: Client, slices: Cache[ResourceSlice], nodes: Cache[Node], *, clock: Clock, features: Features,
        random: Random | None = None, report: Callable[[PoolWarning], None] | None = None,
        observing: Observing = UNOBSERVED, simulated: bool = False,
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
        self._tainted: dict[PoolKey, tuple[ResourceSliceSpec, ...]] = {}  # as published last, for the taints' times
        self._reported: set[PoolWarning] = set()
        self._synced = asyncio.Event()  # whether it is known what is published already
        self._queue: WorkQueue[PoolKey] = WorkQueue(
            "publishing", self._work, clock=clock, random=random or Random(), workers=MAX_WRITES
        )
        observing.level("queue", self._queue.name, self._queue.__len__)

    # --- what is wanted -----------------------------------------------------------------------------------------

    def set_pools(self, driver: str, node: str, offers: Sequence[DevicePool]) -> None:
        """Publish these pools for a driver on a node, and no others. Returns at once.

        Raises InvalidOffer, and then nothing changes. Say it again when a kubelet has registered the driver: kubelets
        remove what was published before they started.
        """
        key = driver, node
        known = self._desired.get(key, {})
        pools: dict[str, PoolSlices] = {}
        for offer in offers:
            name = offer.name or node
            if name in pools:
                raise InvalidPool([f"two pools called {name!r}"])
            pool = build_slices(offer, driver, node, self._features)
            # What did not change stays the very object, which makes comparing cheap.
            pools[name] = known[name] if known.get(name) == pool else pool
        for name, pool in pools.items():
            for text in pool.notes:
                self._report_once(PoolWarning(driver, node, name, "InvalidAttribute", text))
        self._desired[key] = pools
        self._drivers.setdefault(node, set()).add(driver)
        self._enqueue(key)

    def remove(self, driver: str, node: str) -> None:
        """Look after them no longer; what is published stays."""
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
        """Wait until the cluster has what was wanted last."""
        await self._synced.wait()
        if self._pending.get((driver, node)):
            done = asyncio.get_running_loop().create_future()
            self._waiters.setdefault((driver, node), []).append(done)
            await done

    async def run(self) -> None:
        """Publish, for ever."""
        await all_synced(self._slices, self._nodes)
        for key in self._desired:  # only now it is known which pools are there that should not be
            self._enqueue(key)
        self._synced.set()
        await follow([self._queue], [(self._slices, self._slice_changed), (self._nodes, self._node_changed)])

    def _enqueue(self, key: tuple[str, str]) -> None:
        pools = set(self._pools(*key))
        self._pending[key] = pools
        for pool in pools:
            self._queue.add(pool)
        self._notify_waiters(key)

    def _notify_waiters(self, key: tuple[str, str]) -> None:
        if not self._pending.get(key):
            for one in self._waiters.pop(key, ()):
                if not one.done():
                    one.set_result(None)

    def _pools(self, driver: str, node: str) -> Iterable[PoolKey]:
        """Pools that should be there, and others that are."""
        names = dict.fromkeys(self._desired.get((driver, node), ()))
        names.update(dict.fromkeys(item.spec["pool"]["name"] for item in self._index[driver, node]))
        return (PoolKey(driver, node, name) for name in names)

    def _report_once(self, note: PoolWarning) -> None:
        """Once."""
        if note not in self._reported:
            self._reported.add(note)
            self._report(note)

    # --- what happens in the cluster ------------------------------------------------------------------------------

    def _slice_changed(self, old: Item[ResourceSlice] | None, new: Item[ResourceSlice] | None) -> None:
        item = new or old
        assert item is not None
        if new is None:
            self._server_states.pop(item.uid, None)
        elif (known := self._server_states.get(item.uid)) is not None and known.revision == item.revision:
            return  # our own write
        for driver, node in _driver_and_node(item):
            if (driver, node) in self._desired:
                self._queue.add(PoolKey(driver, node, item.spec["pool"]["name"]), after=REPAIR_SECONDS)

    def _node_changed(self, old: Item[Node] | None, new: Item[Node] | None) -> None:
        if old is None and new is not None:
            for driver in self._drivers.get(new.name, ()):
                for pool in self._pools(driver, new.name):
                    self._queue.add(pool)

    # --- one pool -------------------------------------------------------------------------------------------------

    async def _work(self, pool: PoolKey) -> None:
        with self._observing.work("publish") as work:
            work.attributes["pool"] = pool.name
            await self._publish(pool)
            work.result = "published"

    async def _publish(self, pool: PoolKey) -> None:
        key = pool.driver, pool.node
        wanted, node = self._desired.get(key), self._nodes.item("", pool.node)
        if wanted is None or node is None:  # not ours any more, or the kubelet has not registered the node yet
            return
        specs = wanted[pool.name].specs if pool.name in wanted else ()
        try:
            await self._reconcile(pool, specs, node)
        except (StatusError, Unreachable) as error:
            # That somebody was faster is no news.
            if not isinstance(error, StatusError) or error.code not in (404, 409):
                self._report_once(PoolWarning(*pool, "Failed", str(error)))
            raise
        if self._reported:  # a failure that comes back is told again
            self._reported = {note for note in self._reported if note[:4] != (*pool, "Failed")}
        if self._desired.get(key) is wanted:
            self._pending.get(key, set()).discard(pool)
            self._notify_waiters(key)

    async def _reconcile(self, pool: PoolKey, specs: Sequence[ResourceSliceSpec], node: Item[Node]) -> None:
        present = self._slices_of(pool)
        found = match_slices(present, specs)
        wrong = [
            index
            for index, item in found.by_index.items()
            if not await self._is_current(pool, item, specs[index], node)
        ]
        todo = plan_writes(found, frozenset(wrong), specs)
        # What is gone goes first: even if nothing can be published any more, nobody is given what is not there.
        for item in found.obsolete:
            await self._delete(item)
        place = {"name": pool.name, "generation": todo.generation, "resourceSliceCount": len(specs)}
        now = self._clock.now()
        # Updates before creations; places are in order, so lower indexes come first.
        for index in sorted(todo.indexes, key=lambda index: (index not in found.by_index, index)):
            # A kubelet that starts removes slices; what is wrong with a device is so for as long as it was.
            known = itertools.chain(self._tainted.get(pool, ()), (one.value.spec for one in present))
            asked = with_taint_times(specs[index], known, now)
            spec = {**to_tree(asked), "pool": place}
            if index in found.by_index:
                answer = await self._update(found.by_index[index], spec, node)
            else:
                answer = await self._create(name_prefix(index, pool.driver, pool.node), spec, node)
            self._record(pool, specs[index], asked, spec, answer)
            self._slices.noted(answer)
        if any(device.taints for spec in specs for device in spec.devices or ()):
            self._tainted[pool] = tuple(one.value.spec for one in self._slices_of(pool))
        else:
            self._tainted.pop(pool, None)

    def _slices_of(self, pool: PoolKey) -> list[Item[ResourceSlice]]:
        return [one for one in self._index[pool.driver, pool.node] if one.spec["pool"]["name"] == pool.name]

    async def _is_current(
        self, pool: PoolKey, item: Item[ResourceSlice], wanted: ResourceSliceSpec, node: Item[Node]
    ) -> bool:  # fmt: skip
        """Whether a slice holds what it should, as far as the server keeps it."""
        known = self._server_states.get(item.uid)
        if not _is_owned_by(item, node) or not self._has_right_label(item):
            return False
        if known is not None and known.desired is wanted and known.revision == item.revision:
            return True
        asked = with_taint_times(wanted, (item.value.spec,), self._clock.now())
        spec = {**to_tree(asked), "pool": item.spec["pool"]}
        if spec == item.spec:  # by far the most frequent, and cheap to see
            self._record(pool, wanted, asked, spec, item.tree)
            return True
        found = item.value.spec
        if same_content(found, asked) or (
            known is not None and known.desired == wanted and same_content(found, known.kept)
        ):
            return True
        if known is not None:
            return False
        # From before this process. The server may hold less than is wanted because it never keeps more, or hold
        # defaults: it is asked what it would make of it, for a write that changes nothing would wake everybody.
        answer = await self._client.update(SLICES, {**item.tree, "spec": spec}, dry_run=True)
        if not same_content(found, read_value(answer["spec"], ResourceSliceSpec)):
            return False
        self._record(pool, wanted, asked, spec, item.tree)
        return True

    def _record(
        self, pool: PoolKey, wanted: ResourceSliceSpec, asked: ResourceSliceSpec, spec: Tree, answer: Tree
    ) -> None:  # fmt: skip
        """Remember what the server keeps of what was wanted: that is what the slice should be from now on."""
        metadata = answer["metadata"]
        kept = asked if answer["spec"] == spec else read_value(answer["spec"], ResourceSliceSpec)
        self._server_states[metadata["uid"]] = _ServerState(int(metadata["resourceVersion"]), wanted, kept)
        if not same_content(kept, asked) and (fields := dropped_fields(asked, kept)):
            self._report_once(PoolWarning(*pool, "DroppedFields", f"the cluster does not keep {fields}"))

    async def _create(self, prefix: str, spec: Tree, node: Item[Node]) -> Tree:
        metadata: Tree = {"generateName": prefix, "ownerReferences": [_owner_reference(node)]}
        if self._label:
            metadata["labels"] = self._label
        tree = {"apiVersion": SLICES.api_version, "kind": SLICES.kind, "metadata": metadata, "spec": spec}
        return await self._client.create(SLICES, tree)

    async def _update(self, item: Item[ResourceSlice], spec: Tree, node: Item[Node]) -> Tree:
        """Of the slice as it was seen: if it is another by now, the server refuses."""
        tree = {**item.tree, "spec": spec}
        if not _is_owned_by(item, node):
            tree["metadata"] = {**item.metadata, "ownerReferences": [_owner_reference(node)]}
        if not self._has_right_label(item):
            others = {name: text for name, text in item.metadata.get("labels", {}).items() if name != SIMULATED}
            tree["metadata"] = {**tree["metadata"], "labels": others | self._label}
        return await self._client.update(SLICES, tree)

    def _has_right_label(self, item: Item[ResourceSlice]) -> bool:
        """Whether a slice says of its devices what they are: what a simulation left may become that of real ones."""
        return (SIMULATED in (item.metadata.get("labels") or {})) == bool(self._label)

    async def _delete(self, item: Item[ResourceSlice]) -> None:
        try:
            await self._client.delete(SLICES, item.name, uid=item.uid, revision=item.metadata["resourceVersion"])
        except StatusError as error:
            if error.code != 404:
                raise
        self._slices.noted_gone(item.tree)


def _is_owned_by(item: Item[ResourceSlice], node: Item[Node]) -> bool:
    return item.controller is not None and item.controller["uid"] == node.uid


def _owner_reference(node: Item[Node]) -> Tree:
    """A node's slices go with it."""
    return {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid, "controller": True}


def _log_warning(note: PoolWarning) -> None:
    log.warning("%s on %s: pool %s: %s: %s", note.driver, note.node, note.pool, note.reason, note.message)
