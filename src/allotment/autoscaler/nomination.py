"""Telling the scheduler where planned pods were meant to go (KEP-5278): it tries that node first.

Once when the node is there, so that nobody takes its room while its devices come, and once more when all of them are
there, for the scheduler takes a nomination back when it could not follow it.
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
    """Which pods wait for which machine of ours."""

    def __init__(self) -> None:
        self._orders: dict[str, str] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._orders

    def __len__(self) -> int:
        return len(self._orders)

    def assign(self, uid: str, order: str) -> None:
        """A pod gets its place on a machine."""
        self._orders[uid] = order

    def order_of(self, uid: str) -> str:
        """The machine that a pod waits for; empty if it waits for none."""
        return self._orders.get(uid, "")

    def pods_of(self, order: str) -> list[str]:
        """Pods (uid) that wait for a machine."""
        return [uid for uid, one in self._orders.items() if one == order]

    def keep(self, waiting: Iterable[str]) -> None:
        """Only those pods (uid) wait still."""
        self._orders = {uid: self._orders[uid] for uid in waiting if uid in self._orders}

    def cancel(self, order: str) -> bool:
        """A machine will not come; whether anybody waited for it."""
        left = {uid: one for uid, one in self._orders.items() if one != order}
        broken = len(left) < len(self._orders)
        self._orders = left
        return broken

    def nodes_by_pod(self, node_of: Mapping[str, str]) -> dict[str, str]:
        """The node by pod (uid). ``node_of``: nodes by order."""
        return {uid: node_of[order] for uid, order in self._orders.items() if order in node_of}


async def nominate(client: Client, waiting: ObservedCluster, uids: Iterable[str], node: str) -> None:
    """Say of pods (uid) which node they were planned for, unless they say so already or wait no more."""
    wanted = set(uids)
    semaphore = asyncio.Semaphore(_MAX_CONCURRENT)

    async def one(name: str, namespace: str, uid: str) -> None:
        patch = {"metadata": {"uid": uid}, "status": {"nominatedNodeName": node}}
        async with semaphore:
            try:
                await client.patch(PODS, name, patch, namespace, subresource="status")
            except StatusError as error:
                # It is bound or gone, or the cluster does not let us: the scheduler finds the node by itself.
                log.info("nominating %s for %s/%s: %s", node, namespace, name, error)

    pods = [pod for pod in waiting.pods.items() if pod.uid in wanted and is_unschedulable(pod)]
    await asyncio.gather(
        *(one(pod.name, pod.namespace, pod.uid) for pod in pods if pod.status.get("nominatedNodeName") != node)
    )
