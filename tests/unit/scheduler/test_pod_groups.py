"""Claims that the pods of a group share: allocated once for the group, and freed when no pod of it can use them."""

from __future__ import annotations

from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS, POD_GROUPS
from allotment.model.features import Features
from allotment.model.pod_groups import GATE
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.world import NAMESPACE, World, claim, device_class, gpus, node, pod, world

ON = Features("1.36", {GATE: True})
ENTRY: Tree = {"name": "gpu", "resourceClaimTemplateName": "t"}


def group(name: str = "g", *entries: Tree) -> tuple[Resource, Tree]:
    spec = {"resourceClaims": list(entries or (ENTRY,))}
    return POD_GROUPS, {"metadata": {"name": name, "namespace": NAMESPACE, "uid": f"uid-{name}"}, "spec": spec}


def made(name: str = "shared", of: str = "g", **more: Any) -> tuple[Resource, Tree]:
    """A group's claim as the claim controller creates it."""
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "name": of, "uid": f"uid-{of}"}
    return claim(name, ownerReferences=[{**owner, "controller": True}], **more)


def member(name: str, *entries: Tree, of: str = "g", claims: str = "shared", **more: Any) -> tuple[Resource, Tree]:
    status = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": claims}]}
    return pod(
        name, schedulingGroup={"podGroupName": of}, resourceClaims=list(entries or (ENTRY,)), status=status, **more
    )


def user(of: str = "g") -> Tree:
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": of, "uid": f"uid-{of}"}


def held(on: str, *users: Tree, device: str = "gpu-0") -> Tree:
    """The status of a claim with a device of a node."""
    result = {"request": "gpu", "driver": "gpu.example.com", "pool": on, "device": device}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]}]
    return {
        "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}},
        "reservedFor": list(users),
    }


def reserved(lab: World, name: str = "shared") -> list[Tree]:
    users: list[Tree] = lab.claim(name)["status"].get("reservedFor", [])
    return users


CLUSTER = (device_class(), node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 1))


def test_pods_of_a_group_share_its_claim_and_it_is_reserved_for_the_group() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, group(), made(), features=ON) as lab:
            for name in ("a", "b", "c"):
                lab.put(*member(name))
            await lab.bound("a", "b", "c")
            assert reserved(lab) == [user()]
            assert len({lab.node_of(name) for name in ("a", "b", "c")}) == 1
            assert len(lab.devices("shared")) == 1
            assert lab.claim("shared")["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]

    idle.run(scenario())


def test_groups_have_devices_of_their_own() -> None:
    async def scenario() -> None:
        two = (group("g"), group("h"), made("of-g", "g"), made("of-h", "h"))
        async with world(*CLUSTER, *two, features=ON) as lab:
            for number, of in enumerate("ghgh"):
                lab.put(*member(f"{of}{number}", of=of, claims=f"of-{of}"))
            await lab.bound("g0", "h1", "g2", "h3")
            assert lab.node_of("g0") == lab.node_of("g2") != lab.node_of("h1") == lab.node_of("h3")
            assert (reserved(lab, "of-g"), reserved(lab, "of-h")) == ([user("g")], [user("h")])

    idle.run(scenario())


def test_a_claim_that_a_group_names_is_reserved_for_it_and_others_use_it_themselves() -> None:
    async def scenario() -> None:
        entry = {"name": "gpu", "resourceClaimName": "users"}
        async with world(*CLUSTER, group("g", entry), claim("users"), features=ON) as lab:
            lab.put(*member("other-name", {**entry, "name": "mine"}))
            lab.put(*pod("alone", "users"))
            await lab.bound("other-name", "alone")
            lab.put(*member("a", entry))
            await lab.bound("a")
            lab.put(*member("late", {**entry, "name": "mine"}))
            await lab.bound("late")
            users = [each["name"] for each in reserved(lab, "users")]
            # Every pod of the group may use the group's claims, by any entry name.
            assert (set(users[:2]), users[2:]) == ({"other-name", "alone"}, ["g"])

    idle.run(scenario())


def test_a_pod_waits_for_its_missing_group() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, made(), member("a"), features=ON) as lab:
            message = await lab.reported_message("a")
            assert '0/2 nodes are available: podgroup.scheduling.k8s.io "g" not found.' in message
            lab.put(*group())
            await lab.bound("a")

    idle.run(scenario())


def test_without_the_gate_a_group_claim_is_not_owned() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, group(), made(), member("a")) as lab:
            await lab.until(lambda: lab.events("FailedScheduling"))
            assert "(Pod is not owner)" in lab.events("FailedScheduling")[-1]
            lab.put(*pod("b", schedulingGroup={"podGroupName": "absent"}))
            await lab.bound("b")

    idle.run(scenario())


def test_a_claim_of_another_group_is_rejected() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, group(), group("h"), made(of="h"), member("a"), features=ON) as lab:
            await lab.until(lambda: lab.events("FailedScheduling"))
            assert "(neither Pod nor PodGroup g is the owner)" in lab.events("FailedScheduling")[-1]

    idle.run(scenario())


def test_a_group_claim_stays_allocated_when_one_pod_cannot_be_bound() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, group(), made(), features=ON, speed=20) as lab:
            lab.client.refuse_binding.append(refusal(500, "InternalError", "no"))
            lab.put(*member("a"))
            await lab.until(lambda: reserved(lab) == [user()])
            first = lab.devices("shared")
            await lab.bound("a")
            assert (lab.devices("shared"), reserved(lab)) == (first, [user()])

    idle.run(scenario())


def test_devices_unusable_for_the_whole_group_are_freed_in_two_steps() -> None:
    async def scenario() -> None:
        taken = made(status=held("n1", user()))
        async with world(*CLUSTER, group(), taken, features=ON) as lab:
            lab.put(*member("a", nodeSelector={"kubernetes.io/hostname": "n2"}))
            await lab.bound("a")
            assert lab.node_of("a") == "n2"
            assert reserved(lab) == [user()]
            steps = [
                ("allocation" in event.object["status"], len(event.object["status"].get("reservedFor", ())))
                for _, resource, event in lab.client.history
                if resource == CLAIMS
            ]
            assert list(dict.fromkeys(steps)) == [(True, 1), (True, 0), (False, 0)]

    idle.run(scenario())


def test_devices_that_one_pod_of_the_group_uses_stay_where_they_are() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, group(), made(), member("a"), features=ON) as lab:
            await lab.bound("a")
            where = lab.node_of("a")
            other = "n2" if where == "n1" else "n1"
            lab.put(*member("b", nodeSelector={"kubernetes.io/hostname": other}))
            message = await lab.reported_message("b")
            assert "still not schedulable" in message
            assert f"is allocated on {where}" in message
            assert reserved(lab) == [user()]

    idle.run(scenario())


def test_a_group_counts_as_one_consumer_of_a_claim() -> None:
    async def scenario() -> None:
        full = [{"resource": "pods", "name": f"p{n}", "uid": f"u{n}"} for n in range(255)]
        async with world(*CLUSTER, group(), made(status=held("n1", *full, user())), features=ON) as lab:
            lab.put(*member("a"))
            await lab.bound("a")
            assert len(reserved(lab)) == 256

    idle.run(scenario())
