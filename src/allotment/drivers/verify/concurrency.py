"""Checks of concurrent calls, of calls for several claims, and of canceled calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.claim_fixtures import ClaimFixture
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.prepare import cdi_ids, check_answer, check_same_answer, prepare_claim
from allotment.drivers.verify.unprepare import check_removed
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped

_T = TypeVar("_T")

_CLAIMS: Final = 3
_CALLERS: Final = 4


@asynccontextmanager
async def _several_claims(session: DriverSession) -> AsyncIterator[list[ClaimFixture]]:
    """Yield three claims, or two if there are not enough devices. Raises CheckSkipped."""
    specs = [session.spec()] * _CLAIMS
    try:
        claims = await session.create_claims(*specs)
    except CheckSkipped:
        claims = await session.create_claims(*specs[1:])
    try:
        yield claims
    finally:
        await session.release(*(claim.ref for claim in claims))


async def _batch(session: DriverSession) -> str:
    async with _several_claims(session) as claims:
        answers = await session.prepare(*(claim.ref for claim in claims))
        for claim in claims:
            check_answer(claim, answers[claim.ref.uid])
        _check_resolved(session, [cdi_ids(answers[claim.ref.uid]) for claim in claims])
        await session.unprepare(*(claim.ref for claim in claims))
        for claim in claims:
            check_removed(session, claim)
        return f"{len(claims)} claims in one call"


async def _concurrent(session: DriverSession) -> str:
    async with _several_claims(session) as claims:
        answers = await _gather([prepare_claim(session, claim) for claim in claims])
        _check_resolved(session, [cdi_ids(answer) for answer in answers])
        await _gather([session.unprepare(claim.ref) for claim in claims])
        for claim in claims:
            check_removed(session, claim)
        return f"{len(claims)} concurrent calls"


def _check_resolved(session: DriverSession, ids: Sequence[Sequence[str]]) -> None:
    """Resolve the IDs of each claim. Raises CheckFailed if a runtime would reject them."""
    for claim_ids in ids:
        if claim_ids:
            session.cdi.resolve(claim_ids)


async def _same_claim(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (claim,):
        first, *others = await _gather([prepare_claim(session, claim) for _ in range(_CALLERS)])
        for other in others:
            check_same_answer(first, other)
        await _gather([session.unprepare(claim.ref) for _ in range(_CALLERS)])
        check_removed(session, claim)
    return f"{_CALLERS} concurrent calls, identical responses"


async def _gather(calls: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Await all calls, even if one fails. Raises the first exception."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    values: list[_T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        values.append(result)
    return values


async def _hang_up(session: DriverSession) -> str:
    for fraction in session.timeouts.interrupt_at:
        async with session.claims(session.spec()) as (claim,):
            await cancel_after(session.prepare(claim.ref), session.prepare_seconds * fraction)
            try:
                answer = await prepare_claim(session, claim)
                if ids := cdi_ids(answer):
                    session.cdi.resolve(ids)
                await cancel_after(session.unprepare(claim.ref), session.prepare_seconds * fraction)
                await session.unprepare(claim.ref)
                check_removed(session, claim)
            except CheckFailed as error:
                raise CheckFailed(f"after a canceled call: {error.seen}", error.remedy, error.expected) from None
    return f"{2 * len(session.timeouts.interrupt_at)} calls canceled, each answered when retried"


async def cancel_after(call: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Start a call and cancel it."""
    task = asyncio.create_task(call)
    await asyncio.wait((task,), timeout=seconds)
    if seconds == 0:
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError, CheckFailed, CheckSkipped):
        await task


CHECKS = (
    DriverCheck(
        "several-claims", "the response contains every claim of the call",
        "KEP-4381: one call for all claims of a pod", _batch,
    ),
    DriverCheck(
        "concurrent", "calls for different claims may be concurrent",
        "kubelet: one pod does not wait for another", _concurrent,
    ),
    DriverCheck(
        "same-at-once", "concurrent calls for a claim return the same response",
        "kubelet: a call that timed out is retried while the driver is still processing it", _same_claim,
    ),
    DriverCheck(
        "hang-up", "after a canceled call, the next one succeeds",
        "kubelet: after 45 s, the call is canceled and retried", _hang_up,
    ),
)  # fmt: skip
