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
from allotment.drivers.driver import Claim, Condition, Driver, Offer, Prepared, Refused
from allotment.drivers.health import Board
from allotment.drivers.host import Held, Host
from allotment.drivers.preparation.cdi_files import ClaimFiles
from allotment.drivers.preparation.checkpoint import VERSION, Checkpoint, Entry, Part
from allotment.drivers.preparation.claims import fetched, granted
from allotment.drivers.preparation.device_status import Statuses
from allotment.drivers.preparation.locks import Turns
from allotment.drivers.preparation.metadata import documents
from allotment.drivers.preparation.recovery import recovered, refusal, revived, saved, swept
from allotment.kubelet_plugin import messages
from allotment.kubelet_plugin.messages import CallFailed, ClaimRef, DeviceHealth, PreparedDevice
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.resource import Device
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

T = TypeVar("T")

#: How often begun entries are looked through for claims that are gone.
CLEAN_SECONDS: Final = 600.0
#: So long a claim that was undone is prepared again only when somebody has reserved it.
REMEMBER_SECONDS: Final = 600.0


class Publishing(Protocol):
    """Takes offers: :class:`allotment.drivers.publishing.publisher.Publisher`."""

    def want(self, driver: str, node: str, offers: Sequence[Offer]) -> None:
        """Publish these and no others."""
        ...


class NodeDriver:
    """A driver on a node, as its kubelet calls it. ``client``: with the driver's name as its field manager.

    Call :meth:`recover` before anything else. ``status``: whether claims are told of their devices. ``metadata``:
    whether programs can read of their devices in files (KEP-5304); the host must have a folder for these.
    """

    def __init__(
        self, driver: Driver, host: Host, client: Client, clock: Clock, *, status: bool = True, metadata: bool = False,
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
        self._board = Board(host.node, clock)
        self._statuses = Statuses(driver.name, client, clock, self._random) if status else None
        self._pools: frozenset[str] = frozenset()
        self._offers: Sequence[Offer] = ()
        self._files = ClaimFiles(driver.name, host.cdi, host.folder)
        self._metadata = self._files.metadata if metadata else None
        self._turns = Turns(host.checkpoint, self._checkpoint.refresh)
        self._calls = 0
        self._unprepared: dict[str, tuple[int, float]] = {}  # by uid: after which call, and when
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def name(self) -> str:
        """The driver's name."""
        return self.driver.name

    # --- what the kubelet calls -----------------------------------------------------------------------------------

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, messages.Prepared]:
        """Make the claims' devices usable. A claim that cannot be prepared does not hold up the others."""
        self._calls += 1
        arrived = self._calls

        async def one(ref: ClaimRef) -> messages.Prepared:
            try:
                with self._observing.work("prepare", ref.uid) as work:
                    work.attributes |= {"claim": f"{ref.namespace}/{ref.name}", "driver": self.name}
                    prepared = messages.Prepared(await self._prepare(ref, arrived))
                    work.result = "prepared"
                return prepared
            except Refused as error:
                text = f"{error} (trying again will not help)" if error.permanent else str(error)
            except Exception as error:
                log.exception("%s: claim %s/%s", self.name, ref.namespace, ref.name)
                text = _unexpected(error)
            return messages.Prepared(error=f"claim {ref.namespace}/{ref.name}: {text}")

        return await self._each(claims, one)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Undo it. Works without the API, and for claims that nobody knows."""

        async def one(ref: ClaimRef) -> str:
            if self._statuses is not None:
                self._statuses.forget(ref.uid)
            try:
                with self._observing.work("unprepare", ref.uid) as work:
                    work.attributes |= {"claim": f"{ref.namespace}/{ref.name}", "driver": self.name}
                    await self._unprepare(ref.uid)
                    work.result = "unprepared"
            except Refused as error:
                text = str(error)
            except Exception as error:
                log.exception("%s: claim %s/%s", self.name, ref.namespace, ref.name)
                text = _unexpected(error)
            else:
                return ""
            return f"claim {ref.namespace}/{ref.name}: {text}"

        return await self._each(claims, one)

    async def _each(
        self, claims: Sequence[ClaimRef], one: Callable[[ClaimRef], Coroutine[Any, Any, T]]
    ) -> dict[str, T]:
        """Work on claims side by side, to the end even if nobody waits for the answer any more."""

        async def turn(ref: ClaimRef) -> T:
            async with self._turns.of(ref.uid):
                return await one(ref)

        tasks = {ref.uid: asyncio.create_task(turn(ref), name=f"{self.name} {ref.name}") for ref in claims}
        for task in tasks.values():
            self._tasks.add(task)
            task.add_done_callback(self._done)
        if tasks:
            await asyncio.shield(asyncio.wait(tasks.values()))
        try:
            return {uid: task.result() for uid, task in tasks.items()}
        except Held as error:
            raise CallFailed(str(error)) from None

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
            await revived(self.driver, entry)
            return _answer(entry)
        undone = self._unprepared.get(uid)
        if undone is not None and undone[0] >= arrived:
            raise Refused("the claim was unprepared while this call waited")
        if entry is not None:
            await self._undo(uid, entry)
        tree = await fetched(self._client, ref)
        if undone is not None and not tree["status"].get("reservedFor"):
            raise Refused("the claim was unprepared, and nobody has reserved it since")
        await self._known()
        given = granted(self.driver, tree, self.host.node, self._pools)
        if not given:
            return ()
        parts = self._files.parts(uid, given)
        self._refuse_overlap(uid, parts)
        claim = Claim(uid, ref.namespace, ref.name, given, self._others(uid))
        plan = self.driver.plan(claim)
        entry = Entry(VERSION, "started", ref.namespace, ref.name, plan, self._clock.now(), parts)
        # From here to the end no await without the entry being there, so that nobody else gets the devices.
        self._checkpoint.put(uid, entry)
        try:
            await saved(self._checkpoint)
        except Refused:
            self._checkpoint.drop(uid)
            raise
        try:
            prepared = await self.driver.prepare(claim, plan)
            told: dict[str, Tree] = {}
            if self._metadata is not None:
                pod_claim = (tree["metadata"].get("annotations") or {}).get(POD_CLAIM_NAME, "")
                told = documents(self.name, claim, pod_claim, prepared, self._published())
            entry = await self._completed(uid, entry, prepared, told)
        except Exception as error:
            await self._roll_back(uid, error)
            raise refusal(error) from error
        self._unprepared.pop(uid, None)
        if self._statuses is not None:
            self._statuses.tell(uid, entry)
        return _answer(entry)

    async def _known(self) -> None:
        """A kubelet may call as soon as it sees the driver, before anything was published."""
        if not self._offers:
            try:
                await self.offers()
            except Exception as error:
                raise Refused(f"the driver could not find its devices: {error}") from error

    def _refuse_overlap(self, uid: str, parts: Sequence[Part]) -> None:
        """A device has one owner at a time, whatever the cluster says: pods deleted by force may still run."""
        wanted: dict[tuple[str, str], list[Part]] = {}
        for part in parts:
            wanted.setdefault((part.pool, part.device), []).append(part)
        for other, entry in self._checkpoint:
            for part in entry.parts if other != uid else ():
                if any(mine.excludes(part) for mine in wanted.get((part.pool, part.device), ())):
                    how = "is still prepared" if entry.state == "completed" else "is being prepared or undone"
                    raise Refused(
                        f"device {part.pool}/{part.device} {how} for claim {entry.namespace}/{entry.name} ({other}); "
                        "it is free when that claim's pods on this node have ended"
                    )

    def _others(self, uid: str) -> tuple[Tree, ...]:
        return tuple(entry.plan for other, entry in self._checkpoint if other != uid)

    def _published(self) -> dict[tuple[str, str], Device]:
        return {
            (offer.pool or self.host.node, device.name): device
            for offer in self._offers for group in offer.groups for device in group
        }  # fmt: skip

    async def _completed(self, uid: str, entry: Entry, prepared: Prepared, told: dict[str, Tree]) -> Entry:
        parts, spec = self._files.described(entry.parts, prepared)
        if spec is not None:
            await self._files.write(uid, spec)
        if self._metadata is not None:
            await self._files.write_metadata(uid, told)
            parts = self._metadata.with_ids(uid, parts)
        cdi = msgspec.to_builtins(spec) if spec is not None else None
        since = self._clock.now()
        entry = msgspec.structs.replace(entry, state="completed", parts=parts, cdi=cdi, since=since, metadata=told)
        self._checkpoint.put(uid, entry)
        await saved(self._checkpoint)
        return entry

    async def _roll_back(self, uid: str, error: Exception) -> None:
        """After a failure: undo what was done, or leave it on record for the next attempt."""
        if not isinstance(error, Refused):
            log.warning("%s: preparing claim %s: %r", self.name, uid, error)
        entry = self._checkpoint.get(uid)
        if entry is not None:
            entry = msgspec.structs.replace(entry, state="started")
            self._checkpoint.put(uid, entry)
            try:
                await self._undo(uid, entry)
            except Refused as second:
                log.error("%s: claim %s is left half prepared, and undone later: %s", self.name, uid, second)

    async def _unprepare(self, uid: str) -> None:
        entry = self._checkpoint.get(uid)
        if entry is not None:
            if entry.state == "completed":
                entry = msgspec.structs.replace(entry, state="started", since=self._clock.now())
                self._checkpoint.put(uid, entry)
                await saved(self._checkpoint)
            await self._undo(uid, entry)
        else:
            await self._files.remove(uid)
        now = self._clock.seconds()
        self._unprepared = {each: one for each, one in self._unprepared.items() if now - one[1] < REMEMBER_SECONDS}
        self._unprepared[uid] = self._calls, now

    async def _undo(self, uid: str, entry: Entry) -> None:
        """Undo an entry that is on record as started, and forget it. Raises Refused."""
        try:
            await self.driver.unprepare(entry.plan, self._others(uid))
        except Exception as error:
            raise refusal(error) from error
        await self._files.remove(uid)
        self._checkpoint.drop(uid)
        try:
            await saved(self._checkpoint)
        except Refused:
            self._checkpoint.put(uid, entry)
            raise

    # --- starting and keeping house -------------------------------------------------------------------------------

    async def recover(self) -> None:
        """Come back after whatever ended the last process. Only a lock that stays held is an error (Held).

        What cannot be undone now stays on record, and is tried again with the next call or round.
        """
        async with self._turns.alone():
            await recovered(self.driver, self.host.boot_id, self._checkpoint, self._files, self._undo)
            await swept(self.driver, self._checkpoint, self._files)
            for uid, entry in self._checkpoint:
                if self._statuses is not None and entry.state == "completed":
                    self._statuses.tell(uid, entry)  # the last process may have had no time to

    async def clean(self) -> None:
        """Undo what was begun for claims that are gone, or without a record: no kubelet will ask for it."""
        if self._checkpoint.lost:
            async with self._turns.quiet():
                await swept(self.driver, self._checkpoint, self._files)
        for uid, entry in self._checkpoint:
            if entry.state == "started" and not self._turns.is_busy(uid):
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

    async def offers(self) -> tuple[Offer, ...]:
        """What the driver has now, with the taints of what is not well. Raises what the driver raises."""
        self._offers = tuple(await self.driver.discover())
        self._pools = frozenset(offer.pool or self.host.node for offer in self._offers)
        self._board.published(self._offers)
        return self._board.tainted(self._offers)

    def publish(self, publisher: Publishing) -> None:
        """Publish once more what is known: a kubelet that starts has removed it. Nothing before the first discovery."""
        if self._offers:
            publisher.want(self.name, self.host.node, self._board.tainted(self._offers))

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        """The health of all devices: now, when it changes, and every 20 s."""
        return self._board.stream()

    async def run(self, publisher: Publishing) -> None:
        """Publish what there is, follow what happens to it, and keep house, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow(publisher), name=f"{self.name} devices")
            group.create_task(self._keep_house(), name=f"{self.name} house")

    async def _follow(self, publisher: Publishing) -> None:
        waits = Backoff(self._random, first=0.5, longest=60.0)
        while True:
            try:
                publisher.want(self.name, self.host.node, await self.offers())
                self._board.watched(True)
                async for news in self.driver.watch():
                    waits.reset()
                    if not isinstance(news, Condition):
                        before = self._offers
                        await self.offers()
                        if self._offers != before:  # drivers may ask as often as they like
                            self.publish(publisher)
                    elif self._board.note(news):
                        self.publish(publisher)
                self._board.watched(False)
                log.debug("%s: does not watch its devices", self.name)
                return
            except Exception:
                self._board.watched(False)
                log.warning("%s: looking for devices failed; it is tried again", self.name, exc_info=True)
            await self._clock.sleep(waits.next())

    async def _keep_house(self) -> None:
        while True:
            await self._clock.sleep(CLEAN_SECONDS)
            try:
                await self.clean()
            except (CallFailed, Held, OSError) as error:  # another process has its turn, or a disk is full
                log.warning("%s: %s", self.name, error)

    async def settled(self) -> None:
        """Wait until everything that was begun is done: before an orderly end."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        if self._statuses is not None:
            await self._statuses.settled()


def _answer(entry: Entry) -> tuple[PreparedDevice, ...]:
    return tuple(
        PreparedDevice(part.requests, part.pool, part.device, part.cdi_ids, part.share_id) for part in entry.parts
    )


def _unexpected(error: Exception) -> str:
    """Of a driver's mistake, which must not become that of the call's other claims."""
    return f"the driver failed unexpectedly: {type(error).__name__}: {error}"
