"""Karpenter as a cloud provider sees it: a controller that launches NodeClaims."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from allotment.autoscaler.providers.karpenter import NODE_CLAIMS
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import EVENTS, NODES
from allotment.fleet.catalog import catalog, template_of
from allotment.model.trees import Tree, to_tree
from allotment.planning.provisioning.nodeclaims import FORM

_FINALIZER: Final = "karpenter.sh/termination"
_NOW: Final = "2026-01-01T00:00:00Z"


class Karpenter:
    """A controller that launches NodeClaims as simulated nodes. ``unavailable``: instance types that are out of stock.

    ``held``: NodeClaims that do not progress beyond this condition.
    """

    def __init__(self, client: Client, node_class: str = "EC2NodeClass") -> None:
        self._client = client
        self._node_class = node_class
        self.unavailable: set[str] = set()
        self.held = ""
        self.launched: list[str] = []

    async def run(self) -> None:
        """Reconcile all NodeClaims until cancelled."""
        while True:
            for tree in (await self._client.list(NODE_CLAIMS)).items:
                try:
                    await self._reconcile(tree)
                except StatusError as error:
                    if error.code not in (404, 409):
                        raise
            await asyncio.sleep(0.01)

    async def _reconcile(self, tree: Tree) -> None:
        name = tree["metadata"]["name"]
        if tree["spec"]["nodeClassRef"]["kind"] != self._node_class:
            return  # a NodeClaim of another provider
        if "deletionTimestamp" in tree["metadata"]:
            await self._end(tree)
            return
        if _FINALIZER not in (tree["metadata"].get("finalizers") or ()):
            await self._client.patch(NODE_CLAIMS, name, {"metadata": {"finalizers": [_FINALIZER]}})
            return
        conditions = {c["type"] for c in (tree.get("status") or {}).get("conditions") or () if c["status"] == "True"}
        chosen = {requirement["key"]: requirement["values"][0] for requirement in tree["spec"]["requirements"]}
        instance = chosen["node.kubernetes.io/instance-type"]
        if "Launched" not in conditions:
            if instance in self.unavailable:
                await self._out_of_stock(tree, f"all requested instance types were unavailable: {instance}")
                return
            await self._condition(tree, "Launched", providerID=f"fake:///{name}")
        elif self.held == "Registered":
            return
        elif "Registered" not in conditions:
            await self._register(tree, instance, chosen)
            await self._condition(tree, "Registered", nodeName=f"ip-{name}")
        elif self.held == "Initialized":
            return
        elif "Initialized" not in conditions:
            await self._condition(tree, "Initialized")

    async def _register(self, tree: Tree, instance: str, chosen: Mapping[str, str]) -> None:
        """Create the node, with the labels, annotations and taints of its NodeClaim."""
        metadata = tree["metadata"]
        kind = next(item for item in catalog() if item.name == instance)
        mode = metadata["annotations"].get(FORM, "").partition("/")[2]
        template = template_of(kind, mode, f"ip-{metadata['name']}", zone=chosen.get("topology.kubernetes.io/zone", ""))
        node = to_tree(template.node, "v1", "Node")
        node["metadata"]["labels"] |= metadata["labels"] | {"karpenter.sh/registered": "true"}
        node["metadata"]["labels"]["karpenter.sh/capacity-type"] = chosen["karpenter.sh/capacity-type"]
        node["metadata"]["annotations"] |= metadata["annotations"]
        node["spec"] = {"taints": tree["spec"].get("taints") or []}
        await self._client.create(NODES, node)  # the lab's kubelets set the Ready condition
        self.launched.append(instance)

    async def _condition(self, tree: Tree, type_: str, **status: str) -> None:
        old = tree.get("status") or {}
        new = {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": _NOW}
        conditions = [*(old.get("conditions") or ()), new]
        await self._client.update(
            NODE_CLAIMS, {**tree, "status": {**old, **status, "conditions": conditions}}, subresource="status"
        )

    async def _out_of_stock(self, tree: Tree, text: str) -> None:
        name = tree["metadata"]["name"]
        event = {
            "metadata": {"generateName": f"{name}-", "namespace": "default"},
            "involvedObject": {
                "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name, "uid": tree["metadata"]["uid"],
            },
            "type": "Warning", "reason": "InsufficientCapacityError", "message": f"NodeClaim {name} event: {text}",
            "firstTimestamp": _NOW, "lastTimestamp": _NOW, "source": {"component": "karpenter"},
        }  # fmt: skip
        await self._client.create(EVENTS, event, "default")
        await self._client.delete(NODE_CLAIMS, name)

    async def _end(self, tree: Tree) -> None:
        node = (tree.get("status") or {}).get("nodeName")
        if node:
            try:
                await self._client.delete(NODES, node)
            except StatusError as error:
                if error.code != 404:
                    raise
        await self._client.patch(NODE_CLAIMS, tree["metadata"]["name"], {"metadata": {"finalizers": None}})
