"""Each ephemeral volume of a pod gets a claim that the pod owns."""

from __future__ import annotations

from allotment.cluster.resources import PODS, VOLUME_CLAIMS
from allotment.controllers.volumes.ephemeral import ephemeral_volumes
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.controllers.volumes.objects import claim
from tests.unit.controllers.world import pod, world

TEMPLATE: Tree = {"metadata": {"labels": {"app": "web"}}, "spec": claim()["spec"]}
SPEC: Tree = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": TEMPLATE}}]}


def test_claim_has_the_template_and_belongs_to_the_pod() -> None:
    async def scenario() -> None:
        async with world(ephemeral_volumes) as cluster:
            made = cluster.put(PODS, pod("web", spec=SPEC))
            await cluster.until(lambda: cluster.names(VOLUME_CLAIMS) == ["web-scratch"])
            tree = cluster.get(VOLUME_CLAIMS, "web-scratch")
            assert tree["spec"] == TEMPLATE["spec"]
            assert tree["metadata"]["labels"] == {"app": "web"}
            assert tree["metadata"]["ownerReferences"] == [
                {
                    "apiVersion": "v1", "kind": "Pod", "name": "web", "uid": made["metadata"]["uid"],
                    "controller": True, "blockOwnerDeletion": True,
                }
            ]  # fmt: skip
            cluster.remove(VOLUME_CLAIMS, "web-scratch")
            await cluster.until(lambda: cluster.names(VOLUME_CLAIMS) == ["web-scratch"])

    idle.run(scenario())


def test_claim_of_another_owner_is_reported() -> None:
    async def scenario() -> None:
        async with world(ephemeral_volumes) as cluster:
            cluster.put(VOLUME_CLAIMS, claim("web-scratch"))
            cluster.put(PODS, pod("web", spec=SPEC))
            await cluster.until(lambda: cluster.events("FailedBinding"))
            assert cluster.events("FailedBinding")[0] == (
                "ephemeral volume scratch: PVC ns/web-scratch was not created for pod ns/web (pod is not owner)"
            )

    idle.run(scenario())
