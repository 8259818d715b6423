"""The example drivers: valid slices, allocation of the upstream demos, and variables in containers."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from allotment.cdi.lookup import CdiDevices
from allotment.cluster.caches import Caches
from allotment.cluster.clock import Clock
from allotment.cluster.program import ProgramContext
from allotment.cluster.recorder import Events
from allotment.cluster.resources import CLAIMS
from allotment.drivers.driver import Driver, HealthUpdate
from allotment.drivers.example.binding_conditions import controller
from allotment.drivers.example.driver import ExampleCpus, ExampleGpus, ExampleNics
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.publishing.slice_builder import build_slices
from allotment.engine import Allocated, Allocator, Inventory
from allotment.fleet import CLASSES
from allotment.fleet.modes import ExampleMode
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.defaults import with_defaults
from allotment.model.features import GATES, Features
from allotment.model.meta import ObjectKey, ObjectMeta
from allotment.model.resource import DeviceTaint, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree, to_tree, to_value
from tests.unit.cluster import idle
from tests.unit.cluster.memory import MemoryClient
from tests.unit.drivers.fake_driver import NODE, memory_host, opaque, put_claim

Shared = Callable[[str], Path]
ALL_GATES = Features("1.36", {gate: True for gate, releases in GATES.items() if "1.36" in releases})


def slices_of(driver: Driver) -> list[ResourceSlice]:
    """Return the published slices of a driver, after validation like in the API server."""
    pools = idle.run(discover(driver))
    specs = [spec for pool in pools for spec in build_slices(pool, driver.name, NODE, ALL_GATES).specs]
    return [ResourceSlice(metadata=ObjectMeta(name=f"{n:05x}"), spec=spec) for n, spec in enumerate(specs)]


async def discover(driver: Driver) -> Sequence[Any]:
    return await driver.discover()


def claims_of(trees: Sequence[Tree]) -> dict[str, list[Tree]]:
    """Return the claims by pod of a manifest, as the controller creates them; a shared claim is one object."""
    templates = {t["metadata"]["name"]: t["spec"]["spec"] for t in trees if t["kind"] == "ResourceClaimTemplate"}
    named = {t["metadata"]["name"]: t for t in trees if t["kind"] == "ResourceClaim"}
    found: dict[str, list[Tree]] = {}
    for pod in (tree for tree in trees if tree["kind"] == "Pod"):
        name = pod["metadata"]["name"]
        found[name] = []
        for entry in pod["spec"].get("resourceClaims", ()):
            if "resourceClaimName" in entry:
                found[name].append(named[entry["resourceClaimName"]])
            else:
                spec = templates[entry["resourceClaimTemplateName"]]
                metadata = {"name": f"{name}-{entry['name']}", "namespace": pod["metadata"]["namespace"]}
                found[name].append({"metadata": metadata, "spec": spec})
    return found


def environments(driver: Driver, trees: Sequence[Tree]) -> dict[str, dict[str, str]]:
    """Return the variables of each pod of a manifest, after its claims were allocated on a node and prepared."""
    inventory = Inventory.of(ALL_GATES, nodes=[(NODE, {})], slices=slices_of(driver), classes=CLASSES["example"])
    client, host, numbers = MemoryClient(), memory_host(), itertools.count(1)
    plugin = NodeDriver(driver, host, client, Clock(), status=False)
    lookup = CdiDevices([host.cdi])
    ids: dict[int, list[str]] = {}

    async def prepared(tree: Tree) -> list[str]:
        plain = to_value({"metadata": tree["metadata"], "spec": tree["spec"]}, ResourceClaim)
        claim = with_defaults(plain, version="v1", now="2026-01-01T00:00:00Z")
        outcome = Allocator(inventory).allocate(NODE, [claim])
        assert isinstance(outcome, Allocated), outcome
        inventory.allocate(ObjectKey(claim.metadata.namespace, claim.metadata.name), outcome.results[0])
        status = {"allocation": to_tree(outcome.results[0])}
        stored = client.put(
            CLAIMS, {**tree, "metadata": {**tree["metadata"], "uid": f"u{next(numbers)}"}, "status": status}
        )
        ref = ClaimRef(stored["metadata"]["namespace"], stored["metadata"]["uid"], stored["metadata"]["name"])
        answer = (await plugin.prepare([ref]))[ref.uid]
        assert answer.error == ""
        return [id for device in answer.devices for id in device.cdi_ids]

    async def main() -> dict[str, dict[str, str]]:
        variables = {}
        for pod, claims in claims_of(trees).items():
            names: list[str] = []
            for tree in claims:
                if id(tree) not in ids:
                    ids[id(tree)] = await prepared(tree)
                names += ids[id(tree)]
            variables[pod] = dict(variable.split("=", 1) for variable in lookup.edits(names).env)
        return variables

    return idle.run(main())


#: file: the driver in the mode of the demo, and the variables by pod.
DEMONSTRATIONS: Mapping[str, tuple[Callable[[], Driver], Mapping[str, Mapping[str, str]]]] = {
    "basic-resourceclaimtemplate": (
        lambda: ExampleGpus(NODE),
        {"pod0": {"GPU_DEVICE_0": "gpu-0", "DRA_ADMIN_ACCESS": "false"}, "pod1": {"GPU_DEVICE_1": "gpu-1"}},
    ),
    "basic-multiple-requests": (
        lambda: ExampleGpus(NODE), {"pod0": {"GPU_DEVICE_0": "gpu-0", "GPU_DEVICE_1": "gpu-1"}},
    ),
    "basic-shared-claim-across-containers": (lambda: ExampleGpus(NODE), {"pod0": {"GPU_DEVICE_0": "gpu-0"}}),
    "basic-shared-claim-across-pods": (
        lambda: ExampleGpus(NODE), {"pod0": {"GPU_DEVICE_0": "gpu-0"}, "pod1": {"GPU_DEVICE_0": "gpu-0"}},
    ),
    "basic-resourceclaim-opaque-config": (
        lambda: ExampleGpus(NODE),
        {
            "pod0": {
                "GPU_DEVICE_0_SHARING_STRATEGY": "TimeSlicing",
                "GPU_DEVICE_0_TIMESLICE_INTERVAL": "Long",
                "GPU_DEVICE_1_SHARING_STRATEGY": "SpacePartitioning",
                "GPU_DEVICE_1_PARTITION_COUNT": "10",
            }
        },
    ),
    "cel-selector": (lambda: ExampleGpus(NODE), {"pod0": {"GPU_DEVICE_0": "gpu-0"}}),
    "prioritized-alternatives": (
        lambda: ExampleGpus(NODE), {"pod0": {"GPU_DEVICE_0": "gpu-0"}, "pod1": {"GPU_DEVICE_1": "gpu-1"}},
    ),
    "initcontainer-shared-gpu": (lambda: ExampleGpus(NODE), {"pod0": {"GPU_DEVICE_0": "gpu-0"}}),
    "binding-conditions": (
        lambda: ExampleGpus(NODE, mode=ExampleMode(binding=True)), {"pod0": {"GPU_DEVICE_0": "gpu-0"}},
    ),
    "admin-access": (
        lambda: ExampleGpus(NODE, 2),
        {"pod0": {"GPU_DEVICE_0": "gpu-0", "GPU_DEVICE_1": "gpu-1", "DRA_ADMIN_ACCESS": "true"}},
    ),
    "partitionable-devices": (
        lambda: ExampleGpus(NODE, 1, ExampleMode(partitions=4)),
        {"pod0": {"GPU_DEVICE_0_PARTITION_0": "gpu-0-partition-0", "GPU_DEVICE_0_PARTITION_1": "gpu-0-partition-1"}},
    ),
    "gpu-allow-multiple-allocations": (
        lambda: ExampleGpus(NODE, 1, ExampleMode(shared=True)),
        {
            "pod0": {"GPU_DEVICE_0": "gpu-0", "GPU_DEVICE_0_MEMORY": "16Gi", "GPU_DEVICE_0_COMPUTE": "20"},
            "pod1": {"GPU_DEVICE_0": "gpu-0", "GPU_DEVICE_0_MEMORY": "16Gi", "GPU_DEVICE_0_COMPUTE": "20"},
        },
    ),
    "gpu-allow-multiple-allocations-partitionable": (
        lambda: ExampleGpus(NODE, 1, ExampleMode(partitions=4, shared=True)),
        {
            "pod0": {"GPU_DEVICE_0_PARTITION_0_MEMORY": "8Gi", "GPU_DEVICE_0_PARTITION_0_COMPUTE": "10"},
            "pod1": {"GPU_DEVICE_0_PARTITION_0_MEMORY": "8Gi", "GPU_DEVICE_0_PARTITION_0_COMPUTE": "10"},
        },
    ),
    "net-consumable-capacity": (
        lambda: ExampleNics(NODE, 1),
        {
            "pod0": {"NET_DEVICE_0_INGRESS_RATE": "10000000000", "NET_DEVICE_0_EGRESS_RATE": "5000000000"},
            "pod1": {"NET_DEVICE_0_INGRESS_RATE": "5000000000", "NET_DEVICE_0_EGRESS_RATE": "5000000000"},
        },
    ),
    "native-resource-request": (
        lambda: ExampleCpus(NODE, 2), {"pod0": {"CPU_DEVICE_0": "numa-0", "CPU_DEVICE_0_CONSUMED_CPU": "1"}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("file", DEMONSTRATIONS)
def test_the_demo_containers_have_the_variables_of_their_devices(shared: Shared, file: str) -> None:
    make, expected = DEMONSTRATIONS[file]
    trees = [tree for tree in yaml.safe_load_all(shared(f"manifests/example/{file}.yaml").read_text()) if tree]
    environment = environments(make(), trees)
    assert environment.keys() == expected.keys()
    for pod, variables in expected.items():
        assert variables.items() <= environment[pod].items()
        assert environment[pod]["KUBERNETES_NODE_NAME"] == NODE


@pytest.mark.parametrize("partitions", [0, 4])
@pytest.mark.parametrize("shared_", [False, True])
@pytest.mark.parametrize("binding", [False, True])
def test_all_gpu_modes_are_valid(partitions: int, shared_: bool, binding: bool) -> None:
    slices = slices_of(ExampleGpus(NODE, 8, ExampleMode(partitions, shared_, binding)))
    devices = [device for slice_ in slices for device in slice_.spec.devices or ()]
    assert len(devices) == 8 * (partitions + 1)
    assert all((device.allow_multiple_allocations or False) == shared_ for device in devices)
    assert all(bool(device.binding_conditions) == binding for device in devices)
    assert sum(len(slice_.spec.shared_counters or ()) for slice_ in slices) == (8 if partitions else 0)


def test_uuids_are_stable_and_unique_to_a_node() -> None:
    def uuids(node: str) -> list[Any]:
        (pool,) = idle.run(discover(ExampleGpus(node)))
        return [device.attributes["uuid"].string for group in pool.groups for device in group]

    assert uuids("a") == uuids("a")
    assert not set(uuids("a")) & set(uuids("b"))


@pytest.mark.parametrize(
    ("sharing", "text"),
    [
        ({"strategy": "MPS"}, 'sharing.strategy: expected one of "SpacePartitioning", "TimeSlicing", found "MPS"'),
        (
            {"strategy": "TimeSlicing", "spacePartitioningConfig": {}},
            "sharing.spacePartitioningConfig: not allowed with strategy",
        ),
        (
            {"strategy": "SpacePartitioning", "spacePartitioningConfig": {"partitionCount": -1}},
            "sharing.spacePartitioningConfig.partitionCount: expected a number >= 0, found -1",
        ),
    ],
)
def test_invalid_parameters_are_rejected(sharing: Tree, text: str) -> None:
    async def main() -> None:
        client, name = MemoryClient(), "gpu.example.com"
        parameters = {"apiVersion": "gpu.resource.example.com/v1alpha1", "kind": "GpuConfig", "sharing": sharing}
        ref = put_claim(client, "c", "gpu-0", driver=name, config=[opaque(parameters, driver=name)])
        plugin = NodeDriver(ExampleGpus(NODE), memory_host(), client, Clock())
        assert text in (await plugin.prepare([ref]))[ref.uid].error

    idle.run(main())


def test_status_data_of_a_gpu_is_optional() -> None:
    async def main() -> None:
        client = MemoryClient()
        ref = put_claim(client, "c", "gpu-0", driver="gpu.example.com")
        plugin = NodeDriver(ExampleGpus(NODE, mode=ExampleMode(status=True)), memory_host(), client, Clock())
        await plugin.prepare([ref])
        await plugin.wait_idle()
        (device,) = client.objects[CLAIMS, "shop", "c"]["status"]["devices"]
        assert device["data"]["model"] == {"string": "LATEST-GPU-MODEL"}
        assert device["data"]["driverVersion"] == {"version": "1.0.0"}

    idle.run(main())


def test_a_fault_can_be_set_and_cleared() -> None:
    async def main() -> None:
        driver = ExampleGpus(NODE)
        driver.set_faults({"gpu-1": "NoExecute", "nic-0": "None"})
        driver.set_faults({"gpu-1": "NoExecute"})
        driver.set_faults({})
        events = driver.watch()
        taint = DeviceTaint(key="example.com/broken", effect="NoExecute")
        assert await anext(events) == HealthUpdate("gpu-1", "Unhealthy", "simulated fault", (taint,))
        assert await anext(events) == HealthUpdate("gpu-1", "Healthy")

    idle.run(main())


def test_binding_conditions_are_set_once() -> None:
    async def main() -> None:
        client, clock, random = MemoryClient(), Clock(), Random(1)
        waiting: Tree = {
            "bindingConditions": ["BindingConditions"],
            "bindingFailureConditions": ["BindingFailureConditions"],
        }
        put_claim(client, "waits", "gpu-0", driver="gpu.example.com", **waiting)
        put_claim(client, "plain", "gpu-1", driver="gpu.example.com")
        put_claim(client, "other", "gpu-1", driver="nic.test", **waiting)
        caches = Caches(client, clock=clock, random=random)
        events = Events(client, clock=clock)
        context = ProgramContext(lambda name, manager="": client, caches, clock, events, random)

        async def binding(context: ProgramContext) -> None:
            await controller("gpu.example.com", NODE)(context)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(caches.run()), group.create_task(binding(context))]
            while "devices" not in client.objects[CLAIMS, "shop", "waits"]["status"]:
                await asyncio.sleep(0.005)
            await asyncio.sleep(0.02)
            for task in tasks:
                task.cancel()
        (device,) = client.objects[CLAIMS, "shop", "waits"]["status"]["devices"]
        assert [(c["type"], c["status"]) for c in device["conditions"]] == [("BindingConditions", "True")]
        assert len([event for _, _, event in client.history if event.type == "MODIFIED"]) == 1

    idle.run(main())
