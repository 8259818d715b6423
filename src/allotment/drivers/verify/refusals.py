"""Claims that must not be prepared, and that one of them does not take others along."""

from __future__ import annotations

import copy
import uuid
from typing import Final

from allotment.drivers.verify.check import Check
from allotment.drivers.verify.driver_under_test import Trial
from allotment.drivers.verify.prepare import ids_of, judged
from allotment.drivers.verify.verdict import NotChecked, Wrong
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.trees import Tree

_READ = "kubeletplugin helper: the claim is read from the API before it is prepared"
_NONSENSE: Final[Tree] = {"apiVersion": "verify.allotment.dev/v1", "kind": "Nonsense", "speed": "of light"}


async def _unknown(trial: Trial) -> str:
    await trial.borrower.unallocated()  # so that the namespace is there
    return await trial.refusal(ClaimRef(trial.borrower.namespace, str(uuid.uuid4()), "never-made"))


async def _unallocated(trial: Trial) -> str:
    ref = await trial.borrower.unallocated()
    try:
        return await trial.refusal(ref)
    finally:
        await trial.give_back(ref)


async def _replaced(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (made,):
        old = made.ref._replace(uid=str(uuid.uuid4()))
        try:
            said = await trial.refusal(old)
        except Wrong as wrong:
            raise Wrong(
                wrong.seen, "compare the UID of the call with the claim's: one of the same name may have replaced it"
            ) from None
        finally:
            await trial.unprepare(old)
        if left := trial.cdi.of([old.uid]):
            raise Wrong(f"refused, but wrote {min(left)}", "check the UID before the first side effect")
        return said


async def _parameters(trial: Trial) -> str:
    async with trial.claims(trial.spec(config=_NONSENSE)) as (made,):
        try:
            return await trial.refusal(made.ref)
        except Wrong as wrong:
            if "was prepared" not in wrong.seen:
                raise
        raise Wrong(
            "parameters of a kind that nobody has were passed over",
            "decode parameters strictly and refuse what you do not know: users do not notice misspelt ones otherwise",
        )


async def _alone(trial: Trial) -> str:
    async with trial.claims(trial.spec(), trial.spec(config=_NONSENSE)) as (good, bad):
        answers = await trial.prepare(good.ref, bad.ref)
        if not answers[bad.ref.uid].error:
            raise NotChecked("the driver refuses no parameters: there is no claim that fails alone")
        answer = answers[good.ref.uid]
        if answer.error:
            raise Wrong(
                f"the other claim of the call failed, too: {answer.error}", "answer each claim with an error of its own"
            )
        judged(good, answer)
        if ids := ids_of(answer):
            trial.cdi.resolve(ids)
        return "one refused, the other prepared"


async def _overlap(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (first,):
        if any(part.share_id for part in first.parts):
            raise NotChecked("the devices here are for several claims at a time")
        judged(first, (await trial.prepare(first.ref))[first.ref.uid])
        second = await trial.borrower.claim(trial.spec(), copy.deepcopy(first.allocation))
        try:
            said = await trial.refusal(second.ref)
            # The owner has not lost it.
            judged(first, (await trial.prepare(first.ref))[first.ref.uid])
        except Wrong as wrong:
            if "was prepared" not in wrong.seen:
                raise
            raise Wrong(
                f"{first.parts[0].device} was prepared for two claims at a time",
                "refuse a device that another claim still has: after a pod is deleted by force both may be there",
            ) from None
        finally:
            await trial.give_back(second.ref)
        await trial.unprepare(first.ref)
        third = await trial.borrower.claim(trial.spec(), copy.deepcopy(first.allocation))
        try:
            judged(third, (await trial.prepare(third.ref))[third.ref.uid])
        except Wrong as wrong:
            raise Wrong(f"after unprepare: {wrong.seen}", "let go of the device in unprepare") from None
        finally:
            await trial.give_back(third.ref)
        return said


CHECKS = (
    Check("unknown-claim", "a claim that is not in the API is refused", _READ, _unknown),
    Check("not-allocated", "a claim without allocation is refused", _READ, _unallocated),
    Check("wrong-uid", "a claim is refused when the object of its name has another UID", _READ, _replaced),
    Check(
        "bad-parameters", "parameters of a kind that the driver does not know are refused",
        "KEP-4381, opaque configuration: drivers validate it", _parameters, advice=True,
    ),
    Check(
        "bad-claim-alone", "a claim with bad parameters does not fail the others of its call",
        "KEP-4381: an error for each claim", _alone,
    ),
    Check(
        "overlap", "a device that a claim still has is not prepared for another one, and is after unprepare",
        "pods that were deleted by force may still run when their devices are given away", _overlap, advice=True,
    ),
)  # fmt: skip
