"""A busy server answers 429 with a retry time: each request is retried later and executed once."""

from __future__ import annotations

import asyncio
import logging
from random import Random

import pytest

from allotment.apiserver.http_messages import AnyResponse, Request, Response
from allotment.cluster.cache import Cache
from allotment.cluster.clock import Clock
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.resources import CONFIG_MAPS
from allotment.cluster.work_queue import WorkQueue
from allotment.lab.http_server import Server
from allotment.model.trees import Tree
from tests.lab.harness import lab_harness

REQUESTS = 20
BUSY = Response(
    429, (("Retry-After", "1"), ("Content-Type", "text/plain")), b"Too many requests, please try again later."
)


def test_requests_rejected_by_a_busy_server_are_executed_later_and_once(caplog: pytest.LogCaptureFixture) -> None:
    busy, put_off = True, 0

    async def scenario() -> None:
        nonlocal busy
        async with lab_harness() as lab:

            async def serve(request: Request) -> AnyResponse:
                nonlocal put_off
                put_off += busy
                return BUSY if busy else await lab.plane.api(request)

            async def make(number: int) -> None:
                # A request with generateName that is sent twice would create two objects.
                metadata = {"generateName": "made-", "namespace": "default", "labels": {"number": str(number)}}
                await client.create(CONFIG_MAPS, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})

            front = Server(serve)
            port = await front.listen("127.0.0.1", 0)
            async with HttpClient(ClusterTarget(f"http://127.0.0.1:{port}")) as client, asyncio.TaskGroup() as tasks:
                following: Cache[Tree] = Cache(client, CONFIG_MAPS, clock=Clock(), random=Random(1), labels="number")
                queue: WorkQueue[int] = WorkQueue("made", make, clock=Clock(), random=Random(1))
                running = [tasks.create_task(following.run()), tasks.create_task(queue.run())]
                for number in range(REQUESTS):
                    queue.add(number)
                while put_off < 3 * REQUESTS:  # most of them were sent more than once
                    await asyncio.sleep(0.01)
                busy = False
                async with asyncio.timeout(120):
                    while len({item.labels["number"] for item in following.items()}) < REQUESTS:
                        await asyncio.sleep(0.01)
                assert len((await lab.client.list(CONFIG_MAPS, "default", labels="number")).items) == REQUESTS
                for task in running:
                    task.cancel()
            await front.stop(1)

    with caplog.at_level(logging.INFO, "allotment.cluster"):
        asyncio.run(scenario())
    # A request to retry later is not logged. Kinds that the lab does not serve are.
    assert [message for message in caplog.messages if "does not serve" not in message] == []
