"""Recovery of a driver from the end of its last process, before the kubelet calls."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from allotment.drivers.driver import ClaimError, DaemonDriver, Driver, StatefulDriver, SweepingDriver
from allotment.drivers.preparation.cdi_files import ClaimFiles
from allotment.drivers.preparation.checkpoint import Checkpoint, CheckpointEntry

log = logging.getLogger(__name__)


async def recover(
    driver: Driver, boot_id: str, checkpoint: Checkpoint, files: ClaimFiles,
    undo: Callable[[str, CheckpointEntry], Awaitable[None]],
) -> None:  # fmt: skip
    """Load the checkpoint, rewrite missing CDI files, and undo started entries.

    ``undo`` deletes the entry or raises ClaimError. Failures are logged, and the entry stays on record.
    """
    checkpoint.load()
    restarted = checkpoint.written_boot_id not in ("", boot_id)
    if restarted:
        log.info("%s: the node was restarted; checkpoint entries removed: %d", driver.name, len(checkpoint))
        checkpoint.clear()
    for uid, entry in checkpoint:
        try:
            if entry.state == "completed":
                await files.restore(uid, entry)
                await ensure_running(driver, entry)
            else:
                await undo(uid, entry)
        except ClaimError as error:
            log.error("%s: claim %s/%s: %s", driver.name, entry.namespace, entry.name, error)
    try:
        if not checkpoint.lost:  # otherwise the files of lost entries cannot be identified
            await files.remove_others({uid for uid, _ in checkpoint})
        await save(checkpoint)
    except ClaimError as error:
        log.error("%s: %s", driver.name, error)
    if isinstance(driver, StatefulDriver):
        try:
            driver.restore(tuple(entry.plan for _, entry in checkpoint))
        except Exception:
            log.exception("%s: unexpected error while restoring the prepared claims", driver.name)


async def sweep(driver: Driver, checkpoint: Checkpoint, files: ClaimFiles) -> None:
    """After entries were lost: undo the changes of their plans once no file remains that their containers use.

    The caller must hold the locks of all claims. Failures are logged and retried by the next call.
    """
    if not checkpoint.lost or files.uids() - {uid for uid, _ in checkpoint}:
        return
    try:
        if isinstance(driver, SweepingDriver):
            await driver.sweep(tuple(entry.plan for _, entry in checkpoint))
        checkpoint.lost = False
        await save(checkpoint)
    except ClaimError as error:
        log.error("%s: cannot undo all changes that are missing from the checkpoint: %s", driver.name, error)
    except Exception:
        log.exception("%s: unexpected error while undoing changes that are missing from the checkpoint", driver.name)
    else:
        log.info("%s: undid changes that were missing from the checkpoint", driver.name)


async def ensure_running(driver: Driver, entry: CheckpointEntry) -> None:
    """Restart the processes that a prepared claim needs. Raises ClaimError."""
    if isinstance(driver, DaemonDriver):
        try:
            await driver.ensure_running(entry.plan)
        except Exception as error:
            raise as_claim_error(error) from error


def as_claim_error(error: Exception) -> ClaimError:
    """Return an exception of a driver as the error of a claim."""
    return error if isinstance(error, ClaimError) else ClaimError(str(error) or type(error).__name__)


async def save(checkpoint: Checkpoint) -> None:
    """Return when the checkpoint is on disk. Raises ClaimError."""
    try:
        await checkpoint.save()
    except OSError as error:
        raise ClaimError(f"cannot write the driver's checkpoint: {error}") from error
