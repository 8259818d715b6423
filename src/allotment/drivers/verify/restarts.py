"""The driver's process ends, is killed in the middle of its work, and comes back."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.prepare import cdi_ids, check_same_answer, prepare_claim
from allotment.drivers.verify.publishing import changes, is_settled
from allotment.drivers.verify.registration import CHECKS as INTRODUCING
from allotment.drivers.verify.unprepare import check_removed
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.phrases import counted, first_few

_ROLLING = "drivers are updated while pods run"
_CRASH = "KEP-4381: calls are repeated until they succeed, whatever happened to the driver"
_POLL_SECONDS = 0.2


async def _claims_survive(session: DriverSession) -> str:
    async with session.claims(session.spec(), session.spec()) as (one, two):
        first = await prepare_claim(session, one)
        await prepare_claim(session, two)
        await session.restart()
        # One is asked for again, as by a kubelet that restarts, too; of the other only its end is heard.
        second = (await session.prepare(one.ref))[one.ref.uid]
        check_same_answer(first, second)
        if ids := cdi_ids(second):
            session.cdi.resolve(ids)
        await session.unprepare(one.ref, two.ref)
        check_removed(session, one)
        check_removed(session, two)
    return "prepared before, unprepared after"


async def _killed_preparing(session: DriverSession) -> str:
    for moment in session.patience.interrupt_at:
        for again in (True, False):
            async with session.claims(session.spec()) as (made,):
                call = asyncio.create_task(session.prepare(made.ref))
                await asyncio.wait((call,), timeout=session.prepare_seconds * moment)
                await _kill_and_restart(session, call)
                try:
                    if again:
                        answer = await prepare_claim(session, made)
                        if ids := cdi_ids(answer):
                            session.cdi.resolve(ids)
                    await session.unprepare(made.ref)
                    check_removed(session, made)
                except CheckFailed as wrong:
                    raise CheckFailed(f"after SIGKILL in prepare: {wrong.seen}", wrong.remedy, wrong.wanted) from None
    return f"{2 * len(session.patience.interrupt_at)} times killed, prepared or unprepared after"


async def _killed_unpreparing(session: DriverSession) -> str:
    for moment in session.patience.interrupt_at:
        async with session.claims(session.spec()) as (made,):
            await prepare_claim(session, made)
            call = asyncio.create_task(session.unprepare(made.ref))
            await asyncio.wait((call,), timeout=session.prepare_seconds * moment)
            await _kill_and_restart(session, call)
            try:
                await session.unprepare(made.ref)
                check_removed(session, made)
            except CheckFailed as wrong:
                raise CheckFailed(f"after SIGKILL in unprepare: {wrong.seen}", wrong.remedy, wrong.wanted) from None
    return f"{len(session.patience.interrupt_at)} times killed, unprepared after"


async def _kill_and_restart(session: DriverSession, call: asyncio.Task[Any]) -> None:
    """Kill the driver in the middle of a call, and start it again."""
    await session.kill()
    with suppress(CheckFailed):
        await call
    await session.start()


async def _slices_survive(session: DriverSession) -> str:
    before = await session.wait_for_slices(lambda found: is_settled(session.driver, found))
    if not before:
        raise CheckSkipped(f"{session.driver} has published nothing for {session.node}")
    await session.restart()
    loop = asyncio.get_running_loop()
    until = loop.time() + session.patience.quiet
    while loop.time() < until:
        if told := changes(before, await session.slices()):
            raise CheckFailed(
                f"ResourceSlice {first_few(told, 1)}",
                "compare with what is published and write only what differs, but for fields that the cluster drops "
                "because a feature gate is off; delete nothing when the driver ends",
            )
        await asyncio.sleep(_POLL_SECONDS)
    return f"{counted(len(before), 'slice')}, none written again"


async def _registers_again(session: DriverSession) -> str:
    await session.restart()
    for check in INTRODUCING:
        if check.name != "versions":
            await check.run(session)
    return "introduced and registered"


CHECKS = (
    DriverCheck(
        "restart-slices", "slices survive a restart of the driver, unchanged",
        "every write has all schedulers look again; pods wait while there are none", _slices_survive, needs_command=True,
    ),
    DriverCheck("restart-register", "the driver registers again after a restart", _ROLLING, _registers_again, needs_command=True),
    DriverCheck(
        "restart-claims", "claims that were prepared before a restart answer the same and can be unprepared",
        _ROLLING, _claims_survive, needs_command=True,
    ),
    DriverCheck(
        "kill-prepare", "after SIGKILL during prepare the claim can be prepared and unprepared, and nothing is left",
        _CRASH, _killed_preparing, needs_command=True,
    ),
    DriverCheck(
        "kill-unprepare", "after SIGKILL during unprepare the claim can be unprepared, and nothing is left",
        _CRASH, _killed_unpreparing, needs_command=True,
    ),
)  # fmt: skip
