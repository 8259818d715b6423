"""The checkpoint: the completed and started preparations of a driver, which survive a crash.

An entry is written as ``started``, with the plan, before hardware is changed, and as ``completed`` after the CDI file
is written; unpreparing sets it to ``started`` again. Everything that a crash leaves can be undone with a stored plan.

Other versions of the driver read and write the same file. Fields that this version does not know are preserved. An
entry that cannot be read is set aside and does not keep the driver from starting: one bad entry must not take a node
down.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Final, Literal

import msgspec

from allotment.drivers.host import CheckpointStorage
from allotment.model.meta import Value
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

VERSION: Final = 1


class CheckpointDevice(Value, frozen=True):
    """A device of an entry and its use: alone, shared with other claims, or with admin access.

    ``data``: the driver's data for the claim's status.
    """

    requests: tuple[str, ...] = ()
    pool: str = ""
    device: str = ""
    share_id: str = msgspec.field(default="", name="shareID")
    cdi_ids: tuple[str, ...] = msgspec.field(default=(), name="cdiIDs")
    use: Literal["alone", "shared", "admin"] = "alone"
    data: Tree | None = None

    def excludes(self, other: CheckpointDevice) -> bool:
        """Whether two claims cannot use a device in these ways at the same time."""
        uses = {self.use, other.use}
        return "alone" in uses and "admin" not in uses


class CheckpointEntry(Value, frozen=True, omit_defaults=False):
    """The state of one claim. ``cdi``: the content of its file, for restoring it.

    ``since``: the time of the last state change. ``metadata``: the metadata documents of its devices, by request.
    """

    version: int
    state: Literal["started", "completed"]
    namespace: str
    name: str
    plan: Tree
    since: str = ""
    parts: tuple[CheckpointDevice, ...] = ()
    cdi: Tree | None = None
    metadata: dict[str, Tree] = {}


class Checkpoint:
    """The entries of a driver on a node, by claim UID. Changes are made in memory and written by :meth:`save`."""

    def __init__(self, storage: CheckpointStorage, driver: str, boot_id: str) -> None:
        self._storage = storage
        self._driver = driver
        self.boot_id = boot_id
        self._entries: dict[str, CheckpointEntry] = {}
        self._encoded: dict[str, msgspec.Raw] = {}
        self._unknown: Tree = {}
        self._unreadable: list[bytes] = []
        self._current_write: asyncio.Task[None] | None = None
        self._next_write: asyncio.Task[None] | None = None
        #: The boot ID with which the checkpoint was written; empty if there was none.
        self.written_boot_id = ""
        #: Whether entries could not be read and the changes of their plans have not been searched for yet. Stored on
        #: disk.
        self.lost = False

    # --- entries ----------------------------------------------------------------------------------------------------

    def __getitem__(self, uid: str) -> CheckpointEntry:
        return self._entries[uid]

    def get(self, uid: str) -> CheckpointEntry | None:
        return self._entries.get(uid)

    def __iter__(self) -> Iterator[tuple[str, CheckpointEntry]]:
        return iter(tuple(self._entries.items()))

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, uid: str, entry: CheckpointEntry) -> None:
        """Set an entry; unknown fields of the previous entry are preserved."""
        previous = self._encoded.get(uid)
        data = _ENCODER.encode(entry)
        if previous is not None:
            unknown = {key: value for key, value in msgspec.json.decode(previous).items() if key not in _ENTRY_FIELDS}
            if unknown:
                data = msgspec.json.encode({**msgspec.json.decode(data), **unknown})
        self._entries[uid] = entry
        self._encoded[uid] = msgspec.Raw(data)

    def delete(self, uid: str) -> None:
        self._entries.pop(uid, None)
        self._encoded.pop(uid, None)

    def clear(self) -> None:
        self._entries.clear()
        self._encoded.clear()
        self.lost = False

    # --- the file ---------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Replace the entries by the stored ones. Data that cannot be read is set aside by the next save."""
        self.clear()
        self._unknown = {}
        self._unreadable.clear()
        self.written_boot_id = ""
        data = self._storage.load()
        if not data:
            return
        try:
            document = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            header = _HEADER_DECODER.decode(data)
            if header.version != VERSION:
                raise ValueError(f"version: expected {VERSION}, found {header.version}")
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            log.error("%s: cannot read the checkpoint, so the file was renamed: %s", self._driver, error)
            self._unreadable.append(data.replace(b"\n", b" "))
            self.lost = True
            return
        self.written_boot_id = header.boot_id
        self.lost = header.lost
        self._unknown = {key: value for key, value in document.items() if key not in _HEADER_FIELDS}
        for uid, raw in header.claims.items():
            try:
                entry = _ENTRY_DECODER.decode(raw)
                if entry.version != VERSION:
                    raise ValueError(f"version: expected {VERSION}, found {entry.version}")
            except (msgspec.MsgspecError, ValueError) as error:
                log.error(
                    "%s: cannot read the checkpoint entry for claim %s: %s; a copy will be kept separately",
                    self._driver,
                    uid,
                    error,
                )
                self._unreadable.append(msgspec.json.encode({"claim": uid, "error": str(error), "entry": raw}))
                self.lost = True
            else:
                self._entries[uid] = entry
                self._encoded[uid] = msgspec.Raw(bytes(raw))

    def refresh(self) -> None:
        """Load the entries again if another process has written them."""
        if self._storage.changed():
            self.load()

    async def save(self) -> None:
        """Return when all changes before this call are stored. Raises OSError.

        Calls during a write wait for the next one, which covers all of them.
        """
        if self._current_write is None:
            self._current_write = asyncio.create_task(self._write())
            await asyncio.shield(self._current_write)
            return
        if self._next_write is None:
            self._next_write = asyncio.create_task(self._write_after(self._current_write))
        await asyncio.shield(self._next_write)

    async def _write_after(self, current: asyncio.Task[None]) -> None:
        await asyncio.wait((current,))
        # Later changes belong to the next write.
        self._current_write, self._next_write = self._next_write, None
        await self._write()

    async def _write(self) -> None:
        try:
            for data in self._unreadable:
                await self._storage.set_aside(data)
            self._unreadable.clear()
            header = {"version": VERSION, "bootID": self.boot_id, **({"lost": True} if self.lost else {})}
            await self._storage.save(msgspec.json.encode({**self._unknown, **header, "claims": self._encoded}))
        finally:
            if self._next_write is None:
                self._current_write = None


class _Header(msgspec.Struct):
    version: int
    boot_id: str = msgspec.field(default="", name="bootID")
    lost: bool = False
    claims: dict[str, msgspec.Raw] = {}


_HEADER_DECODER: Final = msgspec.json.Decoder(_Header)
_ENTRY_DECODER: Final = msgspec.json.Decoder(CheckpointEntry)
_ENCODER: Final = msgspec.json.Encoder()
_HEADER_FIELDS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(_Header))
_ENTRY_FIELDS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(CheckpointEntry))
