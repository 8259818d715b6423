"""Nodes that somebody created, not the fleet: registered as a kubelet registers its node when it starts.

A Node that says that it is simulated (``allotment.dev/simulated``) gets the status of one that is ready, and the
vendor's DeviceClasses where it says what hardware it has (``allotment.dev/hardware``). A status that somebody wrote
stays, and so do the amounts of one that says nothing else. A node with hardware that is not simulated has nobody who
would drive it, and is told so.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from allotment.cluster.cached_item import Item
from allotment.cluster.program import Context, Program, follow
from allotment.cluster.resources import NODES
from allotment.cluster.work_queue import WorkQueue
from allotment.fleet import FleetError, parse_fleet
from allotment.lab.fleet import HARDWARE, addresses, bring_classes, is_simulated, registered
from allotment.model.trees import Tree
from allotment.node.kubelet import SIMULATED

_REASON: Final = "NotSimulated"


def register_nodes(kube: str, version: str) -> Program:
    """The program. ``kube``: the release that nodes say they run; ``version``: Allotment's own."""

    async def join(context: Context) -> None:
        nodes = context.caches.trees(NODES)
        client = context.client_for("kubelet", "kubelet")
        recorder = context.recorder("kubelet")

        async def look(name: str) -> None:
            node = nodes.item("", name)
            if node is None or node.deleting:
                return
            form = str((node.metadata.get("annotations") or {}).get(HARDWARE, ""))
            if not is_simulated(node.tree):
                told = f'annotation {HARDWARE} is for simulated nodes: add the annotation {SIMULATED}: "true"'
                recorder.event(node.tree, "Warning", _REASON, told, "Joining")
                return
            if form:
                with suppress(FleetError):  # whoever starts the drivers says so
                    await bring_classes(client, parse_fleet([f"{name}={form}"]))
            if not node.status.get("conditions"):
                address = next(addresses(item.tree for item in nodes.items()))
                status = registered(name, address, kube=kube, version=version, now=context.clock.now())
                status |= _amounts(node.status)
                await client.patch(NODES, name, {"status": status}, subresource="status")

        def changed(old: Item[Tree] | None, new: Item[Tree] | None) -> None:
            # The fleet's own come with everything; of a thousand of them nothing has to be looked at.
            if new is not None and any(_said(new)) and _news(old, new):
                queue.add(new.name)

        queue: WorkQueue[str] = WorkQueue("joining", look, clock=context.clock, random=context.random, workers=1)
        await follow([queue], [(nodes, changed)])

    return join


def _news(old: Item[Tree] | None, new: Item[Tree]) -> bool:
    if old is None:
        return not new.status.get("conditions") or not is_simulated(new.tree)
    return _said(old) != _said(new)


def _amounts(status: dict[str, Any]) -> dict[str, Any]:
    """How much a node has, where somebody wrote that: a machine of a cloud is as big as its type."""
    return {name: status[name] for name in ("capacity", "allocatable") if status.get(name)}


def _said(node: Item[Tree]) -> tuple[bool, str]:
    return is_simulated(node.tree), str((node.metadata.get("annotations") or {}).get(HARDWARE, ""))
