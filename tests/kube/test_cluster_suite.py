"""Runs tests/cluster on Kubernetes' own API server and controllers."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from collections.abc import Iterator

import pytest

from allotment.cluster.client import Client
from allotment.cluster.resources import CONFIG_MAPS
from bench.real_kube import plane
from tests.cluster import suite
from tests.cluster.backends import Backend
from tests.cluster.websocket_watch import Server

#: Kinds without a watch cache in the server, so that compacting etcd removes their history.
_UNCACHED = "--watch-cache-sizes=configmaps#0,pods#0"


@pytest.fixture(scope="module")
def backend(paths: dict[str, str]) -> Iterator[Backend]:
    with plane(paths, _UNCACHED, scheduler=False) as server, asyncio.Runner() as runner:

        async def forget(client: Client) -> None:
            revision = (await client.list(CONFIG_MAPS)).revision
            body = json.dumps({"revision": revision, "physical": True}).encode()
            with urllib.request.urlopen(f"{server.etcd}/v3/kv/compaction", body, timeout=10) as answer:
                assert answer.status == 200

        tls = ssl.create_default_context(cafile=str(server.authority))
        yield Backend("kube", runner, server.client, forget, Server("127.0.0.1", server.server.port, tls))


globals().update(suite.tests())
