"""What the claim's status says of prepared devices: beside, never in the way of, preparing them.

Written by server-side apply under the driver's own name, so that drivers who share a claim do not disturb each other.
The API server drops it with the allocation. A driver that may not write here, or a cluster that is away, costs nothing
but the status; a claim that is undone meanwhile is not written any more.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from random import Random

import msgspec

from allotment.cluster.backoff import Backoff
from allotment.cluster.client import Client
from allotment.cluster.clock import Clock
from allotment.cluster.errors import StatusError, Unreachable
from allotment.cluster.resources import CLAIMS
from allotment.drivers.preparation.checkpoint import CheckpointDevice, CheckpointEntry
from allotment.kubelet_plugin.messages import ClaimRef
from allotment.model.trees import Tree

log = logging.getLogger(__name__)

_ATTEMPTS = 6
#: The server's limit on one device's ``data``.
MAX_DATA_BYTES = 10 * 1024


def device_status(driver: str, part: CheckpointDevice, since: str) -> Tree:
    """The status of a device that can be used. What the driver says of it is left out where it is too much."""
    tree: Tree = {"driver": driver, "pool": part.pool, "device": part.device}
    if part.share_id:
        tree["shareID"] = part.share_id
    tree["conditions"] = [
        {
            "type": "Ready", "status": "True", "reason": "Prepared", "message": "prepared for containers",
            "lastTransitionTime": since,
        }
    ]  # fmt: skip
    if part.data is not None and len(msgspec.json.encode(part.data)) <= MAX_DATA_BYTES:
        tree["data"] = part.data
    return tree


class StatusWriter:
    """Writes statuses in the background. ``client``: with the driver's name as its field manager."""

    def __init__(self, driver: str, client: Client, clock: Clock, random: Random) -> None:
        self._driver = driver
        self._client = client
        self._clock = clock
        self._random = random
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def enqueue(self, uid: str, entry: CheckpointEntry) -> None:
        """Write a claim's devices, soon. Returns at once."""
        if all(part.data is None for part in entry.parts):
            return  # a driver that has nothing to say of its devices costs the API nothing
        # A device that several requests have is told once.
        parts = {(part.pool, part.device, part.share_id): part for part in entry.parts}.values()
        devices = [device_status(self._driver, part, entry.since) for part in parts]
        self.cancel(uid)
        ref = ClaimRef(entry.namespace, uid, entry.name)
        task = self._tasks[uid] = asyncio.create_task(self._write(ref, devices), name=f"status {ref.name}")
        task.add_done_callback(lambda done: self._tasks.pop(uid, None) if self._tasks.get(uid) is done else None)

    def cancel(self, uid: str) -> None:
        """Write nothing more for a claim."""
        task = self._tasks.pop(uid, None)
        if task is not None:
            task.cancel()

    async def wait_idle(self) -> None:
        """Wait until everything is written or given up."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks.values()))

    async def _write(self, ref: ClaimRef, devices: Sequence[Tree]) -> None:
        tree: Tree = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            # With the uid, so that a claim of the same name that came later is left alone.
            "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid},
            "status": {"devices": list(devices)},
        }
        waits = Backoff(self._random, first=0.5, longest=30.0)
        while True:
            try:
                await self._client.patch(
                    CLAIMS, ref.name, tree, ref.namespace, kind="apply", subresource="status", force=True
                )
                return
            except StatusError as error:
                if error.code in (404, 409):  # gone, or replaced
                    return
                reason = str(error)
                if error.code in (400, 403, 405, 415, 422):
                    log.warning("%s: the status of claim %s/%s: %s", self._driver, ref.namespace, ref.name, reason)
                    return
            except Unreachable as error:
                reason = str(error)
            if waits.failures >= _ATTEMPTS:
                log.warning("%s: gave up the status of claim %s/%s: %s", self._driver, ref.namespace, ref.name, reason)
                return
            await self._clock.sleep(waits.next())
