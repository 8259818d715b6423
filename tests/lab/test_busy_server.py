"""A server that has too much to do says so (429) and when to come back: what is asked then is done later, and once."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from allotment.apiserver.http_messages import Answer, Request, Response
from allotment.cluster.cache import Cache
from allotment.cluster.clock import Clock
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import CONFIG_MAPS
from allotment.cluster.work_queue import WorkQueue
from allotment.lab.http_server import Server
from allotment.model.trees import Tree
from tests.lab.stage import stage

MANY = 20
BUSY = Response(
    429, (("Retry-After", "1"), ("Content-Type", "text/plain")), b"Too many requests, please try again later."
)


def test_what_a_busy_server_puts_off_is_done_later_and_once(caplog: pytest.LogCaptureFixture) -> None:
    busy, put_off = True, 0

    async def story() -> None:
        nonlocal busy
        async with stage() as on:

            async def serve(request: Request) -> Answer:
                nonlocal put_off
                put_off += busy
                return BUSY if busy else await on.plane.api(request)

            async def make(number: int) -> None:
                # Who asks twice for a name that the server makes up gets two.
                metadata = {"generateName": "made-", "namespace": "default", "labels": {"number": str(number)}}
                await client.create(CONFIG_MAPS, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})

            front = Server(serve)
            port = await front.listen("127.0.0.1", 0)
            async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}")) as client, asyncio.TaskGroup() as tasks:
                following: Cache[Tree] = Cache(client, CONFIG_MAPS, clock=Clock(), random=Random(1), labels="number")
                queue: WorkQueue[int] = WorkQueue("made", make, clock=Clock(), random=Random(1))
                running = [tasks.create_task(following.run()), tasks.create_task(queue.run())]
                for number in range(MANY):
                    queue.add(number)
                while put_off < 3 * MANY:  # most of them have come more than once
                    await asyncio.sleep(0.01)
                busy = False
                async with asyncio.timeout(120):
                    while len({item.labels["number"] for item in following.items()}) < MANY:
                        await asyncio.sleep(0.01)
                assert len((await on.client.list(CONFIG_MAPS, "default", labels="number")).items) == MANY
                for task in running:
                    task.cancel()
            await front.stop(1)

    with caplog.at_level(logging.INFO, "allotment.cluster"):
        asyncio.run(story())
    assert caplog.messages == []  # being asked to wait is no news
