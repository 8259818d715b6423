"""Several claims, and several calls, at the same time; calls that nobody waits for any more."""

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

_T = TypeVar("T")

_MANY: Final = 3
_CALLERS: Final = 4


@asynccontextmanager
async def _several_claims(session: DriverSession) -> AsyncIterator[list[ClaimFixture]]:
    """Three claims, or two where there are no more devices. Raises NotChecked."""
    specs = [session.spec()] * _MANY
    try:
        made = await session.create_claims(*specs)
    except CheckSkipped:
        made = await session.create_claims(*specs[1:])
    try:
        yield made
    finally:
        await session.release(*(each.ref for each in made))


async def _batch(session: DriverSession) -> str:
    async with _several_claims(session) as made:
        answers = await session.prepare(*(each.ref for each in made))
        for each in made:
            check_answer(each, answers[each.ref.uid])
        _check_resolved(session, [cdi_ids(answers[each.ref.uid]) for each in made])
        await session.unprepare(*(each.ref for each in made))
        for each in made:
            check_removed(session, each)
        return f"{len(made)} claims in one call"


async def _concurrent(session: DriverSession) -> str:
    async with _several_claims(session) as made:
        answers = await _gather([prepare_claim(session, each) for each in made])
        _check_resolved(session, [cdi_ids(answer) for answer in answers])
        await _gather([session.unprepare(each.ref) for each in made])
        for each in made:
            check_removed(session, each)
        return f"{len(made)} calls at a time"


def _check_resolved(session: DriverSession, ids: Sequence[Sequence[str]]) -> None:
    """Raises Wrong if claims share ids that their devices do not, or one does not resolve."""
    for each in ids:
        if each:
            session.cdi.resolve(each)


async def _same_claim(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (made,):
        first, *others = await _gather([prepare_claim(session, made) for _ in range(_CALLERS)])
        for other in others:
            check_same_answer(first, other)
        await _gather([session.unprepare(made.ref) for _ in range(_CALLERS)])
        check_removed(session, made)
    return f"{_CALLERS} calls at a time, one answer"


async def _gather(calls: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """All of them to the end, whatever becomes of one. Raises the first Wrong."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    done: list[_T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


async def _hang_up(session: DriverSession) -> str:
    for moment in session.patience.interrupt_at:
        async with session.claims(session.spec()) as (made,):
            await cancel_after(session.prepare(made.ref), session.prepare_seconds * moment)
            try:
                answer = await prepare_claim(session, made)
                if ids := cdi_ids(answer):
                    session.cdi.resolve(ids)
                await cancel_after(session.unprepare(made.ref), session.prepare_seconds * moment)
                await session.unprepare(made.ref)
                check_removed(session, made)
            except CheckFailed as wrong:
                raise CheckFailed(f"after a call that was given up: {wrong.seen}", wrong.remedy, wrong.wanted) from None
    return f"{2 * len(session.patience.interrupt_at)} calls given up, each answered when asked again"


async def cancel_after(call: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Begin a call and hang up."""
    task = asyncio.create_task(call)
    await asyncio.wait((task,), timeout=seconds)
    if seconds == 0:
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError, CheckFailed, CheckSkipped):
        await task


CHECKS = (
    DriverCheck("several-claims", "all claims of a call are answered", "KEP-4381: one call for all claims of a pod", _batch),
    DriverCheck("concurrent", "calls for different claims may come at the same time", "kubelet: one pod does not wait for"
          " another", _concurrent),
    DriverCheck("same-at-once", "calls for one claim at the same time have one answer", "kubelet: a call that timed out is"
          " repeated while the driver still works on it", _same_claim),
    DriverCheck("hang-up", "after a call that was given up halfway the next one succeeds", "kubelet: 45 s for a call, then it"
          " hangs up and tries again", _hang_up),
)  # fmt: skip
