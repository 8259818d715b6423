"""Devices that use cpu and memory of their node: node fit, the pod's status, claims that cannot be shared."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.node_fit.filters.topology_spread import topology_spread_scores
from allotment.scheduler import attempt
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.world import DRIVER, NAMESPACE, World, claim, device_class, gpus, node, pod, world

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


def test_a_pod_short_of_cpu_for_its_device_is_retried_when_the_claims_of_a_deleted_pod_are_freed() -> None:
    """Recorded from 1.37.2 (``nar: mapping counts against cpu``): the device of the deleted pod is allocated again,
    though a free one could be allocated as soon as the pod is gone."""

    async def scenario() -> None:
        cluster = (device_class(), node("n1", cpu="8"), gpus("n1", 3, nodeAllocatableResources=FOUR_CPUS))
        async with world(*cluster, *(claim(f"c{n}") for n in range(3)), features=ON) as lab:
            for n in range(3):
                lab.put(*user(f"p{n}", f"c{n}"))
                await (lab.bound(f"p{n}") if n < 2 else lab.reported_message("p2"))
            gone, ending = lab.claim("c0"), lab.pod("p0")
            lab.put(PODS, {**ending, "metadata": {**ending["metadata"], "deletionTimestamp": "2026-06-01T00:00:00Z"}})
            lab.client.remove(PODS, NAMESPACE, "p0")  # both are known before the next attempt
            await asyncio.sleep(60)
            assert not lab.node_of("p2")
            lab.put(CLAIMS, {**gone, "status": {}})
            await lab.bound("p2")
            assert lab.devices("c2") == ["gpu-0"]

    idle.run(scenario())


def test_a_pod_short_of_cpu_for_its_device_is_retried_when_a_pod_without_claims_is_gone() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n1", cpu="8"), gpus("n1", 1, nodeAllocatableResources=FOUR_CPUS))
        plain: list[Tree] = [{"name": "c", "resources": {"requests": {"cpu": "5"}}}]
        async with world(*cluster, claim("c"), features=ON) as lab:
            lab.put(*pod("plain", containers=plain))
            await lab.bound("plain")
            lab.put(*user("p", "c"))
            assert "1 Insufficient cpu" in await lab.reported_message("p")
            lab.end("plain")
            await lab.bound("p")

    idle.run(scenario())


def test_a_pod_short_of_cpu_for_its_device_is_retried_when_the_driver_publishes_a_smaller_device() -> None:
    async def scenario() -> None:
        cluster = (device_class(), node("n1", cpu="2"), gpus("n1", 1, nodeAllocatableResources=FOUR_CPUS))
        async with world(*cluster, claim("c"), features=ON) as lab:
            lab.put(*user("p", "c"))
            assert "1 Insufficient cpu" in await lab.reported_message("p")
            lab.put(*gpus("n1", 1, nodeAllocatableResources={"cpu": {"mapping": {"deviceMultiplier": "1"}}}))
            await lab.bound("p")

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


def test_a_node_without_enough_cpu_for_devices_is_reported_before_a_claim_that_is_not_available_there() -> None:
    """As kube-scheduler 1.37.2 does."""

    async def scenario() -> None:
        large = gpus("n2", 1, nodeAllocatableResources=FOUR_CPUS)
        cluster = (device_class(), node("n1"), gpus("n1", 1), node("n2", cpu="2"), large)
        async with world(*cluster, claim("a"), claim("b"), features=ON) as lab:
            lab.put(*user("p0", "a"))
            await lab.bound("p0")
            entries = [{"name": name, "resourceClaimName": name} for name in ("a", "b")]
            lab.put(*pod("p1", resourceClaims=entries, containers=[{"name": "c"}]))
            message = await lab.reported_message("p1")
            assert "0/2 nodes are available: 1 Insufficient cpu, 1 cannot allocate all claims. preemption: " in message

    idle.run(scenario())


def test_a_pod_backs_off_while_a_device_of_its_claim_that_counts_is_not_published() -> None:
    """From the source of kube-scheduler 1.37.2."""

    async def scenario() -> None:
        cluster = (device_class(), node("n1"), gpus("n1", 1, nodeAllocatableResources=FOUR_CPUS))
        resource, allocated = claim("c", count=2)
        devices = [{"request": "r", "driver": DRIVER, "pool": "n1", "device": f"gpu-{n}"} for n in range(2)]
        allocated["status"] = {"allocation": {"devices": {"results": devices}}}
        async with world(*cluster, (resource, allocated), features=ON) as lab:
            lab.put(*user("p", "c"))
            assert await lab.reported_message("p", "SchedulerError") == (
                f'running "DynamicResources" filter plugin: claim ns/c, device gpu-1, driver {DRIVER}: '
                f"device gpu-1 not found in pool n1 for driver {DRIVER}"
            )
            lab.put(*gpus("n1", 2, nodeAllocatableResources=FOUR_CPUS))
            await lab.bound("p")

    idle.run(scenario())


def test_nodes_without_enough_cpu_for_devices_are_not_scored_again_for_each_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scored: list[int] = []

    def counted(*args: Any) -> dict[int, int]:
        scored.append(1)
        return topology_spread_scores(*args)

    monkeypatch.setattr(attempt, "topology_spread_scores", counted)

    async def scenario() -> None:
        crowded: list[tuple[Resource, Tree]] = [
            item
            for n in range(12)
            for item in (
                node(f"n{n}", cpu="2" if n else "8", labels={"node": f"n{n}"}),
                gpus(f"n{n}", 1, nodeAllocatableResources=FOUR_CPUS),
            )
        ]
        spread = {
            "topologyKey": "node", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "a"}},
        }  # fmt: skip
        async with world(device_class(), *crowded, claim("c"), features=ON) as lab:
            lab.put(*pod("before", labels={"app": "a"}, nodeName="n0"))
            resource, tree = user("p", "c")
            tree["metadata"]["labels"] = {"app": "a"}
            tree["spec"]["topologySpreadConstraints"] = [spread]
            lab.put(resource, tree)
            await lab.bound("p")
            assert lab.node_of("p") == "n0"  # the last in order of scores
        assert len(scored) <= 2

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
