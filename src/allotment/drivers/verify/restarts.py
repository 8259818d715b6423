"""The driver's process ends, is killed in the middle of its work, and comes back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from allotment.drivers.verify.check import Check
from allotment.drivers.verify.driver_under_test import Trial
from allotment.drivers.verify.prepare import ids_of, prepared, same
from allotment.drivers.verify.publishing import changes, settled
from allotment.drivers.verify.registration import CHECKS as INTRODUCING
from allotment.drivers.verify.unprepare import gone
from allotment.drivers.verify.verdict import NotChecked, Wrong
from allotment.phrases import counted, some

_ROLLING = "drivers are updated while pods run"
_CRASH = "KEP-4381: calls are repeated until they succeed, whatever happened to the driver"
_LOOK_SECONDS = 0.2


async def _keeps(trial: Trial) -> str:
    async with trial.claims(trial.spec(), trial.spec()) as (one, two):
        first = await prepared(trial, one)
        await prepared(trial, two)
        await trial.restart()
        # One is asked for again, as by a kubelet that restarts, too; of the other only its end is heard.
        second = (await trial.prepare(one.ref))[one.ref.uid]
        same(first, second)
        if ids := ids_of(second):
            trial.cdi.resolve(ids)
        await trial.unprepare(one.ref, two.ref)
        gone(trial, one)
        gone(trial, two)
    return "prepared before, unprepared after"


async def _killed_preparing(trial: Trial) -> str:
    for moment in trial.patience.moments:
        for again in (True, False):
            async with trial.claims(trial.spec()) as (made,):
                call = asyncio.create_task(trial.prepare(made.ref))
                await asyncio.wait((call,), timeout=trial.prepare_seconds * moment)
                await _die(trial, call)
                try:
                    if again:
                        answer = await prepared(trial, made)
                        if ids := ids_of(answer):
                            trial.cdi.resolve(ids)
                    await trial.unprepare(made.ref)
                    gone(trial, made)
                except Wrong as wrong:
                    raise Wrong(f"after SIGKILL in prepare: {wrong.seen}", wrong.remedy, wrong.wanted) from None
    return f"{2 * len(trial.patience.moments)} times killed, prepared or unprepared after"


async def _killed_unpreparing(trial: Trial) -> str:
    for moment in trial.patience.moments:
        async with trial.claims(trial.spec()) as (made,):
            await prepared(trial, made)
            call = asyncio.create_task(trial.unprepare(made.ref))
            await asyncio.wait((call,), timeout=trial.prepare_seconds * moment)
            await _die(trial, call)
            try:
                await trial.unprepare(made.ref)
                gone(trial, made)
            except Wrong as wrong:
                raise Wrong(f"after SIGKILL in unprepare: {wrong.seen}", wrong.remedy, wrong.wanted) from None
    return f"{len(trial.patience.moments)} times killed, unprepared after"


async def _die(trial: Trial, call: asyncio.Task[Any]) -> None:
    """Kill the driver in the middle of a call, and start it again."""
    await trial.kill()
    with suppress(Wrong):
        await call
    await trial.start()


async def _slices(trial: Trial) -> str:
    before = await trial.until(lambda found: settled(trial.driver, found))
    if not before:
        raise NotChecked(f"{trial.driver} has published nothing for {trial.node}")
    await trial.restart()
    loop = asyncio.get_running_loop()
    until = loop.time() + trial.patience.quiet
    while loop.time() < until:
        if told := changes(before, await trial.slices()):
            raise Wrong(
                f"ResourceSlice {some(told, 1)}",
                "compare with what is published and write only what differs, but for fields that the cluster drops "
                "because a feature gate is off; delete nothing when the driver ends",
            )
        await asyncio.sleep(_LOOK_SECONDS)
    return f"{counted(len(before), 'slice')}, none written again"


async def _registers(trial: Trial) -> str:
    await trial.restart()
    for check in INTRODUCING:
        if check.name != "versions":
            await check.run(trial)
    return "introduced and registered"


CHECKS = (
    Check(
        "restart-slices", "slices survive a restart of the driver, unchanged",
        "every write has all schedulers look again; pods wait while there are none", _slices, needs_command=True,
    ),
    Check("restart-register", "the driver registers again after a restart", _ROLLING, _registers, needs_command=True),
    Check(
        "restart-claims", "claims that were prepared before a restart answer the same and can be unprepared",
        _ROLLING, _keeps, needs_command=True,
    ),
    Check(
        "kill-prepare", "after SIGKILL during prepare the claim can be prepared and unprepared, and nothing is left",
        _CRASH, _killed_preparing, needs_command=True,
    ),
    Check(
        "kill-unprepare", "after SIGKILL during unprepare the claim can be unprepared, and nothing is left",
        _CRASH, _killed_unpreparing, needs_command=True,
    ),
)  # fmt: skip
