"""Registration of nodes that the fleet did not create, as a kubelet registers its node at start.

A Node with the annotation ``allotment.dev/simulated`` gets the status of a ready node, and the DeviceClasses of its
vendor if it declares hardware (``allotment.dev/hardware``). An existing status stays, and so do capacities in a status
without conditions. A node with hardware that is not simulated has no driver, and gets a warning event.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.program import Program, ProgramContext, run_queues
from allotment.cluster.resources import NODES
from allotment.cluster.work_queue import WorkQueue
from allotment.fleet import FleetError, parse_fleet
from allotment.lab.fleet import HARDWARE, addresses, bring_classes, is_simulated, registered
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED

_REASON: Final = "NotSimulated"


def register_nodes(kube: str, version: str) -> Program:
    """Create the program. ``kube``: the kubelet version of nodes; ``version``: that of Allotment."""

    async def join(context: ProgramContext) -> None:
        nodes = context.caches.trees(NODES)
        client = context.client_for("kubelet", "kubelet")
        recorder = context.recorder("kubelet")

        async def look(name: str) -> None:
            node = nodes.item("", name)
            if node is None or node.deleting:
                return
            form = str((node.metadata.get("annotations") or {}).get(HARDWARE, ""))
            if not is_simulated(node.tree):
                message = f'annotation {HARDWARE} is for simulated nodes: add the annotation {SIMULATED}: "true"'
                recorder.event(node.tree, "Warning", _REASON, message, "Joining")
                return
            if form:
                with suppress(FleetError):  # invalid hardware is reported where the drivers are started
                    await bring_classes(client, parse_fleet([f"{name}={form}"]))
            if not node.status.get("conditions"):
                address = next(addresses(item.tree for item in nodes.items()))
                status = registered(name, address, kube=kube, version=version, now=context.clock.now())
                status |= _amounts(node.status)
                await client.patch(NODES, name, {"status": status}, subresource="status")

        def changed(old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
            # Nodes of the fleet are complete, so even a thousand of them need no check.
            if new is not None and any(_identity(new)) and _needs_registration(old, new):
                queue.add(new.name)

        queue: WorkQueue[str] = WorkQueue("joining", look, clock=context.clock, random=context.random, workers=1)
        await run_queues([queue], [(nodes, changed)])

    return join


def _needs_registration(old: CachedItem[Tree] | None, new: CachedItem[Tree]) -> bool:
    if old is None:
        return not new.status.get("conditions") or not is_simulated(new.tree)
    return _identity(old) != _identity(new)


def _amounts(status: dict[str, Any]) -> dict[str, Any]:
    """The given capacities of a node: a cloud machine has those of its type."""
    return {name: status[name] for name in ("capacity", "allocatable") if status.get(name)}


def _identity(node: CachedItem[Tree]) -> tuple[bool, str]:
    return is_simulated(node.tree), str((node.metadata.get("annotations") or {}).get(HARDWARE, ""))
