"""Prepares a node's claims before a pod's containers start, and unprepares them after their last pod.

It does what a kubelet's DRA manager does (KEP-3063, KEP-4381), in the same order and with the same messages. All checks
run first, on the live claim, so that a pod that is rejected leaves nothing to clean up. Then the claim is recorded, and
only then are drivers called: once per driver with all claims of the pod that are not prepared yet. A claim that several
pods share is prepared once and unprepared once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CLAIMS
from allotment.kubelet_plugin.messages import ClaimRef, KubeletPlugin, PluginCallError, PreparedDevice
from allotment.model import pod_groups
from allotment.model.trees import Tree
from allotment.model.validation.node_operations import PREPARE, UNPREPARE
from allotment.node import checkpoint
from allotment.node.checkpoint import ClaimRecord
from allotment.node.kubelet_features import DEFAULT_FEATURES, KubeletFeatures
from allotment.node.plugins import Plugins
from allotment.node.pod_claims import ClaimsError, claim_names, is_made_for, requests_of
from allotment.node.skipped_operations import skipped_operations, skips

#: Timeout of a driver call in real seconds: its work is real even where the lab's clock runs faster.
_CALL_SECONDS: Final = 45.0

T = TypeVar("T")
_Key = tuple[str, str]

log = logging.getLogger(__name__)


class _CheckedClaim(NamedTuple):
    """A claim of a pod that passed all checks. ``entry``: its name in the pod; empty for extended resources.

    ``skipped``: the operations to skip by driver, for all drivers. ``plugins``: the drivers that prepare the claim.
    """

    entry: str
    claim: Tree
    skipped: Mapping[str, tuple[str, ...]]
    plugins: Mapping[str, KubeletPlugin]

    @property
    def key(self) -> _Key:
        metadata = self.claim["metadata"]
        return metadata["namespace"], metadata["name"]


class _ClaimState:
    """A claim that is recorded on the node.

    ``prepared``: drivers that prepared it since this program started. ``unpreparing``: whether its unprepare has
    started.
    """

    __slots__ = ("drivers", "name", "namespace", "pods", "prepared", "skipped", "uid", "unpreparing")

    def __init__(self, record: ClaimRecord) -> None:
        self.namespace, self.name, self.uid = record.namespace, record.name, record.uid
        self.pods = set(record.pods)
        self.drivers = dict(record.drivers)
        self.skipped = dict(record.skipped)
        self.prepared: set[str] = set()
        self.unpreparing = False

    @property
    def ref(self) -> ClaimRef:
        return ClaimRef(self.namespace, self.uid, self.name)

    @property
    def record(self) -> ClaimRecord:
        return ClaimRecord(self.namespace, self.name, self.uid, frozenset(self.pods), self.drivers, self.skipped)

    def skips(self, driver: str, operation: str) -> bool:
        """Whether an operation of a driver is skipped."""
        return skips(self.skipped.get(driver, ()), operation)


class NodeClaims:
    """The claims of one node, recorded in the ``state`` folder if given. Raises CorruptCheckpoint, OSError."""

    def __init__(
        self, node: str, plugins: Plugins, client: Client, state: Path | None = None,
        features: KubeletFeatures = DEFAULT_FEATURES,
    ) -> None:  # fmt: skip
        self._node = node
        self._plugins = plugins
        self._client = client
        self._state = state
        self._features = features
        #: How often an operation of a driver was skipped, by operation and driver.
        self.skip_counts: Counter[tuple[str, str]] = Counter()
        records = checkpoint.load(state) if state is not None else ()
        self._known = {(record.namespace, record.name): _ClaimState(record) for record in records}
        # A claim is not prepared while it is being unprepared.
        self._locks: KeyedLocks[_Key] = KeyedLocks()

    # --- preparing ------------------------------------------------------------------------------------------------

    async def prepare(self, pod: Tree) -> dict[str, Tree]:
        """Prepare all claims of a pod and return them by their names in the pod. Raises ClaimsError.

        Idempotent: retry it after an error; claims that are already prepared stay prepared.
        """
        try:
            wanted = [checked async for checked in self._checked_claims(pod)]
            for checked in wanted:
                self._check_not_unpreparing(checked.key)
            async with self._locks.hold(checked.key for checked in wanted):
                await self._prepare(pod["metadata"]["uid"], wanted)
        except ClaimsError as error:
            raise ClaimsError(f"prepare dynamic resources: {error}") from error
        return {checked.entry: checked.claim for checked in wanted}

    async def _checked_claims(self, pod: Tree) -> AsyncIterator[_CheckedClaim]:
        """The pod's claims, each checked. Raises ClaimsError."""
        metadata = pod["metadata"]
        group = pod_groups.group_name(pod["spec"]) if self._features.group_claims else ""
        for entry, name, generated in claim_names(pod):
            if not name:
                continue  # no claim was needed
            try:
                claim = await self._client.get(CLAIMS, name, metadata["namespace"])
            except (StatusError, Unreachable) as error:
                raise ClaimsError(f"fetch ResourceClaim {name}: {error}") from error
            if generated and not is_made_for(metadata["uid"], claim, group):
                claim_key = f"{claim['metadata']['namespace']}/{name}"
                where = f"{metadata['namespace']}/{metadata['name']}"
                raise ClaimsError(pod_groups.not_owner_message(claim_key, where, group))
            status = claim.get("status") or {}
            if not pod_groups.is_consumer(status.get("reservedFor") or (), metadata["uid"], group):
                user = f"pod {metadata['name']} ({metadata['uid']})"
                raise ClaimsError(f"{user} is not allowed to use ResourceClaim {name} ({claim['metadata']['uid']})")
            if not status.get("allocation"):
                raise ClaimsError(f"ResourceClaim {name}: not allocated")
            results = (status["allocation"].get("devices") or {}).get("results") or ()
            skipped = skipped_operations(sorted(results, key=itemgetter("driver")))
            if any(skipped.values()) and not self._features.optional_node_operations:
                raise ClaimsError(
                    f"ResourceClaim {name}: DRAOptionalNodeOperations feature gate is disabled on kubelet"
                )
            plugins = {
                driver: self._plugin(driver) for driver, operations in skipped.items() if not skips(operations, PREPARE)
            }
            yield _CheckedClaim(entry, claim, skipped, plugins)

    def _plugin(self, driver: str) -> KubeletPlugin:
        plugin = self._plugins.find(self._node, driver)
        if plugin is None:
            raise ClaimsError(f"DRA driver {driver} is not registered")
        return plugin

    async def _prepare(self, pod_uid: str, wanted: Sequence[_CheckedClaim]) -> None:
        claims_by_driver: dict[str, list[_ClaimState]] = {}
        called: dict[str, KubeletPlugin] = {}
        for checked in wanted:
            known = self._register(checked, pod_uid)
            for driver in checked.skipped:
                if driver not in checked.plugins and driver not in known.prepared:
                    self.skip_counts[PREPARE, driver] += 1
                    known.prepared.add(driver)
            for driver, plugin in checked.plugins.items():
                claims = claims_by_driver.setdefault(driver, [])
                if driver not in known.prepared and known not in claims:
                    called[driver] = plugin
                    claims.append(known)
        if wanted:
            self._record()
        for driver, plugin in called.items():
            await self._call(plugin, driver, claims_by_driver[driver])
        if called:
            self._record()

    def _register(self, checked: _CheckedClaim, pod_uid: str) -> _ClaimState:
        uid = checked.claim["metadata"]["uid"]
        known = self._known.get(checked.key)
        if known is None:
            skipped = {driver: operations for driver, operations in checked.skipped.items() if operations}
            record = ClaimRecord(*checked.key, uid, frozenset(), dict.fromkeys(checked.skipped, ()), skipped)
            known = self._known[checked.key] = _ClaimState(record)
        elif known.uid != uid:
            raise ClaimsError(
                f"old ResourceClaim with same name {known.name} and different UID {known.uid} still exists"
                " (previous pod force-deleted?!)"
            )
        self._check_not_unpreparing(checked.key)
        known.pods.add(pod_uid)
        return known

    def _check_not_unpreparing(self, key: _Key) -> None:
        """Raise ClaimsError if the claim's unprepare has started: its devices are no longer prepared."""
        known = self._known.get(key)
        if known is not None and known.unpreparing and self._features.rejects_during_unprepare:
            raise ClaimsError(f"ResourceClaim {known.name} is being unprepared")

    async def _call(self, plugin: KubeletPlugin, driver: str, claims: Sequence[_ClaimState]) -> None:
        """Prepare several claims in one driver call. Successful ones stay prepared even if others fail."""
        by_uid = {known.uid: known for known in claims}
        try:
            answers = await _call_driver(plugin.prepare([known.ref for known in claims]))
        except PluginCallError as error:
            raise ClaimsError(f"NodePrepareResources: {error}") from error
        for uid in answers:
            if uid not in by_uid:
                raise ClaimsError(f"NodePrepareResources returned result for unknown claim UID {uid}")
        failure = ""
        for uid, known in by_uid.items():
            answer = answers.get(uid)
            if answer is not None and not answer.error:
                known.drivers[driver] = answer.devices
                known.prepared.add(driver)
            elif answer is not None and not failure:
                failure = f"NodePrepareResources failed for ResourceClaim {known.name}: {answer.error}"
        if failure:
            raise ClaimsError(failure)
        if skipped := len(claims) - len(answers):
            raise ClaimsError(f"NodePrepareResources skipped {skipped} ResourceClaims")

    # --- lookups --------------------------------------------------------------------------------------------------

    def cdi_ids(self, pod: Tree, container: Tree) -> tuple[str, ...]:
        """The CDI device IDs of a container's own claims and requests, in the order of the pod's claims."""
        found: dict[str, None] = {}
        for name, request in requests_of(pod, container):
            for devices in self.devices(pod["metadata"]["namespace"], name, request).values():
                for device in devices:
                    found.update(dict.fromkeys(device.cdi_ids))
        return tuple(found)

    def devices(self, namespace: str, claim: str, request: str) -> Mapping[str, tuple[PreparedDevice, ...]]:
        """The prepared devices of a claim by driver; all requests if ``request`` is empty."""
        known = self._known.get((namespace, claim))
        if known is None:
            return {}
        return {
            driver: tuple(
                device for device in devices if not request or not device.requests or request in device.requests
            )
            for driver, devices in known.drivers.items()
        }

    def pods_with(self, driver: str, devices: Collection[tuple[str, str]]) -> Iterator[str]:
        """The uids of pods that use any of a driver's devices, given as pool and name."""
        for known in self._known.values():
            if any((device.pool, device.device) in devices for device in known.drivers.get(driver, ())):
                yield from known.pods

    # --- unpreparing ----------------------------------------------------------------------------------------------

    def has_claims(self, pod_uid: str) -> bool:
        """Whether any claim is prepared, or partly prepared, for a pod."""
        return any(pod_uid in known.pods for known in self._known.values())

    async def unprepare(self, pod_uid: str) -> None:
        """Unprepare the claims that only this pod uses. Raises ClaimsError; retry it then."""
        keys = [key for key, known in self._known.items() if pod_uid in known.pods]
        if not keys:
            return
        try:
            async with self._locks.hold(keys):
                await self._unprepare(pod_uid, keys)
        except ClaimsError as error:
            raise ClaimsError(f"unprepare dynamic resources: {error}") from error

    async def _unprepare(self, pod_uid: str, keys: Iterable[_Key]) -> None:
        last: list[_ClaimState] = []
        batches: dict[str, list[_ClaimState]] = {}
        for known in filter(None, map(self._known.get, keys)):
            if len(known.pods) > 1:
                known.pods.discard(pod_uid)
            elif pod_uid in known.pods:
                last.append(known)
                known.prepared.clear()  # a partly unprepared claim is not prepared
                known.unpreparing = True
                for driver in known.drivers:
                    if known.skips(driver, UNPREPARE):
                        self.skip_counts[UNPREPARE, driver] += 1
                        continue
                    batches.setdefault(driver, []).append(known)
        for driver, claims in batches.items():
            await self._undo(driver, claims)
        for known in last:
            del self._known[known.namespace, known.name]
        self._record()

    async def _undo(self, driver: str, claims: Sequence[_ClaimState]) -> None:
        plugin = self._plugin(driver)
        by_uid = {known.uid: known for known in claims}
        try:
            answers = await _call_driver(plugin.unprepare([known.ref for known in claims]))
        except PluginCallError as error:
            raise ClaimsError(f"NodeUnprepareResources: {error}") from error
        for uid, error_text in answers.items():
            if uid not in by_uid:
                raise ClaimsError(f"NodeUnprepareResources returned result for unknown claim UID {uid}")
            if error_text:
                raise ClaimsError(f"NodeUnprepareResources failed for ResourceClaim {by_uid[uid].name}: {error_text}")
        if skipped := len(claims) - len(answers):
            raise ClaimsError(f"NodeUnprepareResources skipped {skipped} ResourceClaims")

    async def reconcile(self, active: Callable[[str], bool]) -> None:
        """Unprepare the claims of pods that are not active; failures are retried on the next call."""
        gone = {uid for known in self._known.values() for uid in known.pods if not active(uid)}
        for uid in sorted(gone):
            try:
                await self.unprepare(uid)
            except ClaimsError as error:
                log.info("node %s: cleaning up claims of deleted pod %s: %s", self._node, uid, error)

    def _record(self) -> None:
        if self._state is not None:
            try:
                checkpoint.save(self._state, (known.record for known in self._known.values()))
            except OSError as error:
                raise ClaimsError(f"checkpoint ResourceClaim state: {error}") from error


async def _call_driver(call: Awaitable[T]) -> T:
    """Await a driver call. Raises PluginCallError, also on a timeout or an exception of an in-process driver."""
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            return await call
    except TimeoutError as error:
        raise PluginCallError("rpc error: code = DeadlineExceeded desc = context deadline exceeded") from error
    except PluginCallError:
        raise
    except Exception as error:
        log.exception("driver call failed")
        raise PluginCallError(f"rpc error: code = Unknown desc = {error}") from error


K = TypeVar("K", bound=Hashable)


class _CountedLock:
    """A lock and the number of tasks that hold it or wait for it."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class KeyedLocks(Generic[K]):
    """A set of locks. Keys must be sortable: locks are acquired in sorted order, which prevents deadlocks."""

    def __init__(self) -> None:
        self._locks: dict[K, _CountedLock] = {}

    @asynccontextmanager
    async def hold(self, keys: Iterable[K]) -> AsyncIterator[None]:
        """Hold the locks of all these keys."""
        wanted: list[Any] = sorted(set(keys))  # there is no standard type for sortable values
        locks = [(key, self._locks.setdefault(key, _CountedLock())) for key in wanted]
        for _, lock in locks:
            lock.users += 1
        try:
            async with AsyncExitStack() as stack:
                for _, lock in locks:
                    await stack.enter_async_context(lock.lock)
                yield
        finally:
            for key, lock in locks:
                lock.users -= 1
                if not lock.users:
                    del self._locks[key]
