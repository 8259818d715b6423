"""A driver as a program of its own, for a kubelet: sockets, slices, health, until it is stopped.

The order of starting counts. What the last process left is put right first; the kubelet may call as soon as it sees the
registration socket, whether there are devices or not, because it may owe the driver an unprepare.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Final

from allotment.drivers.preparing import NodeDriver
from allotment.drivers.publishing import Publisher
from allotment.plugin.server import served, socket_paths

log = logging.getLogger(__name__)

PLUGINS: Final = Path("/var/lib/kubelet/plugins")
REGISTRY: Final = Path("/var/lib/kubelet/plugins_registry")


async def serve(
    node_driver: NodeDriver, publisher: Publisher, *, plugins_dir: Path = PLUGINS, registry_dir: Path = REGISTRY,
    pod_uid: str = "", stop: asyncio.Event | None = None,
) -> None:  # fmt: skip
    """Serve a kubelet until ``stop`` is set or the task is cancelled. Slices stay, for the next process to find.

    ``pod_uid``: of the driver's own pod, where a new one may start before the old one has ended.
    """
    endpoint, registration = socket_paths(
        node_driver.name, plugins_dir=plugins_dir, registry_dir=registry_dir, pod_uid=pod_uid
    )
    stop = stop or asyncio.Event()

    def registered(well: bool, error: str) -> None:
        if not well:
            log.error("%s: the kubelet refused the driver: %s", node_driver.name, error)
            return
        log.info("%s: registered", node_driver.name)
        # A kubelet that starts removes all slices of its node.
        node_driver.publish(publisher)

    await node_driver.recover()
    async with asyncio.TaskGroup() as group:
        work = [group.create_task(publisher.run()), group.create_task(node_driver.run(publisher))]
        try:
            async with served(node_driver, endpoint, registration, on_registered=registered):
                await stop.wait()
        finally:
            for task in work:
                task.cancel()
            await node_driver.settled()
