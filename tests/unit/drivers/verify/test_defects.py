"""For each check, a driver with a defect that it detects."""

from __future__ import annotations

import asyncio
import copy
import os
import re
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from allotment.cdi.spec import CdiDevice, ContainerEdits, Spec
from allotment.cdi.store import FolderStore
from allotment.cluster.client import Listing
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, SLICES
from allotment.drivers.verify.suite import CHECKS
from allotment.kubelet_plugin.messages import (
    ClaimRef,
    DeviceHealth,
    KubeletPlugin,
    PluginCallError,
    PreparedDevice,
    PrepareResult,
)
from allotment.model.resource import ResourceSlice
from allotment.model.trees import Tree
from tests.unit.drivers.verify.driver_node import SHORT_TIMEOUTS, ModifiedDriver, DriverNode, serve_with_info, open_session, run_checks

DEVICE = PreparedDevice(("gpu",), "n1", "gpu-0")
Answers = Mapping[str, PrepareResult]
Defect = Callable[[DriverNode], None]


class ChangesAnswers(ModifiedDriver):
    """Changes the answers."""

    def __init__(self, good: KubeletPlugin, change: Callable[[ClaimRef, PrepareResult], PrepareResult]) -> None:
        super().__init__(good)
        self.change = change

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = await self.good.prepare(claims)
        return {claim.uid: self.change(claim, answers[claim.uid]) for claim in claims}


def changing(change: Callable[[ClaimRef, PrepareResult], PrepareResult]) -> Defect:
    def spoil(world: DriverNode) -> None:
        world.modify = lambda good: ChangesAnswers(good, change)

    return spoil


def devices(change: Callable[[PreparedDevice], PreparedDevice]) -> Defect:
    return changing(lambda claim, answer: answer._replace(devices=tuple(map(change, answer.devices))))


def bent(make: Callable[[DriverNode, KubeletPlugin], KubeletPlugin]) -> Defect:
    def spoil(world: DriverNode) -> None:
        world.modify = lambda good: make(world, good)

    return spoil


def spoiled(make: Callable[[KubeletPlugin], KubeletPlugin]) -> Defect:
    return bent(lambda world, good: make(good))


# --- registration -----------------------------------------------------------------------------------------------------


def serving(**how: Any) -> Defect:
    def spoil(world: DriverNode) -> None:
        world.serve = serve_with_info(**how)

    return spoil


def _relative(world: DriverNode) -> None:
    world.serve = serve_with_info(endpoint=os.path.relpath(world.endpoint))


class NoEmptyCalls(ModifiedDriver):
    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        if not claims:
            raise PluginCallError("no claims")
        return await self.good.prepare(claims)


# --- slices -----------------------------------------------------------------------------------------------------------


class ModifiedSlices:
    """A client that returns modified slices of the driver."""

    def __init__(self, world: DriverNode, change: Callable[[list[Tree]], object]) -> None:
        self._client = world.cluster.client
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def list(self, resource: Any, namespace: str = "", **more: Any) -> Listing:
        listing = await self._client.list(resource, namespace, **more)
        if resource != SLICES:
            return listing
        items = copy.deepcopy(list(listing.items))
        self._change(items)
        return Listing(items, listing.revision)


def showing(change: Callable[[list[Tree]], object]) -> Defect:
    def spoil(world: DriverNode) -> None:
        world.client = ModifiedSlices(world, change)
        world.timeouts = SHORT_TIMEOUTS

    return spoil


def _unpublished(world: DriverNode) -> None:
    world.publishes = False
    world.timeouts = SHORT_TIMEOUTS


def _one_missing(slices: list[Tree]) -> None:
    slices[0]["spec"]["pool"]["resourceSliceCount"] = 2


def _two_generations(slices: list[Tree]) -> None:
    old = copy.deepcopy(slices[0])
    old["metadata"]["name"] += "-old"
    old["spec"]["pool"]["generation"] = 0
    slices.append(old)


def _same_names(slices: list[Tree]) -> None:
    slices[0]["spec"]["devices"] = [slices[0]["spec"]["devices"][0]] * 2


def _bad_name(slices: list[Tree]) -> None:
    slices[0]["spec"]["devices"][0]["name"] = "GPU_0"


def _unowned(slices: list[Tree]) -> None:
    del slices[0]["metadata"]["ownerReferences"]


# --- preparing --------------------------------------------------------------------------------------------------------


class SkipsClaims(ModifiedDriver):
    """Answers only the first claim of a call."""

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        return await self.good.prepare(claims[:1])


class ForgetsAnswer(ModifiedDriver):
    """Changes the answer at each call."""

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = await self.good.prepare(claims)
        return {uid: answer._replace(devices=tuple(map(self._new, answer.devices))) for uid, answer in answers.items()}

    def _new(self, device: PreparedDevice) -> PreparedDevice:
        return device._replace(cdi_ids=(f"k8s.{self.name}/claim={uuid.uuid4()}",))


class PreparesOnce(ModifiedDriver):
    """Fails for a claim that was prepared before."""

    def __init__(self, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.seen: set[str] = set()

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = dict(await self.good.prepare(claims))
        for claim in claims:
            if claim.uid in self.seen:
                answers[claim.uid] = PrepareResult(error="already prepared")
        self.seen.update(claim.uid for claim in claims)
        return answers


class RewritesFile(ModifiedDriver):
    """Changes the CDI file at each call."""

    def __init__(self, world: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.world = world

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = await self.good.prepare(claims)
        for path in self.world.cdi.iterdir():
            path.write_bytes(path.read_bytes() + b" ")
        return answers


# --- unpreparing ------------------------------------------------------------------------------------------------------


class LeavesFiles(ModifiedDriver):
    """Leaves a file that another process wrote; with ``own`` also its own."""

    def __init__(self, world: DriverNode, good: KubeletPlugin, *, own: bool) -> None:
        super().__init__(good)
        self.world = world
        self.own = own
        self.mine: set[str] = set()

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        for claim in claims:
            self.mine.add(claim.uid)
            self.world.cdi.mkdir(exist_ok=True)
            (self.world.cdi / f".{claim.uid}.new").touch()
        return await self.good.prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        for claim in claims:
            if not self.own and claim.uid in self.mine:
                (self.world.cdi / f".{claim.uid}.new").unlink(missing_ok=True)
        return await self.good.unprepare(claims)


class LeavesFileOfRejectedClaim(LeavesFiles):
    """Writes a file before it checks the claim."""

    def __init__(self, world: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(world, good, own=True)


class KeepsDevices(ModifiedDriver):
    """Has one CDI file for all claims, and only adds devices."""

    def __init__(self, world: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.folder = FolderStore(world.cdi)
        self.names: list[str] = []

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = await self.good.prepare(claims)
        self.names.append(f"n{len(self.names)}")
        given = tuple(CdiDevice(name, ContainerEdits(env=("A=1",))) for name in self.names)
        self.folder.write("all", Spec("all.example/gpu", given))
        ids = (f"all.example/gpu={self.names[-1]}",)
        return {
            uid: answer._replace(devices=tuple(device._replace(cdi_ids=ids) for device in answer.devices))
            for uid, answer in answers.items()
        }


class UnpreparesOnce(ModifiedDriver):
    """Unprepares only claims that this process prepared, and only once."""

    def __init__(self, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.there: set[str] = set()

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        self.there.update(claim.uid for claim in claims)
        return await self.good.prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        answers = dict(await self.good.unprepare(claims))
        for claim in claims:
            if claim.uid not in self.there:
                answers[claim.uid] = "claim is not prepared"
            self.there.discard(claim.uid)
        return answers


class ReadsClaim(ModifiedDriver):
    """Reads the claim before it unprepares it."""

    def __init__(self, world: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.client = world.cluster.client

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        for claim in claims:
            try:
                await self.client.get(CLAIMS, claim.name, claim.namespace)
            except StatusError as error:
                return {each.uid: str(error) for each in claims}
        return await self.good.unprepare(claims)


# --- rejecting ------


def _never_refuses(claim: ClaimRef, answer: PrepareResult) -> PrepareResult:
    return PrepareResult((DEVICE,)) if answer.error else answer


class AllOrNothing(ModifiedDriver):
    """Rejects all claims of a call if one is wrong."""

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = await self.good.prepare(claims)
        errors = [answer.error for answer in answers.values() if answer.error]
        return {uid: PrepareResult(error=errors[0]) for uid in answers} if errors else answers


class NeverReleases(ModifiedDriver):
    """Reserves a device for the first claim that it was prepared for."""

    def __init__(self, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.owner: dict[str, str] = {}

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = dict(await self.good.prepare(claims))
        for claim in claims:
            for device in answers[claim.uid].devices:
                if self.owner.setdefault(device.device, claim.uid) != claim.uid:
                    answers[claim.uid] = PrepareResult(error="device is in use")
        return answers


# --- concurrency ------


class Busy(ModifiedDriver):
    """Rejects concurrent calls, and takes long enough for them to occur."""

    def __init__(self, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.busy = False
        self.another = asyncio.Event()

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        if self.busy:
            self.another.set()
            raise PluginCallError("busy")
        self.busy = True
        await self.another.wait()
        answers = await self.good.prepare(claims)
        self.busy = False  # not if the call was cancelled
        return answers


# --- health -----------------------------------------------------------------------------------------------------------


class ReportsHealth(ModifiedDriver):
    """Reports device health."""

    def __init__(self, good: KubeletPlugin, change: Callable[[DeviceHealth], Sequence[DeviceHealth]]) -> None:
        super().__init__(good)
        self.change = change

    async def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        stream = self.good.health()
        assert stream is not None
        async for devices in stream:
            yield [new for device in devices for new in self.change(device)]


def telling(change: Callable[[DeviceHealth], Sequence[DeviceHealth]]) -> Defect:
    return bent(lambda world, good: ReportsHealth(good, change))


class Silent(ModifiedDriver):
    async def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        await asyncio.Event().wait()
        yield ()


def _silent(world: DriverNode) -> None:
    world.modify = Silent
    world.timeouts = SHORT_TIMEOUTS


# --- process ------


def _churns(world: DriverNode) -> None:
    async def write_again() -> None:
        for tree in (await world.cluster.client.list(SLICES)).items:
            await world.cluster.client.delete(SLICES, tree["metadata"]["name"])

    world.before_start = lambda life: write_again() if life > 1 else None


def _registers_once(world: DriverNode) -> None:
    def start(life: int) -> None:
        if life > 1:
            world.serve = serve_with_info(notified=False)

    world.before_start = start


DEFECTS: list[tuple[str, str, Defect]] = [
    ("get-info", "endpoint '..", _relative),
    ("get-info", "type 'CSIPlugin'", serving(type="CSIPlugin")),
    ("get-info", "no process listens at endpoint", serving(endpoint="/nowhere/dra.sock")),
    ("get-info", "name: Invalid value", serving(name="GPU_driver")),
    ("versions", "supported_versions 1.0.0", serving(versions=("1.0.0",))),
    ("versions", "v1.DRAPlugin: rpc error: code = Unknown desc = no claims", spoiled(NoEmptyCalls)),
    ("register", "failed to send registration status", serving(notified=False)),
    ("empty-call", "no claims", spoiled(NoEmptyCalls)),
    ("slices", "no ResourceSlice", _unpublished),
    ("pools", "1 slices, resourceSliceCount 2", showing(_one_missing)),
    ("pools", "generations 0, 1", showing(_two_generations)),
    ("pools", "duplicate device name", showing(_same_names)),
    ("slices-valid", "devices[0].name", showing(_bad_name)),
    ("slices-owner", "without owner", showing(_unowned)),
    ("prepare", "rejected: out of order", changing(lambda claim, answer: PrepareResult(error="out of order"))),
    ("prepare", "which is not in the claim", devices(lambda device: device._replace(device="gpu-9"))),
    ("prepare", "no device", changing(lambda claim, answer: PrepareResult())),
    ("prepare", "which is not in the claim", devices(lambda device: device._replace(pool="n2"))),
    ("request-names", "for request 'gpu/first'", devices(lambda device: device._replace(requests=("gpu/first",)))),
    ("other-drivers", "which is not in the claim", changing(
        lambda claim, answer: answer._replace(
            devices=(*answer.devices, PreparedDevice(("other",), "elsewhere", "none"))
        )
    )),
    ("cdi", "unresolvable CDI devices", devices(lambda device: device._replace(cdi_ids=("a.example/gpu=c",)))),
    ("cdi", "CDI ID '/dev/gpu'", devices(lambda device: device._replace(cdi_ids=("/dev/gpu",)))),
    ("prepare-twice", "first n1/gpu-0", spoiled(ForgetsAnswer)),
    ("prepare-twice", "rejected when repeated: already prepared", spoiled(PreparesOnce)),
    ("prepare-twice", "the CDI file changed", bent(RewritesFile)),
    ("prepare-again", "already prepared", spoiled(PreparesOnce)),
    ("v1beta1-same", "already prepared", spoiled(PreparesOnce)),
    ("v1beta1-same", "first n1/gpu-0", spoiled(ForgetsAnswer)),
    ("unprepare", "not deleted", bent(lambda world, good: LeavesFiles(world, good, own=True))),
    ("unprepare", "all.example/gpu=n0 can still be resolved", bent(KeepsDevices)),
    ("unprepare-twice", "is not prepared", spoiled(UnpreparesOnce)),
    ("unprepare-unknown", "is not prepared", spoiled(UnpreparesOnce)),
    ("unprepare-deleted", "not found", bent(ReadsClaim)),
    ("unknown-claim", "it was prepared", changing(_never_refuses)),
    ("not-allocated", "it was prepared", changing(_never_refuses)),
    ("wrong-uid", "it was prepared", changing(_never_refuses)),
    ("wrong-uid", "rejected, but wrote", bent(LeavesFileOfRejectedClaim)),
    ("bad-parameters", "were ignored", changing(_never_refuses)),
    ("bad-claim-alone", "the other claim of the call failed, too", spoiled(AllOrNothing)),
    ("overlap", "two claims at the same time", changing(_never_refuses)),
    ("overlap", "after unprepare", spoiled(NeverReleases)),
    ("several-claims", "skipped 2 ResourceClaims", spoiled(SkipsClaims)),
    ("concurrent", "busy", spoiled(Busy)),
    ("same-at-once", "busy", spoiled(Busy)),
    ("same-at-once", "first n1/gpu-0", spoiled(ForgetsAnswer)),
    ("hang-up", "after a cancelled call", spoiled(Busy)),
    ("health", "no message within", _silent),
    ("health", "which is not in a slice", telling(lambda device: [device, device._replace(device="gpu-9")])),
    ("health", "no health of n1/gpu-0 and 3 others", telling(lambda device: [])),
    ("health", "was last updated", telling(lambda device: [device._replace(updated=int(time.time()) - 100)])),
    ("health", "a message of 2000 characters", telling(lambda device: [device._replace(message="x" * 2000)])),
    ("restart-slices", " and 1 more", _churns),
    ("restart-register", "failed to send registration status", _registers_once),
    ("restart-claims", "is not prepared", spoiled(UnpreparesOnce)),
    ("restart-claims", "first n1/gpu-0", spoiled(ForgetsAnswer)),
    ("kill-prepare", "after SIGKILL in prepare: not deleted", bent(lambda world, good: LeavesFiles(world, good, own=False))),
    ("kill-unprepare", "after SIGKILL in unprepare: not unprep", spoiled(UnpreparesOnce)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "seen", "spoil"), DEFECTS, ids=[f"{name}-{seen}" for name, seen, _ in DEFECTS])
def test_a_defect_fails_its_check(name: str, seen: str, spoil: Defect) -> None:
    world = DriverNode()
    spoil(world)
    (row,) = run_checks(world, name)
    assert row.result == ("warn" if row.check.advice else "FAIL")
    assert seen in row.seen
    assert row.remedy
    assert row.expected


def test_every_check_has_a_defect() -> None:
    assert {name for name, _, _ in DEFECTS} == {check.name for check in CHECKS}


def test_the_page_lists_all_checks() -> None:
    page = (Path(__file__).parents[4] / "docs" / "drivers.md").read_text(encoding="utf-8")
    table = page.partition("### The checks\n")[2]
    listed = re.findall(r"^\| `([a-z0-9-]+)`(?: \([^|]*\))? \| (.*) \| (.*) \|$", table, re.MULTILINE)
    assert listed == [(check.name, check.expected, check.source) for check in CHECKS]


class Exits(ModifiedDriver):
    """Exits when it prepares a claim."""

    def __init__(self, world: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.world = world

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        if claims:
            self.world.exit()
            raise PluginCallError("the end")
        return await self.good.prepare(claims)


def test_remaining_checks_are_skipped_after_a_crash() -> None:
    world = DriverNode()
    world.modify = lambda good: Exits(world, good)
    rows = run_checks(world, "empty-call", "prepare", "cdi", "health", lives=False)
    assert [row.result for row in rows] == ["pass", "FAIL", "skipped", "skipped"]
    assert rows[2].seen == "the driver does not answer since prepare: restart it, then run this command again"


def test_a_crashed_driver_is_restarted_if_possible() -> None:
    world = DriverNode()
    world.modify = lambda good: Exits(world, good)
    rows = run_checks(world, "empty-call", "prepare", "health")
    assert [row.result for row in rows] == ["pass", "FAIL", "pass"]
    assert world.starts == 2


def test_checks_are_skipped_if_no_claim_can_be_prepared() -> None:
    world = DriverNode()
    changing(lambda claim, answer: PrepareResult(error="out of order"))(world)
    rows = run_checks(world, "prepare", "cdi", "several-claims", "not-allocated")
    assert [row.result for row in rows] == ["FAIL", "skipped", "skipped", "pass"]
    assert rows[1].seen == "preparing a single claim fails"


def test_slices_of_an_earlier_process_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver publishes other slices shortly after its start."""

    async def main() -> None:
        world = DriverNode()
        async with open_session(world) as made:
            (before,) = await made.slices()
            look = made.slices

            async def last_look() -> list[ResourceSlice]:
                monkeypatch.setattr(made, "slices", look)
                found = await look()
                await world.cluster.client.delete(SLICES, before.metadata.name)
                return found

            monkeypatch.setattr(made, "slices", last_look)
            assert before not in await made.stable_slices()

    asyncio.run(main())
