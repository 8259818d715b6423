"""Another scheduler allocates the same devices: before this one, after it, and after the binding."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from allotment.cluster.client import Resource, WatchEvent
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.contested_claims import LABEL
from allotment.model.generated_claims import EXTENDED_RESOURCE_ANNOTATION, POD_CLAIM_NAME
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from allotment.scheduler.coexistence.contested_claims import CHECKED_AT_ANNOTATION
from tests.unit.cluster import idle
from tests.unit.scheduler.world import NAMESPACE, SchedulingClient, World, claim, device_class, gpus, node, pod, world

CLUSTER = (node("a"), gpus("a", 2), device_class())


def generated(name: str, **status: Any) -> tuple[tuple[Resource, Tree], tuple[Resource, Tree]]:
    """A pod and the claim generated for it."""
    resource, tree = pod(name)
    tree["metadata"]["uid"] = f"{name}-uid"
    tree["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    tree["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"{name}-uid", "controller": True}
    made = claim(f"{name}-gpu", annotations={POD_CLAIM_NAME: "gpu"}, ownerReferences=[owner], status=status)
    made[1]["metadata"]["generateName"] = f"{name}-gpu-"
    return (resource, tree), made


def foreign_claim(device: str, name: str = "theirs") -> tuple[Resource, Tree]:
    """A claim that another scheduler allocated for its own pod."""
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": device}
    users = [{"resource": "pods", "name": "rival", "uid": "rival-uid"}]
    return claim(name, status={"allocation": {"devices": {"results": [result]}}, "reservedFor": users})


def foreign_pending_pod() -> tuple[Resource, Tree]:
    """A pod of another scheduler that wants devices: while it is pending, decisions settle."""
    return pod("rival", "something", schedulerName="other")


def _claim_of(lab: World, name: str) -> str:
    (entry,) = lab.pod(name)["status"]["resourceClaimStatuses"]
    return str(entry["resourceClaimName"])


def test_a_decision_settles_while_another_scheduler_has_pods_that_want_devices() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        async with world(*CLUSTER, made, foreign_pending_pod()) as lab:
            lab.put(*own_pod)
            await lab.until(lambda: lab.devices("p-gpu"))
            await asyncio.sleep(0.3)
            assert lab.node_of("p") == ""
            await lab.bound("p")

    idle.run(scenario())


def test_next_to_another_scheduler_the_last_devices_are_allocated_first() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        async with world(*CLUSTER, made, foreign_pending_pod(), speed=20) as lab:
            lab.put(*own_pod)
            await lab.bound("p")
            assert lab.devices("p-gpu") == ["gpu-1"]

    idle.run(scenario())


def test_a_claim_contested_while_settling_is_detached_and_replaced() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        async with world(*CLUSTER, made, foreign_pending_pod(), speed=10) as lab:
            lab.put(*own_pod)
            await lab.until(lambda: lab.devices("p-gpu"))
            lab.put(*foreign_claim("gpu-1"))
            await lab.bound("p")
            assert lab.devices(_claim_of(lab, "p")) == ["gpu-0"]
            aside = lab.claim("p-gpu")
            # If it were freed, kube-scheduler would consider the device free.
            assert (lab.devices("p-gpu"), lab.users("p-gpu")) == (["gpu-1"], [])
            assert aside["metadata"]["labels"] == {LABEL: "true"}
            assert not aside["metadata"].get("ownerReferences")

    idle.run(scenario())


class LateWatch(SchedulingClient):
    """An API server that reports the changes of claims only after the scheduler's last write before the binding."""

    def __init__(self) -> None:
        super().__init__()
        self.is_late = False
        self._caught_up = asyncio.Event()

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        async for event in super().watch(resource, namespace, **options):
            if resource == CLAIMS and self.is_late:
                await self._caught_up.wait()
            yield event

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        written = await super().update(resource, tree, subresource=subresource)
        if self.is_late and CHECKED_AT_ANNOTATION in tree["metadata"].get("annotations", {}):
            self._caught_up.set()
        return written


def test_an_allocation_before_the_binding_is_seen_although_the_watch_is_late() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        client = LateWatch()
        async with world(*CLUSTER, made, foreign_pending_pod(), speed=10, client=client) as lab:
            lab.put(*own_pod)
            await lab.until(lambda: lab.devices("p-gpu"))
            await asyncio.sleep(0.01)  # the watch has reported it
            client.is_late = True
            lab.put(*foreign_claim("gpu-1"))
            await lab.bound("p")
            assert lab.devices(_claim_of(lab, "p")) == ["gpu-0"]

    idle.run(scenario())


def test_decisions_that_settle_at_the_same_time_are_confirmed_by_one_write() -> None:
    async def scenario() -> None:
        pods = [generated(f"p{number}") for number in range(6)]
        cluster = (node("a"), gpus("a", 6), device_class(), *(made for _, made in pods), foreign_pending_pod())
        async with world(*cluster) as lab:
            for own_pod, _ in pods:
                lab.put(*own_pod)
            await lab.bound(*(f"p{number}" for number in range(6)))
            checked = [lab.claim(f"p{number}-gpu")["metadata"]["annotations"] for number in range(6)]
            assert 1 <= sum(CHECKED_AT_ANNOTATION in annotations for annotations in checked) <= 3

    idle.run(scenario())


def test_a_detached_claim_is_deleted_when_its_device_has_no_other_holder() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        async with world(*CLUSTER, made, foreign_pending_pod(), speed=50) as lab:
            lab.put(*own_pod)
            await lab.until(lambda: lab.devices("p-gpu"))
            lab.put(*foreign_claim("gpu-1"))
            await lab.bound("p")
            await asyncio.sleep(0.5)  # 25 simulated seconds
            assert lab.devices("p-gpu")
            lab.client.remove(CLAIMS, NAMESPACE, "theirs")
            await lab.until(lambda: (CLAIMS, NAMESPACE, "p-gpu") not in lab.client.objects)

    idle.run(scenario())


def test_a_detached_claim_is_deleted_only_without_foreign_finalizers() -> None:
    async def scenario() -> None:
        status = {"allocation": foreign_claim("gpu-1")[1]["status"]["allocation"]}
        finalizers = [FINALIZER, "example.com/backup"]
        aside = claim("aside", labels={LABEL: "true"}, finalizers=finalizers, status=status)
        async with world(*CLUSTER, aside, speed=50) as lab:
            await lab.until(lambda: "deletionTimestamp" in lab.claim("aside")["metadata"])
            assert lab.claim("aside")["metadata"]["finalizers"] == ["example.com/backup"]

    idle.run(scenario())


def test_the_replacement_claim_has_the_labels_and_annotations_of_the_template() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        made[1]["metadata"] |= {"labels": {"team": "ml"}}
        made[1]["metadata"]["annotations"] |= {"example.com/cost": "7"}
        async with world(*CLUSTER, made, foreign_pending_pod(), speed=10) as lab:
            lab.put(*own_pod)
            await lab.until(lambda: lab.devices("p-gpu"))
            lab.put(*foreign_claim("gpu-1"))
            await lab.bound("p")
            metadata = lab.claim(_claim_of(lab, "p"))["metadata"]
            assert metadata["labels"] == {"team": "ml"}
            metadata["annotations"].pop(CHECKED_AT_ANNOTATION)
            assert metadata["annotations"] == {POD_CLAIM_NAME: "gpu", "example.com/cost": "7"}

    idle.run(scenario())


def _extended() -> tuple[tuple[Resource, Tree], tuple[Resource, Tree]]:
    """A class that provides a resource, and a pod that requests one of it."""
    requests = pod("p", limits={"example.com/gpu": "1"}, requests={"example.com/gpu": "1"})
    requests[1]["metadata"]["uid"] = "p-uid"
    return device_class(extendedResourceName="example.com/gpu"), requests


def _left(device: str) -> tuple[Resource, Tree]:
    """A claim for extended resources of a scheduler that ended before it bound the pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid", "controller": True}
    status = {**foreign_claim(device)[1]["status"], "reservedFor": [{"resource": "pods", "name": "p", "uid": "p-uid"}]}
    return claim("p-left", annotations={EXTENDED_RESOURCE_ANNOTATION: "true"}, ownerReferences=[owner], status=status)


def _allocated(lab: World) -> list[str]:
    return [name for resource, _, name in lab.client.objects if resource == CLAIMS and lab.devices(name)]


def test_a_contested_claim_for_extended_resources_is_detached() -> None:
    async def scenario() -> None:
        served, requests = _extended()
        async with world(node("a"), gpus("a", 2), served, foreign_pending_pod(), requests, speed=10) as lab:
            await lab.until(lambda: _allocated(lab))
            (first,) = _allocated(lab)
            lab.put(*foreign_claim("gpu-1"))
            await lab.bound("p")
            named = lab.pod("p")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
            assert (lab.devices(named), lab.users(named)) == (["gpu-0"], ["p"])
            assert (lab.devices(first), lab.users(first)) == (["gpu-1"], [])

    idle.run(scenario())


def test_a_contested_leftover_claim_is_not_freed() -> None:
    async def scenario() -> None:
        served, requests = _extended()
        async with world(
            node("a"), gpus("a", 2), served, _left("gpu-1"), foreign_claim("gpu-1"), requests, speed=10
        ) as lab:
            await lab.bound("p")
            assert (lab.devices("p-left"), lab.users("p-left")) == (["gpu-1"], [])
            assert lab.claim("p-left")["metadata"]["labels"] == {LABEL: "true"}

    idle.run(scenario())


def test_a_pod_whose_claim_an_earlier_scheduler_detached_gets_a_new_one() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        made[1]["metadata"] |= {"labels": {LABEL: "true"}, "ownerReferences": [], "annotations": {}}
        async with world(*CLUSTER, made, own_pod) as lab:
            await lab.bound("p")
            assert _claim_of(lab, "p") != "p-gpu"

    idle.run(scenario())


def test_writes_of_an_earlier_scheduler_are_continued() -> None:
    async def scenario() -> None:
        allocated = foreign_claim("gpu-1")[1]["status"]["allocation"]
        users = [{"resource": "pods", "name": "p", "uid": "p-uid"}]
        own_pod, made = generated("p", allocation=allocated, reservedFor=users)
        async with world(*CLUSTER, made, own_pod) as lab:
            await lab.bound("p")
            assert lab.devices("p-gpu") == ["gpu-1"]

    idle.run(scenario())


def test_writes_of_an_earlier_scheduler_settle() -> None:
    async def scenario() -> None:
        status = {
            **foreign_claim("gpu-1")[1]["status"],
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p-uid"}],
        }
        own_pod, made = generated("p", **status)
        async with world(*CLUSTER, made, foreign_claim("gpu-1"), own_pod, speed=10) as lab:
            await lab.bound("p")
            assert lab.devices(_claim_of(lab, "p")) == ["gpu-0"]
            assert lab.users("p-gpu") == []

    idle.run(scenario())


def test_a_bound_pod_that_has_not_started_is_evicted_when_contested() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        async with world(*CLUSTER, made, settle=0) as lab:
            lab.put(*own_pod)
            await lab.bound("p")
            lab.put(*foreign_claim("gpu-0"))
            await lab.until(lambda: (PODS, NAMESPACE, "p") not in lab.client.objects)
            assert (lab.devices("p-gpu"), lab.users("p-gpu")) == (["gpu-0"], [])
            await lab.until(lambda: lab.events("DeviceContested"))
            (message,) = lab.events("DeviceContested")
            assert "claim ns/p-gpu was also allocated to claim ns/theirs" in message
            assert "is evicted" in message

    idle.run(scenario())


def test_a_contested_pod_that_has_started_keeps_running_and_gets_an_event() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        async with world(*CLUSTER, made, settle=0) as lab:
            lab.put(*own_pod)
            await lab.bound("p")
            lab.put(PODS, {**lab.pod("p"), "status": {**lab.pod("p")["status"], "phase": "Running"}})
            lab.put(*foreign_claim("gpu-0"))
            await lab.until(lambda: lab.events("DeviceContested"))
            assert lab.node_of("p") == "a"
            assert lab.users("p-gpu") == ["p"]

    idle.run(scenario())


def test_a_device_reallocated_during_an_interruption_is_not_contested() -> None:
    """All claims are read again one by one; meanwhile both the old and the new holder seem to have the device."""

    async def scenario() -> None:
        own_pod, made = generated("p")
        async with world(*CLUSTER, made, settle=0) as lab:
            lab.put(*own_pod)
            await lab.bound("p")
            lab.client.silent |= {CLAIMS, PODS}
            lab.client.break_off()
            lab.end("p")
            lab.put(*foreign_claim("gpu-0", "a"))  # it is read before the other
            lab.client.forget()
            lab.client.silent.remove(CLAIMS)  # pods are not known yet
            lab.put(*pod("probe", "a-claim"))
            lab.put(*claim("a-claim"))
            await asyncio.sleep(60)
            lab.client.silent.clear()
            await lab.bound("probe")
            assert lab.devices("a-claim") == ["gpu-1"]
            assert lab.events("DeviceContested") == []

    idle.run(scenario())


def test_an_allocation_during_downtime_is_detected_at_the_start() -> None:
    async def scenario() -> None:
        allocated = foreign_claim("gpu-1")[1]["status"]["allocation"]
        users = [{"resource": "pods", "name": "p", "uid": "p-uid"}]
        own_pod, made = generated("p", allocation=allocated, reservedFor=users)
        own_pod[1]["spec"]["nodeName"] = "a"
        async with world(*CLUSTER, made, own_pod, foreign_claim("gpu-1")) as lab:
            await lab.until(lambda: (PODS, NAMESPACE, "p") not in lab.client.objects)

    idle.run(scenario())


def test_a_freed_device_is_left_to_other_schedulers_for_the_settling_period() -> None:
    async def scenario() -> None:
        own_pod, made = generated("p")
        waits = foreign_pending_pod()
        async with world(
            *CLUSTER, made, waits, foreign_claim("gpu-0"), foreign_claim("gpu-1", "more"), settle=0.5
        ) as lab:
            lab.put(*own_pod)
            await lab.reported_message("p")
            lab.client.remove(CLAIMS, NAMESPACE, "more")
            await asyncio.sleep(0.2)
            assert lab.devices("p-gpu") == []
            await lab.bound("p")

    idle.run(scenario())
