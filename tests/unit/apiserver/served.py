"""An API on an in-memory store, called without sockets, with a manual clock and sequential uids."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from allotment.apiserver.access.authentication import Authenticator
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.access.reviews import AccessControl
from allotment.apiserver.api import Api
from allotment.apiserver.built_in_kinds import built_in_kinds
from allotment.apiserver.http_messages import AnyResponse, Peer, Request, Response, Streaming
from allotment.apiserver.kinds.kind import User
from allotment.apiserver.local_client import LocalClient, TimeSlice
from allotment.apiserver.storage.sqlite import SqliteStore
from allotment.apiserver.streams.kubelets import Kubelets
from allotment.model.features import GATES, Features
from allotment.model.trees import Tree

FEATURES = Features("1.36", {gate: True for gate, releases in GATES.items() if "1.36" in releases})
ADMIN = Peer("admin", ("system:masters",))
MAPS = "/api/v1/namespaces/shop/configmaps"
PODS = "/api/v1/namespaces/shop/pods"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims"
MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Ids:
    """Sequential uids and suffixes."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def uid(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._numbers):012}"

    def suffix(self) -> str:
        return f"{next(self._numbers):05}"


class Clock:
    """A clock that advances only with ``wait``."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def wait(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class DecodedResponse(NamedTuple):
    """A response with its decoded body."""

    code: int
    body: Any
    headers: tuple[tuple[str, str], ...]

    @property
    def message(self) -> str:
        return str(self.body["message"])

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "warning"]


class Served:
    """An API with the namespace ``shop`` and its default service account; by default it serves all versions."""

    def __init__(
        self, file: Path | None = None, features: Features = FEATURES,
        runtime_config: Sequence[str] = ("api/all=true",), kubelets: Kubelets | None = None,
    ) -> None:  # fmt: skip
        self.clock = Clock()
        self.store = SqliteStore.open(file)
        authorizer = Authorizer(self.store, features)
        authenticator = Authenticator(self.store, clock=self.clock, key=b"k" * 32, authorize=authorizer)
        self.api = Api(
            self.store, built_in_kinds(features, runtime_config), clock=self.clock, ids=Ids(), features=features,
            access=AccessControl(authenticator, authorizer), namespace_objects=_account, kubelets=kubelets,
        )  # fmt: skip

    async def started(self) -> Served:
        """Create the namespace and return self."""
        response = await self.post("/api/v1/namespaces", {"metadata": {"name": "shop"}})
        assert response.code == 201, response
        return self

    def client(self, manager: str = "test", time_slice: TimeSlice | None = None) -> LocalClient:
        return LocalClient(self.api, User("admin", ("system:masters",)), manager, time_slice)

    async def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None,
        peer: Peer | None = ADMIN,
    ) -> AnyResponse:  # fmt: skip
        where, _, query = path.partition("?")
        return await self.api(Request(method, where, query, headers or {}, body, peer))

    async def request(
        self, method: str, path: str, body: Any = None, media: str = "", **headers: str
    ) -> DecodedResponse:
        """Send a request and decode the response. ``body``: bytes are sent unchanged, other values as JSON."""
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self.send(method, path, sent, {"content-type": media, **named} if media else named)
        assert isinstance(answer, Response), answer
        decoded = json.loads(answer.body) if ("content-type", "application/json") in answer.headers else answer.body
        return DecodedResponse(answer.code, decoded, answer.headers)

    async def get(self, path: str, **headers: str) -> DecodedResponse:
        return await self.request("GET", path, **headers)

    async def post(self, path: str, body: Any, **headers: str) -> DecodedResponse:
        return await self.request("POST", path, body, "application/json", **headers)

    async def put(self, path: str, body: Any, **headers: str) -> DecodedResponse:
        return await self.request("PUT", path, body, "application/json", **headers)

    async def patch(self, path: str, body: Any, media: str = MERGE, **headers: str) -> DecodedResponse:
        return await self.request("PATCH", path, body, media, **headers)

    async def delete(self, path: str, body: Any = None) -> DecodedResponse:
        return await self.request("DELETE", path, body, "application/json" if body is not None else "")

    async def watch(self, path: str, **headers: str) -> Streaming:
        answer = await self.send("GET", path, headers=headers)
        assert isinstance(answer, Streaming), answer
        return answer


def _account(namespace: str) -> tuple[Tree, ...]:
    return ({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": namespace}},)


def config_map(name: str, labels: Mapping[str, str] | None = None, **data: str) -> Tree:
    """A ConfigMap to be created."""
    meta: Tree = {"name": name, "labels": dict(labels)} if labels else {"name": name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def pod(name: str, **spec: Any) -> Tree:
    """A pod to be created."""
    containers = [{"name": "main", "image": "busybox"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def events(stream: Streaming, wanted: int) -> list[Tree]:
    """The first ``wanted`` events of a watch, which is closed afterwards."""
    found: list[Tree] = []
    try:
        async for piece in stream.pieces:
            found += [json.loads(line) for line in piece.splitlines()]
            if len(found) >= wanted:
                break
    finally:
        await closed(stream)
    return found


async def closed(stream: Streaming) -> None:
    """Close a stream as the transport does when the client disconnects."""
    close = getattr(stream.pieces, "aclose", None)
    if close is not None:
        await close()
