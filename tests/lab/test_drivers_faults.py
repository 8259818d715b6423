"""Pods and claims when GPUs fail or are removed, and when the lab restarts."""

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
from tests.cluster_actions import is_running
from tests.lab.driver_nodes import (
    annotate,
    claim_specs,
    delete_all,
    device_health,
    device_names,
    hardware,
    inject_faults,
    wait_for_event,
    wait_for_no_claims,
    wait_for_slices,
)  # fmt: skip
from tests.lab.harness import LabHarness, lab_harness
from tests.lab.manifests import ALL_GATES, Manifests, Shared, create_accepted, pod_with, run_scenario
from tests.polling import wait_until

TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}},
}


@pytest.fixture(scope="module")
def manifests(shared: Shared) -> Manifests:
    return Manifests(shared)


async def pod_on_a_gpu(lab: LabHarness, name: str) -> Tree:
    await create_accepted(lab, [pod_with("one-gpu", name, template=True)])
    return await lab.wait_for_pod(is_running, name, "default")


def taints(slices: Sequence[Tree]) -> list[tuple[str, str]]:
    """Device and effect of all taints."""
    return [
        (device["name"], taint["effect"])
        for slice_ in slices
        for device in slice_["spec"].get("devices") or ()
        for taint in device.get("taints") or ()
    ]


def has_taint(effect: str, slices: Sequence[Tree]) -> bool:
    return taints(slices) == [("gpu-0", effect)]


def test_a_removed_gpu_keeps_its_pod_and_is_not_allocated_again(manifests: Manifests) -> None:
    """The pool gets a new generation, allocations stay, and unpreparing needs no hardware."""

    async def scenario() -> None:
        async with lab_harness(fleet=("a=2xa100-40gb",)) as lab:
            await create_accepted(lab, [TEMPLATE])
            user = await pod_on_a_gpu(lab, "user")
            assert await lab.devices(user) == ["gpu-0"]
            (before,) = await wait_for_slices(lab, "a", lambda slices: device_names(slices) == ["gpu-0", "gpu-1"])
            await inject_faults(lab, "a", "gpu-0=gone")
            (after,) = await wait_for_slices(lab, "a", lambda slices: device_names(slices) == ["gpu-1"])
            assert after["spec"]["pool"]["generation"] == before["spec"]["pool"]["generation"] + 1

            user = await lab.wait_for_pod(
                lambda pod: device_health(pod) == [("claim:gpu", "Unknown")], "user", "default"
            )
            assert user["status"]["phase"] == "Running"
            assert await lab.devices(user) == ["gpu-0"]
            other = await pod_on_a_gpu(lab, "other")
            assert await lab.devices(other) == ["gpu-1"]
            await create_accepted(lab, [pod_with("one-gpu", "late", template=True)])
            await lab.failed_scheduling("late", "default", "(devices-in-use)")

            await lab.client.delete(PODS, "user", "default")
            await lab.pods("default", lambda pods: len(pods) == 2)
            assert len(claim_specs(lab, "a")) == 1
            async with asyncio.timeout(120):
                while len((await lab.client.list(CLAIMS)).items) > 2:
                    await asyncio.sleep(0.005)
            # Free, but missing: the pod stays pending until the GPU is inserted again.
            assert not is_running(await lab.pod("late", "default"))
            await inject_faults(lab, "a", None)
            late = await lab.wait_for_pod(is_running, "late", "default")
            assert await lab.devices(late) == ["gpu-0"]

    run_scenario(scenario)


def test_a_pod_that_shared_a_removed_gpu_can_end(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a=1xa100-40gb", "b=1xa100-40gb/dynamic-mig")) as lab:
            before = hardware(lab, "b").snapshot()
            template = manifests.read_one("seed001-rct-mig")
            template["metadata"]["namespace"] = "gpu-demo"
            await create_accepted(
                lab, [*manifests("castai/02-timeslicing"), template, *manifests("seed001-deployment-mig")]
            )
            await lab.running("gpu-demo-timeslicing", 3)
            await lab.running("gpu-demo", 7)
            for node in ("a", "b"):
                await inject_faults(lab, node, "gpu-0=gone")
            for namespace in ("gpu-demo-timeslicing", "gpu-demo"):
                await delete_all(lab, namespace)
            await wait_for_no_claims(lab, "gpu-demo")
            assert not claim_specs(lab, "a") | claim_specs(lab, "b")
            await inject_faults(lab, "b", None)
            assert hardware(lab, "b").snapshot().cards == before.cards

    run_scenario(scenario)


def test_a_critical_error_prevents_new_pods_until_the_gpu_is_repaired(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=("a=1xa100-40gb",)) as lab:
            await create_accepted(lab, [TEMPLATE])
            await pod_on_a_gpu(lab, "user")
            await inject_faults(lab, "a", "gpu-0=xid-79")
            await wait_for_slices(lab, "a", lambda slices: taints(slices) == [("gpu-0", "NoSchedule")])
            user = await lab.wait_for_pod(
                lambda pod: device_health(pod) == [("claim:gpu", "Unhealthy")], "user", "default"
            )
            (entry,) = user["status"]["containerStatuses"][0]["allocatedResourcesStatus"]
            assert entry["resources"][0]["message"] == "Xid 79: the GPU has fallen off the bus"
            assert user["status"]["phase"] == "Running"  # NoSchedule evicts no pod

            await lab.client.delete(PODS, "user", "default")
            await create_accepted(lab, [pod_with("one-gpu", "late", template=True)])
            message = await lab.failed_scheduling("late", "default", "(devices-tainted)")
            assert "gpu.nvidia.com/xid=79:NoSchedule" in message
            await inject_faults(lab, "a", None)
            await lab.wait_for_pod(is_running, "late", "default")

    run_scenario(scenario)


def test_an_application_error_does_not_prevent_new_pods(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=("a=1xa100-40gb",)) as lab:
            await create_accepted(lab, [TEMPLATE])
            await inject_faults(lab, "a", "gpu-0=xid-31")
            await wait_for_slices(lab, "a", lambda slices: taints(slices) == [("gpu-0", "None")])
            await pod_on_a_gpu(lab, "user")

    run_scenario(scenario)


def test_a_gpu_that_fails_before_the_start_is_tainted_at_the_start() -> None:
    """As when a lab restarts, which does not repair a GPU with an error."""

    async def scenario() -> None:
        async with lab_harness(ALL_GATES) as lab:
            for name, form, faults, expected in (
                ("a", "2xt4", "gpu-0=xid-79", "NoSchedule"),
                ("b", "2xt4", "gpu-0=lost", "NoSchedule"),
                ("c", "2xexample", "gpu-0=NoExecute", "NoExecute"),
            ):
                annotations = {SIMULATED: "true", HARDWARE: form, FAULTS: faults}
                await lab.client.create(NODES, {"metadata": {"name": name, "annotations": annotations}})
                await wait_for_slices(lab, name, partial(has_taint, expected))

    run_scenario(scenario)


def test_a_node_whose_hardware_has_a_count_of_one_runs_pods() -> None:
    async def scenario() -> None:
        async with lab_harness(ALL_GATES) as lab:
            annotations = {SIMULATED: "true", HARDWARE: "t4-4x-pcie:1"}
            await lab.client.create(NODES, {"metadata": {"name": "a", "annotations": annotations}})
            await create_accepted(lab, [TEMPLATE])
            await pod_on_a_gpu(lab, "user")

    run_scenario(scenario)


def test_a_rule_for_a_device_evicts_its_pods_and_their_claims_are_unprepared(manifests: Manifests) -> None:
    async def scenario() -> None:
        async with lab_harness(ALL_GATES, fleet=("a=1xa100-40gb",)) as lab:
            before = hardware(lab, "a").snapshot()
            namespace, claim = "gpu-demo-timeslicing", "gpu-demo-app-ts"
            users = [pod_with(claim, name, namespace) for name in ("one", "two")]
            trees = [tree for tree in manifests("castai/02-timeslicing") if tree["kind"] != "Deployment"]
            await create_accepted(lab, [*trees, *users])
            await lab.running(namespace, 2)
            assert hardware(lab, "a").snapshot() != before
            rule = {
                "metadata": {"name": "broken"},
                "spec": {
                    "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "a", "device": "gpu-0"},
                    "taint": {"key": "example.com/broken", "effect": "NoExecute"},
                },
            }
            await lab.client.create(TAINT_RULES, rule)
            await lab.pods(namespace, lambda pods: not pods)
            assert hardware(lab, "a").snapshot() == before
            await create_accepted(lab, users)
            await lab.failed_scheduling("one", namespace, "example.com/broken")
            await lab.client.delete(TAINT_RULES, "broken")
            await lab.running(namespace, 2)

    run_scenario(scenario)


# --- wrong annotations on a node
# ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotation", "value", "reason", "words"),
    [
        (FAULTS, "gpu-7=gone", "UnknownFault", "no GPU gpu-7; this node has gpu-0, gpu-1"),
        (FAULTS, "gpu-0=broken", "UnknownFault", "found 'gpu-0=broken'"),
        (GATES, "MPS=false", "UnknownGate", "one of TimeSlicingSettings, MPSSupport, found 'MPS=false'"),
        (GATES, "MPSSupport=off", "UnknownGate", "expected NAME=true or NAME=false"),
    ],
)
def test_an_invalid_annotation_is_reported_on_its_node(annotation: str, value: str, reason: str, words: str) -> None:
    async def scenario() -> None:
        async with lab_harness(fleet=("a=2xt4",)) as lab:
            await annotate(lab, "a", annotation, value)
            await wait_for_event(lab, "a", "default", reason, words)
            await create_accepted(lab, [TEMPLATE])
            await pod_on_a_gpu(lab, "user")  # and it has no other effect

    run_scenario(scenario)


# --- the lab restarts
# --------------------------------------------------------------------------------------------------


def revisions(lab: allotment.Lab, kind: str) -> dict[str, str]:
    return {tree["metadata"]["name"]: tree["metadata"]["resourceVersion"] for tree in lab.list(kind)}


def gpus(lab: allotment.Lab, node: str) -> SimulatedHardware:
    (found,) = lab.plane.drivers.of(node)
    assert isinstance(found.driver, NvidiaDriver)
    assert isinstance(found.driver.hardware, SimulatedHardware)
    return found.driver.hardware


def test_a_restarted_lab_runs_its_pods_again_and_writes_no_slice(manifests: Manifests, tmp_path: Path) -> None:
    fleet = ("a=1xa100-40gb", "b=1xa100-40gb/dynamic-mig", "c=mi300x-8x-oam/cpx")
    template = manifests.read_one("seed001-rct-mig")
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
        # The scheduler may have been faster than the claim controller; that event is in the data, too.
        warnings = [event for event in lab.list("event") if event["type"] == "Warning"]
        assert not [event["message"] for event in warnings if event["reason"] != "FailedScheduling"]
        lab.delete(manifests("castai/02-timeslicing"))
        wait_until(lambda: [card.interval for card in gpus(lab, "a").snapshot().cards.values()] == [0])
