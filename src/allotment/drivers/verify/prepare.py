"""Preparing: answers that a kubelet can use, the same ones every time, and CDI files behind them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from allotment.cluster.errors import StatusError
from allotment.drivers.verify.check import Check
from allotment.drivers.verify.claim_fixtures import Borrowed
from allotment.drivers.verify.driver_under_test import Trial
from allotment.drivers.verify.verdict import NotChecked, Wrong
from allotment.kubelet_plugin.encoding import V1, V1BETA1
from allotment.kubelet_plugin.messages import Prepared, PreparedDevice
from allotment.model.trees import Tree
from allotment.phrases import counted

_CALLS = "KEP-4381, NodePrepareResources"
_STRANGER = "stranger.allotment.dev"
_REMEMBER = "remember what was answered for a claim: a kubelet asks again after its own restart"


def judged(made: Borrowed, answer: Prepared) -> Sequence[PreparedDevice]:
    """The devices of an answer. Raises Wrong if a kubelet could not use it, or it is not what was allocated."""
    if answer.error:
        raise Wrong(
            f"refused: {answer.error}", "prepare what is allocated, or take the device out of the slice", "no error"
        )
    wanted = {(part.pool, part.device, part.share_id) for part in made.parts}
    found = {(device.pool, device.device, device.share_id) for device in answer.devices}
    if stray := sorted(found - wanted):
        raise Wrong(
            f"device {_named(stray[0])}, which the claim has not got",
            "answer with pool, device and share ID as in status.allocation, and with your own devices only",
            f"device {', '.join(map(_named, sorted(wanted)))}",
        )
    if missing := sorted(wanted - found):
        raise Wrong(f"nothing of device {_named(missing[0])}", "answer with every device that was allocated of yours")
    for device in answer.devices:
        asked = {p.request.partition("/")[0] for p in made.parts if (p.pool, p.device) == (device.pool, device.device)}
        if wrong := sorted(set(device.requests) - asked):
            raise Wrong(
                f"device {device.device} for request {wrong[0]!r}",
                "name the claim's requests without the subrequest: containers ask for them by that name",
                f"request {', '.join(sorted(asked))}",
            )
    return answer.devices


def ids_of(answer: Prepared) -> list[str]:
    """All CDI ids of an answer."""
    return [each for device in answer.devices for each in device.cdi_ids]


def _named(key: tuple[str, str, str]) -> str:
    pool, device, share = key
    return f"{pool}/{device}" + (f" share {share}" if share else "")


async def prepared(trial: Trial, made: Borrowed, version: str = "") -> Prepared:
    """A claim prepared, with an answer that is as it should be. Raises Wrong."""
    answer = (await trial.prepare(made.ref, version=version))[made.ref.uid]
    judged(made, answer)
    return answer


# --- checks -----------------------------------------------------------------------------------------------------------


async def _prepare(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (made,):
        began = time.monotonic()
        answer = await prepared(trial, made)
        trial.prepare_seconds = time.monotonic() - began
        device = answer.devices[0]
        return f"{device.pool}/{device.device} in {trial.prepare_seconds * 1000:.0f} ms"


async def _requests(trial: Trial) -> str:
    choice = trial.borrower.alternatives("gpu", "first", "second")
    try:
        try:
            (made,) = await trial.allocated({"requests": [choice, trial.borrower.request("aux")]})
        except NotChecked:  # too few devices for both
            (made,) = await trial.allocated({"requests": [choice]})
    except StatusError as error:
        raise NotChecked(f"the cluster takes no alternatives (KEP-4816): {error}") from None
    try:
        answer = await prepared(trial, made)
    finally:
        await trial.give_back(made.ref)
    found = sorted({name for device in answer.devices for name in device.requests})
    asked = ", ".join(part.request for part in made.parts)
    return f"{', '.join(found)} for {asked}" if found else "none: every container of the pod gets the devices"


async def _strangers(trial: Trial) -> str:
    def add(spec: Tree, allocation: Tree) -> None:
        spec["requests"].append({"name": "other", "exactly": {"deviceClassName": _STRANGER}})
        allocation["devices"]["results"].append(
            {"request": "other", "driver": _STRANGER, "pool": "elsewhere", "device": "none"}
        )

    async with trial.claims(trial.spec(), changed=add) as (made,):
        answer = await prepared(trial, made)
        return f"{len(answer.devices)} of 2 devices"


async def _cdi(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (made,):
        ids = ids_of(await prepared(trial, made))
        if not ids:
            return "no CDI ids: containers get nothing by CDI"
        return f"{trial.cdi.resolve(ids)} by {counted(len(ids), 'id')}"


async def _twice(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (made,):
        first = await prepared(trial, made)
        files = trial.cdi.of([made.ref.uid])
        same(first, (await trial.prepare(made.ref))[made.ref.uid])
        if trial.cdi.of([made.ref.uid]) != files:
            raise Wrong(
                f"the CDI file changed: {', '.join(sorted(str(path) for path in files)) or 'it is new'}",
                "write the same file for the same claim: containers that run already were made from it",
            )
        return f"the same {counted(len(first.devices), 'device')}"


def same(first: Prepared, second: Prepared, *, shares: bool = True) -> None:
    """Raises Wrong for two answers to the same question that differ; ``shares``: also in share IDs."""
    if second.error:
        raise Wrong(f"refused when asked again: {second.error}", _REMEMBER, "the same answer")
    old, new = (
        sorted(device if shares else device._replace(share_id="") for device in answer.devices)
        for answer in (first, second)
    )
    if old != new:
        raise Wrong(f"first {_told(old)}, then {_told(new)}", _REMEMBER, "the same answer")


def _told(devices: Sequence[PreparedDevice]) -> str:
    return ", ".join(f"{d.pool}/{d.device} [{' '.join(d.cdi_ids)}]" for d in devices) or "nothing"


async def _again(trial: Trial) -> str:
    async with trial.claims(trial.spec()) as (made,):
        await prepared(trial, made)
        await trial.unprepare(made.ref)
        answer = await prepared(trial, made)
        if ids := ids_of(answer):
            trial.cdi.resolve(ids)
        return "prepared, unprepared, prepared"


async def _old_version(trial: Trial) -> str:
    if not {V1.name, V1BETA1.name} <= set(trial.versions()):
        raise NotChecked(f"it lists {', '.join(trial.versions())} only")
    async with trial.claims(trial.spec()) as (made,):
        new = (await trial.prepare(made.ref, version=V1.name))[made.ref.uid]
        judged(made, new)
        old = (await trial.prepare(made.ref, version=V1BETA1.name))[made.ref.uid]
        if old.error:
            raise Wrong(f"{V1BETA1.name}: {old.error}", "answer both versions from the same code")
        same(new, old, shares=False)
        await trial.unprepare(made.ref, version=V1BETA1.name)
        return "the same answer"


CHECKS = (
    Check("prepare", "a claim is answered with the devices that it was given, and no others", _CALLS, _prepare),
    Check(
        "request-names", "devices carry the claim's request names, without the subrequest (gpu, not gpu/first)",
        "KEP-4816: kubelets match containers' requests by the main name", _requests,
    ),
    Check("other-drivers", "devices that the claim has from other drivers are left to them", "KEP-4381", _strangers),
    Check(
        "cdi", "every CDI id is well formed and can be resolved, with edits, as soon as prepare is answered",
        "KEP-4009; CDI 1.1.0: runtimes refuse containers with ids that they cannot resolve", _cdi,
    ),
    Check(
        "prepare-twice", "preparing again answers the same and leaves the CDI file as it is",
        "KEP-4381; a kubelet that restarts prepares all claims again", _twice,
    ),
    Check(
        "prepare-again", "a claim can be prepared again after it was unprepared",
        "kubelet: a claim's next pod on the node", _again,
    ),
    Check(
        "v1beta1-same", "both versions of the service answer the same, but for share IDs",
        "kubelets before 1.34 call v1beta1", _old_version,
    ),
)  # fmt: skip
