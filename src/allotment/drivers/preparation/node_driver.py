"""The framework around a vendor's :class:`~allotment.drivers.driver.Driver`: a plugin that a kubelet can call.

For one claim, in this order::

    prepare    read and check the claim - decode parameters - plan - checkpoint "started" - hardware - CDI file
               - checkpoint "completed" - answer
    unprepare  checkpoint "started" - hardware - CDI file - checkpoint entry

A crash between any two of these steps leaves an entry whose plan undoes whatever was done. Undoing needs nothing but
the entry: neither the API, where the claim may be gone, nor the hardware, which may be gone, too.

Work on a claim goes on when the kubelet hangs up (it does, after 45 s): hardware cannot be left in the middle. The next
call for the claim finds what came of it. Calls for different claims run side by side.
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
from allotment.cluster.instrumentation import UNOBSERVED, Observing
from allotment.cluster.resources import CLAIMS
from allotment.drivers.driver import AllocatedClaim, ClaimError, DevicePool, Driver, HealthUpdate, PreparedClaim
from allotment.drivers.health import HealthTable
from allotment.drivers.host import CheckpointLocked, DriverHost
from allotment.drivers.preparation.cdi_files import ClaimFiles
from allotment.drivers.preparation.checkpoint import VERSION, Checkpoint, CheckpointDevice, CheckpointEntry
from allotment.drivers.preparation.claims import allocated_devices, fetch_claim
from allotment.drivers.preparation.device_status import StatusWriter
from allotment.drivers.preparation.locks import ClaimLocks
from allotment.drivers.preparation.metadata import metadata_documents
from allotment.drivers.preparation.recovery import as_claim_error, ensure_running, recover, save, sweep
from allotment.kubelet_plugin import messages
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, PluginCallError, PreparedDevice
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.resource import Device
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

_T = TypeVar("T")

#: How often begun entries are looked through for claims that are gone.
CLEANUP_SECONDS: Final = 600.0
#: So long a claim that was undone is prepared again only when somebody has reserved it.
UNPREPARED_SECONDS: Final = 600.0


class PoolPublisher(Protocol):
    """Takes offers: :class:`allotment.drivers.publishing.publisher.Publisher`."""

    def set_pools(self, driver: str, node: str, offers: Sequence[DevicePool]) -> None:
        """Publish these and no others."""
        ...


class NodeDriver:
    """A driver on a node, as its kubelet calls it. ``client``: with the driver's name as its field manager.

    Call :meth:`recover` before anything else. ``status``: whether claims are told of their devices. ``metadata``:
    whether programs can read of their devices in files (KEP-5304); the host must have a folder for these.
    """

    def __init__(
        self, driver: Driver, host: DriverHost, client: Client, clock: Clock, *, status: bool = True, metadata: bool = False,
        random: Random | None = None, observing: Observing = UNOBSERVED,
    ) -> None:  # fmt: skip
        if metadata and host.folder is None:
            raise ValueError("metadata: wanted a host with a folder for the files")
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
        self._pools_found: Sequence[DevicePool] = ()
        self._files = ClaimFiles(driver.name, host.cdi, host.folder)
        self._metadata = self._files.metadata if metadata else None
        self._locks = ClaimLocks(host.checkpoint, self._checkpoint.refresh)
        self._calls = 0
        self._unprepared: dict[str, tuple[int, float]] = {}  # by uid: after which call, and when
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def name(self) -> str:
        """The driver's name."""
        return self.driver.name

    # --- what the kubelet calls -----------------------------------------------------------------------------------

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, messages.PrepareResult]:
        """Make the claims' devices usable. A claim that cannot be prepared does not hold up the others."""
        self._calls += 1
        arrived = self._calls

        async def one(ref: ClaimRef) -> messages.PrepareResult:
            try:
                with self._observing.work("prepare", ref.uid) as work:
                    work.attributes |= {"claim": f"{ref.namespace}/{ref.name}", "driver": self.name}
                    prepared = messages.PrepareResult(await self._prepare(ref, arrived))
                    work.result = "prepared"
                return prepared
            except ClaimError as error:
                text = f"{error} (trying again will not help)" if error.permanent else str(error)
            except Exception as error:
                log.exception("%s: claim %s/%s", self.name, ref.namespace, ref.name)
                text = _unexpected_error(error)
            return messages.PrepareResult(error=f"claim {ref.namespace}/{ref.name}: {text}")

        return await self._for_each(claims, one)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Undo it. Works without the API, and for claims that nobody knows."""

        async def one(ref: ClaimRef) -> str:
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

        return await self._for_each(claims, one)

    async def _for_each(
        self, claims: Sequence[ClaimRef], one: Callable[[ClaimRef], Coroutine[Any, Any, _T]]
    ) -> dict[str, _T]:
        """Work on claims side by side, to the end even if nobody waits for the answer any more."""

        async def turn(ref: ClaimRef) -> _T:
            async with self._locks.claim(ref.uid):
                return await one(ref)

        tasks = {ref.uid: asyncio.create_task(turn(ref), name=f"{self.name} {ref.name}") for ref in claims}
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
            task.exception()  # it is told by the call, if anybody still listens

    # --- one claim ------------------------------------------------------------------------------------------------

    async def _prepare(self, ref: ClaimRef, arrived: int) -> tuple[PreparedDevice, ...]:
        uid = ref.uid
        entry = self._checkpoint.get(uid)
        if entry is not None and entry.state == "completed":
            await self._files.restore(uid, entry)
            await ensure_running(self.driver, entry)
            return _prepared_devices(entry)
        undone = self._unprepared.get(uid)
        if undone is not None and undone[0] >= arrived:
            raise ClaimError("the claim was unprepared while this call waited")
        if entry is not None:
            await self._undo(uid, entry)
        tree = await fetch_claim(self._client, ref)
        if undone is not None and not tree["status"].get("reservedFor"):
            raise ClaimError("the claim was unprepared, and nobody has reserved it since")
        await self._discover_first()
        given = allocated_devices(self.driver, tree, self.host.node, self._pool_names)
        if not given:
            return ()
        parts = self._files.checkpoint_devices(uid, given)
        self._check_overlap(uid, parts)
        claim = AllocatedClaim(uid, ref.namespace, ref.name, given, self._other_plans(uid))
        plan = self.driver.plan(claim)
        entry = CheckpointEntry(VERSION, "started", ref.namespace, ref.name, plan, self._clock.now(), parts)
        # From here to the end no await without the entry being there, so that nobody else gets the devices.
        self._checkpoint.put(uid, entry)
        try:
            await save(self._checkpoint)
        except ClaimError:
            self._checkpoint.delete(uid)
            raise
        try:
            prepared = await self.driver.prepare(claim, plan)
            told: dict[str, Tree] = {}
            if self._metadata is not None:
                pod_claim = (tree["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME, "")
                told = metadata_documents(self.name, claim, pod_claim, prepared, self._published_devices())
            entry = await self._complete(uid, entry, prepared, told)
        except Exception as error:
            await self._roll_back(uid, error)
            raise as_claim_error(error) from error
        self._unprepared.pop(uid, None)
        if self._status_writer is not None:
            self._status_writer.enqueue(uid, entry)
        return _prepared_devices(entry)

    async def _discover_first(self) -> None:
        """A kubelet may call as soon as it sees the driver, before anything was published."""
        if not self._pools_found:
            try:
                await self.discover_pools()
            except Exception as error:
                raise ClaimError(f"the driver could not find its devices: {error}") from error

    def _check_overlap(self, uid: str, parts: Sequence[CheckpointDevice]) -> None:
        """A device has one owner at a time, whatever the cluster says: pods deleted by force may still run."""
        wanted: dict[tuple[str, str], list[CheckpointDevice]] = {}
        for part in parts:
            wanted.setdefault((part.pool, part.device), []).append(part)
        for other, entry in self._checkpoint:
            for part in entry.parts if other != uid else ():
                if any(mine.excludes(part) for mine in wanted.get((part.pool, part.device), ())):
                    how = "is still prepared" if entry.state == "completed" else "is being prepared or undone"
                    raise ClaimError(
                        f"device {part.pool}/{part.device} {how} for claim {entry.namespace}/{entry.name} ({other}); "
                        "it is free when that claim's pods on this node have ended"
                    )

    def _other_plans(self, uid: str) -> tuple[Tree, ...]:
        return tuple(entry.plan for other, entry in self._checkpoint if other != uid)

    def _published_devices(self) -> dict[tuple[str, str], Device]:
        return {
            (offer.name or self.host.node, device.name): device
            for offer in self._pools_found for group in offer.groups for device in group
        }  # fmt: skip

    async def _complete(
        self, uid: str, entry: CheckpointEntry, prepared: PreparedClaim, told: dict[str, Tree]
    ) -> CheckpointEntry:
        parts, spec = self._files.build_spec(entry.parts, prepared)
        if spec is not None:
            await self._files.write(uid, spec)
        if self._metadata is not None:
            await self._files.write_metadata(uid, told)
            parts = self._metadata.with_cdi_ids(uid, parts)
        cdi = msgspec.to_builtins(spec) if spec is not None else None
        since = self._clock.now()
        entry = msgspec.structs.replace(entry, state="completed", parts=parts, cdi=cdi, since=since, metadata=told)
        self._checkpoint.put(uid, entry)
        await save(self._checkpoint)
        return entry

    async def _roll_back(self, uid: str, error: Exception) -> None:
        """After a failure: undo what was done, or leave it on record for the next attempt."""
        if not isinstance(error, ClaimError):
            log.warning("%s: preparing claim %s: %r", self.name, uid, error)
        entry = self._checkpoint.get(uid)
        if entry is not None:
            entry = msgspec.structs.replace(entry, state="started")
            self._checkpoint.put(uid, entry)
            try:
                await self._undo(uid, entry)
            except ClaimError as second:
                log.error("%s: claim %s is left half prepared, and undone later: %s", self.name, uid, second)

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
        self._unprepared = {each: one for each, one in self._unprepared.items() if now - one[1] < UNPREPARED_SECONDS}
        self._unprepared[uid] = self._calls, now

    async def _undo(self, uid: str, entry: CheckpointEntry) -> None:
        """Undo an entry that is on record as started, and forget it. Raises Refused."""
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

    # --- starting and keeping house -------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Come back after whatever ended the last process. Only a lock that stays held is an error (Held).

        What cannot be undone now stays on record, and is tried again with the next call or round.
        """
        async with self._locks.checkpoint():
            await recover(self.driver, self.host.boot_id, self._checkpoint, self._files, self._undo)
            await sweep(self.driver, self._checkpoint, self._files)
            for uid, entry in self._checkpoint:
                if self._status_writer is not None and entry.state == "completed":
                    self._status_writer.enqueue(uid, entry)  # the last process may have had no time to

    async def clean_up(self) -> None:
        """Undo what was begun for claims that are gone, or without a record: no kubelet will ask for it."""
        if self._checkpoint.lost:
            async with self._locks.all_claims():
                await sweep(self.driver, self._checkpoint, self._files)
        for uid, entry in self._checkpoint:
            if entry.state == "started" and not self._locks.is_busy(uid):
                ref = ClaimRef(entry.namespace, uid, entry.name)
                if await self._is_gone(ref):
                    log.info("%s: claim %s/%s is gone; what was begun is undone", self.name, ref.namespace, ref.name)
                    await self.unprepare([ref])

    async def _is_gone(self, ref: ClaimRef) -> bool:
        try:
            tree = await self._client.get(CLAIMS, ref.name, ref.namespace)
        except StatusError as error:
            return error.code == 404
        except Unreachable:
            return False
        return str(tree["metadata"]["uid"]) != ref.uid

    # --- devices --------------------------------------------------------------------------------------------------

    async def discover_pools(self) -> tuple[DevicePool, ...]:
        """What the driver has now, with the taints of what is not well. Raises what the driver raises."""
        self._pools_found = tuple(await self.driver.discover())
        self._pool_names = frozenset(offer.name or self.host.node for offer in self._pools_found)
        self._health.set_devices(self._pools_found)
        return self._health.with_taints(self._pools_found)

    def publish(self, publisher: PoolPublisher) -> None:
        """Publish once more what is known: a kubelet that starts has removed it. Nothing before the first discovery."""
        if self._pools_found:
            publisher.set_pools(self.name, self.host.node, self._health.with_taints(self._pools_found))

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """The health of all devices: now, when it changes, and every 20 s."""
        return self._health.stream()

    async def run(self, publisher: PoolPublisher) -> None:
        """Publish what there is, follow what happens to it, and keep house, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_devices(publisher), name=f"{self.name} devices")
            group.create_task(self._clean_up_periodically(), name=f"{self.name} house")

    async def _watch_devices(self, publisher: PoolPublisher) -> None:
        waits = Backoff(self._random, first=0.5, longest=60.0)
        while True:
            try:
                publisher.set_pools(self.name, self.host.node, await self.discover_pools())
                self._health.set_watching(True)
                async for news in self.driver.watch():
                    waits.reset()
                    if not isinstance(news, HealthUpdate):
                        before = self._pools_found
                        await self.discover_pools()
                        if self._pools_found != before:  # drivers may ask as often as they like
                            self.publish(publisher)
                    elif self._health.update(news):
                        self.publish(publisher)
                self._health.set_watching(False)
                log.debug("%s: does not watch its devices", self.name)
                return
            except Exception:
                self._health.set_watching(False)
                log.warning("%s: looking for devices failed; it is tried again", self.name, exc_info=True)
            await self._clock.sleep(waits.next())

    async def _clean_up_periodically(self) -> None:
        while True:
            await self._clock.sleep(CLEANUP_SECONDS)
            try:
                await self.clean_up()
            except (
                PluginCallError,
                CheckpointLocked,
                OSError,
            ) as error:  # another process has its turn, or a disk is full
                log.warning("%s: %s", self.name, error)

    async def wait_idle(self) -> None:
        """Wait until everything that was begun is done: before an orderly end."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        if self._status_writer is not None:
            await self._status_writer.wait_idle()


def _prepared_devices(entry: CheckpointEntry) -> tuple[PreparedDevice, ...]:
    return tuple(
        PreparedDevice(part.requests, part.pool, part.device, part.cdi_ids, part.share_id) for part in entry.parts
    )


def _unexpected_error(error: Exception) -> str:
    """Of a driver's mistake, which must not become that of the call's other claims."""
    return f"the driver failed unexpectedly: {type(error).__name__}: {error}"
