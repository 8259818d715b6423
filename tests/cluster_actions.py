"""Actions of tests on a cluster's objects, in a lab and in Kubernetes' own control plane.

Objects are given as in manifests and snapshots: nodes without a status, claims that are allocated, users of claims by
name only. The other objects of a live cluster (a ready node, the pods that use the claims) are created as kubelets,
drivers and users would.
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

#: Returns the resource of an API version and kind.
ResourceLookup = Callable[[str, str], Resource]

_AMOUNTS = {"cpu": "64", "memory": "512Gi", "pods": "110"}
_TIMEOUT_SECONDS = 120.0
#: Infrastructure first, pods last, so that no pod is scheduled on an incomplete cluster.
_ORDER = (
    "Namespace", "Node", "DeviceClass", "ResourceSlice", "DeviceTaintRule", "ResourceClaimTemplate", "ResourceClaim"
)  # fmt: skip


class ClusterActions:
    """A running cluster, and the client that creates its objects."""

    def __init__(self, client: Client, naming: ResourceLookup) -> None:
        self.client = client
        self._naming = naming

    def resource(self, tree: Tree) -> Resource:
        """The resource of an object."""
        return self._naming(str(tree.get("apiVersion")), str(tree.get("kind")))

    async def create(self, tree: Tree) -> Tree:
        """Create an object as its author would; its namespace is created first if it is missing."""
        resource = self.resource(tree)
        namespace = (tree["metadata"].get("namespace") or "default") if resource.namespaced else ""
        if namespace:
            await self.ensure(NAMESPACES, {"metadata": {"name": namespace}})
        return await self.client.create(resource, tree, namespace)

    async def ensure(self, resource: Resource, tree: Tree) -> Tree:
        """Create an object unless it exists."""
        try:
            return await self.client.create(resource, tree, tree["metadata"].get("namespace", ""))
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            return await self.client.get(resource, tree["metadata"]["name"], tree["metadata"].get("namespace", ""))

    async def set_up(self, trees: Iterable[Tree], *, kubelets: bool = False) -> None:
        """Create a cluster, its users and their requests; with ``kubelets`` its nodes are simulated, and pods run."""
        given = sorted(trees, key=_creation_order)
        nodes = {tree["metadata"]["name"] for tree in given if tree["kind"] == "Node"}
        expected = dict.fromkeys(name for tree in given for name in _nodes_of(tree) if name not in nodes)
        for name in expected:
            await self.create_node({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}, kubelets=kubelets)
        for tree in given:
            if tree["kind"] == "Node":
                await self.create_node(tree, kubelets=kubelets)
            elif tree["kind"] == "ResourceClaim" and (tree.get("status") or {}).get("allocation"):
                await self.create_allocated(tree)
            else:
                await self.create(tree)

    async def create_node(self, tree: Tree, *, kubelets: bool = False) -> None:
        """Create a node with the status that its kubelet would report."""
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
        # Admission taints every new node as not ready.
        taints = (tree.get("spec") or {}).get("taints")
        await self.client.patch(NODES, meta["name"], {"spec": {"taints": taints}})

    async def create_allocated(self, tree: Tree) -> None:
        """Create an allocated claim, and its users: pods that run on the node of its devices."""
        created = await self.create({key: value for key, value in tree.items() if key != "status"})
        meta, status = created["metadata"], dict(tree["status"])
        users = []
        for user in status.get("reservedFor") or ():
            pod = await self.create_user(user["name"], meta["namespace"], meta["name"], next(_nodes_of(tree), ""))
            users.append({**user, "uid": pod["metadata"]["uid"]})
        await self.client.update(CLAIMS, {**created, "status": {**status, "reservedFor": users}}, subresource="status")

    async def create_user(self, name: str, namespace: str, claim: str, node: str) -> Tree:
        """Create a pod that runs with a claim."""
        container = {"name": "main", "image": "registry.k8s.io/pause:3.10"}
        spec = {
            "containers": [container], "resourceClaims": [{"name": "c", "resourceClaimName": claim}], "nodeName": node
        }  # fmt: skip
        return await self.ensure(PODS, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    async def pod(self, name: str, namespace: str) -> Tree:
        """The current state of a pod."""
        return await self.client.get(PODS, name, namespace)

    async def wait_for_pod(self, found: Callable[[Tree], Any], name: str, namespace: str) -> Tree:
        """A pod, once a condition holds for it."""
        pod: Tree = {}
        try:
            async with asyncio.timeout(_TIMEOUT_SECONDS):
                while not found(pod := await self.pod(name, namespace)):
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"condition not met: {pod.get('status')}") from None
        return pod


def scheduled_condition(pod: Tree) -> Tree:
    """The pod's PodScheduled condition."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == "PodScheduled"), {})


def is_running(pod: Tree) -> bool:
    """Whether a pod's containers run, or have succeeded."""
    return (pod.get("status") or {}).get("phase") in ("Running", "Succeeded")


def is_unschedulable(pod: Tree) -> bool:
    """Whether a pod is reported as unschedulable."""
    return scheduled_condition(pod).get("status") == "False"


def _creation_order(tree: Tree) -> int:
    return _ORDER.index(tree["kind"]) if tree["kind"] in _ORDER else len(_ORDER)


def _nodes_of(tree: Tree) -> Iterator[str]:
    """The nodes that an object refers to by name."""
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
