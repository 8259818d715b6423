"""Checks of NodePrepareResources: usable and repeatable answers, with CDI files."""

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
_REPEAT_REMEDY = "store the response for each claim: a kubelet repeats the call after it restarts"


def check_answer(claim: ClaimFixture, answer: PrepareResult) -> Sequence[PreparedDevice]:
    """Return the devices of an answer. Raises CheckFailed if it is not usable or differs from the allocation."""
    if answer.error:
        raise CheckFailed(
            f"rejected: {answer.error}", "prepare the allocated device, or remove it from the slice", "no error"
        )
    allocated = {(part.pool, part.device, part.share_id) for part in claim.devices}
    answered = {(device.pool, device.device, device.share_id) for device in answer.devices}
    if unexpected := sorted(answered - allocated):
        raise CheckFailed(
            f"device {_device_name(unexpected[0])}, which is not allocated to the claim",
            "return the pool, device and share ID from status.allocation, and only devices of your driver",
            f"device {', '.join(map(_device_name, sorted(allocated)))}",
        )
    if missing := sorted(allocated - answered):
        raise CheckFailed(f"no device {_device_name(missing[0])}", "return every allocated device of your driver")
    for device in answer.devices:
        requested = {
            p.request.partition("/")[0] for p in claim.devices if (p.pool, p.device) == (device.pool, device.device)
        }
        if wrong := sorted(set(device.requests) - requested):
            raise CheckFailed(
                f"device {device.device} is returned for request {wrong[0]!r}",
                "use the names of the claim's requests without the subrequest: containers refer to requests by these "
                "names",
                f"request {', '.join(sorted(requested))}",
            )
    return answer.devices


def cdi_ids(answer: PrepareResult) -> list[str]:
    """Return all CDI IDs of an answer."""
    return [id for device in answer.devices for id in device.cdi_ids]


def _device_name(key: tuple[str, str, str]) -> str:
    pool, device, share = key
    return f"{pool}/{device}" + (f" share {share}" if share else "")


async def prepare_claim(session: DriverSession, claim: ClaimFixture, version: str = "") -> PrepareResult:
    """Prepare a claim; return the checked answer. Raises CheckFailed."""
    answer = (await session.prepare(claim.ref, version=version))[claim.ref.uid]
    check_answer(claim, answer)
    return answer


# --- checks -----------------------------------------------------------------------------------------------------------


async def _prepare(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (claim,):
        start = time.monotonic()
        answer = await prepare_claim(session, claim)
        session.prepare_seconds = time.monotonic() - start
        device = answer.devices[0]
        return f"{device.pool}/{device.device} in {session.prepare_seconds * 1000:.0f} ms"


async def _requests(session: DriverSession) -> str:
    alternatives = session.fixtures.alternatives("gpu", "first", "second")
    try:
        try:
            (claim,) = await session.create_claims({"requests": [alternatives, session.fixtures.request("aux")]})
        except CheckSkipped:  # too few devices for both requests
            (claim,) = await session.create_claims({"requests": [alternatives]})
    except StatusError as error:
        raise CheckSkipped(f"the cluster does not support alternatives (KEP-4816): {error}") from None
    try:
        answer = await prepare_claim(session, claim)
    finally:
        await session.release(claim.ref)
    names = sorted({name for device in answer.devices for name in device.requests})
    requested = ", ".join(part.request for part in claim.devices)
    return (
        f"{', '.join(names)} for {requested}"
        if names
        else "no request names: every container of the pod gets the devices"
    )


async def _other_drivers(session: DriverSession) -> str:
    def add(spec: Tree, allocation: Tree) -> None:
        spec["requests"].append({"name": "other", "exactly": {"deviceClassName": _OTHER_DRIVER}})
        allocation["devices"]["results"].append(
            {"request": "other", "driver": _OTHER_DRIVER, "pool": "elsewhere", "device": "none"}
        )

    async with session.claims(session.spec(), change=add) as (claim,):
        answer = await prepare_claim(session, claim)
        return f"{len(answer.devices)} of 2 devices"


async def _cdi(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (claim,):
        ids = cdi_ids(await prepare_claim(session, claim))
        if not ids:
            return "no CDI device IDs: the containers get no devices"
        return f"{session.cdi.resolve(ids)} from {counted(len(ids), 'CDI ID')}"


async def _twice(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (claim,):
        first = await prepare_claim(session, claim)
        files = session.cdi.files_of([claim.ref.uid])
        check_same_answer(first, (await session.prepare(claim.ref))[claim.ref.uid])
        if session.cdi.files_of([claim.ref.uid]) != files:
            raise CheckFailed(
                f"the CDI file changed: {', '.join(sorted(str(path) for path in files)) or 'new file'}",
                "write the same file for the same claim: running containers were created from it",
            )
        return f"the same {counted(len(first.devices), 'device')}"


def check_same_answer(first: PrepareResult, second: PrepareResult, *, shares: bool = True) -> None:
    """Raise CheckFailed if two answers for a claim differ; ``shares``: compare share IDs, too."""
    if second.error:
        raise CheckFailed(f"the repeated call was rejected: {second.error}", _REPEAT_REMEDY, "the same response")
    old, new = (
        sorted(device if shares else device._replace(share_id="") for device in answer.devices)
        for answer in (first, second)
    )
    if old != new:
        raise CheckFailed(f"first {_describe(old)}, then {_describe(new)}", _REPEAT_REMEDY, "the same response")


def _describe(devices: Sequence[PreparedDevice]) -> str:
    return ", ".join(f"{d.pool}/{d.device} [{' '.join(d.cdi_ids)}]" for d in devices) or "nothing"


async def _prepare_again(session: DriverSession) -> str:
    async with session.claims(session.spec()) as (claim,):
        await prepare_claim(session, claim)
        await session.unprepare(claim.ref)
        answer = await prepare_claim(session, claim)
        if ids := cdi_ids(answer):
            session.cdi.resolve(ids)
        return "prepared, unprepared, prepared again"


async def _old_version(session: DriverSession) -> str:
    if not {V1.name, V1BETA1.name} <= set(session.versions()):
        raise CheckSkipped(f"the driver lists only {', '.join(session.versions())}")
    async with session.claims(session.spec()) as (claim,):
        new = (await session.prepare(claim.ref, version=V1.name))[claim.ref.uid]
        check_answer(claim, new)
        old = (await session.prepare(claim.ref, version=V1BETA1.name))[claim.ref.uid]
        if old.error:
            raise CheckFailed(f"{V1BETA1.name}: {old.error}", "serve both versions with the same code")
        check_same_answer(new, old, shares=False)
        await session.unprepare(claim.ref, version=V1BETA1.name)
        return "the same response"


CHECKS = (
    DriverCheck("prepare", "the response for a claim contains its allocated devices and no others", _CALLS, _prepare),
    DriverCheck(
        "request-names",
        "devices are returned with the claim's request names, without the subrequest (gpu, not gpu/first)",
        "KEP-4816: kubelets match containers' requests by the main name", _requests,
    ),
    DriverCheck("other-drivers", "devices of other drivers in the claim are ignored", "KEP-4381", _other_drivers),
    DriverCheck(
        "cdi", "every CDI ID is valid and resolves to container edits as soon as prepare returns",
        "KEP-4009; CDI 1.1.0: runtimes reject containers with IDs that they cannot resolve", _cdi,
    ),
    DriverCheck(
        "prepare-twice", "preparing a claim again returns the same response and does not change the CDI file",
        "KEP-4381; a kubelet that restarts prepares all claims again", _twice,
    ),
    DriverCheck(
        "prepare-again", "a claim can be prepared again after it was unprepared",
        "kubelet: a later pod on the node may use the same claim", _prepare_again,
    ),
    DriverCheck(
        "v1beta1-same", "both versions of the service return the same responses, except for share IDs",
        "kubelets before 1.34 call v1beta1", _old_version,
    ),
)  # fmt: skip
