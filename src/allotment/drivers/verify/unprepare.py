"""Unpreparing: nothing stays behind, and nothing is in the way of a pod that wants to end."""

from __future__ import annotations

import asyncio
import uuid

from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS
from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.claim_fixtures import ClaimFixture
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.prepare import cdi_ids, prepare_claim
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.phrases import counted

_CALLS = "KEP-4381, NodeUnprepareResources"
_POLL_SECONDS = 0.05


def check_removed(
    session: DriverSession, made: ClaimFixture, known: frozenset[str] = frozenset(), ids: tuple[str, ...] = ()
) -> None:
    """Raises Wrong if CDI still has something of a claim; ``known``: ids that were there before it."""
    if left := session.cdi.files_of([made.ref.uid]):
        raise CheckFailed(
            f"left behind: {', '.join(sorted(map(str, left)))}",
            "remove the claim's CDI file in unprepare, and what a crash left of it when the driver starts",
        )
    if still := sorted(session.cdi.names().intersection(ids) - known):
        raise CheckFailed(f"{still[0]} still resolves", "remove what prepare has written")


async def _unprepare(session: DriverSession) -> str:
    # A driver may have one file for all of its devices: what it says there stays.
    before, known = session.cdi.files(), session.cdi.names()
    async with session.claims(session.spec()) as (made,):
        ids = tuple(cdi_ids(await prepare_claim(session, made)))
        own = session.cdi.files_of([made.ref.uid], before)
        await session.unprepare(made.ref)
        check_removed(session, made, known, ids)
        if not own:
            return "no CDI file of the claim's own" if ids else "no CDI ids"
        return f"{counted(len(own), 'CDI file')} written, none left"


async def _twice(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (made,):
        await prepare_claim(session, made)
        await session.unprepare(made.ref)
        await session.unprepare(made.ref)
        return "no error"


async def _unknown(session: DriverSession) -> str:
    await session.unprepare(ClaimRef("default", str(uuid.uuid4()), "never-prepared"))
    return "no error"


async def _deleted(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (made,):
        await prepare_claim(session, made)
        await session.fixtures.remove(made.ref)
        await _wait_deleted(session, made.ref)
        await session.unprepare(made.ref)
        check_removed(session, made)
        return "no error, nothing left"


async def _wait_deleted(session: DriverSession, ref: ClaimRef) -> None:
    until = asyncio.get_running_loop().time() + session.patience.publish
    while asyncio.get_running_loop().time() < until:
        try:
            await session.client.get(CLAIMS, ref.name, ref.namespace)
        except StatusError as error:
            if error.code == 404:
                return
            raise
        await asyncio.sleep(_POLL_SECONDS)
    raise CheckSkipped(f"claim {ref.namespace}/{ref.name} does not go away: something holds it by a finalizer")


CHECKS = (
    DriverCheck("unprepare", "what CDI had for the claim is gone", _CALLS, _unprepare),
    DriverCheck("unprepare-twice", "unpreparing again is no error", _CALLS, _twice),
    DriverCheck("unprepare-unknown", "a claim that was never prepared is unprepared without error", _CALLS, _unknown),
    DriverCheck(
        "unprepare-deleted", "a claim that is no longer in the API is unprepared", "kubelet: pods that were deleted by"
        " force are cleaned up after their claims are gone", _deleted,
    ),
)  # fmt: skip
