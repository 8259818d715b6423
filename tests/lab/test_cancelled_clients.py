"""A client that is cancelled during requests leaves no socket open: an open one is an error in every test."""

from __future__ import annotations

import asyncio
import gc
from pathlib import Path
from typing import Any

from allotment import Lab
from allotment.cluster.client import Resource
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget, target
from allotment.cluster.resources import CLAIMS, NODES, PODS, SLICES
from tests.polling import until

WITHOUT = ("scheduler", "controllers", "drivers", "kubelets")


async def _cancel_requests(where: ClusterTarget) -> None:
    async with HttpClient(where) as client:

        async def follow(resource: Resource) -> None:
            listing = await client.list(resource)
            async for _ in client.watch(resource, revision=listing.revision):
                pass

        watches = [asyncio.create_task(follow(resource)) for resource in (PODS, CLAIMS, NODES, SLICES)]
        await asyncio.sleep(0.05)
        reads = [asyncio.create_task(client.list(PODS)) for _ in range(5)]
        await asyncio.sleep(0.002)
        for task in (*watches, *reads):
            task.cancel()
        await asyncio.gather(*watches, *reads, return_exceptions=True)
    # Each ends by itself; on a loaded machine that takes longer than a client waits for it.
    loop: Any = asyncio.get_running_loop()
    await until(lambda: all(transport._sock is None for transport in tuple(loop._transports.values())))


def test_cancelled_watches_and_requests_are_closed() -> None:
    with Lab(tls=True, without=WITHOUT) as lab:
        where = target([Path(lab.kubeconfig)])
        for _ in range(5):
            asyncio.run(_cancel_requests(where))
            gc.collect()
