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
from allotment.kubelet_plugin.encoding import HEALTH_V1ALPHA1
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
from tests.unit.drivers.verify.driver_node import (
    SHORT_TIMEOUTS,
    DriverNode,
    ModifiedDriver,
    open_session,
    run_checks,
    serve_with_info,
)

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


def with_answers(change: Callable[[ClaimRef, PrepareResult], PrepareResult]) -> Defect:
    def apply(node: DriverNode) -> None:
        node.modify = lambda good: ChangesAnswers(good, change)

    return apply


def with_devices(change: Callable[[PreparedDevice], PreparedDevice]) -> Defect:
    return with_answers(lambda claim, answer: answer._replace(devices=tuple(map(change, answer.devices))))


def modified_on(create: Callable[[DriverNode, KubeletPlugin], KubeletPlugin]) -> Defect:
    def apply(node: DriverNode) -> None:
        node.modify = lambda good: create(node, good)

    return apply


def modified(create: Callable[[KubeletPlugin], KubeletPlugin]) -> Defect:
    return modified_on(lambda node, good: create(good))


# --- registration -----------------------------------------------------------------------------------------------------


def with_info(**info: Any) -> Defect:
    def apply(node: DriverNode) -> None:
        node.serve = serve_with_info(**info)

    return apply


def _relative(node: DriverNode) -> None:
    node.serve = serve_with_info(endpoint=os.path.relpath(node.endpoint))


class NoEmptyCalls(ModifiedDriver):
    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        if not claims:
            raise PluginCallError("no claims")
        return await self.good.prepare(claims)


# --- slices -----------------------------------------------------------------------------------------------------------


class ModifiedSlices:
    """A client that returns modified slices of the driver."""

    def __init__(self, node: DriverNode, change: Callable[[list[Tree]], object]) -> None:
        self._client = node.cluster.client
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


def with_slices(change: Callable[[list[Tree]], object]) -> Defect:
    def apply(node: DriverNode) -> None:
        node.client = ModifiedSlices(node, change)
        node.timeouts = SHORT_TIMEOUTS

    return apply


def _unpublished(node: DriverNode) -> None:
    node.publishes = False
    node.timeouts = SHORT_TIMEOUTS


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

    def __init__(self, node: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.node = node

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = await self.good.prepare(claims)
        for path in self.node.cdi.iterdir():
            path.write_bytes(path.read_bytes() + b" ")
        return answers


# --- unpreparing ------------------------------------------------------------------------------------------------------


class LeavesFiles(ModifiedDriver):
    """Leaves a file that another process wrote; with ``own`` also its own."""

    def __init__(self, node: DriverNode, good: KubeletPlugin, *, own: bool) -> None:
        super().__init__(good)
        self.node = node
        self.own = own
        self.claims: set[str] = set()

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        for claim in claims:
            self.claims.add(claim.uid)
            self.node.cdi.mkdir(exist_ok=True)
            (self.node.cdi / f".{claim.uid}.new").touch()
        return await self.good.prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        for claim in claims:
            if not self.own and claim.uid in self.claims:
                (self.node.cdi / f".{claim.uid}.new").unlink(missing_ok=True)
        return await self.good.unprepare(claims)


class LeavesFileOfRejectedClaim(LeavesFiles):
    """Writes a file before it checks the claim."""

    def __init__(self, node: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(node, good, own=True)


class KeepsDevices(ModifiedDriver):
    """Has one CDI file for all claims, and only adds devices."""

    def __init__(self, node: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.folder = FolderStore(node.cdi)
        self.names: list[str] = []

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        answers = await self.good.prepare(claims)
        self.names.append(f"n{len(self.names)}")
        devices = tuple(CdiDevice(name, ContainerEdits(env=("A=1",))) for name in self.names)
        self.folder.write("all", Spec("all.example/gpu", devices))
        ids = (f"all.example/gpu={self.names[-1]}",)
        return {
            uid: answer._replace(devices=tuple(device._replace(cdi_ids=ids) for device in answer.devices))
            for uid, answer in answers.items()
        }


class UnpreparesOnce(ModifiedDriver):
    """Unprepares only claims that this process prepared, and only once."""

    def __init__(self, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.prepared: set[str] = set()

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        self.prepared.update(claim.uid for claim in claims)
        return await self.good.prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        answers = dict(await self.good.unprepare(claims))
        for claim in claims:
            if claim.uid not in self.prepared:
                answers[claim.uid] = "claim is not prepared"
            self.prepared.discard(claim.uid)
        return answers


class ReadsClaim(ModifiedDriver):
    """Reads the claim before it unprepares it."""

    def __init__(self, node: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.client = node.cluster.client

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        for claim in claims:
            try:
                await self.client.get(CLAIMS, claim.name, claim.namespace)
            except StatusError as error:
                return {claim.uid: str(error) for claim in claims}
        return await self.good.unprepare(claims)


# --- rejecting --------------------------------------------------------------------------------------------------------


def _never_rejects(claim: ClaimRef, answer: PrepareResult) -> PrepareResult:
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


# --- concurrency ------------------------------------------------------------------------------------------------------


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


def with_health(change: Callable[[DeviceHealth], Sequence[DeviceHealth]]) -> Defect:
    return modified_on(lambda node, good: ReportsHealth(good, change))


class Silent(ModifiedDriver):
    async def health(self) -> AsyncIterator[Sequence[DeviceHealth]]:
        await asyncio.Event().wait()
        yield ()


def _reports_no_device(node: DriverNode) -> None:
    with_health(lambda device: [])(node)
    node.timeouts = SHORT_TIMEOUTS


def _serves_only_v1alpha1(node: DriverNode) -> None:
    node.serve = serve_with_info(
        versions=("v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"),
        health_versions=(HEALTH_V1ALPHA1,),
    )


def _silent(node: DriverNode) -> None:
    node.modify = Silent
    node.timeouts = SHORT_TIMEOUTS


# --- process ----------------------------------------------------------------------------------------------------------


def _recreates_slices(node: DriverNode) -> None:
    async def recreate() -> None:
        for tree in (await node.cluster.client.list(SLICES)).items:
            await node.cluster.client.delete(SLICES, tree["metadata"]["name"])

    node.before_start = lambda starts: recreate() if starts > 1 else None


def _registers_once(node: DriverNode) -> None:
    def start(starts: int) -> None:
        if starts > 1:
            node.serve = serve_with_info(notified=False)

    node.before_start = start


DEFECTS: list[tuple[str, str, Defect]] = [
    ("get-info", "endpoint '..", _relative),
    ("get-info", "type 'CSIPlugin'", with_info(type="CSIPlugin")),
    ("get-info", "no process is listening on endpoint", with_info(endpoint="/nowhere/dra.sock")),
    ("get-info", "name: Invalid value", with_info(name="GPU_driver")),
    ("versions", "supported_versions 1.0.0", with_info(versions=("1.0.0",))),
    ("versions", "v1.DRAPlugin: rpc error: code = Unknown desc = no claims", modified(NoEmptyCalls)),
    ("register", "failed to send registration status", with_info(notified=False)),
    ("empty-call", "no claims", modified(NoEmptyCalls)),
    ("slices", "no ResourceSlice", _unpublished),
    ("pools", "1 slices, resourceSliceCount 2", with_slices(_one_missing)),
    ("pools", "generations 0, 1", with_slices(_two_generations)),
    ("pools", "duplicate device name", with_slices(_same_names)),
    ("slices-valid", "devices[0].name", with_slices(_bad_name)),
    ("slices-owner", "no owner", with_slices(_unowned)),
    ("prepare", "rejected: out of order", with_answers(lambda claim, answer: PrepareResult(error="out of order"))),
    ("prepare", "which is not allocated to the claim", with_devices(lambda device: device._replace(device="gpu-9"))),
    ("prepare", "no device", with_answers(lambda claim, answer: PrepareResult())),
    ("prepare", "which is not allocated to the claim", with_devices(lambda device: device._replace(pool="n2"))),
    ("request-names", "is returned for request 'gpu/first'",
     with_devices(lambda device: device._replace(requests=("gpu/first",)))),
    ("other-drivers", "which is not allocated to the claim", with_answers(
        lambda claim, answer: answer._replace(
            devices=(*answer.devices, PreparedDevice(("other",), "elsewhere", "none"))
        )
    )),
    ("cdi", "unresolvable CDI devices", with_devices(lambda device: device._replace(cdi_ids=("a.example/gpu=c",)))),
    ("cdi", "CDI ID '/dev/gpu'", with_devices(lambda device: device._replace(cdi_ids=("/dev/gpu",)))),
    ("prepare-twice", "first n1/gpu-0", modified(ForgetsAnswer)),
    ("prepare-twice", "the repeated call was rejected: already prepared", modified(PreparesOnce)),
    ("prepare-twice", "the CDI file changed", modified_on(RewritesFile)),
    ("prepare-again", "already prepared", modified(PreparesOnce)),
    ("v1beta1-same", "already prepared", modified(PreparesOnce)),
    ("v1beta1-same", "first n1/gpu-0", modified(ForgetsAnswer)),
    ("unprepare", "not deleted", modified_on(lambda node, good: LeavesFiles(node, good, own=True))),
    ("unprepare", "all.example/gpu=n0 can still be resolved", modified_on(KeepsDevices)),
    ("unprepare-twice", "is not prepared", modified(UnpreparesOnce)),
    ("unprepare-unknown", "is not prepared", modified(UnpreparesOnce)),
    ("unprepare-deleted", "not found", modified_on(ReadsClaim)),
    ("unknown-claim", "the claim was prepared", with_answers(_never_rejects)),
    ("not-allocated", "the claim was prepared", with_answers(_never_rejects)),
    ("wrong-uid", "the claim was prepared", with_answers(_never_rejects)),
    ("wrong-uid", "rejected, but wrote", modified_on(LeavesFileOfRejectedClaim)),
    ("bad-parameters", "were ignored", with_answers(_never_rejects)),
    ("bad-claim-alone", "the other claim of the call also failed", modified(AllOrNothing)),
    ("overlap", "two claims at the same time", with_answers(_never_rejects)),
    ("overlap", "after unprepare", modified(NeverReleases)),
    ("several-claims", "skipped 2 ResourceClaims", modified(SkipsClaims)),
    ("concurrent", "busy", modified(Busy)),
    ("same-at-once", "busy", modified(Busy)),
    ("same-at-once", "first n1/gpu-0", modified(ForgetsAnswer)),
    ("hang-up", "after a canceled call", modified(Busy)),
    ("health", "no message within", _silent),
    ("health", "not in a ResourceSlice", with_health(lambda device: [device, device._replace(device="gpu-9")])),
    ("health", "no health reported for n1/gpu-0 and 3 others", _reports_no_device),
    ("health", "v1.DRAResourceHealth: rpc error: code = Unimplemented", _serves_only_v1alpha1),
    ("health", "was last updated", with_health(lambda device: [device._replace(updated=int(time.time()) - 100)])),
    ("health", "a message of 2000 characters", with_health(lambda device: [device._replace(message="x" * 2000)])),
    ("restart-slices", " and 1 more", _recreates_slices),
    ("restart-register", "failed to send registration status", _registers_once),
    ("restart-claims", "is not prepared", modified(UnpreparesOnce)),
    ("restart-claims", "first n1/gpu-0", modified(ForgetsAnswer)),
    ("kill-prepare", "in prepare: not deleted", modified_on(lambda node, good: LeavesFiles(node, good, own=False))),
    ("kill-unprepare", "after SIGKILL in unprepare: not unprep", modified(UnpreparesOnce)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "seen", "apply"), DEFECTS, ids=[f"{name}-{seen}" for name, seen, _ in DEFECTS])
def test_a_defect_fails_its_check(name: str, seen: str, apply: Defect) -> None:
    node = DriverNode()
    apply(node)
    (result,) = run_checks(node, name)
    assert result.result == ("warn" if result.check.advice else "FAIL")
    assert seen in result.seen
    assert result.remedy
    assert result.expected


def test_every_check_has_a_defect() -> None:
    assert {name for name, _, _ in DEFECTS} == {check.name for check in CHECKS}


def test_the_documentation_lists_all_checks() -> None:
    page = (Path(__file__).parents[4] / "docs" / "reference" / "driver-checks.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z0-9-]+)`(?: \([^|]*\))? \| (.*) \| (.*) \|$", page, re.MULTILINE)
    assert listed == [(check.name, check.expected, check.source) for check in CHECKS]


class Exits(ModifiedDriver):
    """Exits when it prepares a claim."""

    def __init__(self, node: DriverNode, good: KubeletPlugin) -> None:
        super().__init__(good)
        self.node = node

    async def prepare(self, claims: Sequence[ClaimRef]) -> Answers:
        if claims:
            self.node.exit()
            while self.node.registration.exists():
                await asyncio.sleep(0.001)
            for _ in range(10):  # steps of the event loop, until the endpoint accepts no more calls
                await asyncio.sleep(0)
            raise PluginCallError("exited")
        return await self.good.prepare(claims)


def test_remaining_checks_are_skipped_after_a_crash() -> None:
    node = DriverNode()
    node.modify = lambda good: Exits(node, good)
    results = run_checks(node, "empty-call", "prepare", "cdi", "health", restartable=False)
    assert [result.result for result in results] == ["pass", "FAIL", "skipped", "skipped"]
    assert results[2].seen == "the driver has not responded since prepare: restart it, and run this command again"


def test_a_crashed_driver_is_restarted_if_possible() -> None:
    node = DriverNode()
    node.modify = lambda good: Exits(node, good)
    results = run_checks(node, "empty-call", "prepare", "health")
    assert [result.result for result in results] == ["pass", "FAIL", "pass"]
    assert node.starts == 2


def test_checks_are_skipped_if_no_claim_can_be_prepared() -> None:
    node = DriverNode()
    with_answers(lambda claim, answer: PrepareResult(error="out of order"))(node)
    results = run_checks(node, "prepare", "cdi", "several-claims", "not-allocated")
    assert [result.result for result in results] == ["FAIL", "skipped", "skipped", "pass"]
    assert results[1].seen == "preparing a single claim fails"


def test_slices_of_an_earlier_process_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver publishes other slices shortly after its start."""

    async def main() -> None:
        node = DriverNode()
        async with open_session(node) as session:
            (before,) = await session.slices()
            slices = session.slices

            async def replace_slices() -> list[ResourceSlice]:
                monkeypatch.setattr(session, "slices", slices)
                found = await slices()
                await node.cluster.client.delete(SLICES, before.metadata.name)
                return found

            monkeypatch.setattr(session, "slices", replace_slices)
            assert before not in await session.stable_slices()

    asyncio.run(main())
