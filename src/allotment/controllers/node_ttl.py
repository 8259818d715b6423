"""Node TTL annotation, which grows with the cluster (Kubernetes' TTL controller).

Kubelets read it to space out their requests for Secrets and ConfigMaps. It is written because tools display it, and so
that nodes look as in a real cluster.
"""

from __future__ import annotations

from typing import Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import NODES
from allotment.cluster.work_queue import WorkQueue
from allotment.model.trees import Tree

ANNOTATION: Final = "node.alpha.kubernetes.io/ttl"
#: Maximum number of nodes, and the TTL in seconds.
_STEPS: Final = ((100, 0), (500, 15), (1000, 30), (2000, 60))
_MOST_SECONDS: Final = 300


def seconds_for(nodes: int) -> int:
    """The TTL for a cluster with this number of nodes.

    >>> [seconds_for(nodes) for nodes in (1, 100, 101, 5000)]
    [0, 0, 15, 300]
    """
    return next((seconds for most, seconds in _STEPS if nodes <= most), _MOST_SECONDS)


async def node_ttl(context: ProgramContext) -> None:
    """Run the TTL controller."""
    client = context.client_for("ttl-controller")
    nodes = context.caches.trees(NODES)

    async def annotate(name: str) -> None:
        node = nodes.item("", name)
        wanted = str(seconds_for(len(nodes)))
        if node is None or (node.metadata.get("annotations") or {}).get(ANNOTATION) == wanted:
            return
        try:
            nodes.record_write(await client.patch(NODES, name, {"metadata": {"annotations": {ANNOTATION: wanted}}}))
        except StatusError as error:
            if error.code != 404:
                raise

    queue: WorkQueue[str] = WorkQueue("node-ttl", annotate, clock=context.clock, random=context.random)
    known = [0]

    def changed(old: CachedItem[Tree] | None, new: CachedItem[Tree] | None) -> None:
        if old is None and new is not None:
            queue.add(new.name)
        if seconds_for(len(nodes)) != known[0]:
            known[0] = seconds_for(len(nodes))
            for item in nodes.items():
                queue.add(item.name)

    await run_queues([queue], [(nodes, changed)])
