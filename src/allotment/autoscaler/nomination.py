"""Nominates planned nodes for pods (KEP-5278): the scheduler tries a nominated node first.

A node is nominated when it registers, so that its room is kept while its devices appear, and again when it is complete,
because the scheduler clears a nomination that it could not follow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from allotment.autoscaler.cluster_state import ObservedCluster, is_unschedulable
from allotment.cluster.client import Client
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import PODS

log = logging.getLogger(__name__)

_MAX_CONCURRENT = 16


class Nominations:
    """The machine on which each pod is planned."""

    def __init__(self) -> None:
        self._orders: dict[str, str] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._orders

    def __len__(self) -> int:
        return len(self._orders)

    def assign(self, uid: str, order: str) -> None:
        """Assign a pod to a machine."""
        self._orders[uid] = order

    def order_of(self, uid: str) -> str:
        """Return the machine that a pod is assigned to; empty if none."""
        return self._orders.get(uid, "")

    def pods_of(self, order: str) -> list[str]:
        """Return the uids of the pods assigned to a machine."""
        return [uid for uid, assigned in self._orders.items() if assigned == order]

    def keep(self, waiting: Iterable[str]) -> None:
        """Drop all pods but these (uids)."""
        self._orders = {uid: self._orders[uid] for uid in waiting if uid in self._orders}

    def cancel(self, order: str) -> bool:
        """Drop the assignments to a machine; return whether there were any."""
        left = {uid: assigned for uid, assigned in self._orders.items() if assigned != order}
        broken = len(left) < len(self._orders)
        self._orders = left
        return broken

    def nodes_by_pod(self, node_of: Mapping[str, str]) -> dict[str, str]:
        """Return the node by pod uid. ``node_of``: nodes by order."""
        return {uid: node_of[order] for uid, order in self._orders.items() if order in node_of}


async def nominate(client: Client, waiting: ObservedCluster, uids: Iterable[str], node: str) -> None:
    """Nominate a node for pods (uids) that are still unschedulable."""
    wanted = set(uids)
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

    async def nominate_pod(name: str, namespace: str, uid: str) -> None:
        patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}
        async with semaphore:
            try:
                await client.patch(PODS, name, patch, namespace, subresource="status")
            except StatusError as error:
                # Bound, deleted, or not permitted: the scheduler finds the node by itself.
                log.info("cannot nominate node %s for pod %s/%s: %s", node, namespace, name, error)

    pods = [pod for pod in waiting.pods.items() if pod.uid in wanted and is_unschedulable(pod)]
    await asyncio.gather(
        *(nominate_pod(pod.name, pod.namespace, pod.uid) for pod in pods if pod.status.get("nominatedNodeName") != node)
    )
