"""Work that a pod waits for and that the API server rejects: no event follows, and the pod is retried nevertheless."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from allotment.cluster.client import Resource
from allotment.cluster.resources import CLAIMS
from allotment.model.contested_claims import LABEL
from allotment.model.generated_claims import EXTENDED_RESOURCE_ANNOTATION
from allotment.model.resource import FINALIZER
from allotment.model.trees import Tree
from tests.unit.cluster import idle
from tests.unit.cluster.memory import refusal
from tests.unit.scheduler.coexistence.test_coexistence import generated
from tests.unit.scheduler.world import SchedulingClient, claim, device_class, gpus, node, pod, world

Objects = list[tuple[Resource, Tree]]

CLUSTER: Final = (
    node("a"),
    gpus("a", 2),
    node("b"),
    gpus("b", 2),
    device_class(extendedResourceName="example.com/gpu"),
)
RESULT: Final = {"request": "gpu", "driver": "gpu.example.com", "pool": "a", "device": "gpu-0"}


class RejectingClient(SchedulingClient):
    """Raises an error for each of the first writes of claims."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[Exception] = [refusal(500, "InternalError", "etcdserver: leader changed")] * 2

    async def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        self._maybe_reject(resource)
        return await super().create(resource, tree, namespace, name=name, subresource=subresource)

    async def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        self._maybe_reject(resource)
        return await super().update(resource, tree, subresource=subresource)

    def _maybe_reject(self, resource: Resource) -> None:
        if self.errors and resource == CLAIMS:
            raise self.errors.pop(0)


def _unused_elsewhere() -> Objects:
    on_a = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}
    allocation = {"devices": {"results": [RESULT]}, "nodeSelector": on_a}
    unused = claim("unused", status={"allocation": allocation})
    return [unused, pod("p", "unused", nodeSelector={"kubernetes.io/hostname": "b"})]


def _left_behind() -> Objects:
    requests = pod("p", limits={"example.com/gpu": "1"}, requests={"example.com/gpu": "1"})
    requests[1]["metadata"]["uid"] = "p-uid"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "p-uid", "controller": True}
    left = claim(
        "left", annotations={EXTENDED_RESOURCE_ANNOTATION: "true"}, ownerReferences=[owner], finalizers=[FINALIZER]
    )
    left[1]["status"] = {"allocation": {"devices": {"results": [RESULT]}}}
    return [left, requests]


def _set_aside() -> Objects:
    own_pod, made = generated("p")
    made[1]["metadata"] |= {"labels": {LABEL: "true"}, "ownerReferences": [], "annotations": {}}
    return [made, own_pod]


@pytest.mark.parametrize("objects", [_unused_elsewhere, _left_behind, _set_aside])
def test_rejected_work_is_retried(objects: Callable[[], Objects]) -> None:
    async def scenario() -> None:
        client = RejectingClient()
        async with world(*CLUSTER, *objects(), client=client) as lab:
            await lab.bound("p")
            assert not client.errors

    idle.run(scenario())
