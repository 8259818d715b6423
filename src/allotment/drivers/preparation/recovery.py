"""How a driver comes back: what its last process left is put right before anybody calls."""

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
    """Load the checkpoint, write CDI files again, and undo what was begun.

    ``undo`` forgets the entry, or raises Refused. What cannot be put right now stays on record and is logged.
    """
    checkpoint.load()
    restarted = checkpoint.written_boot_id not in ("", boot_id)
    if restarted:
        log.info("%s: the node was restarted; %d prepared claims are gone", driver.name, len(checkpoint))
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
        if not checkpoint.lost:  # else nobody knows whose files may go
            await files.remove_others({uid for uid, _ in checkpoint})
        await save(checkpoint)
    except ClaimError as error:
        log.error("%s: %s", driver.name, error)
    if isinstance(driver, StatefulDriver):
        try:
            driver.restore(tuple(entry.plan for _, entry in checkpoint))
        except Exception:
            log.exception("%s: what was prepared before could not be recalled", driver.name)


async def sweep(driver: Driver, checkpoint: Checkpoint, files: ClaimFiles) -> None:
    """After plans were lost: undo what they made, once no claim without a plan has a file that containers use.

    Nobody else may work on claims meanwhile. What fails is logged, and tried the next time.
    """
    if not checkpoint.lost or files.uids() - {uid for uid, _ in checkpoint}:
        return
    try:
        if isinstance(driver, SweepingDriver):
            await driver.sweep(tuple(entry.plan for _, entry in checkpoint))
        checkpoint.lost = False
        await save(checkpoint)
    except ClaimError as error:
        log.error("%s: not all that was left without a record could be undone: %s", driver.name, error)
    except Exception:
        log.exception("%s: what was left without a record could not be undone", driver.name)
    else:
        log.info("%s: nothing is left of what had no record", driver.name)


async def ensure_running(driver: Driver, entry: CheckpointEntry) -> None:
    """Have everything run that a prepared claim needs. Raises Refused."""
    if isinstance(driver, DaemonDriver):
        try:
            await driver.ensure_running(entry.plan)
        except Exception as error:
            raise as_claim_error(error) from error


def as_claim_error(error: Exception) -> ClaimError:
    """Whatever a driver raised, as an answer for a claim."""
    return error if isinstance(error, ClaimError) else ClaimError(str(error) or type(error).__name__)


async def save(checkpoint: Checkpoint) -> None:
    """Return when a checkpoint is on disk. Raises Refused."""
    try:
        await checkpoint.save()
    except OSError as error:
        raise ClaimError(f"the driver's checkpoint could not be written: {error}") from error
