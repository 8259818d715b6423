"""Clients that write as fast as they get answers: pods with claims of both kinds, counters, objects that a finalizer
keeps, deletions."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

from aiohttp import ClientError, ClientSession, ClientTimeout

from allotment.model.trees import Tree
from tests.storm.ledger import Key, Ledger
from tests.storm.mirror import MARKER

NAMESPACE = "default"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_COUNTERS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
_DRA = "/apis/resource.k8s.io/v1"
_CLAIMS = f"{_DRA}/namespaces/{NAMESPACE}/resourceclaims"
_TEMPLATES = f"{_DRA}/namespaces/{NAMESPACE}/resourceclaimtemplates"
PATHS = {"pods": _PODS, "configmaps": _COUNTERS, "resourceclaims": _CLAIMS, "held": _COUNTERS}
#: The beginning of the names of objects that a finalizer keeps.
HELD = "held-"
_FINALIZER = "storm.example/hold"

#: The maximum number of existing pods of a worker; together they request more devices than there are.
_MAX_PODS = 6
_REQUEST = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}}


class Answer(NamedTuple):
    """An answer of the lab."""

    code: int
    text: str


class WrongAnswer(AssertionError):
    """Raised when the lab gives an answer that it must not give."""


class LabGone(Exception):
    """Raised when the lab does not answer any more."""


async def create_objects(url: str) -> None:
    """Create the objects that the load needs, once."""
    container = {"name": "main", "image": "busybox"}
    first: Mapping[str, Tree] = {
        _TEMPLATES: {"metadata": {"name": "gpu"}, "spec": {"spec": _REQUEST}},
        _PODS: {
            "metadata": {"name": MARKER},
            "spec": {"containers": [container], "schedulingGates": [{"name": "storm.example/marker"}]},
        },
        _CLAIMS: {"metadata": {"name": MARKER}, "spec": _REQUEST},
        _COUNTERS: {"metadata": {"name": MARKER}},
    }
    async with _client(url) as client:
        for path, tree in first.items():
            answer = await _request(client, "POST", path, json=tree)
            assert answer.code in (201, 409), answer.text


class Worker:
    """A client with objects of its own, which outlive the connection."""

    def __init__(self, number: int, ledger: Ledger, random: Random, on_answer: Callable[[], None]) -> None:
        self._name = f"w{number}"
        self._ledger = ledger
        self._random = random
        self._numbers = itertools.count()
        self._alive: list[str] = []
        self._held: list[str] = []
        self._count = 0
        self._on_answer = on_answer

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
        self._held = [name for name in self._held if ("held", name) in found]
        self._count = found.get(("configmaps", self._name), ("", 0))[1]

    async def _step(self, client: ClientSession) -> None:
        await self._counted(client)
        if self._random.random() < 0.2:
            await self._held_and_released(client)
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
        claim, choice = ("resourceclaims", name), self._random.random()
        has_claim = claim in self._ledger.known
        if has_claim and choice < 0.3:  # it stays until the pod is gone
            await self._delete(client, claim, {})
        await self._delete(client, ("pods", name), {"gracePeriodSeconds": 0})
        self._alive.remove(name)
        if has_claim and 0.3 <= choice < 0.8:
            await self._delete(client, claim, {})

    async def _held_and_released(self, client: ClientSession) -> None:
        """Create an object with a finalizer and delete it; or remove the finalizer of such an object."""
        if self._held and self._random.random() < 0.6:
            name = self._held[0]
            key = ("held", name)
            self._ledger.deleting(key)
            headers = {"content-type": "application/merge-patch+json"}
            patch = {"metadata": {"finalizers": None}}
            answer = await self._answered(client, "PATCH", f"{_COUNTERS}/{name}", json=patch, headers=headers)
            if answer.code != 200:
                raise WrongAnswer(f"{name}, deleted with a finalizer: acknowledged, and lost: {answer.text}")
            # The deletion may not have been answered.
            await self._answered(client, "DELETE", f"{_COUNTERS}/{name}")
            self._ledger.deleted(key)
            self._held.remove(name)
            return
        name = f"{HELD}{self._name}-{next(self._numbers)}"
        self._held.append(name)
        await self._create(client, "held", {"metadata": {"name": name, "finalizers": [_FINALIZER]}})
        answer = await self._answered(client, "DELETE", f"{_COUNTERS}/{name}")
        if answer.code != 200:
            raise WrongAnswer(answer.text)
        self._ledger.held()

    async def _counted(self, client: ClientSession) -> None:
        key, value = ("configmaps", self._name), self._count + 1
        if key not in self._ledger.known:
            await self._create(client, "configmaps", {"metadata": {"name": self._name}, "data": {"count": "0"}})
        self._ledger.counting(key, value)
        headers = {"content-type": "application/merge-patch+json"}
        patch = {"data": {"count": str(value)}}
        answer = await self._answered(client, "PATCH", f"{_COUNTERS}/{self._name}", json=patch, headers=headers)
        if answer.code != 200:
            raise WrongAnswer(f"{self._name}: {answer.text}")
        self._ledger.counted(key, value)
        self._count = value

    async def _create(self, client: ClientSession, bucket: str, tree: Tree) -> None:
        key = (bucket, tree["metadata"]["name"])
        self._ledger.creating(key)
        answer = await self._answered(client, "POST", PATHS[bucket], json=tree)
        if answer.code == 201:
            self._ledger.created(key, json.loads(answer.text)["metadata"]["uid"])
        else:
            self._ledger.rejected(key)
            raise WrongAnswer(f"{bucket} {key[1]}: {answer.text}")

    async def _delete(self, client: ClientSession, key: Key, options: Tree) -> None:
        self._ledger.deleting(key)
        answer = await self._answered(client, "DELETE", f"{PATHS[key[0]]}/{key[1]}", json=options)
        if answer.code not in (200, 404):
            raise WrongAnswer(f"{key}: {answer.text}")
        self._ledger.deleted(key)

    async def _answered(self, client: ClientSession, method: str, path: str, **content: Any) -> Answer:
        """The answer; at this moment the lab may be killed."""
        answer = await _request(client, method, path, **content)
        if answer.code < 300:
            self._ledger.answered(json.loads(answer.text)["metadata"].get("resourceVersion"))
            self._on_answer()
        return answer


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
