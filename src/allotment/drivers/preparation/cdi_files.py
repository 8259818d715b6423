"""The CDI files of a driver: one for each prepared claim, ``k8s.<driver>-claim_<uid>``.

Each device of a claim has its own ID, so that a container with only one of the requests gets only its devices. Device
names contain the claim's UID: runtimes cache names, so a name must never be reused for something else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

import msgspec

from allotment.cdi.naming import qualified_name, transient_name
from allotment.cdi.spec import CdiDevice, ContainerEdits, InvalidSpec, Spec
from allotment.cdi.store import MemoryStore, SpecStore
from allotment.decoding import decodable
from allotment.drivers.driver import AllocatedDevice, ClaimError, PreparedClaim, Tree
from allotment.drivers.preparation.checkpoint import CheckpointDevice, CheckpointEntry
from allotment.drivers.preparation.metadata import MetadataFiles


class ClaimFiles:
    """The files of one driver. ``folder``: the driver's folder for metadata, or None for no metadata files.

    ``metadata_versions``: the versions of the metadata.
    """

    def __init__(self, driver: str, store: SpecStore, folder: Path | None, metadata_versions: Sequence[str]) -> None:
        self._store = store
        self.metadata = MetadataFiles(driver, store, folder, metadata_versions) if folder is not None else None
        self._kind = f"k8s.{driver}/claim"
        self._prefix = transient_name(self._kind, "")

    def checkpoint_devices(self, uid: str, devices: Sequence[AllocatedDevice]) -> tuple[CheckpointDevice, ...]:
        """Return the devices of a claim with their CDI IDs."""
        return tuple(self._checkpoint_device(uid, device, devices) for device in devices)

    def _checkpoint_device(
        self, uid: str, device: AllocatedDevice, devices: Sequence[AllocatedDevice]
    ) -> CheckpointDevice:
        name = f"{uid}-{device.device}"
        if any(other.device == device.device and other.pool != device.pool for other in devices):
            name = f"{uid}-{device.pool.replace('/', '_')}-{device.device}"
        return CheckpointDevice(
            requests=(device.request.partition("/")[0],),
            pool=device.pool,
            device=device.device,
            share_id=device.share_id,
            cdi_ids=(qualified_name(self._kind, f"{name}-{device.share_id}" if device.share_id else name),),
            use="admin" if device.admin_access else "shared" if device.share_id else "alone",
        )

    def build_spec(
        self, devices: Sequence[CheckpointDevice], prepared: PreparedClaim
    ) -> tuple[tuple[CheckpointDevice, ...], Spec | None]:
        """Return the devices with status data, and the CDI file, if any.

        Devices without edits get no ID, since runtimes reject those.
        """
        edits: dict[str, ContainerEdits] = {}
        described = []
        for device in devices:
            ready = prepared.devices.get((device.pool, device.device, device.share_id))
            if ready is None:
                raise RuntimeError(f"the driver did not return device {device.pool}/{device.device}")
            # A device without edits of its own gets the common edits of the claim's devices.
            own = ready.edits or prepared.edits
            if own:
                edits[device.cdi_ids[0].partition("=")[2]] = own
            described.append(
                msgspec.structs.replace(device, cdi_ids=device.cdi_ids if own else (), data=ready.status_data)
            )
        if not edits:
            return tuple(described), None
        cdi_devices = tuple(CdiDevice(name, own) for name, own in edits.items())
        return tuple(described), Spec(self._kind, cdi_devices, prepared.edits)

    async def write(self, uid: str, spec: Spec) -> None:
        """Write the claim's file. Raises InvalidSpec and OSError."""
        await self._run(lambda: self._store.write(self._prefix + uid, spec))

    async def write_metadata(self, uid: str, documents: Mapping[str, Tree]) -> None:
        """Write the metadata files of the claim's devices. Raises InvalidSpec and OSError."""
        metadata = self.metadata
        if metadata is not None:
            await self._run(lambda: metadata.write(uid, documents))

    async def remove(self, uid: str) -> None:
        """Delete the claim's files, if any. Raises ClaimError."""
        try:
            await self._run(lambda: self._remove(uid))
        except OSError as error:
            raise ClaimError(f"cannot delete the CDI file: {error}") from error

    def _remove(self, uid: str) -> None:
        self._store.remove(self._prefix + uid)
        if self.metadata is not None:
            self.metadata.remove(uid)

    async def restore(self, uid: str, entry: CheckpointEntry) -> None:
        """Rewrite missing files: their folder may not survive a reboot. Raises ClaimError."""
        metadata = self.metadata
        try:
            if metadata is not None and entry.metadata:
                await self._run(lambda: metadata.restore(uid, entry.metadata))
            if entry.cdi is not None and self._prefix + uid not in self._store.names():
                await self.write(uid, msgspec.convert(entry.cdi, decodable(Spec)))
        except (msgspec.ValidationError, InvalidSpec, OSError) as error:
            raise ClaimError(f"cannot rewrite the CDI file: {error}") from error

    def uids(self) -> frozenset[str]:
        """Return the UIDs of the claims that have a file."""
        names = (name for name in self._store.names() if name.startswith(self._prefix) and not name.endswith(".yaml"))
        return frozenset(name.removeprefix(self._prefix) for name in names)

    async def remove_others(self, uids: Collection[str]) -> None:
        """Delete the driver's files except those of these claims.

        YAML files with the same names are those of another implementation of the driver and stay.
        """
        for uid in self.uids() - set(uids):
            await self.remove(uid)
        metadata = self.metadata
        if metadata is not None:
            try:
                await self._run(lambda: metadata.remove_others(uids))
            except OSError as error:
                raise ClaimError(f"cannot delete the metadata of removed claims: {error}") from error

    async def _run(self, action: Callable[[], None]) -> None:
        if isinstance(self._store, MemoryStore):
            action()
        else:
            await asyncio.to_thread(action)
