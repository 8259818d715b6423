"""Clusters behind one interface: these tests check :class:`~allotment.cluster.client.Client` on each."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from allotment.apiserver.http_messages import Peer, Request, Response
from allotment.apiserver.local_client import LocalClient
from allotment.cluster.client import Client, Resource, WatchEvent
from allotment.cluster.errors import StatusError
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.cluster.remote.version_negotiation import ApiClient
from allotment.cluster.resources import NAMESPACES
from allotment.lab.control_plane import ADMINISTRATOR, Plane, running
from allotment.lab.settings import Settings
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.model.trees import Tree
from tests.cluster.websocket_watch import Server

Query: TypeAlias = Sequence[tuple[str, str]]
_TIMEOUT_SECONDS = 240.0
_numbers = itertools.count()


class ScenarioInput(NamedTuple):
    """The input of a scenario: a client, and a namespace of its own."""

    client: ApiClient
    namespace: str
    #: A connection of another client, an administrator, too; ``manager``: the manager of its fields.
    other_client: Callable[[str], ApiClient]
    #: Makes the cluster forget its history of changes; objects stay.
    forget: Callable[[], Awaitable[None]]


Scenario: TypeAlias = Callable[[ScenarioInput], Awaitable[None]]


class Backend:
    """One kind of cluster. ``run`` runs a scenario on it."""

    def __init__(
        self, name: str, runner: asyncio.Runner,
        connected: Callable[[str], AbstractAsyncContextManager[ApiClient]],
        forget: Callable[[ApiClient], Awaitable[None]], server: Server | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        #: Its address for raw connections; None without sockets.
        self.server = server
        self._runner = runner
        self._connected = connected
        self._forget = forget

    def run(self, scenario: Scenario) -> None:
        """Run a scenario in a namespace of its own."""

        async def run_scenario() -> None:
            async with asyncio.timeout(_TIMEOUT_SECONDS), AsyncExitStack() as stack:
                client = await stack.enter_async_context(self._connected("suite"))
                others: dict[str, ApiClient] = {}
                for manager in ("other",):
                    others[manager] = await stack.enter_async_context(self._connected(manager))
                namespace = f"suite-{os.getpid()}-{next(_numbers)}"
                await client.create(NAMESPACES, {"metadata": {"name": namespace}})
                try:
                    await scenario(ScenarioInput(client, namespace, others.__getitem__, lambda: self._forget(client)))
                finally:
                    await client.delete(NAMESPACES, namespace)

        self._runner.run(run_scenario())


class LocalApi(LocalClient):
    """The client of programs in the lab's own process, which reads paths as requests without a socket."""

    def __init__(self, plane: Plane, manager: str) -> None:
        super().__init__(plane.api, ADMINISTRATOR, manager)
        self._plane = plane

    async def read(self, path: str, query: Query = (), accept: str = "application/json") -> Tree:
        """The tree at a path."""
        arguments = "&".join(f"{key}={value}" for key, value in query)
        peer = Peer(ADMINISTRATOR.name, tuple(ADMINISTRATOR.groups))
        answer = await self._plane.api(Request("GET", path, arguments, {"accept": accept}, peer=peer))
        assert isinstance(answer, Response)
        tree: Tree = json.loads(answer.body) if answer.body.startswith(b"{") else {}
        if answer.code >= 400:
            raise StatusError({"code": answer.code, **tree})
        return tree


@contextmanager
def labs() -> Iterator[dict[str, Backend]]:
    """A lab without machines, accessed in its own process and over HTTPS."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        settings = Settings(fleet=(), tls=True, features=Features(DEFAULT_RELEASE), runtime_config=("api/all=true",))
        plane = runner.run(stack.enter_async_context(running(settings)))

        @asynccontextmanager
        async def local(manager: str) -> Any:
            yield LocalApi(plane, manager)

        access = plane.access
        target = ClusterTarget(
            access.server, authority=access.authority, certificate=access.certificate, key=access.key
        )  # fmt: skip

        async def forget(client: Client) -> None:
            plane.store.compact(plane.store.revision)

        url = urlsplit(access.server)
        tls = ssl.create_default_context(cadata=access.authority.decode())
        server = Server(url.hostname or "", url.port or 0, tls)
        try:
            yield {
                "local": Backend("local", runner, local, forget),
                "lab": Backend("lab", runner, lambda manager: HttpClient(target, manager), forget, server),
            }
        finally:
            runner.run(stack.aclose())


@asynccontextmanager
async def watch_events(client: Client, resource: Resource, namespace: str = "", **more: Any) -> Any:
    """The events of a watch, in a list that grows."""
    seen: list[WatchEvent] = []

    async def follow() -> None:
        note = seen.append
        async for event in client.watch(resource, namespace, **more):
            note(event)

    task = asyncio.create_task(follow())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.wait([task])


async def wait_deleted(client: Client, resource: Resource, name: str, namespace: str) -> None:
    """Wait until an object is deleted."""
    while True:
        try:
            await client.get(resource, name, namespace)
        except StatusError as error:
            if error.code == 404:
                return
            raise
        await asyncio.sleep(0.02)
