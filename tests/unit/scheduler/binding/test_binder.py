"""Bindings whose writes fail halfway, or whose responses are lost: a pod keeps its own devices and no others."""

from __future__ import annotations

import asyncio

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS, PODS
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.world import NAMESPACE, SchedulingClient, claim, device_class, gpus, node, pod, world

CLUSTER = (node("a"), gpus("a", 2), device_class(extendedResourceName="example.com/gpu"))


class FailingClient(SchedulingClient):
    """Binds a pod but responds with an error; then reading pods fails for a while."""

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


def test_the_binding_is_checked_until_the_server_answers() -> None:
    async def scenario() -> None:
        client = FailingClient(500, 503, 403, 429, 401)
        async with world(*CLUSTER, claim("one"), pod("p", "one"), client=client) as lab:
            await lab.until(lambda: lab.node_of("p") and not client.errors)
            await asyncio.sleep(60)
            assert (lab.devices("one"), lab.users("one")) == (["gpu-0"], ["p"])

    idle.run(scenario())


def test_a_recreated_pod_does_not_get_the_claim_of_its_predecessor() -> None:
    async def scenario() -> None:
        requests = {"example.com/gpu": "1"}
        async with world(*CLUSTER) as lab:

            def recreate(written: Tree) -> None:
                lab.client.remove(PODS, NAMESPACE, "p")
                lab.put(*pod("p", limits=requests, requests=requests))

            lab.client.on_claim = recreate
            first = lab.put(*pod("p", limits=requests, requests=requests))
            await lab.bound("p")
            owners = {key[2]: tree["metadata"]["ownerReferences"][0]["uid"] for key, tree in _claims(lab.client)}
            versions = [event.object for _, resource, event in lab.client.history if resource == PODS]
            named = {
                (tree["metadata"]["uid"], owners.get(status["resourceClaimName"], first["metadata"]["uid"]))
                for tree in versions
                if (status := tree["status"].get("extendedResourceClaimStatus"))
            }
            assert named == {(lab.pod("p")["metadata"]["uid"],) * 2}

    idle.run(scenario())


def _claims(client: SchedulingClient) -> list[tuple[tuple[Resource, str, str], Tree]]:
    return [(key, tree) for key, tree in client.objects.items() if key[0] == CLAIMS]
