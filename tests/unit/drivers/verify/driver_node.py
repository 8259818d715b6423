"""Drivers at real sockets, on a node of an API server in the test's process, and the verifier."""

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
from allotment.drivers.example.driver import ExampleGpus
from allotment.drivers.host import DriverHost, FileStorage
from allotment.drivers.preparation.node_driver import NodeDriver
from allotment.drivers.verify.cdi_folders import CdiFolders
from allotment.drivers.verify.check import CheckResult, DriverCheck
from allotment.drivers.verify.driver_session import DriverSession, Timeouts, wait_for_driver
from allotment.drivers.verify.suite import CHECKS, verify
from allotment.kubelet_plugin.encoding import HEALTH_VERSIONS, HealthVersion
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, KubeletPlugin, PrepareResult
from allotment.kubelet_plugin.server import serve_plugin
from allotment.kubelet_plugin.sockets import bind, socket_paths
from allotment.kubelet_plugin.wire import registration_pb2
from tests.unit.drivers.publishing_cluster import Cluster

NODE = "n1"
TIMEOUTS = Timeouts(call=30, start=30, publish=30, stable=0.3, interrupt_at=(0.4,))
#: For drivers with a defect, for which a check waits until the timeout.
SHORT_TIMEOUTS = TIMEOUTS._replace(publish=0.3)

#: Returns a modified plugin; called for each process of the driver.
Modify = Callable[[KubeletPlugin], KubeletPlugin]
#: Serves a plugin at an endpoint and a registration socket.
Serve = Callable[[KubeletPlugin, Path, Path], AbstractAsyncContextManager[None]]


def serve_correctly(plugin: KubeletPlugin, endpoint: Path, registration: Path) -> AbstractAsyncContextManager[None]:
    """Serve a plugin like drivers of the framework."""
    return serve_plugin(plugin, endpoint, registration, on_registered=lambda registered, error: None)


class ModifiedDriver:
    """A correct driver; subclasses add one defect."""

    def __init__(self, good: KubeletPlugin) -> None:
        self.good = good
        self.name = good.name

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        return await self.good.prepare(claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        return await self.good.unprepare(claims)

    def health(self) -> AsyncIterator[Sequence[DeviceHealth]] | None:
        return self.good.health()


class DriverNode:
    """A driver on a node. ``modify`` and ``serve`` add defects; ``before_start`` is called before each start."""

    def __init__(self, driver: Driver | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="al-"))  # socket paths must be short
        self.cluster = Cluster()
        self.driver: Driver = driver or ExampleGpus(NODE, 4)
        self.modify: Modify = lambda plugin: plugin
        self.serve: Serve = serve_correctly
        self.before_start: Callable[[int], Any] = lambda starts: None
        self.publishes = True
        self.timeouts = TIMEOUTS
        self.starts = 0
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

    # --- the DriverProcess interface --------------------------------------------------------------------------------

    async def start(self) -> None:
        self.starts += 1
        hook = self.before_start(self.starts)
        if hook is not None:
            await hook
        storage = FileStorage(self.folder / "checkpoint.json")
        host = DriverHost(NODE, "boot", storage, FolderStore(self.cdi))
        driver = NodeDriver(self.driver, host, self.cluster.client, Clock(), random=Random(1))
        await driver.recover()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._run(driver, self._stop))

    async def _run(self, driver: NodeDriver, stop: asyncio.Event) -> None:
        pools = await driver.discover_pools()
        if self.publishes:
            async with self.cluster.publisher() as publisher:
                publisher.set_pools(self.driver.name, NODE, pools)
                await publisher.wait_published(self.driver.name, NODE)
        async with self.serve(self.modify(driver), self.endpoint, self.registration):
            await stop.wait()
        await driver.wait_idle()

    def exit(self) -> None:
        """Exit without a request."""
        self._stop.set()

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await self._task

    async def kill(self) -> None:
        await self.stop()

    def check(self) -> None:
        """The process does not exit by itself."""


@asynccontextmanager
async def open_session(
    node: DriverNode, *, restartable: bool = True, class_name: str = ""
) -> AsyncIterator[DriverSession]:
    """Open a session. ``restartable``: whether the verifier can stop and restart the driver."""
    await node.cluster.node(NODE)
    try:
        await node.start()
        sockets = await wait_for_driver(node.registration, node, TIMEOUTS.start)
        session = DriverSession(
            node.registration, sockets, node.client, NODE, node.cluster.features, CdiFolders([node.cdi]),
            process=node if restartable else None, class_name=class_name, timeouts=node.timeouts,
        )  # fmt: skip
        try:
            yield session
        finally:
            await session.close()
    finally:
        await node.stop()
        shutil.rmtree(node.folder)


def check_named(name: str) -> DriverCheck:
    return next(check for check in CHECKS if check.name == name)


def run_checks(node: DriverNode, *names: str, restartable: bool = True) -> list[CheckResult]:
    """Run these checks, or all."""

    async def main() -> list[CheckResult]:
        async with open_session(node, restartable=restartable) as session:
            checks = [check_named(name) for name in names] or CHECKS
            return await verify(session, lambda check: None, lambda result: None, checks)

    return asyncio.run(main())


# --- registration with defects ----------------------------------------------------------------------------------------


def serve_with_info(
    type: str = "DRAPlugin", name: str = "", endpoint: str = "", versions: Sequence[str] = ("v1.DRAPlugin",),
    notified: bool = True, health_versions: Sequence[HealthVersion] = HEALTH_VERSIONS,
) -> Serve:  # fmt: skip
    """Serve a correct driver with these values in the registration."""

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
        async with serve_plugin(
            plugin, at, at.with_name("unused"), on_registered=lambda registered, error: None,
            health_versions=health_versions,
        ):  # fmt: skip

            def listen(path: Path) -> None:
                server.add_insecure_port(f"unix:{path}")

            bind(registration, listen)
            await server.start()
            try:
                yield
            finally:
                await server.stop(None)

    return serve
