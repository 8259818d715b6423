"""Devices whose driver is not called (``skipNodeOperations``, KEP-5945): from the slice to the running pod."""

from __future__ import annotations

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS, DEVICE_CLASSES, NODES, SLICES
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED
from tests.cluster_actions import is_running
from tests.lab.driver_nodes import wait_for_event
from tests.lab.harness import lab_harness
from tests.lab.manifests import pod_with, run_scenario

GATE = "DRAOptionalNodeOperations"
DRIVER = "plain.example.com"


def objects() -> list[tuple[Resource, Tree]]:
    slice_: Tree = {
        "metadata": {"name": "plain"},
        "spec": {
            "driver": DRIVER, "nodeName": "n1", "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d0"}], "skipNodeOperations": ["*"],
        },
    }  # fmt: skip
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    request = {"name": "gpu", "exactly": {"deviceClassName": "plain"}}
    return [
        (NODES, {"metadata": {"name": "n1", "annotations": {SIMULATED: "true"}}}),
        (DEVICE_CLASSES, {"metadata": {"name": "plain"}, "spec": {"selectors": [selector]}}),
        (SLICES, slice_),
        (CLAIMS, {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": {"requests": [request]}}}),
    ]


def test_a_pod_runs_on_a_node_that_declares_optional_operations() -> None:
    async def scenario() -> None:
        async with lab_harness(Features("1.37", {GATE: True})) as lab:
            lab.plane.environment.kubelets.plugins.expect("n1", DRIVER)  # it never registers
            for resource, tree in objects():
                await lab.client.create(resource, tree, tree["metadata"].get("namespace", ""))
            await lab.create(pod_with("c"))
            await lab.wait_for_pod(is_running, "user", "default")
            claim = await lab.client.get(CLAIMS, "c", "default")
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            assert result["skipNodeOperations"] == ["*"]
            assert (await lab.client.get(NODES, "n1"))["status"]["declaredFeatures"] == [GATE]

    run_scenario(scenario)


def test_without_the_gate_the_driver_must_register() -> None:
    async def scenario() -> None:
        async with lab_harness(Features("1.37")) as lab:
            lab.plane.environment.kubelets.plugins.expect("n1", DRIVER)
            for resource, tree in objects():
                await lab.client.create(resource, tree, tree["metadata"].get("namespace", ""))
            await lab.create(pod_with("c"))
            message = await wait_for_event(lab, "user", "default", "FailedPrepareDynamicResources")
            assert f"DRA driver {DRIVER} is not registered" in message

    run_scenario(scenario)
