"""What tests do with a cluster's objects, in a lab and in Kubernetes' own control plane.

Objects come as manifests and snapshots have them: nodes without a status, claims that are allocated already, users of
claims that are named only. What a live cluster needs beside them (a ready node, the pods that hold the claims) is
made, as kubelets, drivers and users would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, NAMESPACES, NODES, PODS
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED

#: The resource of objects that say so of themselves: their API version and kind.
Naming = Callable[[str, str], Resource]

_AMOUNTS = {"cpu": "64", "memory": "512Gi", "pods": "110"}
_PATIENCE = 120.0
#: Infrastructure first, what asks for it last, so that nothing is decided on half a cluster.
_ORDER = (
    "Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourceClaimTemplate", "ResourceClaim"
)  # fmt: skip


class Acting:
    """A cluster that runs, and somebody who makes its objects."""

    def __init__(self, client: Client, naming: Naming) -> None:
        self.client = client
        self._naming = naming

    def resource(self, tree: Tree) -> Resource:
        """What kind of object this is."""
        return self._naming(str(tree.get("apiVersion")), str(tree.get("kind")))

    async def create(self, tree: Tree) -> Tree:
        """One object as its author would create it; its namespace is made first if it is not there."""
        resource = self.resource(tree)
        namespace = (tree["metadata"].get("namespace") or "default") if resource.namespaced else ""
        if namespace:
            await self.have(NAMESPACES, {"metadata": {"name": namespace}})
        return await self.client.create(resource, tree, namespace)

    async def have(self, resource: Resource, tree: Tree) -> Tree:
        """An object that may be there already."""
        try:
            return await self.client.create(resource, tree, tree["metadata"].get("namespace", ""))
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            return await self.client.get(resource, tree["metadata"]["name"], tree["metadata"].get("namespace", ""))

    async def set_up(self, trees: Iterable[Tree], *, kubelets: bool = False) -> None:
        """A cluster, its users and what they ask for; with ``kubelets`` its nodes are simulated, and pods run."""
        given = sorted(trees, key=_turn)
        nodes = {tree["metadata"]["name"] for tree in given if tree["kind"] == "Node"}
        wanted = dict.fromkeys(name for tree in given for name in _nodes_of(tree) if name not in nodes)
        for name in wanted:
            await self.node({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, kubelets=kubelets)
        for tree in given:
            if tree["kind"] == "Node":
                await self.node(tree, kubelets=kubelets)
            elif tree["kind"] == "ResourceClaim" and (tree.get("status") or {}).get("allocation"):
                await self.allocated(tree)
            else:
                await self.create(tree)

    async def node(self, tree: Tree, *, kubelets: bool = False) -> None:
        """A node as it is when its kubelet has said that it is ready."""
        meta = tree["metadata"]
        labels = {"kubernetes.io/hostname": meta["name"], **(meta.get("labels") or {})}
        annotations = {**(meta.get("annotations") or {}), **({SIMULATED: "true"} if kubelets else {})}
        status = {
            "allocatable": _AMOUNTS, "capacity": _AMOUNTS, **(tree.get("status") or {}),
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        }  # fmt: skip
        await self.client.create(
            NODES, {**tree, "metadata": {**meta, "labels": labels, "annotations": annotations}, "status": status}
        )
        # Admission holds every new node back until somebody has seen it ready.
        taints = (tree.get("spec") or {}).get("taints")
        await self.client.patch(NODES, meta["name"], {"spec": {"taints": taints}})

    async def allocated(self, tree: Tree) -> None:
        """A claim that others use, and these others: pods that run where its devices are."""
        made = await self.create({key: value for key, value in tree.items() if key != "status"})
        meta, status = made["metadata"], dict(tree["status"])
        users = []
        for user in status.get("reservedFor") or ():
            pod = await self.user(user["name"], meta["namespace"], meta["name"], next(_nodes_of(tree), ""))
            users.append({**user, "uid": pod["metadata"]["uid"]})
        await self.client.update(CLAIMS, {**made, "status": {**status, "reservedFor": users}}, subresource="status")

    async def user(self, name: str, namespace: str, claim: str, node: str) -> Tree:
        """A pod that runs with a claim."""
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
        spec = {
            "containers": [container], "resourceClaims": [{"name": "c", "resourceClaimName": claim}], "nodeName": node
        }  # fmt: skip
        return await self.have(PODS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    async def pod(self, name: str, namespace: str) -> Tree:
        """A pod as it is now."""
        return await self.client.get(PODS, name, namespace)

    async def until(self, found: Callable[[Tree], Any], name: str, namespace: str) -> Tree:
        """A pod as soon as something is true of it."""
        pod: Tree = {}
        try:
            async with asyncio.timeout(_PATIENCE):
                while not found(pod := await self.pod(name, namespace)):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"did not come true: {pod.get('status')}") from None
        return pod


def condition(pod: Tree) -> Tree:
    """What the pod says of its scheduling."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == "PodScheduled"), {})


def runs(pod: Tree) -> bool:
    """Whether a pod's containers run, or have done their work."""
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded")


def waits(pod: Tree) -> bool:
    """Whether a pod has been told that there is no place for it."""
    return condition(pod).get("status") == "False"


def _turn(tree: Tree) -> int:
    return _ORDER.index(tree["kind"]) if tree["kind"] in _ORDER else len(_ORDER)


def _nodes_of(tree: Tree) -> Iterator[str]:
    """The nodes that an object speaks of by name."""
    spec = tree.get("spec") or {}
    if tree["kind"] == "ResourceSlice":
        if spec.get("nodeName"):
            yield spec["nodeName"]
        for device in spec.get("devices") or ():
            if device.get("nodeName"):
                yield device["nodeName"]
    allocation = (tree.get("status") or {}).get("allocation") or {}
    for term in (allocation.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for match in term.get("matchFields") or ():
            yield from match["values"]
