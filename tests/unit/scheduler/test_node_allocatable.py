"""Devices that use cpu and memory of their node: node fit, the pod's status, claims that cannot be shared."""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.world import NAMESPACE, World, claim, device_class, gpus, node, pod, world

ON = Features("1.37", {"DRANodeAllocatableResources": True})
FOUR_CPUS = {"cpu": {"mapping": {"deviceMultiplier": "4"}}}
OVERHEAD = {"memory": {"overhead": {"perPod": "100Mi", "perContainer": "50Mi"}}}


def user(name: str, claim_name: str, *, containers: int = 1, **requests: str) -> tuple[Resource, Tree]:
    """A pod that uses a claim in each container; the first one has requests."""
    each: list[Tree] = [{"name": f"c{n}", "resources": {"claims": [{"name": "gpu"}]}} for n in range(containers)]
    each[0]["resources"]["requests"] = requests
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim_name}], containers=each)


def statuses(lab: World, name: str) -> Any:
    return lab.pod(name)["status"].get("nodeAllocatableResourceClaimStatuses")


def test_a_mapped_device_counts_against_the_cpu_of_its_node() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n1", cpu="8"), gpus("n1", 3, nodeAllocatableResources=FOUR_CPUS))
        claims = [claim(f"c{n}") for n in range(3)]
        async with world(*cluster, *claims, features=ON) as lab:
            lab.put(*user("p0", "c0"))
            lab.put(*user("p1", "c1"))
            await lab.bound("p0", "p1")
            assert statuses(lab, "p0") == [
                {"resourceClaimName": "c0", "containers": ["c0"], "mapping": [{"name": "cpu", "quantity": "4"}]}
            ]
            lab.put(*user("p2", "c2"))
            message = await lab.reported_message("p2")
            assert message.endswith(
                "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: "
                "1 No preemption victims found for incoming pod."
            )
            lab.end("p0")
            await lab.bound("p2")

    idle.run(scenario())


def test_the_pods_own_requests_add_to_the_mapping() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n1", cpu="8"), gpus("n1", 1, nodeAllocatableResources=FOUR_CPUS))
        async with world(*cluster, claim("c0"), claim("c1"), features=ON) as lab:
            lab.put(*user("large", "c0", cpu="5"))
            message = await lab.reported_message("large")
            assert "1 Insufficient cpu. preemption: 0/1 nodes are available: 1 Preemption is not helpful" in message
            assert message.startswith(
                "the devices are free on n1, but cpu is short: 9 requested, 4 of it by devices; 8 of 8 free "
                "(node-resources-short)\n  to make it fit on n1: request cpu 4 in container c0\n"
            )
            lab.put(*user("small", "c1", cpu="4"))
            await lab.bound("small")

    idle.run(scenario())


def test_a_claim_with_a_mapped_device_is_not_shared() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n1"), gpus("n1", 1, nodeAllocatableResources=FOUR_CPUS), node("n2"))
        async with world(*cluster, claim("c"), features=ON) as lab:
            lab.put(*user("p0", "c"))
            await lab.bound("p0")
            lab.put(*user("p1", "c"))
            message = await lab.reported_message("p1")
            assert message.startswith("claim ns/c is in use by pod ns/p0, and its device stands for cpu, memory or ")
            assert (
                "0/2 nodes are available: 1 node allocatable resource claim c has a mapped device and cannot be shared "
                "across pods, 1 resourceclaim not available on the node. preemption: 0/2 nodes are available: "
                "2 Preemption is not helpful for scheduling."
            ) in message

    idle.run(scenario())


def test_overhead_counts_for_each_pod_and_container_of_a_shared_claim() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n1", memory="1Gi"), gpus("n1", 1, nodeAllocatableResources=OVERHEAD))
        async with world(*cluster, claim("c"), features=ON) as lab:
            lab.put(*user("p0", "c", containers=2))
            await lab.bound("p0")
            assert statuses(lab, "p0") == [
                {
                    "resourceClaimName": "c",
                    "containers": ["c0", "c1"],
                    "overhead": [{"name": "memory", "perPod": "100Mi", "perContainer": "50Mi"}],
                }
            ]
            lab.put(*user("p1", "c", memory="700Mi"))  # 200Mi are in use, 850Mi are needed
            assert "1 Insufficient memory" in await lab.reported_message("p1")
            lab.put(*user("p2", "c"))
            await lab.bound("p2")

    idle.run(scenario())


def test_a_consumed_capacity_is_multiplied() -> None:
    async def scenario() -> None:
        mapping = {"capacityKey": "cores", "capacityMultiplier": "2"}
        device: dict[str, Any] = {
            "nodeAllocatableResources": {"cpu": {"mapping": mapping}}, "allowMultipleAllocations": True,
            "capacity": {"cores": {"value": "8"}},
        }  # fmt: skip
        cluster = (device_class(), node("n1", cpu="8"), gpus("n1", 1, **device))
        small = claim("c0")
        small[1]["spec"]["devices"]["requests"][0]["exactly"]["capacity"] = {"requests": {"cores": "1500m"}}
        async with world(*cluster, small, features=ON) as lab:
            lab.put(*user("p0", "c0"))
            await lab.bound("p0")
            assert statuses(lab, "p0")[0]["mapping"] == [{"name": "cpu", "quantity": "3"}]

    idle.run(scenario())


def test_the_status_is_cleared_if_the_binding_fails() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n1"), gpus("n1", 1, nodeAllocatableResources=FOUR_CPUS))
        async with world(*cluster, claim("c"), features=ON) as lab:
            lab.client.refuse_binding = [refusal(403, "Forbidden", "no")] * 1000
            lab.put(*user("p0", "c"))
            await lab.reported_message("p0", "SchedulerError")
            lab.client.remove(*_node("n1"))
            await lab.until(lambda: not statuses(lab, "p0"))

    idle.run(scenario())


def _node(name: str) -> tuple[Resource, str, str]:
    return node(name)[0], "", name


def test_without_the_gate_only_the_requests_count() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n1", cpu="8"), gpus("n1", 3, nodeAllocatableResources=FOUR_CPUS))
        async with world(*cluster, *(claim(f"c{n}") for n in range(3)), features=Features("1.37")) as lab:
            for n in range(3):
                lab.put(*user(f"p{n}", f"c{n}"))
            await lab.bound("p0", "p1", "p2")
            assert statuses(lab, "p0") is None
            assert lab.pod("p0")["metadata"]["namespace"] == NAMESPACE

    idle.run(scenario())
