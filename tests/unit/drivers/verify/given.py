"""Drivers behind real sockets, on a node of an API in this process, and the kit on them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import grpc

from allotment.cdi.store import FolderStore
from allotment.cluster.clock import Clock
from allotment.drivers.driver import Driver
from allotment.drivers.example import ExampleGpus
from allotment.drivers.host import DriverHost, FileStorage
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.verify.cdi_folders import CdiFolders
from allotment.drivers.verify.check import CheckResult, DriverCheck
from allotment.drivers.verify.driver_session import DriverSession, Timeouts, wait_for_driver
from allotment.drivers.verify.runner import verify
from allotment.drivers.verify.suite import CHECKS
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, KubeletPlugin, PrepareResult
from allotment.kubelet_plugin.server import serve_plugin
from allotment.kubelet_plugin.sockets import bind, socket_paths
from allotment.kubelet_plugin.wire import registration_pb2
from tests.unit.drivers.publication import Cluster

NODE = "n1"
PATIENCE = Timeouts(call=30, start=30, publish=30, stable=0.3, interrupt_at=(0.4,))
#: With a driver that does not do what is waited for.
IN_VAIN = PATIENCE._replace(publish=0.3)

#: Makes another plugin of a good one; called again for each life of the driver.
Bend = Callable[[KubeletPlugin], KubeletPlugin]
#: Serves a plugin at an endpoint and a registration socket.
Serve = Callable[[KubeletPlugin, Path, Path], AbstractAsyncContextManager[None]]


def well(plugin: KubeletPlugin, endpoint: Path, registration: Path) -> AbstractAsyncContextManager[None]:
    """As drivers of the framework are served."""
    return serve_plugin(plugin, endpoint, registration, on_registered=lambda well, error: None)


class Bent:
    """A good driver; who inherits spoils one thing."""

    def __init__(self, good: KubeletPlugin) -> None:
        self.good = good
        self.name = good.name

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        return await self.good.prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        return await self.good.unprepare(claims)

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        return self.good.health()


class World:
    """One driver on one node. ``bend`` and ``serve`` spoil it; ``before_start`` is told of every start."""

    def __init__(self, driver: Driver | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="al-"))  # a socket's path must be short
        self.cluster = Cluster()
        self.driver: Driver = driver or ExampleGpus(NODE, 4)
        self.bend: Bend = lambda plugin: plugin
        self.serve: Serve = well
        self.before_start: Callable[[int], Any] = lambda life: None
        self.publishes = True
        self.patience = PATIENCE
        self.lives = 0
        self.client: Any = self.cluster.client
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def cdi(self) -> Path:
        return self.folder / "cdi"

    @property
    def registration(self) -> Path:
        return socket_paths(
            self.driver.name, plugins_dir=self.folder / "plugins", registry_dir=self.folder / "plugins_registry"
        ).registration

    @property
    def endpoint(self) -> Path:
        return self.folder / "plugins" / self.driver.name / "dra.sock"

    # --- its life, as the kit has it in its hands -------------------------------------------------------------------

    async def start(self) -> None:
        self.lives += 1
        told = self.before_start(self.lives)
        if told is not None:
            await told
        storage = FileStorage(self.folder / "checkpoint.json")
        host = DriverHost(NODE, "boot", storage, FolderStore(self.cdi))
        good = NodeDriver(self.driver, host, self.cluster.client, Clock(), random=Random(1))
        await good.recover()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._live(good, self._stop))

    async def _live(self, good: NodeDriver, stop: asyncio.Event) -> None:
        offers = await good.discover_pools()
        if self.publishes:
            async with self.cluster.publisher() as publisher:
                publisher.set_pools(self.driver.name, NODE, offers)
                await publisher.wait_published(self.driver.name, NODE)
        async with self.serve(self.bend(good), self.endpoint, self.registration):
            await stop.wait()
        await good.wait_idle()

    def end(self) -> None:
        """End by itself."""
        self._stop.set()

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def kill(self) -> None:
        await self.stop()

    def check(self) -> None:
        """It does not end by itself."""


@asynccontextmanager
async def trial(world: World, *, lives: bool = True, class_name: str = "") -> AsyncIterator[DriverSession]:
    """The kit on a driver. ``lives``: it may end and start it."""
    await world.cluster.node(NODE)
    try:
        await world.start()
        found = await wait_for_driver(world.registration, world, PATIENCE.start)
        made = DriverSession(
            world.registration, found, world.client, NODE, world.cluster.features, CdiFolders([world.cdi]),
            process=world if lives else None, class_name=class_name, timeouts=world.patience,
        )  # fmt: skip
        try:
            yield made
        finally:
            await made.close()
    finally:
        await world.stop()
        shutil.rmtree(world.folder)


def check(name: str) -> DriverCheck:
    (found,) = [one for one in CHECKS if one.name == name]
    return found


def verified(world: World, *names: str, lives: bool = True) -> list[CheckResult]:
    """Make these checks, or all."""

    async def main() -> list[CheckResult]:
        async with trial(world, lives=lives) as made:
            checks = [check(name) for name in names] or CHECKS
            return await verify(made, lambda check: None, lambda row: None, checks)

    return asyncio.run(main())


# --- registration, as other drivers may do it -------------------------------------------------------------------------


def introduced(
    type: str = "DRAPlugin", name: str = "", endpoint: str = "", versions: Sequence[str] = ("v1.DRAPlugin",),
    notified: bool = True,
) -> Serve:  # fmt: skip
    """A good driver behind a registration socket that says this of it."""

    @asynccontextmanager
    async def serve(plugin: KubeletPlugin, at: Path, registration: Path) -> AsyncIterator[None]:
        info = registration_pb2.PluginInfo(
            type=type, name=name or plugin.name, endpoint=endpoint or str(at), supported_versions=versions
        )

        async def get_info(request: Any, context: Any) -> Any:
            return info

        async def notify(request: Any, context: Any) -> Any:
            return registration_pb2.RegistrationStatusResponse()

        handlers = {
            "GetInfo": grpc.unary_unary_rpc_method_handler(
                get_info, registration_pb2.InfoRequest.FromString, registration_pb2.PluginInfo.SerializeToString
            )
        }
        if notified:
            handlers["NotifyRegistrationStatus"] = grpc.unary_unary_rpc_method_handler(
                notify,
                registration_pb2.RegistrationStatus.FromString,
                registration_pb2.RegistrationStatusResponse.SerializeToString,
            )
        server = grpc.aio.server()
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("pluginregistration.Registration", handlers),)
        )
        async with serve_plugin(plugin, at, at.with_name("unused"), on_registered=lambda well, error: None):

            def listen(path: Path) -> None:
                server.add_insecure_port(f"unix:{path}")

            bind(registration, listen)
            await server.start()
            try:
                yield
            finally:
                await server.stop(None)

    return serve
