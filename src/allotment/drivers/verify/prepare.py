"""Preparing: answers that a kubelet can use, the same ones every time, and CDI files behind them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from allotment.cluster.errors import StatusError
from allotment.drivers.verify.check import DriverCheck
from allotment.drivers.verify.claim_fixtures import ClaimFixture
from allotment.drivers.verify.driver_session import DriverSession
from allotment.drivers.verify.verdict import CheckFailed, CheckSkipped
from allotment.kubelet_plugin.encoding import V1, V1BETA1
from allotment.kubelet_plugin.messages import PreparedDevice, PrepareResult
from allotment.model.trees import Tree
from allotment.phrases import counted

_CALLS = "KEP-4381, NodePrepareResources"
_OTHER_DRIVER = "stranger.allotment.dev"
_REPEAT_REMEDY = "remember what was answered for a claim: a kubelet asks again after its own restart"


def check_answer(made: ClaimFixture, answer: PrepareResult) -> Sequence[PreparedDevice]:
    """The devices of an answer. Raises Wrong if a kubelet could not use it, or it is not what was allocated."""
    if answer.error:
        raise CheckFailed(
            f"refused: {answer.error}", "prepare what is allocated, or take the device out of the slice", "no error"
        )
    wanted = {(part.pool, part.device, part.share_id) for part in made.devices}
    found = {(device.pool, device.device, device.share_id) for device in answer.devices}
    if stray := sorted(found - wanted):
        raise CheckFailed(
            f"device {_device_name(stray[0])}, which the claim has not got",
            "answer with pool, device and share ID as in status.allocation, and with your own devices only",
            f"device {', '.join(map(_device_name, sorted(wanted)))}",
        )
    if missing := sorted(wanted - found):
        raise CheckFailed(
            f"nothing of device {_device_name(missing[0])}", "answer with every device that was allocated of yours"
        )
    for device in answer.devices:
        asked = {
            p.request.partition("/")[0] for p in made.devices if (p.pool, p.device) == (device.pool, device.device)
        }
        if wrong := sorted(set(device.requests) - asked):
            raise CheckFailed(
                f"device {device.device} for request {wrong[0]!r}",
                "name the claim's requests without the subrequest: containers ask for them by that name",
                f"request {', '.join(sorted(asked))}",
            )
    return answer.devices


def cdi_ids(answer: PrepareResult) -> list[str]:
    """All CDI ids of an answer."""
    return [each for device in answer.devices for each in device.cdi_ids]


def _device_name(key: tuple[str, str, str]) -> str:
    pool, device, share = key
    return f"{pool}/{device}" + (f" share {share}" if share else "")


async def prepare_claim(session: DriverSession, made: ClaimFixture, version: str = "") -> PrepareResult:
    """A claim prepared, with an answer that is as it should be. Raises Wrong."""
    answer = (await session.prepare(made.ref, version=version))[made.ref.uid]
    check_answer(made, answer)
    return answer


# --- checks -----------------------------------------------------------------------------------------------------------


async def _prepare(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (made,):
        began = time.monotonic()
        answer = await prepare_claim(session, made)
        session.prepare_seconds = time.monotonic() - began
        device = answer.devices[0]
        return f"{device.pool}/{device.device} in {session.prepare_seconds * 1000:.0f} ms"


async def _requests(session: DriverSession) -> str:
    choice = session.fixtures.alternatives("gpu", "first", "second")
    try:
        try:
            (made,) = await session.create_claims({"requests": [choice, session.fixtures.request("aux")]})
        except CheckSkipped:  # too few devices for both
            (made,) = await session.create_claims({"requests": [choice]})
    except StatusError as error:
        raise CheckSkipped(f"the cluster takes no alternatives (KEP-4816): {error}") from None
    try:
        answer = await prepare_claim(session, made)
    finally:
        await session.release(made.ref)
    found = sorted({name for device in answer.devices for name in device.requests})
    asked = ", ".join(part.request for part in made.devices)
    return f"{', '.join(found)} for {asked}" if found else "none: every container of the pod gets the devices"


async def _other_drivers(session: DriverSession) -> str:
    def add(spec: Tree, allocation: Tree) -> None:
        spec["requests"].append({"name": "other", "exactly": {"deviceClassName": _OTHER_DRIVER}})
        allocation["devices"]["results"].append(
            {"request": "other", "driver": _OTHER_DRIVER, "pool": "elsewhere", "device": "none"}
        )

    async with session.claims(session.spec(), changed=add) as (made,):
        answer = await prepare_claim(session, made)
        return f"{len(answer.devices)} of 2 devices"


async def _cdi(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (made,):
        ids = cdi_ids(await prepare_claim(session, made))
        if not ids:
            return "no CDI ids: containers get nothing by CDI"
        return f"{session.cdi.resolve(ids)} by {counted(len(ids), 'id')}"


async def _twice(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (made,):
        first = await prepare_claim(session, made)
        files = session.cdi.files_of([made.ref.uid])
        check_same_answer(first, (await session.prepare(made.ref))[made.ref.uid])
        if session.cdi.files_of([made.ref.uid]) != files:
            raise CheckFailed(
                f"the CDI file changed: {', '.join(sorted(str(path) for path in files)) or 'it is new'}",
                "write the same file for the same claim: containers that run already were made from it",
            )
        return f"the same {counted(len(first.devices), 'device')}"


def check_same_answer(first: PrepareResult, second: PrepareResult, *, shares: bool = True) -> None:
    """Raises Wrong for two answers to the same question that differ; ``shares``: also in share IDs."""
    if second.error:
        raise CheckFailed(f"refused when asked again: {second.error}", _REPEAT_REMEDY, "the same answer")
    old, new = (
        sorted(device if shares else device._replace(share_id="") for device in answer.devices)
        for answer in (first, second)
    )
    if old != new:
        raise CheckFailed(f"first {_describe(old)}, then {_describe(new)}", _REPEAT_REMEDY, "the same answer")


def _describe(devices: Sequence[PreparedDevice]) -> str:
    return ", ".join(f"{d.pool}/{d.device} [{' '.join(d.cdi_ids)}]" for d in devices) or "nothing"


async def _prepare_again(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (made,):
        await prepare_claim(session, made)
        await session.unprepare(made.ref)
        answer = await prepare_claim(session, made)
        if ids := cdi_ids(answer):
            session.cdi.resolve(ids)
        return "prepared, unprepared, prepared"


async def _old_version(session: DriverSession) -> str:
    if not {V1.name, V1BETA1.name} <= set(session.versions()):
        raise CheckSkipped(f"it lists {', '.join(session.versions())} only")
    async with session.claims(session.spec()) as (made,):
        new = (await session.prepare(made.ref, version=V1.name))[made.ref.uid]
        check_answer(made, new)
        old = (await session.prepare(made.ref, version=V1BETA1.name))[made.ref.uid]
        if old.error:
            raise CheckFailed(f"{V1BETA1.name}: {old.error}", "answer both versions from the same code")
        check_same_answer(new, old, shares=False)
        await session.unprepare(made.ref, version=V1BETA1.name)
        return "the same answer"


CHECKS = (
    DriverCheck("prepare", "a claim is answered with the devices that it was given, and no others", _CALLS, _prepare),
    DriverCheck(
        "request-names", "devices carry the claim's request names, without the subrequest (gpu, not gpu/first)",
        "KEP-4816: kubelets match containers' requests by the main name", _requests,
    ),
    DriverCheck("other-drivers", "devices that the claim has from other drivers are left to them", "KEP-4381", _other_drivers),
    DriverCheck(
        "cdi", "every CDI id is well formed and can be resolved, with edits, as soon as prepare is answered",
        "KEP-4009; CDI 1.1.0: runtimes refuse containers with ids that they cannot resolve", _cdi,
    ),
    DriverCheck(
        "prepare-twice", "preparing again answers the same and leaves the CDI file as it is",
        "KEP-4381; a kubelet that restarts prepares all claims again", _twice,
    ),
    DriverCheck(
        "prepare-again", "a claim can be prepared again after it was unprepared",
        "kubelet: a claim's next pod on the node", _prepare_again,
    ),
    DriverCheck(
        "v1beta1-same", "both versions of the service answer the same, but for share IDs",
        "kubelets before 1.34 call v1beta1", _old_version,
    ),
)  # fmt: skip
