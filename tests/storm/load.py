"""Clients that write as fast as they get answers: pods with claims of both kinds, counters, deletions."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout

from allotment.model.trees import Tree
from tests.storm.ledger import Key, Ledger

NAMESPACE = "default"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_COUNTERS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_DRA = "/apis/resource.k8s.io/v1"
_CLAIMS = f"{_DRA}/namespaces/{NAMESPACE}/resourceclaims"
_TEMPLATES = f"{_DRA}/namespaces/{NAMESPACE}/resourceclaimtemplates"
PATHS = {"pods": _PODS, "configmaps": _COUNTERS, "resourceclaims": _CLAIMS}

#: The maximum number of existing pods of a worker; together they request more devices than there are.
_MAX_PODS = 6
_REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}


class Answer(NamedTuple):
    """An answer of the lab."""

    code: int
    text: str


class LabGone(Exception):
    """Raised when the lab does not answer any more."""


async def create_objects(url: str) -> None:
    """Create the objects that the load needs, once."""
    async with _client(url) as client:
        template = {"metadata": {"name": "gpu"}, "spec": {"spec": _REQUEST}}
        answer = await _request(client, "POST", _TEMPLATES, json=template)
        assert answer.code in (201, 409), answer.text


class Worker:
    """A client with objects of its own, which outlive the connection."""

    def __init__(self, number: int, ledger: Ledger, random: Random) -> None:
        self._name = f"w{number}"
        self._ledger = ledger
        self._random = random
        self._numbers = itertools.count()
        self._alive: list[str] = []
        self._count = 0

    async def run(self, url: str) -> None:
        """Write until the lab is gone."""
        async with _client(url) as client:
            try:
                while True:
                    await self._step(client)
            except LabGone:
                self._ledger.unanswered += 1

    def resume(self, found: Mapping[Key, tuple[str, int]]) -> None:
        """After a restart, adopt those of its objects that exist, where that was uncertain."""
        self._alive = [name for name in self._alive if ("pods", name) in found]
        self._count = found.get(("configmaps", self._name), ("", 0))[1]

    async def _step(self, client: ClientSession) -> None:
        await self._counted(client)
        if len(self._alive) >= _MAX_PODS or (self._alive and self._random.random() < 0.35):
            await self._deleted(client, self._random.choice(self._alive))
        else:
            await self._created(client)

    async def _created(self, client: ClientSession) -> None:
        name = f"{self._name}-{next(self._numbers)}"
        source: Tree = {"resourceClaimTemplateName": "gpu"}
        if self._random.random() < 0.4:
            await self._create(client, "resourceclaims", {"metadata": {"name": name}, "spec": _REQUEST})
            source = {"resourceClaimName": name}
        container = {"name": "main", "image": "busybox", "command": ["sleep", "infinity"]}
        pod = {
            "metadata": {"name": name},
            "spec": {
                "containers": [{**container, "resources": {"claims": [{"name": "gpu"}]}}],
                "resourceClaims": [{"name": "gpu", **source}],
            },
        }
        self._alive.append(name)
        await self._create(client, "pods", pod)

    async def _deleted(self, client: ClientSession, name: str) -> None:
        await self._delete(client, ("pods", name), {"gracePeriodSeconds": 0})
        self._alive.remove(name)
        claim = ("resourceclaims", name)
        if claim in self._ledger.known and self._random.random() < 0.7:
            await self._delete(client, claim, {})

    async def _counted(self, client: ClientSession) -> None:
        key, value = ("configmaps", self._name), self._count + 1
        if key not in self._ledger.known:
            await self._create(client, "configmaps", {"metadata": {"name": self._name}, "data": {"count": "0"}})
        self._ledger.counting(key, value)
        headers = {"content-type": "application/merge-patch+json"}
        patch = {"data": {"count": str(value)}}
        answer = await _request(client, "PATCH", f"{_COUNTERS}/{self._name}", json=patch, headers=headers)
        assert answer.code == 200, answer.text
        self._ledger.counted(key, value)
        self._count = value

    async def _create(self, client: ClientSession, bucket: str, tree: Tree) -> None:
        key = (bucket, tree["metadata"]["name"])
        self._ledger.creating(key)
        answer = await _request(client, "POST", PATHS[bucket], json=tree)
        if answer.code == 201:
            self._ledger.created(key, json.loads(answer.text)["metadata"]["uid"])
        else:
            self._ledger.rejected(key)
            raise AssertionError(f"{bucket} {key[1]}: {answer.text}")

    async def _delete(self, client: ClientSession, key: Key, options: Tree) -> None:
        self._ledger.deleting(key)
        answer = await _request(client, "DELETE", f"{PATHS[key[0]]}/{key[1]}", json=options)
        if answer.code not in (200, 404):
            raise AssertionError(f"{key}: {answer.text}")
        self._ledger.deleted(key)


def _client(url: str) -> ClientSession:
    return ClientSession(url, timeout=ClientTimeout(total=30))


async def _request(client: ClientSession, method: str, path: str, **content: Any) -> Answer:
    try:
        async with client.request(method, path, **content) as response:
            answer = Answer(response.status, await response.text())
    except (ClientError, TimeoutError) as error:
        raise LabGone from error
    await asyncio.sleep(0)
    return answer
