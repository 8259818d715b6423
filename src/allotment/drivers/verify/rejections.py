"""Checks of claims that must be rejected, without affecting others."""

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
    await session.fixtures.create_unallocated()  # creates the namespace
    return await session.prepare_error(ClaimRef(session.fixtures.namespace, str(uuid.uuid4()), "never-made"))


async def _unallocated(session: DriverSession) -> str:
    ref = await session.fixtures.create_unallocated()
    try:
        return await session.prepare_error(ref)
    finally:
        await session.release(ref)


async def _replaced(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (claim,):
        old = claim.ref._replace(uid=str(uuid.uuid4()))
        try:
            message = await session.prepare_error(old)
        except CheckFailed as error:
            raise CheckFailed(
                error.seen,
                "compare the UID of the call with that of the claim: another claim with the same name may have "
                "replaced it",
            ) from None
        finally:
            await session.unprepare(old)
        if left := session.cdi.files_of([old.uid]):
            raise CheckFailed(f"rejected, but wrote {min(left)}", "check the UID before the first side effect")
        return message


async def _parameters(session: DriverSession) -> str:
    async with session.claims(session.spec(config=_UNKNOWN_PARAMETERS)) as (claim,):
        try:
            return await session.prepare_error(claim.ref)
        except CheckFailed as error:
            if "was prepared" not in error.seen:
                raise
        raise CheckFailed(
            "parameters of an unknown kind were ignored",
            "decode parameters strictly and reject unknown ones: otherwise users do not notice typos",
        )


async def _fails_alone(session: DriverSession) -> str:
    async with session.claims(session.spec(), session.spec(config=_UNKNOWN_PARAMETERS)) as (good, bad):
        answers = await session.prepare(good.ref, bad.ref)
        if not answers[bad.ref.uid].error:
            raise CheckSkipped("the driver accepts any parameters, so no claim can fail")
        answer = answers[good.ref.uid]
        if answer.error:
            raise CheckFailed(
                f"the other claim of the call also failed: {answer.error}", "return a separate error for each claim"
            )
        check_answer(good, answer)
        if ids := cdi_ids(answer):
            session.cdi.resolve(ids)
        return "one rejected, the other prepared"


async def _overlap(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (first,):
        if any(part.share_id for part in first.devices):
            raise CheckSkipped("several claims can share the devices of this node")
        check_answer(first, (await session.prepare(first.ref))[first.ref.uid])
        second = await session.fixtures.create(session.spec(), copy.deepcopy(first.allocation))
        try:
            message = await session.prepare_error(second.ref)
            # The first claim still has the device.
            check_answer(first, (await session.prepare(first.ref))[first.ref.uid])
        except CheckFailed as error:
            if "was prepared" not in error.seen:
                raise
            raise CheckFailed(
                f"{first.devices[0].device} was prepared for two claims at the same time",
                "reject a device that is still prepared for another claim: after a force-deletion both pods may run",
            ) from None
        finally:
            await session.release(second.ref)
        await session.unprepare(first.ref)
        third = await session.fixtures.create(session.spec(), copy.deepcopy(first.allocation))
        try:
            check_answer(third, (await session.prepare(third.ref))[third.ref.uid])
        except CheckFailed as error:
            raise CheckFailed(f"after unprepare: {error.seen}", "release the device in unprepare") from None
        finally:
            await session.release(third.ref)
        return message


CHECKS = (
    DriverCheck("unknown-claim", "a claim that does not exist in the API is rejected", _READ, _unknown),
    DriverCheck("not-allocated", "a claim without allocation is rejected", _READ, _unallocated),
    DriverCheck("wrong-uid", "a claim is rejected if the object with its name has a different UID", _READ, _replaced),
    DriverCheck(
        "bad-parameters", "parameters of an unknown kind are rejected",
        "KEP-4381, opaque configuration: drivers validate it", _parameters, advice=True,
    ),
    DriverCheck(
        "bad-claim-alone", "a claim with invalid parameters does not affect the other claims of the call",
        "KEP-4381: errors are returned per claim", _fails_alone,
    ),
    DriverCheck(
        "overlap", "a device is prepared for another claim only after the first claim was unprepared",
        "force-deleted pods may still run when their devices are allocated again", _overlap, advice=True,
    ),
)  # fmt: skip
