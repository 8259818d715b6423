"""Several claims, and several calls, at the same time; calls that nobody waits for any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

from allotment.drivers.verify.check import Check
from allotment.drivers.verify.claim_fixtures import Borrowed
from allotment.drivers.verify.driver_under_test import Trial
from allotment.drivers.verify.prepare import ids_of, judged, prepared, same
from allotment.drivers.verify.unprepare import gone
from allotment.drivers.verify.verdict import NotChecked, Wrong

T = TypeVar("T")

_MANY: Final = 3
_CALLERS: Final = 4


@asynccontextmanager
async def _several(trial: Trial) -> AsyncIterator[list[Borrowed]]:
    """Three claims, or two where there are no more devices. Raises NotChecked."""
    specs = [trial.spec()] * _MANY
    try:
        made = await trial.allocated(*specs)
    except NotChecked:
        made = await trial.allocated(*specs[1:])
    try:
        yield made
    finally:
        await trial.give_back(*(each.ref for each in made))


async def _batch(trial: Trial) -> str:
    async with _several(trial) as made:
        answers = await trial.prepare(*(each.ref for each in made))
        for each in made:
            judged(each, answers[each.ref.uid])
        _resolved(trial, [ids_of(answers[each.ref.uid]) for each in made])
        await trial.unprepare(*(each.ref for each in made))
        for each in made:
            gone(trial, each)
        return f"{len(made)} claims in one call"


async def _side_by_side(trial: Trial) -> str:
    async with _several(trial) as made:
        answers = await _together([prepared(trial, each) for each in made])
        _resolved(trial, [ids_of(answer) for answer in answers])
        await _together([trial.unprepare(each.ref) for each in made])
        for each in made:
            gone(trial, each)
        return f"{len(made)} calls at a time"


def _resolved(trial: Trial, ids: Sequence[Sequence[str]]) -> None:
    """Raises Wrong if claims share ids that their devices do not, or one does not resolve."""
    for each in ids:
        if each:
            trial.cdi.resolve(each)


async def _same_claim(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (made,):
        first, *others = await _together([prepared(trial, made) for _ in range(_CALLERS)])
        for other in others:
            same(first, other)
        await _together([trial.unprepare(made.ref) for _ in range(_CALLERS)])
        gone(trial, made)
    return f"{_CALLERS} calls at a time, one answer"


async def _together(calls: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """All of them to the end, whatever becomes of one. Raises the first Wrong."""
    results = await asyncio.gather(*calls, return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done


async def _hang_up(trial: Trial) -> str:
    for moment in trial.patience.moments:
        async with trial.claims(trial.spec()) as (made,):
            await cut_short(trial.prepare(made.ref), trial.prepare_seconds * moment)
            try:
                answer = await prepared(trial, made)
                if ids := ids_of(answer):
                    trial.cdi.resolve(ids)
                await cut_short(trial.unprepare(made.ref), trial.prepare_seconds * moment)
                await trial.unprepare(made.ref)
                gone(trial, made)
            except Wrong as wrong:
                raise Wrong(f"after a call that was given up: {wrong.seen}", wrong.remedy, wrong.wanted) from None
    return f"{2 * len(trial.patience.moments)} calls given up, each answered when asked again"


async def cut_short(call: Coroutine[Any, Any, Any], seconds: float) -> None:
    """Begin a call and hang up."""
    task = asyncio.create_task(call)
    await asyncio.wait((task,), timeout=seconds)
    if seconds == 0:
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError, Wrong, NotChecked):
        await task


CHECKS = (
    Check("several-claims", "all claims of a call are answered", "KEP-4381: one call for all claims of a pod", _batch),
    Check("concurrent", "calls for different claims may come at the same time", "kubelet: one pod does not wait for"
          " another", _side_by_side),
    Check("same-at-once", "calls for one claim at the same time have one answer", "kubelet: a call that timed out is"
          " repeated while the driver still works on it", _same_claim),
    Check("hang-up", "after a call that was given up halfway the next one succeeds", "kubelet: 45 s for a call, then it"
          " hangs up and tries again", _hang_up),
)  # fmt: skip
