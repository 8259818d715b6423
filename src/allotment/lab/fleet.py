"""Fleet objects of a lab: nodes and the vendors' DeviceClasses in the API.

Annotation ``allotment.dev/hardware`` declares a node's hardware; :mod:`allotment.lab.drivers` starts the drivers of
every such node. A lab that starts again on its data writes only differences, and deletes nodes that an earlier fleet
created and the current one lacks. Nodes of users and clouds stay (annotation ``allotment.dev/fleet`` marks those of the
fleet).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any, Final

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import DEVICE_CLASSES, NODES
from allotment.drivers.nvidia.compute_domain.crd import install
from allotment.fleet import FleetMachine, classes_of, node_of, parse_fleet
from allotment.fleet.device_classes import CLASSES
from allotment.model.trees import Tree, to_tree
from allotment.node.kubelet import SIMULATED
from allotment.node.node_status import healthy_conditions

#: The default fleet: one machine of each kind that the examples request.
DEFAULT_FLEET = ("dgx-a100-40gb", "t4-4x-pcie", "mi300x-8x-oam")
#: The hardware of a simulated node, in the syntax of ``--fleet``: ``[GPUSx]HARDWARE[/MODE]``.
HARDWARE: Final = "allotment.dev/hardware"
#: On nodes that the fleet created and may delete.
OF_FLEET: Final = "allotment.dev/fleet"
#: The values of a large server. Profiles define accelerators only; CPU and memory should not limit pods.
_CAPACITY = {"cpu": "128", "ephemeral-storage": "1Ti", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "memory": "1Ti"}
_PODS = 250
#: Concurrent writes: enough for the store to commit them together.
_AT_ONCE = 64


async def publish(client: Client, fleet: Sequence[str], *, kube: str, version: str, now: str) -> None:
    """Create, update and delete nodes so that those of the fleet match.

    Raises FleetError for an invalid fleet.
    """
    wanted = {machine.node: machine for machine in parse_fleet(fleet)}
    present = {tree["metadata"]["name"]: tree for tree in (await client.list(NODES)).items}
    free = addresses(present.values())
    gone = [name for name, tree in present.items() if _is_of_fleet(tree) and name not in wanted]
    await _for_each(gone, lambda name: client.delete(NODES, name))
    await bring_classes(client, wanted.values())
    missing = [
        _node(machine, kube, version, now, next(free)) for machine in wanted.values() if machine.node not in present
    ]
    changed = [
        name
        for name in wanted.keys() & present.keys()
        if _hardware(present[name]) != wanted[name].form or not _is_of_fleet(present[name])
    ]

    async def add(node: Tree) -> None:
        created = await client.create(NODES, node)
        if (created.get("spec") or {}).get("taints"):
            # Admission taints every new node as not ready. These are ready from the start.
            await client.patch(NODES, created["metadata"]["name"], {"spec": {"taints": None}})

    async def annotate(name: str) -> None:
        annotations = {HARDWARE: wanted[name].form, OF_FLEET: "true"}
        await client.patch(NODES, name, {"metadata": {"annotations": annotations}})

    await _for_each(missing, add)
    await _for_each(changed, annotate)


async def machines(client: Client) -> dict[str, str]:
    """The hardware of all simulated nodes of a cluster, in the syntax of ``--fleet``."""
    nodes = (await client.list(NODES)).items
    found = {str(node["metadata"]["name"]): _hardware(node) for node in nodes if is_simulated(node)}
    return {name: form for name, form in found.items() if form}


async def bring_classes(client: Client, machines: Iterable[FleetMachine]) -> None:
    """Create the objects of the vendors' charts: DeviceClasses, and ComputeDomains if there is a fabric."""
    found = tuple(machines)
    classes = [to_tree(device_class, *_type(DEVICE_CLASSES)) for device_class in classes_of(found)]
    await _for_each(classes, lambda device_class: _create_missing(client, DEVICE_CLASSES, device_class))
    if any(_has_fabric(machine) for machine in found):
        await install(client)


async def bring_vendors(client: Client, vendors: Iterable[str]) -> None:
    """Create the DeviceClasses of vendors whose machines may be provisioned later, since claims name them before."""
    classes = [to_tree(device_class, *_type(DEVICE_CLASSES)) for vendor in vendors for device_class in CLASSES[vendor]]
    await _for_each(classes, lambda device_class: _create_missing(client, DEVICE_CLASSES, device_class))


async def _create_missing(client: Client, resource: Resource, tree: Tree) -> None:
    """Create objects that do not exist, of a kind that is served; existing ones may have been changed on purpose."""
    try:
        await client.create(resource, tree)
    except StatusError as error:
        if error.reason not in ("AlreadyExists", "NotFound"):
            raise


async def _for_each(items: Iterable[Any], act: Callable[[Any], Awaitable[Any]]) -> None:
    """Await an action for every item, many at a time; the first error cancels the others."""
    waiting = iter(tuple(items))

    async def worker() -> None:
        for item in waiting:
            await act(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(worker())


def _type(resource: Resource) -> tuple[str, str]:
    return resource.api_version, resource.kind


def is_simulated(node: Tree) -> bool:
    """Whether a node is annotated as simulated."""
    return SIMULATED in (node["metadata"].get("annotations") or {})


def _is_of_fleet(node: Tree) -> bool:
    return is_simulated(node) and OF_FLEET in (node["metadata"].get("annotations") or {})


def _has_fabric(machine: FleetMachine) -> bool:
    """Whether the machine has NVLink to other machines, for which the vendor's chart installs ComputeDomains."""
    link = machine.hardware.accelerator.nvlink
    return link is not None and link.fabric


def _hardware(node: Tree) -> str:
    return str((node["metadata"].get("annotations") or {}).get(HARDWARE, ""))


def addresses(nodes: Iterable[Tree]) -> Iterator[str]:
    """Unused addresses in the network that local clusters use for nodes."""
    used = {
        entry.get("address") for node in nodes for entry in (node.get("status") or {}).get("addresses") or ()
    }  # fmt: skip
    unused = (f"172.18.{number // 254}.{number % 254 + 1}" for number in count(1))
    return (address for address in unused if address not in used)


def _node(machine: FleetMachine, kube: str, version: str, now: str, address: str) -> Tree:
    """A node as its kubelet registers it."""
    node = to_tree(node_of(machine), *_type(NODES))
    name = machine.node
    node["metadata"]["annotations"] = {SIMULATED: "true", HARDWARE: machine.form, OF_FLEET: "true"}
    node["status"] = registered(name, address, kube=kube, version=version, now=now)
    return node


def registered(name: str, address: str, *, kube: str, version: str, now: str) -> Tree:
    """The status of a node registered by its kubelet: ready, with capacity for pods without devices."""
    amounts = _CAPACITY | {"pods": str(_PODS)}
    return {
        "capacity": amounts,
        "allocatable": amounts,
        "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}],
        "conditions": healthy_conditions(now),
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": f"allotment://{version}",
            "kernelVersion": "simulated", "kubeProxyVersion": "", "kubeletVersion": f"v{kube}.2", "machineID": name,
            "operatingSystem": "linux", "osImage": "Allotment simulated node", "systemUUID": "",
        },
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    }  # fmt: skip
