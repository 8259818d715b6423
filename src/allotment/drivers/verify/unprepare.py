"""Checks of NodeUnprepareResources: nothing is left, and nothing keeps a pod from terminating."""

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
    session: DriverSession, claim: ClaimFixture, resolvable: frozenset[str] = frozenset(), ids: tuple[str, ...] = ()
) -> None:
    """Raise CheckFailed if the claim still has CDI files, or if one of ``ids`` can be resolved and was not before."""
    if left := session.cdi.files_of([claim.ref.uid]):
        raise CheckFailed(
            f"not deleted: {', '.join(sorted(map(str, left)))}",
            "delete the claim's CDI file in unprepare, and files left by a crash when the driver starts",
        )
    if still := sorted(session.cdi.names().intersection(ids) - resolvable):
        raise CheckFailed(f"{still[0]} can still be resolved", "delete the files that prepare has written")


async def _unprepare(session: DriverSession) -> str:
    # A driver may have one file for all of its devices, which stays.
    files, resolvable = session.cdi.files(), session.cdi.names()
    async with session.claims(session.spec()) as (claim,):
        ids = tuple(cdi_ids(await prepare_claim(session, claim)))
        own = session.cdi.files_of([claim.ref.uid], files)
        await session.unprepare(claim.ref)
        check_removed(session, claim, resolvable, ids)
        if not own:
            return "no separate CDI file for the claim" if ids else "no CDI device IDs"
        return f"{counted(len(own), 'CDI file')} written, none left"


async def _twice(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (claim,):
        await prepare_claim(session, claim)
        await session.unprepare(claim.ref)
        await session.unprepare(claim.ref)
        return "no error"


async def _unknown(session: DriverSession) -> str:
    await session.unprepare(ClaimRef("default", str(uuid.uuid4()), "never-prepared"))
    return "no error"


async def _deleted(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (claim,):
        await prepare_claim(session, claim)
        await session.fixtures.remove(claim.ref)
        await _wait_deleted(session, claim.ref)
        await session.unprepare(claim.ref)
        check_removed(session, claim)
        return "no error, nothing left"


async def _wait_deleted(session: DriverSession, ref: ClaimRef) -> None:
    deadline = asyncio.get_running_loop().time() + session.timeouts.publish
    while asyncio.get_running_loop().time() < deadline:
        try:
            await session.client.get(CLAIMS, ref.name, ref.namespace)
        except StatusError as error:
            if error.code == 404:
                return
            raise
        await asyncio.sleep(_POLL_SECONDS)
    raise CheckSkipped(f"claim {ref.namespace}/{ref.name} was not deleted: a finalizer prevents it")


CHECKS = (
    DriverCheck("unprepare", "the claim's CDI files are deleted", _CALLS, _unprepare),
    DriverCheck("unprepare-twice", "unpreparing again succeeds", _CALLS, _twice),
    DriverCheck("unprepare-unknown", "unpreparing a claim that was never prepared succeeds", _CALLS, _unknown),
    DriverCheck(
        "unprepare-deleted", "a claim that was deleted from the API is unprepared",
        "kubelet: force-deleted pods are cleaned up after their claims are deleted", _deleted,
    ),
)  # fmt: skip
