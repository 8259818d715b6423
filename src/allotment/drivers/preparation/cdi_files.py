"""A driver's CDI files: one for each prepared claim, ``k8s.<driver>-claim_<uid>``, and never another's.

Each device of a claim has an id of its own, so that a container which names one request sees that one's devices only.
The name of a device holds the claim's uid: runtimes remember names, so one must never mean something else later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from allotment.cdi.naming import qualified_name, transient_name
from allotment.cdi.spec import CdiDevice, ContainerEdits, InvalidSpec, Spec
from allotment.cdi.store import MemoryStore, SpecStore
from allotment.drivers.driver import AllocatedDevice, ClaimError, PreparedClaim, Tree
from allotment.drivers.preparation.checkpoint import CheckpointDevice, CheckpointEntry
from allotment.drivers.preparation.metadata import MetadataFiles


class ClaimFiles:
    """The files of one driver. ``folder``: its own, for metadata; None: there are none, of whatever claim."""

    def __init__(self, driver: str, store: SpecStore, folder: Path | None = None) -> None:
        self._store = store
        self.metadata = MetadataFiles(driver, store, folder) if folder is not None else None
        self._kind = f"k8s.{driver}/claim"
        self._prefix = transient_name(self._kind, "")

    def checkpoint_devices(self, uid: str, given: Sequence[AllocatedDevice]) -> tuple[CheckpointDevice, ...]:
        """The devices of a claim with their CDI ids."""
        return tuple(self._checkpoint_device(uid, each, given) for each in given)

    def _checkpoint_device(self, uid: str, each: AllocatedDevice, given: Sequence[AllocatedDevice]) -> CheckpointDevice:
        name = f"{uid}-{each.device}"
        if any(other.device == each.device and other.pool != each.pool for other in given):
            name = f"{uid}-{each.pool.replace('/', '_')}-{each.device}"
        return CheckpointDevice(
            requests=(each.request.partition("/")[0],),
            pool=each.pool,
            device=each.device,
            share_id=each.share_id,
            cdi_ids=(qualified_name(self._kind, f"{name}-{each.share_id}" if each.share_id else name),),
            use="admin" if each.admin_access else "shared" if each.share_id else "alone",
        )

    def build_spec(
        self, parts: Sequence[CheckpointDevice], prepared: PreparedClaim
    ) -> tuple[tuple[CheckpointDevice, ...], Spec | None]:
        """The parts as they are told, and the file; a device without edits has no CDI id, for runtimes refuse it."""
        edits: dict[str, ContainerEdits] = {}
        told = []
        for part in parts:
            ready = prepared.devices.get((part.pool, part.device, part.share_id))
            if ready is None:
                raise RuntimeError(f"the driver did not say how device {part.pool}/{part.device} is used")
            # A device that needs nothing of its own stands for what all devices of the claim share.
            own = ready.edits or prepared.edits
            if own:
                edits[part.cdi_ids[0].partition("=")[2]] = own
            told.append(msgspec.structs.replace(part, cdi_ids=part.cdi_ids if own else (), data=ready.status_data))
        if not edits:
            return tuple(told), None
        devices = tuple(CdiDevice(name, own) for name, own in edits.items())
        return tuple(told), Spec(self._kind, devices, prepared.edits)

    async def write(self, uid: str, spec: Spec) -> None:
        """Write a claim's file. Raises InvalidSpec and OSError."""
        await self._run(lambda: self._store.write(self._prefix + uid, spec))

    async def write_metadata(self, uid: str, told: Mapping[str, Tree]) -> None:
        """Write what programs can read of a claim's devices. Raises InvalidSpec and OSError."""
        metadata = self.metadata
        if metadata is not None:
            await self._run(lambda: metadata.write(uid, told))

    async def remove(self, uid: str) -> None:
        """Remove it; none is no error. Raises Refused."""
        try:
            await self._run(lambda: self._remove(uid))
        except OSError as error:
            raise ClaimError(f"the CDI file could not be removed: {error}") from error

    def _remove(self, uid: str) -> None:
        self._store.remove(self._prefix + uid)
        if self.metadata is not None:
            self.metadata.remove(uid)

    async def restore(self, uid: str, entry: CheckpointEntry) -> None:
        """Write it again where it is missing: its folder does not outlive a restart of the machine. Raises Refused."""
        metadata = self.metadata
        try:
            if metadata is not None and entry.metadata:
                await self._run(lambda: metadata.restore(uid, entry.metadata))
            if entry.cdi is not None and self._prefix + uid not in self._store.names():
                await self.write(uid, msgspec.convert(entry.cdi, Spec))
        except (msgspec.ValidationError, InvalidSpec, OSError) as error:
            raise ClaimError(f"the CDI file could not be written again: {error}") from error

    def uids(self) -> frozenset[str]:
        """The claims that have a file."""
        names = (name for name in self._store.names() if name.startswith(self._prefix) and not name.endswith(".yaml"))
        return frozenset(name.removeprefix(self._prefix) for name in names)

    async def remove_others(self, uids: Collection[str]) -> None:
        """Remove the driver's own files but those of these claims.

        Another make of it writes YAML under the same names; those are not ours.
        """
        for uid in self.uids() - set(uids):
            await self.remove(uid)
        metadata = self.metadata
        if metadata is not None:
            try:
                await self._run(lambda: metadata.remove_others(uids))
            except OSError as error:
                raise ClaimError(f"metadata of claims that are gone could not be removed: {error}") from error

    async def _run(self, act: Callable[[], None]) -> None:
        if isinstance(self._store, MemoryStore):
            act()
        else:
            await asyncio.to_thread(act)
