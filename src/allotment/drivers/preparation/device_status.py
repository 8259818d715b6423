"""The status of prepared devices in their claim, written in the background.

It is written with server-side apply and the driver's name as field manager, so that drivers of the same claim do not
conflict. The API server removes it with the allocation. If the driver has no permission or the cluster is not
reachable, only the status is missing. For a claim that is unprepared, pending writes are canceled.
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
#: The API server's limit for the ``data`` of a device.
MAX_DATA_BYTES = 10 * 1024


def device_status(driver: str, device: CheckpointDevice, since: str) -> Tree:
    """Return the status of a prepared device, without the driver's data if it exceeds the limit."""
    tree: Tree = {"driver": driver, "pool": device.pool, "device": device.device}
    if device.share_id:
        tree["shareID"] = device.share_id
    tree["conditions"] = [
        {
            "type": "Ready", "status": "True", "reason": "Prepared", "message": "prepared for containers",
            "lastTransitionTime": since,
        }
    ]  # fmt: skip
    if device.data is not None and len(msgspec.json.encode(device.data)) <= MAX_DATA_BYTES:
        tree["data"] = device.data
    return tree


class StatusWriter:
    """Writes statuses in the background. The field manager of ``client`` must be the driver's name."""

    def __init__(self, driver: str, client: Client, clock: Clock, random: Random) -> None:
        self._driver = driver
        self._client = client
        self._clock = clock
        self._random = random
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def enqueue(self, uid: str, entry: CheckpointEntry) -> None:
        """Write the status of a claim's devices in the background."""
        if all(device.data is None for device in entry.parts):
            return  # no API request for drivers without data
        # A device of several requests has one status.
        unique = {(device.pool, device.device, device.share_id): device for device in entry.parts}.values()
        statuses = [device_status(self._driver, device, entry.since) for device in unique]
        self.cancel(uid)
        ref = ClaimRef(entry.namespace, uid, entry.name)
        task = self._tasks[uid] = asyncio.create_task(self._write(ref, statuses), name=f"status {ref.name}")
        task.add_done_callback(lambda done: self._tasks.pop(uid, None) if self._tasks.get(uid) is done else None)

    def cancel(self, uid: str) -> None:
        """Cancel the pending write of a claim."""
        task = self._tasks.pop(uid, None)
        if task is not None:
            task.cancel()

    async def wait_idle(self) -> None:
        """Wait until all statuses are written or given up."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks.values()))

    async def _write(self, ref: ClaimRef, statuses: Sequence[Tree]) -> None:
        tree: Tree = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            # The UID keeps a newer claim of the same name from being changed.
            "metadata": {"name": ref.name, "namespace": ref.namespace, "uid": ref.uid},
            "status": {"devices": list(statuses)},
        }
        backoff = Backoff(self._random, first=0.5, longest=30.0)
        while True:
            try:
                await self._client.patch(
                    CLAIMS, ref.name, tree, ref.namespace, kind="apply", subresource="status", force=True
                )
                return
            except StatusError as error:
                if error.code in (404, 409):  # deleted or replaced
                    return
                reason = str(error)
                if error.code in (400, 403, 405, 415, 422):
                    log.warning(
                        "%s: cannot write the status of claim %s/%s: %s", self._driver, ref.namespace, ref.name, reason
                    )
                    return
            except Unreachable as error:
                reason = str(error)
            if backoff.failures >= _ATTEMPTS:
                log.warning(
                    "%s: gave up writing the status of claim %s/%s: %s", self._driver, ref.namespace, ref.name, reason
                )
                return
            await self._clock.sleep(backoff.next())
