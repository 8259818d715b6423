"""Another scheduler gives the same devices away, before us, after us, and when it is too late."""

from __future__ import annotations

import asyncio
from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.contested_claims import LABEL
from allotment.model.generated_claims import POD_CLAIM_NAME
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from allotment.scheduler.claim_ledger import EXTENDED
from tests.unit.cluster import idle
from tests.unit.scheduler.world import NAMESPACE, World, claim, device_class, gpus, node, pod, world

CLUSTER = (node("a"), gpus("a", 2), device_class())


def generated(name: str, **status: Any) -> tuple[tuple[Resource, Tree], tuple[Resource, Tree]]:
    """A pod and the claim that was made for it."""
    resource, tree = pod(name)
    tree["metadata"]["uid"] = f"{name}-uid"
    tree["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
    tree["status"]["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"{name}-uid", "controller": True}
    made = claim(f"{name}-gpu", annotations={POD_CLAIM_NAME: "gpu"}, ownerReferences=[owner], status=status)
    made[1]["metadata"]["generateName"] = f"{name}-gpu-"
    return (resource, tree), made


def rival(device: str, name: str = "theirs") -> tuple[Resource, Tree]:
    """A claim that somebody else gave a device, for a pod of theirs."""
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": device}
    users = [{"resource": "pods", "name": "rival", "uid": "rival-uid"}]
    return claim(name, status={"allocation": {"devices": {"results": [result]}}, "reservedFor": users})


def theirs_waits() -> tuple[Resource, Tree]:
    """A pod of another scheduler that wants devices: while it waits decisions settle."""
    return pod("rival", "something", schedulerName="other")


def _claim_of(lab: World, name: str) -> str:
    (entry,) = lab.pod(name)["status"]["resourceClaimStatuses"]
    return str(entry["resourceClaimName"])


def test_a_decision_settles_while_another_scheduler_has_pods_that_want_devices() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        async with world(*CLUSTER, made, theirs_waits()) as lab:
            lab.put(*mine)
            await lab.until(lambda: lab.devices("p-gpu"))
            await asyncio.sleep(0.3)
            assert lab.node_of("p") == ""
            await lab.bound("p")

    idle.run(scenario())


def test_beside_a_rival_the_devices_that_come_last_are_taken() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        async with world(*CLUSTER, made, theirs_waits(), speed=20) as lab:
            lab.put(*mine)
            await lab.bound("p")
            assert lab.devices("p-gpu") == ["gpu-1"]

    idle.run(scenario())


def test_a_claim_that_is_contested_while_it_settles_is_set_aside_and_its_pod_gets_another() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        async with world(*CLUSTER, made, theirs_waits(), speed=10) as lab:
            lab.put(*mine)
            await lab.until(lambda: lab.devices("p-gpu"))
            lab.put(*rival("gpu-1"))
            await lab.bound("p")
            assert lab.devices(_claim_of(lab, "p")) == ["gpu-0"]
            aside = lab.claim("p-gpu")
            # Were it freed, kube-scheduler would take the device for free.
            assert (lab.devices("p-gpu"), lab.users("p-gpu")) == (["gpu-1"], [])
            assert aside["metadata"]["labels"] == {LABEL: "true"}
            assert not aside["metadata"].get("ownerReferences")

    idle.run(scenario())


def test_a_claim_that_was_set_aside_goes_when_nobody_has_its_device_any_more() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        async with world(*CLUSTER, made, theirs_waits(), speed=50) as lab:
            lab.put(*mine)
            await lab.until(lambda: lab.devices("p-gpu"))
            lab.put(*rival("gpu-1"))
            await lab.bound("p")
            await asyncio.sleep(0.5)  # 25 simulated seconds
            assert lab.devices("p-gpu")
            lab.client.remove(CLAIMS, NAMESPACE, "theirs")
            await lab.until(lambda: (CLAIMS, NAMESPACE, "p-gpu") not in lab.client.objects)

    idle.run(scenario())


def test_a_claim_that_was_set_aside_goes_only_when_those_have_let_it_go_whose_finalizers_it_has() -> None:
    async def scenario() -> None:
        status = {"allocation": rival("gpu-1")[1]["status"]["allocation"]}
        finalizers = [FINALIZER, "example.com/backup"]
        aside = claim("aside", labels={LABEL: "true"}, finalizers=finalizers, status=status)
        async with world(*CLUSTER, aside, speed=50) as lab:
            await lab.until(lambda: "deletionTimestamp" in lab.claim("aside")["metadata"])
            assert lab.claim("aside")["metadata"]["finalizers"] == ["example.com/backup"]

    idle.run(scenario())


def test_the_claim_in_its_place_has_the_labels_and_annotations_of_the_template() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        made[1]["metadata"] |= {"labels": {"team": "ml"}}
        made[1]["metadata"]["annotations"] |= {"example.com/cost": "7"}
        async with world(*CLUSTER, made, theirs_waits(), speed=10) as lab:
            lab.put(*mine)
            await lab.until(lambda: lab.devices("p-gpu"))
            lab.put(*rival("gpu-1"))
            await lab.bound("p")
            metadata = lab.claim(_claim_of(lab, "p"))["metadata"]
            assert metadata["labels"] == {"team": "ml"}
            assert metadata["annotations"] == {POD_CLAIM_NAME: "gpu", "example.com/cost": "7"}

    idle.run(scenario())


def _extended() -> tuple[tuple[Resource, Tree], tuple[Resource, Tree]]:
    """A class that serves a resource, and a pod that asks for one of it."""
    asks = pod("p", limits={"example.com/gpu": "1"}, requests={"example.com/gpu": "1"})
    asks[1]["metadata"]["uid"] = "p-uid"
    return device_class(extendedResourceName="example.com/gpu"), asks


def _left(device: str) -> tuple[Resource, Tree]:
    """A claim for extended resources, of a scheduler that ended before it bound the pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid", "controller": True}
    status = {**rival(device)[1]["status"], "reservedFor": [{"resource": "pods", "name": "p", "uid": "p-uid"}]}
    return claim("p-left", annotations={EXTENDED: "true"}, ownerReferences=[owner], status=status)


def _allocated(lab: World) -> list[str]:
    return [name for resource, _, name in lab.client.objects if resource == CLAIMS and lab.devices(name)]


def test_a_contested_claim_for_extended_resources_is_set_aside_too() -> None:
    async def scenario() -> None:
        served, asks = _extended()
        async with world(node("a"), gpus("a", 2), served, theirs_waits(), asks, speed=10) as lab:
            await lab.until(lambda: _allocated(lab))
            (first,) = _allocated(lab)
            lab.put(*rival("gpu-1"))
            await lab.bound("p")
            named = lab.pod("p")["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
            assert (lab.devices(named), lab.users(named)) == (["gpu-0"], ["p"])
            assert (lab.devices(first), lab.users(first)) == (["gpu-1"], [])

    idle.run(scenario())


def test_one_that_was_left_behind_and_is_contested_now_is_not_freed() -> None:
    async def scenario() -> None:
        served, asks = _extended()
        async with world(node("a"), gpus("a", 2), served, _left("gpu-1"), rival("gpu-1"), asks, speed=10) as lab:
            await lab.bound("p")
            assert (lab.devices("p-left"), lab.users("p-left")) == (["gpu-1"], [])
            assert lab.claim("p-left")["metadata"]["labels"] == {LABEL: "true"}

    idle.run(scenario())


def test_a_pod_whose_claim_was_set_aside_by_a_scheduler_that_ended_then_gets_another() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        made[1]["metadata"] |= {"labels": {LABEL: "true"}, "ownerReferences": [], "annotations": {}}
        async with world(*CLUSTER, made, mine) as lab:
            await lab.bound("p")
            assert _claim_of(lab, "p") != "p-gpu"

    idle.run(scenario())


def test_what_a_scheduler_that_ended_had_written_is_taken_up() -> None:
    async def scenario() -> None:
        allocated = rival("gpu-1")[1]["status"]["allocation"]
        users = [{"resource": "pods", "name": "p", "uid": "p-uid"}]
        mine, made = generated("p", allocation=allocated, reservedFor=users)
        async with world(*CLUSTER, made, mine) as lab:
            await lab.bound("p")
            assert lab.devices("p-gpu") == ["gpu-1"]

    idle.run(scenario())


def test_what_a_scheduler_that_ended_had_written_settles_too() -> None:
    async def scenario() -> None:
        status = {**rival("gpu-1")[1]["status"], "reservedFor": [{"resource": "pods", "name": "p", "uid": "p-uid"}]}
        mine, made = generated("p", **status)
        async with world(*CLUSTER, made, rival("gpu-1"), mine, speed=10) as lab:
            await lab.bound("p")
            assert lab.devices(_claim_of(lab, "p")) == ["gpu-0"]
            assert lab.users("p-gpu") == []

    idle.run(scenario())


def test_a_pod_that_has_not_started_gives_way_to_a_rival_that_comes_too_late() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        async with world(*CLUSTER, made, settle=0) as lab:
            lab.put(*mine)
            await lab.bound("p")
            lab.put(*rival("gpu-0"))
            await lab.until(lambda: (PODS, NAMESPACE, "p") not in lab.client.objects)
            assert (lab.devices("p-gpu"), lab.users("p-gpu")) == (["gpu-0"], [])
            await lab.until(lambda: lab.events("DeviceContested"))
            (told,) = lab.events("DeviceContested")
            assert "claim ns/p-gpu was given to claim ns/theirs as well" in told
            assert "gives way" in told

    idle.run(scenario())


def test_a_pod_that_has_started_is_kept_and_told() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        async with world(*CLUSTER, made, settle=0) as lab:
            lab.put(*mine)
            await lab.bound("p")
            lab.put(PODS, {**lab.pod("p"), "status": {**lab.pod("p")["status"], "phase": "Running"}})
            lab.put(*rival("gpu-0"))
            await lab.until(lambda: lab.events("DeviceContested"))
            assert lab.node_of("p") == "a"
            assert lab.users("p-gpu") == ["p"]

    idle.run(scenario())


def test_a_device_that_changed_hands_while_nobody_could_look_is_no_contest() -> None:
    """All claims are read anew, one after the other; meanwhile the old holder and the new one seem to have it."""

    async def scenario() -> None:
        mine, made = generated("p")
        async with world(*CLUSTER, made, settle=0) as lab:
            lab.put(*mine)
            await lab.bound("p")
            lab.client.silent |= {CLAIMS, PODS}
            lab.client.break_off()
            lab.end("p")
            lab.put(*rival("gpu-0", "a"))  # it is read before the other
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


def test_a_rival_that_came_while_nobody_looked_is_noticed_at_the_start() -> None:
    async def scenario() -> None:
        allocated = rival("gpu-1")[1]["status"]["allocation"]
        users = [{"resource": "pods", "name": "p", "uid": "p-uid"}]
        mine, made = generated("p", allocation=allocated, reservedFor=users)
        mine[1]["spec"]["nodeName"] = "a"
        async with world(*CLUSTER, made, mine, rival("gpu-1")) as lab:
            await lab.until(lambda: (PODS, NAMESPACE, "p") not in lab.client.objects)

    idle.run(scenario())


def test_a_device_that_is_freed_is_left_to_the_rival_for_a_while() -> None:
    async def scenario() -> None:
        mine, made = generated("p")
        waits = theirs_waits()
        async with world(*CLUSTER, made, waits, rival("gpu-0"), rival("gpu-1", "more"), settle=0.5) as lab:
            lab.put(*mine)
            await lab.told("p")
            lab.client.remove(CLAIMS, NAMESPACE, "more")
            await asyncio.sleep(0.2)
            assert lab.devices("p-gpu") == []
            await lab.bound("p")

    idle.run(scenario())
