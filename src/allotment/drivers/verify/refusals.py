"""Claims that must not be prepared, and that one of them does not take others along."""

from __future__ import annotations

import copy
import uuid
from typing import Final

from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.prepare import cdi_ids, check_answer
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.trees import Tree

_READ = "kubeletplugin helper: the claim is read from the API before it is prepared"
_UNKNOWN_PARAMETERS: Final[Tree] = {"apiVersion": "verify.allotment.dev/v1", "kind": "Nonsense", "speed": "of light"}


async def _unknown(session: DriverSession) -> str:
    await session.fixtures.create_unallocated()  # so that the namespace is there
    return await session.prepare_error(ClaimRef(session.fixtures.namespace, str(uuid.uuid4()), "never-made"))


async def _unallocated(session: DriverSession) -> str:
    ref = await session.fixtures.create_unallocated()
    try:
        return await session.prepare_error(ref)
    finally:
        await session.release(ref)


async def _replaced(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (made,):
        old = made.ref._replace(uid=str(uuid.uuid4()))
        try:
            said = await session.prepare_error(old)
        except CheckFailed as wrong:
            raise CheckFailed(
                wrong.seen, "compare the UID of the call with the claim's: one of the same name may have replaced it"
            ) from None
        finally:
            await session.unprepare(old)
        if left := session.cdi.files_of([old.uid]):
            raise CheckFailed(f"refused, but wrote {min(left)}", "check the UID before the first side effect")
        return said


async def _parameters(session: DriverSession) -> str:
    async with session.claims(session.spec(config=_UNKNOWN_PARAMETERS)) as (made,):
        try:
            return await session.prepare_error(made.ref)
        except CheckFailed as wrong:
            if "was prepared" not in wrong.seen:
                raise
        raise CheckFailed(
            "parameters of a kind that nobody has were passed over",
            "decode parameters strictly and refuse what you do not know: users do not notice misspelt ones otherwise",
        )


async def _fails_alone(session: DriverSession) -> str:
    async with session.claims(session.spec(), session.spec(config=_UNKNOWN_PARAMETERS)) as (good, bad):
        answers = await session.prepare(good.ref, bad.ref)
        if not answers[bad.ref.uid].error:
            raise CheckSkipped("the driver refuses no parameters: there is no claim that fails alone")
        answer = answers[good.ref.uid]
        if answer.error:
            raise CheckFailed(
                f"the other claim of the call failed, too: {answer.error}", "answer each claim with an error of its own"
            )
        check_answer(good, answer)
        if ids := cdi_ids(answer):
            session.cdi.resolve(ids)
        return "one refused, the other prepared"


async def _overlap(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (first,):
        if any(part.share_id for part in first.devices):
            raise CheckSkipped("the devices here are for several claims at a time")
        check_answer(first, (await session.prepare(first.ref))[first.ref.uid])
        second = await session.fixtures.create(session.spec(), copy.deepcopy(first.allocation))
        try:
            said = await session.prepare_error(second.ref)
            # The owner has not lost it.
            check_answer(first, (await session.prepare(first.ref))[first.ref.uid])
        except CheckFailed as wrong:
            if "was prepared" not in wrong.seen:
                raise
            raise CheckFailed(
                f"{first.devices[0].device} was prepared for two claims at a time",
                "refuse a device that another claim still has: after a pod is deleted by force both may be there",
            ) from None
        finally:
            await session.release(second.ref)
        await session.unprepare(first.ref)
        third = await session.fixtures.create(session.spec(), copy.deepcopy(first.allocation))
        try:
            check_answer(third, (await session.prepare(third.ref))[third.ref.uid])
        except CheckFailed as wrong:
            raise CheckFailed(f"after unprepare: {wrong.seen}", "let go of the device in unprepare") from None
        finally:
            await session.release(third.ref)
        return said


CHECKS = (
    DriverCheck("unknown-claim", "a claim that is not in the API is refused", _READ, _unknown),
    DriverCheck("not-allocated", "a claim without allocation is refused", _READ, _unallocated),
    DriverCheck("wrong-uid", "a claim is refused when the object of its name has another UID", _READ, _replaced),
    DriverCheck(
        "bad-parameters", "parameters of a kind that the driver does not know are refused",
        "KEP-4381, opaque configuration: drivers validate it", _parameters, advice=True,
    ),
    DriverCheck(
        "bad-claim-alone", "a claim with bad parameters does not fail the others of its call",
        "KEP-4381: an error for each claim", _fails_alone,
    ),
    DriverCheck(
        "overlap", "a device that a claim still has is not prepared for another one, and is after unprepare",
        "pods that were deleted by force may still run when their devices are given away", _overlap, advice=True,
    ),
)  # fmt: skip
