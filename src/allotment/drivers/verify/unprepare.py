"""Unpreparing: nothing stays behind, and nothing is in the way of a pod that wants to end."""

from __future__ import annotations

import asyncio
import uuid

from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS
from allotment.drivers.verify.check import Check
from allotment.drivers.verify.claim_fixtures import Borrowed
from allotment.drivers.verify.driver_under_test import Trial
from allotment.drivers.verify.prepare import ids_of, prepared
from allotment.drivers.verify.verdict import NotChecked, Wrong
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.phrases import counted

_CALLS = "KEP-4381, NodeUnprepareResources"
_LOOK_SECONDS = 0.05


def gone(trial: Trial, made: Borrowed, known: frozenset[str] = frozenset(), ids: tuple[str, ...] = ()) -> None:
    """Raises Wrong if CDI still has something of a claim; ``known``: ids that were there before it."""
    if left := trial.cdi.of([made.ref.uid]):
        raise Wrong(
            f"left behind: {', '.join(sorted(map(str, left)))}",
            "remove the claim's CDI file in unprepare, and what a crash left of it when the driver starts",
        )
    if still := sorted(trial.cdi.names().intersection(ids) - known):
        raise Wrong(f"{still[0]} still resolves", "remove what prepare has written")


async def _unprepare(trial: Trial) -> str:
    # A driver may have one file for all of its devices: what it says there stays.
    before, known = trial.cdi.files(), trial.cdi.names()
    async with trial.claims(trial.spec()) as (made,):
        ids = tuple(ids_of(await prepared(trial, made)))
        own = trial.cdi.of([made.ref.uid], before)
        await trial.unprepare(made.ref)
        gone(trial, made, known, ids)
        if not own:
            return "no CDI file of the claim's own" if ids else "no CDI ids"
        return f"{counted(len(own), 'CDI file')} written, none left"


async def _twice(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (made,):
        await prepared(trial, made)
        await trial.unprepare(made.ref)
        await trial.unprepare(made.ref)
        return "no error"


async def _unknown(trial: Trial) -> str:
    await trial.unprepare(ClaimRef("default", str(uuid.uuid4()), "never-prepared"))
    return "no error"


async def _deleted(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (made,):
        await prepared(trial, made)
        await trial.borrower.remove(made.ref)
        await _absent(trial, made.ref)
        await trial.unprepare(made.ref)
        gone(trial, made)
        return "no error, nothing left"


async def _absent(trial: Trial, ref: ClaimRef) -> None:
    until = asyncio.get_running_loop().time() + trial.patience.publish
    while asyncio.get_running_loop().time() < until:
        try:
            await trial.client.get(CLAIMS, ref.name, ref.namespace)
        except StatusError as error:
            if error.code == 404:
                return
            raise
        await asyncio.sleep(_LOOK_SECONDS)
    raise NotChecked(f"claim {ref.namespace}/{ref.name} does not go away: something holds it by a finalizer")


CHECKS = (
    Check("unprepare", "what CDI had for the claim is gone", _CALLS, _unprepare),
    Check("unprepare-twice", "unpreparing again is no error", _CALLS, _twice),
    Check("unprepare-unknown", "a claim that was never prepared is unprepared without error", _CALLS, _unknown),
    Check(
        "unprepare-deleted", "a claim that is no longer in the API is unprepared", "kubelet: pods that were deleted by"
        " force are cleaned up after their claims are gone", _deleted,
    ),
)  # fmt: skip
