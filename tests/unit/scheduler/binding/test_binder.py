"""Writes that fail half-way, or after they were done: what a pod was given stays its own, and nobody else's."""

from __future__ import annotations

import asyncio

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.world import NAMESPACE, SchedulingClient, claim, device_class, gpus, node, pod, world

CLUSTER = (node("a"), gpus("a", 2), device_class(extendedResourceName="example.com/gpu"))


class Struggling(SchedulingClient):
    """It binds a pod and says that it did not; then it has nothing but errors to tell of pods, for a while."""

    def __init__(self, *errors: int) -> None:
        super().__init__()
        self.errors = list(errors)

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        made = await super().create(resource, tree, namespace, name=name, subresource=subresource)
        if subresource == "binding":
            raise refusal(504, "Timeout", "request did not complete within requested timeout")
        return made

    async def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        if self.bound and self.errors and resource == PODS:
            raise refusal(self.errors.pop(0), "", "it struggles")
        return await super().get(resource, name, namespace)


def test_whether_a_pod_was_bound_is_asked_until_that_is_told() -> None:
    async def scenario() -> None:
        client = Struggling(500, 503, 403, 429, 401)
        async with world(*CLUSTER, claim("one"), pod("p", "one"), client=client) as lab:
            await lab.until(lambda: lab.node_of("p") and not client.errors)
            await asyncio.sleep(60)
            assert (lab.devices("one"), lab.users("one")) == (["gpu-0"], ["p"])

    idle.run(scenario())


def test_a_pod_that_took_the_name_of_another_is_not_told_the_claim_of_that() -> None:
    async def scenario() -> None:
        asks = {"example.com/gpu": "1"}
        async with world(*CLUSTER) as lab:

            def comes_again(written: Tree) -> None:
                lab.client.remove(PODS, NAMESPACE, "p")
                lab.put(*pod("p", limits=asks, requests=asks))

            lab.client.on_claim = comes_again
            first = lab.put(*pod("p", limits=asks, requests=asks))
            await lab.bound("p")
            owners = {key[2]: tree["metadata"]["ownerReferences"][0]["uid"] for key, tree in _claims(lab.client)}
            told = [event.object for _, resource, event in lab.client.history if resource == PODS]
            named = {
                (tree["metadata"]["uid"], owners.get(status["resourceClaimName"], first["metadata"]["uid"]))
                for tree in told
                if (status := tree["status"].get("extendedResourceClaimStatus"))
            }
            assert named == {(lab.pod("p")["metadata"]["uid"],) * 2}

    idle.run(scenario())


def _claims(client: SchedulingClient) -> list[tuple[tuple[Resource, str, str], Tree]]:
    return [(key, tree) for key, tree in client.objects.items() if key[0] == CLAIMS]
