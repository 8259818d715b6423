"""Claims that the pods of a gang share: allocated by the first pod, used by the others in the same cycle."""

from __future__ import annotations

import asyncio
from typing import Any

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.groups.group_objects import WITH_CLAIMS, gang, group_condition, member
from tests.unit.scheduler.world import SchedulingClient, World, claim, device_class, gpus, node, world

ENTRY: Tree = {"name": "gpu", "resourceClaimTemplateName": "t"}


def made(name: str = "shared", of: str = "g", **more: Any) -> tuple[Resource, Tree]:
    """A group's claim as the claim controller creates it."""
    owner = {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": of, "uid": f"uid-{of}"}
    return claim(name, ownerReferences=[{**owner, "controller": True}], **more)


def sharing(name: str) -> tuple[Resource, Tree]:
    status = {"phase": "Pending", "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "shared"}]}
    return member(name, resourceClaims=[ENTRY], status=status)


def reserved(lab: World) -> list[str]:
    return [user["resource"] for user in lab.claim("shared")["status"].get("reservedFor", [])]


CLUSTER = (device_class(), node("n1"), gpus("n1", 1), node("n2"), gpus("n2", 1))


def test_a_gang_shares_the_claim_of_its_group() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, gang(minimum=3, resourceClaims=[ENTRY]), made(), features=WITH_CLAIMS) as lab:
            for name in ("a", "b", "c"):
                lab.put(*sharing(name))
            await lab.bound("a", "b", "c")
            assert len({lab.node_of(name) for name in ("a", "b", "c")}) == 1
            assert reserved(lab) == ["podgroups"]
            assert lab.events("FailedScheduling") == []

    idle.run(scenario())


class SlowClient(SchedulingClient):
    """A server that takes a second for each write of a claim."""

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        if resource == CLAIMS:
            await asyncio.sleep(1)
        return await super().update(resource, tree, subresource=subresource)


def test_pods_that_share_a_claim_wait_until_its_allocation_is_written() -> None:
    async def scenario() -> None:
        group = gang(minimum=2, resourceClaims=[ENTRY])
        async with world(*CLUSTER, group, made(), features=WITH_CLAIMS, client=SlowClient()) as lab:
            lab.put(*sharing("a"))
            lab.put(*sharing("b"))
            await lab.bound("a", "b")
            assert reserved(lab) == ["podgroups"]
            assert lab.events("FailedScheduling") == []

    idle.run(scenario())


def test_pods_retry_if_the_shared_allocation_cannot_be_written() -> None:
    async def scenario() -> None:
        async with world(*CLUSTER, gang(minimum=2, resourceClaims=[ENTRY]), made(), features=WITH_CLAIMS) as lab:

            def refuse(_: Tree) -> None:
                raise refusal(403, "Forbidden", "no")

            lab.client.on_claim = refuse
            lab.put(*sharing("a"))
            lab.put(*sharing("b"))
            await lab.bound("a", "b")
            assert reserved(lab) == ["podgroups"]

    idle.run(scenario())


def test_a_reservation_for_a_group_without_placed_pods_is_taken_back() -> None:
    async def scenario() -> None:
        user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g"}
        result = {"request": "gpu", "driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
        held = {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": terms}},
            "reservedFor": [user],
        }
        full = node("n1", cpu="1")
        cluster = (device_class(), full, gpus("n1", 1), node("n2"), gpus("n2", 1))
        group = gang(minimum=2, resourceClaims=[ENTRY])
        async with world(*cluster, group, made(status=held), features=WITH_CLAIMS) as lab:
            for name in ("a", "b"):
                pod = sharing(name)
                pod[1]["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "2"}
                lab.put(*pod)
            await lab.bound("a", "b")
            assert {lab.node_of(name) for name in ("a", "b")} == {"n2"}
            await lab.until(lambda: group_condition(lab)[0] == "True")

    idle.run(scenario())
