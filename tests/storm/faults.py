"""Faults of a lab that a storm must notice, each with what it reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any, Final
from unittest.mock import patch

from allotment.apiserver import deletion
from allotment.apiserver.reads.watch import Watch
from allotment.apiserver.storage import database_file
from allotment.apiserver.storage.database_file import DatabaseFile, LogRow
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.apiserver.storage.store import Change
from allotment.controllers import node_lifecycle
from allotment.controllers.resource_claims import _ResourceClaims
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import ClaimLedger
from tests.storm.fault import Fault


def _acknowledge_early() -> None:
    async def durable(store: SqliteStore, revision: int | None = None) -> None:
        pass

    patch.object(SqliteStore, "durable", durable).start()


def _notify_early() -> None:
    subscribe, changes = SqliteStore.subscribe, SqliteStore.changes

    def subscribe_early(
        store: SqliteStore, resource: str, callback: Callable[[Change], None], *, early: bool = False
    ) -> Callable[[], None]:
        return subscribe(store, resource, callback, early=True)

    def changes_early(store: SqliteStore, resource: str, after: int, *, early: bool = False) -> Iterable[Change]:
        return changes(store, resource, after, early=True)

    patch.object(SqliteStore, "subscribe", subscribe_early).start()
    patch.object(SqliteStore, "changes", changes_early).start()


def _lose_events() -> None:
    enqueue, numbers = Watch._enqueue, count(1)

    def enqueue_most(watch: Watch, change: Change) -> None:
        if watch._early or next(numbers) % 20:
            enqueue(watch, change)

    patch.object(Watch, "_enqueue", enqueue_most).start()


def _lose_ends_of_batches() -> None:
    append = DatabaseFile.append

    def append_most(file: DatabaseFile, rows: Sequence[LogRow]) -> None:
        append(file, rows[:-1] if len(rows) > 2 else rows)

    patch.object(DatabaseFile, "append", append_most).start()


def _lose_deletions() -> None:
    append = DatabaseFile.append

    def append_others(file: DatabaseFile, rows: Sequence[LogRow]) -> None:
        append(file, [row._replace(deleted=0) for row in rows])

    patch.object(DatabaseFile, "append", append_others).start()


def _lose_merged_objects() -> None:
    first, *rest = database_file._FOLD
    partly = first.replace("AND NOT deleted", "AND NOT deleted AND revision % 10")
    assert partly != first
    patch.object(database_file, "_FOLD", (partly, *rest)).start()


def _release_claims_early() -> None:
    async def sync_claim(controller: Any, key: Any) -> None:
        claim = controller._claims.item(key.namespace, key.name)
        if claim is not None and claim.deleting and claim.metadata.get("finalizers"):
            await controller._remove_finalizer(claim)
        else:
            await regular(controller, key)

    regular = _ResourceClaims._sync_claim
    patch.object(_ResourceClaims, "_sync_claim", sync_claim).start()


def _keep_claims() -> None:
    async def sync_claim(controller: Any, key: Any) -> None:
        pass

    patch.object(_ResourceClaims, "_sync_claim", sync_claim).start()


def _ignore_finalizers() -> None:
    adjust = deletion._adjust_finalizers

    def adjust_and_clear(meta: Tree, *arguments: Any) -> None:
        adjust(meta, *arguments)
        meta.pop("finalizers", None)

    patch.object(deletion, "_adjust_finalizers", adjust_and_clear).start()


def _allocate_twice() -> None:
    def book(ledger: ClaimLedger, key: Any, allocation: object, tree: Tree) -> None:
        ledger._booked[key] = tree

    def unbook(ledger: ClaimLedger, key: Any) -> bool:
        return ledger._booked.pop(key, None) is not None

    patch.object(ClaimLedger, "_book", book).start()
    patch.object(ClaimLedger, "_unbook", unbook).start()


def _change_uids() -> None:
    log = DatabaseFile.log

    def log_differently(file: DatabaseFile) -> Iterable[LogRow]:
        for row in log(file):
            yield row._replace(value=row.value.replace(b'"uid":"0', b'"uid":"1')) if row.resource == "pods" else row

    patch.object(DatabaseFile, "log", log_differently).start()


def _count_pauses() -> None:
    patch.object(node_lifecycle.RunningTime, "seconds", lambda time: time._clock.seconds()).start()


#: Noticed by :mod:`tests.storm.pauses`.
PAUSE_FAULTS: Final[Mapping[str, Fault]] = {
    "nodes are silent while the process is stopped": Fault(_count_pauses, "is not ready")
}
#: Noticed by :mod:`tests.storm.storm`.
FAULTS: Final[Mapping[str, Fault]] = {
    "writes are acknowledged before they are written": Fault(_acknowledge_early, "acknowledged"),
    "events are sent before their writes are written": Fault(_notify_early, "in the events"),
    "an event of a watch is lost": Fault(_lose_events, "watch of"),
    "the last write of a batch is lost": Fault(_lose_ends_of_batches, "acknowledged"),
    "deletions are not stored": Fault(_lose_deletions, "its deletion was acknowledged, but it exists"),
    "objects are lost when the log is merged": Fault(_lose_merged_objects, ""),
    "the finalizer of a claim is removed too early": Fault(_release_claims_early, "was deleted while it was allocated"),
    "deletions ignore finalizers": Fault(_ignore_finalizers, "acknowledged, and lost"),
    "a device is allocated twice": Fault(_allocate_twice, "is allocated to"),
    "claims of deleted pods stay": Fault(_keep_claims, "not settled"),
    "a restart changes UIDs": Fault(_change_uids, "now another object"),
}
