"""Node heartbeats: the Lease of every node, renewed by its agent (KEP-589).

One loop renews the leases of all nodes of a process, at most ten per second, however many nodes there are and however
fast the lab's clock runs. With more nodes the renewal period and ``leaseDurationSeconds`` grow, and the node lifecycle
controller honors that duration. A node whose agent is gone stops renewing, as in a real cluster.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from typing import Final

from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import LEASES
from allotment.model.trees import Tree

NAMESPACE: Final = "kube-node-lease"
#: Minimum seconds (real time) between two renewals of a lease, and the maximum number of renewals per second.
_PERIOD: Final = 10.0
_MAX_PER_SECOND: Final = 10
#: Lease duration in renewal periods.
_DURATION_PERIODS: Final = 4


log = logging.getLogger(__name__)


def period(nodes: int) -> float:
    """Real seconds between two renewals of a node's lease.

    >>> period(3), period(1000)
    (10.0, 100.0)
    """
    return max(_PERIOD, nodes / _MAX_PER_SECOND)


class Leases:
    """Renews the leases of nodes. ``nodes()``: their current names and uids."""

    def __init__(self, client: Client, clock: Clock, nodes: Callable[[], Sequence[tuple[str, str]]]) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._renewed: set[str] = set()

    async def run(self) -> None:
        """Renew the leases until cancelled."""
        while True:
            nodes = self._nodes()
            seconds = period(len(nodes))
            parts = math.ceil(seconds / _PERIOD)
            for part in range(parts):
                start = asyncio.get_running_loop().time()
                batch = nodes[part::parts]
                await asyncio.gather(*(self._renew(name, uid, seconds) for name, uid in batch))
                await asyncio.sleep(max(seconds / parts - (asyncio.get_running_loop().time() - start), 0.1))

    async def _renew(self, node: str, uid: str, seconds: float) -> None:
        # In the lab clock's seconds, because the node lifecycle controller measures with that clock.
        spec = {
            "holderIdentity": node,
            "leaseDurationSeconds": min(math.ceil(_DURATION_PERIODS * seconds * max(self._clock.speed, 1)), 2**31 - 1),
            "renewTime": self._clock.now_micro(),
        }
        try:
            if node in self._renewed:
                try:
                    await self._client.patch(LEASES, node, {"spec": spec}, NAMESPACE)
                    return
                except StatusError as error:
                    if error.code != 404:
                        raise
            await self._create(node, uid, spec)
            self._renewed.add(node)
        except (StatusError, Unreachable) as error:
            log.info("cannot renew the Lease of node %s: %s", node, error)

    async def _create(self, node: str, uid: str, spec: Tree) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": uid}
        metadata = {"name": node, "namespace": NAMESPACE, "ownerReferences": [owner]}
        lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        try:
            await self._client.create(LEASES, lease, NAMESPACE)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise
            await self._client.patch(LEASES, node, {"metadata": {"ownerReferences": [owner]}, "spec": spec}, NAMESPACE)
