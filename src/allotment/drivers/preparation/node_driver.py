"""The kubelet plugin that runs a vendor's :class:`~allotment.drivers.driver.Driver`.

The steps for a claim are, in this order::

    prepare    read and check the claim - decode parameters - plan - checkpoint "started" - hardware - CDI file
               - checkpoint "completed" - answer
    unprepare  checkpoint "started" - hardware - CDI file - checkpoint entry

A crash between any two of these steps leaves an entry with the plan that undoes them. Undoing needs only the entry:
neither the API, where the claim may have been deleted, nor the hardware, which may have been removed.

Work on a claim continues if the kubelet hangs up (after 45 s), since hardware must not be left half-configured. The
next call for the claim gets the result. Calls for different claims run concurrently.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from random import Random
from typing import Any, Final, Protocol, TypeVar

import msgspec

from allotment.cluster.backoff import Backoff
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.instrumentation import UNOBSERVED, Instrumentation
from allotment.cluster.resources import CLAIMS
from allotment.drivers.device_values import InvalidDevice, pools_of
from allotment.drivers.driver import AllocatedClaim, ClaimError, DevicePool, Driver, HealthUpdate, PreparedClaim
from allotment.drivers.health import HealthTable
from allotment.drivers.host import CheckpointLocked, DriverHost
from allotment.drivers.preparation.cdi_files import ClaimFiles
from allotment.drivers.preparation.checkpoint import VERSION, Checkpoint, CheckpointDevice, CheckpointEntry
from allotment.drivers.preparation.claims import allocated_devices, fetch_claim
from allotment.drivers.preparation.device_status import StatusWriter
from allotment.drivers.preparation.locks import ClaimLocks
from allotment.drivers.preparation.metadata import OLDEST_METADATA, metadata_documents
from allotment.drivers.preparation.recovery import as_claim_error, ensure_running, recover, save, sweep
from allotment.drivers.publishing.slice_builder import InvalidPool
from allotment.kubelet_plugin import messages
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, PluginCallError, PreparedDevice
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.resource import Device
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

#: Claims in one call. A kubelet sends those of one pod, so that a longer list is a fault of the caller, and its work
#: would delay the calls for other pods.
_MAX_CLAIMS: Final = 1000
#: Claims of one call that are processed at the same time: each holds its object and the plans of all others.
_MAX_CONCURRENT: Final = 32

_T = TypeVar("_T")

#: Interval at which started entries of deleted claims are searched for.
CLEANUP_SECONDS: Final = 600.0
#: Time after an unprepare during which the claim is prepared again only if a pod has reserved it.
UNPREPARED_SECONDS: Final = 600.0


class PoolPublisher(Protocol):
    """Publishes pools: :class:`allotment.drivers.publishing.publisher.Publisher`."""

    def set_pools(self, driver: str, node: str, pools: Sequence[DevicePool]) -> None:
        """Publish these pools and no others."""
        ...


class NodeDriver:
    """A driver on a node, as its kubelet calls it. The field manager of ``client`` must be the driver's name.

    Call :meth:`recover` before anything else. ``status``: whether to write device status to claims. ``metadata``:
    the versions of device metadata files (KEP-5304), for which the host must have a folder; none: no files.
    """

    def __init__(
        self, driver: Driver, host: DriverHost, client: Client, clock: Clock, *, status: bool = True,
        metadata: Sequence[str] = (), random: Random | None = None, observing: Instrumentation = UNOBSERVED,
    ) -> None:  # fmt: skip
        if metadata and host.folder is None:
            raise ValueError("metadata files require a host with a metadata directory")
        self.driver = driver
        self.host = host
        self._client = client
        self._clock = clock
        self._random = random or Random()
        self._observing = observing
        self._checkpoint = Checkpoint(host.checkpoint, driver.name, host.boot_id)
        self._health = HealthTable(host.node, clock)
        self._status_writer = StatusWriter(driver.name, client, clock, self._random) if status else None
        self._pool_names: frozenset[str] = frozenset()
        self._pools: Sequence[DevicePool] = ()
        self._files = ClaimFiles(driver.name, host.cdi, host.folder, metadata or (OLDEST_METADATA,))
        self._metadata = self._files.metadata if metadata else None
        self._locks = ClaimLocks(host.checkpoint, self._checkpoint.refresh)
        self._calls = 0
        self._unprepared: dict[str, tuple[int, float]] = {}  # by uid: number of the last call before it, time
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def name(self) -> str:
        return self.driver.name

    # --- called by the kubelet --------------------------------------------------------------------------------------

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, messages.PrepareResult]:
        """Prepare the devices of claims. A failure does not affect the other claims of the call."""
        self._calls += 1
        call = self._calls

        async def prepare_claim(ref: ClaimRef) -> messages.PrepareResult:
            try:
                with self._observing.work("prepare", ref.uid) as work:
                    work.attributes |= {"claim": f"{ref.namespace}/{ref.name}", "driver": self.name}
                    prepared = messages.PrepareResult(await self._prepare(ref, call))
                    work.result = "prepared"
                return prepared
            except ClaimError as error:
                text = f"{error} (permanent error)" if error.permanent else str(error)
            except Exception as error:
                log.exception("%s: claim %s/%s", self.name, ref.namespace, ref.name)
                text = _unexpected_error(error)
            return messages.PrepareResult(error=f"claim {ref.namespace}/{ref.name}: {text}")

        return await self._for_each(claims, prepare_claim)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Release the devices of claims. Works without the API, and for unknown claims."""

        async def unprepare_claim(ref: ClaimRef) -> str:
            if self._status_writer is not None:
                self._status_writer.cancel(ref.uid)
            try:
                with self._observing.work("unprepare", ref.uid) as work:
                    work.attributes |= {"claim": f"{ref.namespace}/{ref.name}", "driver": self.name}
                    await self._unprepare(ref.uid)
                    work.result = "unprepared"
            except ClaimError as error:
                text = str(error)
            except Exception as error:
                log.exception("%s: claim %s/%s", self.name, ref.namespace, ref.name)
                text = _unexpected_error(error)
            else:
                return ""
            return f"claim {ref.namespace}/{ref.name}: {text}"

        return await self._for_each(claims, unprepare_claim)

    async def _for_each(
        self, claims: Sequence[ClaimRef], process: Callable[[ClaimRef], Coroutine[Any, Any, _T]]
    ) -> dict[str, _T]:
        """Process claims concurrently, to the end even if the kubelet hangs up. Raises PluginCallError."""
        if len(claims) > _MAX_CLAIMS:
            raise PluginCallError(f"expected at most {_MAX_CLAIMS} claims in a call, found {len(claims)}")
        slots = asyncio.Semaphore(_MAX_CONCURRENT)

        async def locked(ref: ClaimRef) -> _T:
            async with slots, self._locks.claim(ref.uid):
                return await process(ref)

        tasks = {ref.uid: asyncio.create_task(locked(ref), name=f"{self.name} {ref.name}") for ref in claims}
        for task in tasks.values():
            self._tasks.add(task)
            task.add_done_callback(self._done)
        if tasks:
            await asyncio.shield(asyncio.wait(tasks.values()))
        try:
            return {uid: task.result() for uid, task in tasks.items()}
        except CheckpointLocked as error:
            raise PluginCallError(str(error)) from None

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the caller gets it, if it still waits

    # --- one claim --------------------------------------------------------------------------------------------------

    async def _prepare(self, ref: ClaimRef, call: int) -> tuple[PreparedDevice, ...]:
        uid = ref.uid
        entry = self._checkpoint.get(uid)
        if entry is not None and entry.state == "completed":
            await self._files.restore(uid, entry)
            await ensure_running(self.driver, entry)
            return _prepared_devices(entry)
        undone = self._unprepared.get(uid)
        if undone is not None and undone[0] >= call:
            raise ClaimError("the claim was unprepared while this call was waiting")
        if entry is not None:
            await self._undo(uid, entry)
        tree = await fetch_claim(self._client, ref)
        if undone is not None and not tree["status"].get("reservedFor"):
            raise ClaimError("the claim was unprepared and is not reserved for any pod")
        await self._discover_first()
        devices = allocated_devices(self.driver, tree, self.host.node, self._pool_names)
        if not devices:
            return ()
        parts = self._files.checkpoint_devices(uid, devices)
        self._check_overlap(uid, parts)
        claim = AllocatedClaim(uid, ref.namespace, ref.name, devices, self._other_plans(uid))
        plan = self.driver.plan(claim)
        entry = CheckpointEntry(VERSION, "started", ref.namespace, ref.name, plan, self._clock.now(), parts)
        # The entry must exist during all awaits from here on, so that no other call gets the devices.
        self._checkpoint.put(uid, entry)
        try:
            await save(self._checkpoint)
        except ClaimError:
            self._checkpoint.delete(uid)
            raise
        try:
            prepared = await self.driver.prepare(claim, plan)
            documents: dict[str, Tree] = {}
            if self._metadata is not None:
                pod_claim = (tree["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME, "")
                documents = metadata_documents(self.name, claim, pod_claim, prepared, self._published_devices())
            entry = await self._complete(uid, entry, prepared, documents)
        except Exception as error:
            await self._roll_back(uid, error)
            raise as_claim_error(error) from error
        self._unprepared.pop(uid, None)
        if self._status_writer is not None:
            self._status_writer.enqueue(uid, entry)
        return _prepared_devices(entry)

    async def _discover_first(self) -> None:
        """Discover devices if the kubelet calls before the first publication."""
        if not self._pools:
            try:
                await self.discover_pools()
            except Exception as error:
                raise ClaimError(f"cannot discover the driver's devices: {error}") from error

    def _check_overlap(self, uid: str, parts: Sequence[CheckpointDevice]) -> None:
        """Reject devices of other claims, whatever the cluster says: pods that were force-deleted may still run."""
        requested: dict[tuple[str, str], list[CheckpointDevice]] = {}
        for part in parts:
            requested.setdefault((part.pool, part.device), []).append(part)
        for other, entry in self._checkpoint:
            for part in entry.parts if other != uid else ():
                if any(device.excludes(part) for device in requested.get((part.pool, part.device), ())):
                    state = "is still prepared" if entry.state == "completed" else "is being prepared or unprepared"
                    raise ClaimError(
                        f"device {part.pool}/{part.device} {state} for claim {entry.namespace}/{entry.name} ({other}); "
                        "it becomes available when that claim's pods on this node have ended"
                    )

    def _other_plans(self, uid: str) -> tuple[Tree, ...]:
        return tuple(entry.plan for other, entry in self._checkpoint if other != uid)

    def _published_devices(self) -> dict[tuple[str, str], Device]:
        return {
            (pool.name or self.host.node, device.name): device
            for pool in self._pools for group in pool.groups for device in group
        }  # fmt: skip

    async def _complete(
        self, uid: str, entry: CheckpointEntry, prepared: PreparedClaim, documents: dict[str, Tree]
    ) -> CheckpointEntry:
        parts, spec = self._files.build_spec(entry.parts, prepared)
        if spec is not None:
            await self._files.write(uid, spec)
        if self._metadata is not None:
            await self._files.write_metadata(uid, documents)
            parts = self._metadata.with_cdi_ids(uid, parts)
        cdi = msgspec.to_builtins(spec) if spec is not None else None
        since = self._clock.now()
        entry = msgspec.structs.replace(entry, state="completed", parts=parts, cdi=cdi, since=since, metadata=documents)
        self._checkpoint.put(uid, entry)
        await save(self._checkpoint)
        return entry

    async def _roll_back(self, uid: str, error: Exception) -> None:
        """Undo a failed preparation, or leave it on record for the next attempt."""
        if not isinstance(error, ClaimError):
            log.warning("%s: error while preparing claim %s: %r", self.name, uid, error)
        entry = self._checkpoint.get(uid)
        if entry is not None:
            entry = msgspec.structs.replace(entry, state="started")
            self._checkpoint.put(uid, entry)
            try:
                await self._undo(uid, entry)
            except ClaimError as undo_error:
                log.error("%s: cannot undo the preparation of claim %s; will retry: %s", self.name, uid, undo_error)

    async def _unprepare(self, uid: str) -> None:
        entry = self._checkpoint.get(uid)
        if entry is not None:
            if entry.state == "completed":
                entry = msgspec.structs.replace(entry, state="started", since=self._clock.now())
                self._checkpoint.put(uid, entry)
                await save(self._checkpoint)
            await self._undo(uid, entry)
        else:
            await self._files.remove(uid)
        now = self._clock.seconds()
        self._unprepared = {
            key: unprepared for key, unprepared in self._unprepared.items() if now - unprepared[1] < UNPREPARED_SECONDS
        }
        self._unprepared[uid] = self._calls, now

    async def _undo(self, uid: str, entry: CheckpointEntry) -> None:
        """Undo a started entry and delete it. Raises ClaimError."""
        try:
            await self.driver.unprepare(entry.plan, self._other_plans(uid))
        except Exception as error:
            raise as_claim_error(error) from error
        await self._files.remove(uid)
        self._checkpoint.delete(uid)
        try:
            await save(self._checkpoint)
        except ClaimError:
            self._checkpoint.put(uid, entry)
            raise

    # --- recovery and cleanup ---------------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Recover from the end of the last process. Raises only CheckpointLocked.

        Entries that cannot be undone now stay on record and are retried by later calls and cleanups.
        """
        async with self._locks.checkpoint():
            await recover(self.driver, self.host.boot_id, self._checkpoint, self._files, self._undo)
            await sweep(self.driver, self._checkpoint, self._files)
            for uid, entry in self._checkpoint:
                if self._status_writer is not None and entry.state == "completed":
                    self._status_writer.enqueue(uid, entry)  # the last process may have ended before it was written

    async def clean_up(self) -> None:
        """Undo started entries of deleted claims and lost entries, for which no kubelet will call."""
        if self._checkpoint.lost:
            async with self._locks.all_claims():
                await sweep(self.driver, self._checkpoint, self._files)
        for uid, entry in self._checkpoint:
            if entry.state == "started" and not self._locks.is_busy(uid):
                ref = ClaimRef(entry.namespace, uid, entry.name)
                if await self._is_deleted(ref):
                    log.info("%s: claim %s/%s was deleted; undoing its preparation", self.name, ref.namespace, ref.name)
                    await self.unprepare([ref])

    async def _is_deleted(self, ref: ClaimRef) -> bool:
        try:
            tree = await self._client.get(CLAIMS, ref.name, ref.namespace)
        except StatusError as error:
            return error.code == 404
        except Unreachable:
            return False
        return str(tree["metadata"]["uid"]) != ref.uid

    # --- devices ----------------------------------------------------------------------------------------------------

    async def discover_pools(self) -> tuple[DevicePool, ...]:
        """Return the driver's current pools with the taints of unhealthy devices.

        Raises what the driver raises, and InvalidDevice.
        """
        self._pools = pools_of(await self.driver.discover())
        self._pool_names = frozenset(pool.name or self.host.node for pool in self._pools)
        self._health.set_devices(self._pools)
        return self._health.with_taints(self._pools)

    def publish(self, publisher: PoolPublisher) -> None:
        """Publish the known pools again: a kubelet removes them at startup. Does nothing before the first discovery."""
        if self._pools:
            publisher.set_pools(self.name, self.host.node, self._health.with_taints(self._pools))

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """Return the stream of device health: now, after each change, and every 20 s."""
        return self._health.stream()

    async def run(self, publisher: PoolPublisher) -> None:
        """Publish pools, watch devices and clean up until canceled.

        Raises InvalidDevice, in groups, if the first pools have a wrong type. If later ones have, the published pools
        stay, and prepared claims can still be unprepared.
        """
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_devices(publisher), name=f"{self.name} devices")
            group.create_task(self._clean_up_periodically(), name=f"{self.name} cleanup")

    async def _watch_devices(self, publisher: PoolPublisher) -> None:
        backoff = Backoff(self._random, first=0.5, longest=60.0)
        reported = ""
        while True:
            try:
                publisher.set_pools(self.name, self.host.node, await self.discover_pools())
                reported = ""
                self._health.set_watching(True)
                async for event in self.driver.watch():
                    backoff.reset()
                    if not isinstance(event, HealthUpdate):
                        before = self._pools
                        await self.discover_pools()
                        if self._pools != before:  # drivers may send the event without a change
                            self.publish(publisher)
                    elif self._health.update(event):
                        self.publish(publisher)
                self._health.set_watching(False)
                log.debug("%s: the driver does not watch its devices", self.name)
                return
            except (InvalidDevice, InvalidPool) as error:
                if isinstance(error, InvalidDevice) and not self._pools:
                    raise
                self._health.set_watching(False)
                if str(error) != reported:  # once: retries fail until the driver is changed
                    log.error("%s: %s; will retry", self.name, error)
                reported = str(error)
            except Exception:
                self._health.set_watching(False)
                log.warning("%s: error while watching devices; will retry", self.name, exc_info=True)
            await self._clock.sleep(backoff.next())

    async def _clean_up_periodically(self) -> None:
        while True:
            await self._clock.sleep(CLEANUP_SECONDS)
            try:
                await self.clean_up()
            except (PluginCallError, CheckpointLocked, OSError) as error:  # the lock is held, or a disk is full
                log.warning("%s: %s", self.name, error)

    async def wait_idle(self) -> None:
        """Wait until all work in progress is done, for a graceful shutdown."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        if self._status_writer is not None:
            await self._status_writer.wait_idle()


def _prepared_devices(entry: CheckpointEntry) -> tuple[PreparedDevice, ...]:
    return tuple(
        PreparedDevice(part.requests, part.pool, part.device, part.cdi_ids, part.share_id) for part in entry.parts
    )


def _unexpected_error(error: Exception) -> str:
    """Return the text for a bug in the driver, which must not affect the other claims of the call."""
    return f"the driver failed unexpectedly: {type(error).__name__}: {error}"
