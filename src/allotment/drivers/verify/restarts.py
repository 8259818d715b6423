"""Checks of restarts and crashes of the driver's process."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.prepare import cdi_ids, check_same_answer, prepare_claim
from allotment.drivers.verify.publishing import changes, is_settled
from allotment.drivers.verify.registration import CHECKS as REGISTRATION_CHECKS
from allotment.drivers.verify.unprepare import check_removed
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.phrases import counted, first_few

_ROLLING = "drivers are updated while pods run"
_CRASH = "KEP-4381: calls are retried until they succeed, even if the driver crashes"
_POLL_SECONDS = 0.2


async def _claims_survive(session: DriverSession) -> str:
    async with session.claims(session.spec(), session.spec()) as (first, second):
        before = await prepare_claim(session, first)
        await prepare_claim(session, second)
        await session.restart()
        # The kubelet prepares the first claim again, as after its own restart; for the second it only calls unprepare.
        after = (await session.prepare(first.ref))[first.ref.uid]
        check_same_answer(before, after)
        if ids := cdi_ids(after):
            session.cdi.resolve(ids)
        await session.unprepare(first.ref, second.ref)
        check_removed(session, first)
        check_removed(session, second)
    return "prepared before the restart, unprepared after it"


async def _killed_preparing(session: DriverSession) -> str:
    for fraction in session.timeouts.interrupt_at:
        for prepare_again in (True, False):
            async with session.claims(session.spec()) as (claim,):
                call = asyncio.create_task(session.prepare(claim.ref))
                await asyncio.wait((call,), timeout=session.prepare_seconds * fraction)
                await _kill_and_restart(session, call)
                try:
                    if prepare_again:
                        answer = await prepare_claim(session, claim)
                        if ids := cdi_ids(answer):
                            session.cdi.resolve(ids)
                    await session.unprepare(claim.ref)
                    check_removed(session, claim)
                except CheckFailed as error:
                    raise CheckFailed(f"after SIGKILL in prepare: {error.seen}", error.remedy, error.expected) from None
    return f"killed {2 * len(session.timeouts.interrupt_at)} times, then prepared or unprepared successfully"


async def _killed_unpreparing(session: DriverSession) -> str:
    for fraction in session.timeouts.interrupt_at:
        async with session.claims(session.spec()) as (claim,):
            await prepare_claim(session, claim)
            call = asyncio.create_task(session.unprepare(claim.ref))
            await asyncio.wait((call,), timeout=session.prepare_seconds * fraction)
            await _kill_and_restart(session, call)
            try:
                await session.unprepare(claim.ref)
                check_removed(session, claim)
            except CheckFailed as error:
                raise CheckFailed(f"after SIGKILL in unprepare: {error.seen}", error.remedy, error.expected) from None
    return f"killed {len(session.timeouts.interrupt_at)} times, then unprepared successfully"


async def _kill_and_restart(session: DriverSession, call: asyncio.Task[Any]) -> None:
    """Kill the driver during a call, and start it again."""
    await session.kill()
    with suppress(CheckFailed):
        await call
    await session.start()


async def _slices_survive(session: DriverSession) -> str:
    before = await session.wait_for_slices(lambda slices: is_settled(session.driver, slices))
    if not before:
        raise CheckSkipped(f"{session.driver} has published no slices for {session.node}")
    await session.restart()
    loop = asyncio.get_running_loop()
    deadline = loop.time() + session.timeouts.stable
    while loop.time() < deadline:
        if changed := changes(before, await session.slices()):
            raise CheckFailed(
                f"ResourceSlice {first_few(changed, 1)}",
                "compare with the published slices and write only differences, except in fields that the cluster drops "
                "because a feature gate is off; delete nothing when the driver exits",
            )
        await asyncio.sleep(_POLL_SECONDS)
    return f"{counted(len(before), 'slice')}, none rewritten"


async def _registers_again(session: DriverSession) -> str:
    await session.restart()
    for check in REGISTRATION_CHECKS:
        if check.name != "versions":
            await check.run(session)
    return "GetInfo returned, and the driver registered"


CHECKS = (
    DriverCheck(
        "restart-slices", "a restart of the driver does not change its slices",
        "every write triggers scheduling attempts; without slices no pod can be scheduled", _slices_survive,
        needs_command=True,
    ),
    DriverCheck(
        "restart-register", "the driver registers again after a restart", _ROLLING, _registers_again,
        needs_command=True,
    ),
    DriverCheck(
        "restart-claims", "claims that were prepared before a restart return the same response and can be unprepared",
        _ROLLING, _claims_survive, needs_command=True,
    ),
    DriverCheck(
        "kill-prepare", "after SIGKILL during prepare, the claim can be prepared and unprepared, and nothing is left",
        _CRASH, _killed_preparing, needs_command=True,
    ),
    DriverCheck(
        "kill-unprepare", "after SIGKILL during unprepare, the claim can be unprepared, and nothing is left",
        _CRASH, _killed_unpreparing, needs_command=True,
    ),
)  # fmt: skip
