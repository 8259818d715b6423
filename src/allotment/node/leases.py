"""The sign of life of every node: a Lease that its agent renews (KEP-589).

One timer renews the leases of all nodes of a process, at most ten a second, however many nodes there are and however
fast the lab's clock runs: a node of a thousand says for longer that it lives. That is what ``leaseDurationSeconds`` is
for, and whoever judges silence (``node_lifecycle``) goes by it. A node whose agent is gone falls silent, as in a
cluster.
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
#: Real seconds between two signs of life, and leases renewed a second at most.
_PERIOD: Final = 10.0
_A_SECOND: Final = 10
#: A sign of life counts for so many periods.
_PERIODS: Final = 4


log = logging.getLogger(__name__)


def period(nodes: int) -> float:
    """Real seconds between two renewals of a node's lease.

    >>> period(3), period(1000)
    (10.0, 100.0)
    """
    return max(_PERIOD, nodes / _A_SECOND)


class Leases:
    """The leases of some nodes. ``nodes()``: their names and uids now."""

    def __init__(self, client: Client, clock: Clock, nodes: Callable[[], Sequence[tuple[str, str]]]) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes
        self._renewed: set[str] = set()

    async def run(self) -> None:
        """Renew for ever."""
        while True:
            nodes = self._nodes()
            seconds = period(len(nodes))
            parts = math.ceil(seconds / _PERIOD)
            for part in range(parts):
                began = asyncio.get_running_loop().time()
                mine = nodes[part::parts]
                await asyncio.gather(*(self._renew(name, uid, seconds) for name, uid in mine))
                await asyncio.sleep(max(seconds / parts - (asyncio.get_running_loop().time() - began), 0.1))

    async def _renew(self, node: str, uid: str, seconds: float) -> None:
        # On the lab's clock, for that is what silence is measured with.
        spec = {
            "holderIdentity": node,
            "leaseDurationSeconds": min(math.ceil(_PERIODS * seconds * max(self._clock.speed, 1)), 2**31 - 1),
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
            log.info("lease of node %s: %s", node, error)

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
