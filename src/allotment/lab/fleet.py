"""The fleet's part in a lab: its nodes, its drivers' slices and its vendors' classes, as objects of the API.

What a kubelet and the vendors' drivers publish when they start. A lab that starts again on its data says the same
again: nothing is written where nothing changed, and nodes that the fleet no longer has go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import DEVICE_CLASSES, NODES, SLICES
from allotment.fleet import cluster_of, parse_fleet
from allotment.model.trees import to_tree
from allotment.node.kubelet import SIMULATED

Tree = dict[str, Any]

#: What a lab has if nobody says: one machine of each kind that the examples ask for.
USUAL = ("dgx-a100-40gb", "t4-4x-pcie", "mi300x-8x-oam")
#: A big server's. Profiles know accelerators, not processors; nothing should fail for want of these.
_CAPACITY = {"cpu": "128", "ephemeral-storage": "1Ti", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "memory": "1Ti"}
_PODS = 250
#: So many writes are under way at once: enough for the store to commit them together.
_AT_ONCE = 64


async def publish(client: Client, fleet: Sequence[str], *, kube: str, version: str, now: str) -> None:
    """Make the cluster have exactly the simulated machines of a fleet. Raises FleetError for one that is none."""
    wanted = cluster_of(parse_fleet(fleet), kube)
    present = {tree["metadata"]["name"]: tree for tree in (await client.list(NODES)).items}
    addresses = _addresses(present.values())
    names = {node.metadata.name for node in wanted.nodes}
    gone = [name for name, tree in present.items() if _simulated(tree) and name not in names]
    await _each(gone, lambda name: client.delete(NODES, name))
    await _each(wanted.classes, lambda one: _kept(client, DEVICE_CLASSES, to_tree(one, *_type(DEVICE_CLASSES))))
    missing = [
        _node(to_tree(node, *_type(NODES)), kube, version, now, next(addresses))
        for node in wanted.nodes
        if node.metadata.name not in present
    ]
    uids = {name: tree["metadata"]["uid"] for name, tree in present.items()}

    async def add(node: Tree) -> None:
        created = await client.create(NODES, node)
        name = created["metadata"]["name"]
        uids[name] = created["metadata"]["uid"]
        if (created.get("spec") or {}).get("taints"):
            # Admission holds every new node back until somebody has seen it ready. These are ready from the start.
            await client.patch(NODES, name, {"spec": {"taints": None}})

    await _each(missing, add)
    slices = [to_tree(one, *_type(SLICES)) for one in wanted.slices]
    for one in slices:
        _owned(one, uids)
    known = {tree["metadata"]["name"]: tree for tree in (await client.list(SLICES)).items}
    await _each(slices, lambda one: _current(client, one, known.get(one["metadata"]["name"])))


async def _kept(client: Client, resource: Resource, tree: Tree) -> None:
    """Create what is not there; what is there may have been changed on purpose."""
    try:
        await client.create(resource, tree)
    except StatusError as error:
        if error.reason != "AlreadyExists":
            raise


async def _current(client: Client, one: Tree, known: Tree | None) -> None:
    if known is None:
        await client.create(SLICES, one)
    elif known["spec"] != one["spec"]:
        meta = known["metadata"] | {"ownerReferences": one["metadata"].get("ownerReferences", [])}
        pool = one["spec"]["pool"] | {"generation": known["spec"]["pool"]["generation"] + 1}
        await client.update(SLICES, {**known, "metadata": meta, "spec": one["spec"] | {"pool": pool}})


async def _each(items: Iterable[Any], act: Callable[[Any], Awaitable[Any]]) -> None:
    """Do it with every item, many at once; the first error ends it."""
    waiting = iter(tuple(items))

    async def worker() -> None:
        for item in waiting:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(worker())


def _type(resource: Resource) -> tuple[str, str]:
    return resource.api_version, resource.kind


def _simulated(node: Tree) -> bool:
    return SIMULATED in (node["metadata"].get("annotations") or {})


def _owned(one: Tree, uids: dict[str, str]) -> None:
    """A slice of a node goes with it."""
    node = one["spec"].get("nodeName", "")
    if node in uids:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uids[node], "controller": True}
        one["metadata"]["ownerReferences"] = [owner]


def _addresses(nodes: Iterable[Tree]) -> Iterator[str]:
    """Addresses that no node has, in the network that local clusters use for nodes."""
    used = {
        entry.get("address") for node in nodes for entry in (node.get("status") or {}).get("addresses") or ()
    }  # fmt: skip
    free = (f"172.18.{number // 254}.{number % 254 + 1}" for number in count(1))
    return (address for address in free if address not in used)


def _node(node: Tree, kube: str, version: str, now: str, address: str) -> Tree:
    """A node as its kubelet registers it."""
    name = node["metadata"]["name"]
    node["metadata"]["annotations"] = {SIMULATED: "true"}
    amounts = _CAPACITY | {"pods": str(_PODS)}
    node["status"] = {
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "conditions": [
            _condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory", now),
            _condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure", now),
            _condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available", now),
            _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now),
        ],
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": f"allotment://{version}",
            "kernelVersion": "simulated", "kubeProxyVersion": "", "kubeletVersion": f"v{kube}.2", "machineID": name,
            "operatingSystem": "linux", "osImage": "Allotment simulated node", "systemUUID": "",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }  # fmt: skip
    return node


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Tree:
    return {
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }  # fmt: skip
