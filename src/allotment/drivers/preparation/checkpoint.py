"""What a driver has done and begun, kept so that nothing is lost or left behind however its process ends.

An entry is written as ``started`` with the plan before hardware is touched, and as ``completed`` after the CDI file is
there; undoing goes back over ``started``. So whatever a crash leaves has a plan on record that undoes it.

Other versions of the driver read and write the same file. Fields that this one does not know stay in it; an entry that
it cannot read is set aside and is never a reason not to start: one bad entry must not take a node down.
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
    """One device of an entry, and how it is used: alone, shared with other claims, or looked at by an administrator.

    ``data``: what the claim's status says of it.
    """

    requests: tuple[str, ...] = ()
    pool: str = ""
    device: str = ""
    share_id: str = msgspec.field(default="", name="shareID")
    cdi_ids: tuple[str, ...] = msgspec.field(default=(), name="cdiIDs")
    use: Literal["alone", "shared", "admin"] = "alone"
    data: Tree | None = None

    def excludes(self, other: CheckpointDevice) -> bool:
        """Whether a device cannot be this for one claim and that for another."""
        uses = {self.use, other.use}
        return "alone" in uses and "admin" not in uses


class CheckpointEntry(Value, frozen=True, omit_defaults=False):
    """What is known of one claim. ``cdi``: what its file says, so that it can be written again.

    ``since``: when it came into its state. ``metadata``: what programs can read of its devices, by request.
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
    """The entries of a driver on a node, by claim uid. Changes are in memory at once, on disk after :meth:`save`."""

    def __init__(self, storage: CheckpointStorage, driver: str, boot_id: str) -> None:
        self._storage = storage
        self._driver = driver
        self.boot_id = boot_id
        self._entries: dict[str, CheckpointEntry] = {}
        self._encoded: dict[str, msgspec.Raw] = {}
        self._unknown: Tree = {}
        self._unreadable: list[bytes] = []
        self._writing: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None
        #: Of the boot that the entries were written in; empty: there was no checkpoint.
        self.written_boot_id = ""
        #: Entries could not be read, and nobody has looked since for what their plans made. Kept on disk.
        self.lost = False

    # --- reading and changing -------------------------------------------------------------------------------------

    def __getitem__(self, uid: str) -> CheckpointEntry:
        return self._entries[uid]

    def get(self, uid: str) -> CheckpointEntry | None:
        """The entry of a claim."""
        return self._entries.get(uid)

    def __iter__(self) -> Iterator[tuple[str, CheckpointEntry]]:
        return iter(tuple(self._entries.items()))

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, uid: str, entry: CheckpointEntry) -> None:
        """Set an entry; fields of the one before that are not known here stay."""
        before = self._encoded.get(uid)
        data = _ENCODER.encode(entry)
        if before is not None:
            kept = {key: value for key, value in msgspec.json.decode(before).items() if key not in _FIELDS}
            if kept:
                data = msgspec.json.encode({**msgspec.json.decode(data), **kept})
        self._entries[uid] = entry
        self._encoded[uid] = msgspec.Raw(data)

    def delete(self, uid: str) -> None:
        """Forget an entry."""
        self._entries.pop(uid, None)
        self._encoded.pop(uid, None)

    def clear(self) -> None:
        """Forget all entries."""
        self._entries.clear()
        self._encoded.clear()
        self.lost = False

    # --- the file -------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Take what is stored in place of what is in memory. What cannot be read is set aside with the next save."""
        self.clear()
        self._unknown = {}
        self._unreadable.clear()
        self.written_boot_id = ""
        data = self._storage.load()
        if not data:
            return
        try:
            document = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            head = _HEAD.decode(data)
            if head.version != VERSION:
                raise ValueError(f"version: wanted {VERSION}, found {head.version}")
        except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
            log.error("%s: the checkpoint is set aside, for it cannot be read: %s", self._driver, error)
            self._unreadable.append(data.replace(b"\n", b" "))
            self.lost = True
            return
        self.written_boot_id = head.boot_id
        self.lost = head.lost
        self._unknown = {key: value for key, value in document.items() if key not in _HEAD_FIELDS}
        for uid, raw in head.claims.items():
            try:
                entry = _DECODER.decode(raw)
                if entry.version != VERSION:
                    raise ValueError(f"version: wanted {VERSION}, found {entry.version}")
            except (msgspec.MsgspecError, ValueError) as error:
                log.error("%s: the checkpoint of claim %s is set aside: %s", self._driver, uid, error)
                self._unreadable.append(msgspec.json.encode({"claim": uid, "error": str(error), "entry": raw}))
                self.lost = True
            else:
                self._entries[uid] = entry
                self._encoded[uid] = msgspec.Raw(bytes(raw))

    def refresh(self) -> None:
        """Read again where another process has written."""
        if self._storage.changed():
            self.load()

    async def save(self) -> None:
        """Return when everything that was changed before this call is stored. Raises OSError.

        Whoever comes while a write runs waits for the next one, which takes all of them along.
        """
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
            await asyncio.shield(self._writing)
            return
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._writing))
        await asyncio.shield(self._next)

    async def _after(self, writing: asyncio.Task[None]) -> None:
        await asyncio.wait((writing,))
        # From here on changes belong to the write after this one.
        self._writing, self._next = self._next, None
        await self._write()

    async def _write(self) -> None:
        try:
            for data in self._unreadable:
                await self._storage.set_aside(data)
            self._unreadable.clear()
            head = {"version": VERSION, "bootID": self.boot_id, **({"lost": True} if self.lost else {})}
            await self._storage.save(msgspec.json.encode({**self._unknown, **head, "claims": self._encoded}))
        finally:
            if self._next is None:
                self._writing = None


class _Head(msgspec.Struct):
    version: int
    boot_id: str = msgspec.field(default="", name="bootID")
    lost: bool = False
    claims: dict[str, msgspec.Raw] = {}


_HEAD: Final = msgspec.json.Decoder(_Head)
_DECODER: Final = msgspec.json.Decoder(CheckpointEntry)
_ENCODER: Final = msgspec.json.Encoder()
_HEAD_FIELDS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(_Head))
_FIELDS: Final = frozenset(field.encode_name for field in msgspec.structs.fields(CheckpointEntry))
