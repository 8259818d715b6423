"""What becomes of pods and claims when GPUs break or are pulled out, and when the lab itself starts again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

import allotment
from allotment.cluster.resources import CLAIMS, NODES, PODS, TAINT_RULES
from allotment.drivers.nvidia.driver import NvidiaDriver
from allotment.drivers.nvidia.simulated.hardware import SimulatedHardware
from allotment.lab.drivers import FAULTS, GATES
from allotment.lab.fleet import HARDWARE
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED
from tests.lab.driven import (
    annotate,
    break_down,
    claim_files,
    event,
    gone,
    hardware,
    healths,
    names,
    no_claims,
    published,
)  # fmt: skip
from tests.lab.manifests import ALL_GATES, Manifests, Shared, accepted, pod_with, story
from tests.lab.stage import Stage, runs, stage
from tests.waiting import wait_until

TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}},
}


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


async def pod_on_a_gpu(on: Stage, name: str) -> Tree:
    await accepted(on, [pod_with("one-gpu", name, template=True)])
    return await on.until(runs, name, "default")


def taints(slices: Sequence[Tree]) -> list[tuple[str, str]]:
    """Device and effect of all taints."""
    return [
        (device["name"], taint["effect"])
        for one in slices
        for device in one["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
    ]


def has_taint(effect: str, slices: Sequence[Tree]) -> bool:
    return taints(slices) == [("gpu-0", effect)]


def test_a_gpu_that_is_pulled_out_leaves_its_pod_alone_and_is_given_to_nobody(manifests: Manifests) -> None:
    """Rules: the pool has a new generation; allocated is allocated; undoing needs no hardware."""

    async def tell() -> None:
        async with stage(fleet=("a=2xa100-40gb",)) as on:
            await accepted(on, [TEMPLATE])
            user = await pod_on_a_gpu(on, "user")
            assert await on.devices(user) == ["gpu-0"]
            (before,) = await published(on, "a", lambda slices: names(slices) == ["gpu-0", "gpu-1"])
            await break_down(on, "a", "gpu-0=gone")
            (after,) = await published(on, "a", lambda slices: names(slices) == ["gpu-1"])
            assert after["spec"]["pool"]["generation"] == before["spec"]["pool"]["generation"] + 1

            user = await on.until(lambda pod: healths(pod) == [("claim:gpu", "Unknown")], "user", "default")
            assert user["status"]["phase"] == "Running"
            assert await on.devices(user) == ["gpu-0"]
            other = await pod_on_a_gpu(on, "other")
            assert await on.devices(other) == ["gpu-1"]
            await accepted(on, [pod_with("one-gpu", "late", template=True)])
            await on.told("late", "default", "(devices-in-use)")

            await on.client.delete(PODS, "user", "default")
            await on.pods("default", lambda pods: len(pods) == 2)
            assert len(claim_files(on, "a")) == 1
            async with asyncio.timeout(120):
                while len((await on.client.list(CLAIMS)).items) > 2:
                    await asyncio.sleep(0.005)
            # Free, but not there: the one who waits goes on waiting, until somebody puts the GPU in again.
            assert not runs(await on.pod("late", "default"))
            await break_down(on, "a", None)
            late = await on.until(runs, "late", "default")
            assert await on.devices(late) == ["gpu-0"]

    story(tell)


def test_a_pod_of_a_pulled_out_gpu_that_shared_it_can_end(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(fleet=("a=1xa100-40gb", "b=1xa100-40gb/dynamic-mig")) as on:
            before = hardware(on, "b").snapshot()
            template = manifests.one("seed001-rct-mig")
            template["metadata"]["namespace"] = "gpu-demo"
            await accepted(on, [*manifests("castai/02-timeslicing"), template, *manifests("seed001-deployment-mig")])
            await on.running("gpu-demo-timeslicing", 3)
            await on.running("gpu-demo", 7)
            for node in ("a", "b"):
                await break_down(on, node, "gpu-0=gone")
            for namespace in ("gpu-demo-timeslicing", "gpu-demo"):
                await gone(on, namespace)
            await no_claims(on, "gpu-demo")
            assert not claim_files(on, "a") | claim_files(on, "b")
            await break_down(on, "b", None)
            assert hardware(on, "b").snapshot().cards == before.cards

    story(tell)


def test_a_critical_error_keeps_new_pods_away_until_the_gpu_is_mended(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(ALL_GATES, fleet=("a=1xa100-40gb",)) as on:
            await accepted(on, [TEMPLATE])
            await pod_on_a_gpu(on, "user")
            await break_down(on, "a", "gpu-0=xid-79")
            await published(on, "a", lambda slices: taints(slices) == [("gpu-0", "NoSchedule")])
            user = await on.until(lambda pod: healths(pod) == [("claim:gpu", "Unhealthy")], "user", "default")
            (entry,) = user["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
            assert entry["resources"][0]["message"] == "Xid 79: the GPU has fallen off the bus"
            assert user["status"]["phase"] == "Running"  # NoSchedule evicts nobody

            await on.client.delete(PODS, "user", "default")
            await accepted(on, [pod_with("one-gpu", "late", template=True)])
            told = await on.told("late", "default", "(devices-tainted)")
            assert "gpu.nvidia.com/xid=79:NoSchedule" in told
            await break_down(on, "a", None)
            await on.until(runs, "late", "default")

    story(tell)


def test_an_error_of_a_program_keeps_nobody_away(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(ALL_GATES, fleet=("a=1xa100-40gb",)) as on:
            await accepted(on, [TEMPLATE])
            await break_down(on, "a", "gpu-0=xid-31")
            await published(on, "a", lambda slices: taints(slices) == [("gpu-0", "None")])
            await pod_on_a_gpu(on, "user")

    story(tell)


def test_what_is_broken_from_the_start_is_tainted_from_the_start() -> None:
    """As when a lab starts again: a GPU with an error has not been mended by that."""

    async def tell() -> None:
        async with stage(ALL_GATES) as on:
            for name, form, faults, wanted in (
                ("a", "2xt4", "gpu-0=xid-79", "NoSchedule"),
                ("b", "2xt4", "gpu-0=lost", "NoSchedule"),
                ("c", "2xexample", "gpu-0=NoExecute", "NoExecute"),
            ):
                annotations = {SIMULATED: "true", HARDWARE: form, FAULTS: faults}
                await on.client.create(NODES, {"metadata": {"name": name, "annotations": annotations}})
                await published(on, name, partial(has_taint, wanted))

    story(tell)


def test_a_rule_for_a_device_evicts_its_pods_and_the_driver_undoes_what_they_had(manifests: Manifests) -> None:
    async def tell() -> None:
        async with stage(ALL_GATES, fleet=("a=1xa100-40gb",)) as on:
            before = hardware(on, "a").snapshot()
            namespace, claim = "gpu-demo-timeslicing", "gpu-demo-app-ts"
            users = [pod_with(claim, name, namespace) for name in ("one", "two")]
            trees = [tree for tree in manifests("castai/02-timeslicing") if tree["kind"] != "Deployment"]
            await accepted(on, [*trees, *users])
            await on.running(namespace, 2)
            assert hardware(on, "a").snapshot() != before
            rule = {
                "metadata": {"name": "broken"},
                "spec": {
                    "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-0"},
                    "taint": {"key": "example.com/broken", "effect": "NoExecute"},
                },
            }
            await on.client.create(TAINT_RULES, rule)
            await on.pods(namespace, lambda pods: not pods)
            assert hardware(on, "a").snapshot() == before
            await accepted(on, users)
            await on.told("one", namespace, "example.com/broken")
            await on.client.delete(TAINT_RULES, "broken")
            await on.running(namespace, 2)

    story(tell)


# --- what is said of a node wrongly --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value", "reason", "words"),
    [
        (FAULTS, "gpu-7=gone", "UnknownFault", "no GPU gpu-7; this node has gpu-0, gpu-1"),
        (FAULTS, "gpu-0=broken", "UnknownFault", "found 'gpu-0=broken'"),
        (GATES, "MPS=false", "UnknownGate", "one of TimeSlicingSettings, MPSSupport, found 'MPS=false'"),
        (GATES, "MPSSupport=off", "UnknownGate", "expected NAME=true or NAME=false"),
    ],
)
def test_an_annotation_that_says_nothing_sensible_is_told_on_its_node(
    annotation: str, value: str, reason: str, words: str
) -> None:
    async def tell() -> None:
        async with stage(fleet=("a=2xt4",)) as on:
            await annotate(on, "a", annotation, value)
            await event(on, "a", "default", reason, words)
            await accepted(on, [TEMPLATE])
            await pod_on_a_gpu(on, "user")  # and nothing else comes of it

    story(tell)


# --- the lab starts again ------------------------------------------------------------------------------------------


def revisions(lab: allotment.Lab, kind: str) -> dict[str, str]:
    return {tree["metadata"]["name"]: tree["metadata"]["resourceVersion"] for tree in lab.list(kind)}


def gpus(lab: allotment.Lab, node: str) -> SimulatedHardware:
    (found,) = lab.plane.drivers.of(node)
    assert isinstance(found.driver, NvidiaDriver)
    assert isinstance(found.driver.hardware, SimulatedHardware)
    return found.driver.hardware


def test_a_lab_that_starts_again_has_its_pods_and_prepares_their_claims_and_writes_no_slice(
    manifests: Manifests, tmp_path: Path
) -> None:
    fleet = ("a=1xa100-40gb", "b=1xa100-40gb/dynamic-mig", "c=mi300x-8x-oam/cpx")
    template = manifests.one("seed001-rct-mig")
    template["metadata"]["namespace"] = "gpu-demo"
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-demo"}}
    with allotment.Lab(fleet, data=tmp_path, speed=20) as lab:
        lab.apply([*manifests("castai/02-timeslicing"), namespace, template, *manifests("seed001-deployment-mig")])
        lab.wait()
        pods = {tree["metadata"]["name"]: tree["status"]["containerStatuses"] for tree in lab.list("pod")}
        assert len(pods) == 10
        wait_until(lambda: all((tree["status"].get("devices")) for tree in lab.list("resourceclaim")))
        slices, claims = revisions(lab, "resourceslice"), revisions(lab, "resourceclaim")

    with allotment.Lab(data=tmp_path, speed=20) as lab:
        wait_until(lambda: sum(len(card.instances) for card in gpus(lab, "b").snapshot().cards.values()) == 7)
        wait_until(lambda: [card.interval for card in gpus(lab, "a").snapshot().cards.values()] == [3])
        assert revisions(lab, "resourceslice") == slices
        assert {tree["metadata"]["name"] for tree in lab.list("pod")} == pods.keys()
        assert {tree["status"]["phase"] for tree in lab.list("pod")} == {"Running"}
        assert revisions(lab, "resourceclaim").keys() == claims.keys()
        # The scheduler may have been faster than who makes claims; that is in the data, too.
        warnings = [event for event in lab.list("event") if event["type"] == "Warning"]
        assert not [event["message"] for event in warnings if event["reason"] != "FailedScheduling"]
        lab.delete(manifests("castai/02-timeslicing"))
        wait_until(lambda: [card.interval for card in gpus(lab, "a").snapshot().cards.values()] == [0])
