"""Discovery of drivers in a kubelet's folder, and the choice of an instance."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from allotment import grpc_codec
from allotment.cluster.clock import Clock
from allotment.kubelet_plugin.messages import KubeletPlugin, PrepareResult
from allotment.kubelet_plugin.plugin_watcher import PluginRegistry
from allotment.kubelet_plugin.server import serve_plugin
from allotment.kubelet_plugin.wire import registration_pb2
from tests.polling import until
from tests.unit.kubelet_plugin.fake_driver import (
    CLAIM,
    DRIVER,
    FakeDriver,
    ignore_registration,
    kubelet_folder,
    paths,
    prepared_device,
)
from tests.unit.kubelet_plugin.test_client import driver_process

OLD, NEW = "0aaa6a34-5f4c-4d64-9d0e-6f5d9a3c1b2e", "1bbb6a34-5f4c-4d64-9d0e-6f5d9a3c1b2e"
FAST = Clock(speed=50)

Statuses = list[tuple[bool, str]]


@pytest.fixture
def folder() -> Iterator[Path]:
    with kubelet_folder() as folder:
        yield folder


@asynccontextmanager
async def kubelet(folder: Path, clock: Clock = FAST) -> AsyncIterator[tuple[PluginRegistry, list[tuple[str, bool]]]]:
    changes: list[tuple[str, bool]] = []

    def note(driver: str, plugin: KubeletPlugin | None) -> None:
        assert plugin is registry.connected(driver)
        changes.append((driver, plugin is not None))

    registry = PluginRegistry(folder / "plugins_registry", clock, on_change=note)
    running = asyncio.create_task(registry.run())
    try:
        yield registry, changes
    finally:
        running.cancel()
        await asyncio.wait((running,))
        assert running.cancelled()
        assert registry.drivers() == ()


async def prepared_name(registry: PluginRegistry, driver: str = DRIVER) -> str:
    plugin = registry.find(driver)
    assert plugin
    [answer] = (await plugin.prepare([CLAIM])).values()
    return answer.devices[0].device


@asynccontextmanager
async def registration_socket(folder: Path, info: dict[str, Any]) -> AsyncIterator[Statuses]:
    """Serve a registration socket with these answers; yield the notifications."""
    statuses: Statuses = []

    async def get_info(request: Any, context: Any) -> registration_pb2.PluginInfo:
        return registration_pb2.PluginInfo(**info)

    async def notify(status: registration_pb2.RegistrationStatus, context: Any) -> Any:
        statuses.append((status.plugin_registered, status.error))
        return registration_pb2.RegistrationStatusResponse()

    server = grpc.aio.server()
    methods = {
        "GetInfo": grpc.unary_unary_rpc_method_handler(
            get_info, registration_pb2.InfoRequest.FromString, grpc_codec.encode
        ),
        "NotifyRegistrationStatus": grpc.unary_unary_rpc_method_handler(
            notify, registration_pb2.RegistrationStatus.FromString, grpc_codec.encode
        ),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("pluginregistration.Registration", methods),))
    (folder / "plugins_registry").mkdir(exist_ok=True)
    server.add_insecure_port(f"unix:{folder}/plugins_registry/odd.sock")
    await server.start()
    try:
        yield statuses
    finally:
        await server.stop(None)


def test_a_driver_is_found_called_and_removed(folder: Path) -> None:
    async def scenario() -> None:
        async with kubelet(folder) as (registry, changes):
            assert registry.find(DRIVER) is None
            driver, statuses = FakeDriver(), Statuses()
            async with serve_plugin(driver, *paths(folder), on_registered=lambda *status: statuses.append(status)):
                await until(lambda: registry.connected(DRIVER))
                await until(lambda: statuses)
                plugin = registry.find(DRIVER)
                assert plugin
                assert plugin.name == DRIVER
                assert await plugin.prepare([CLAIM]) == {CLAIM.uid: PrepareResult((prepared_device(),))}
                assert registry.drivers() == (DRIVER,)
            await until(lambda: registry.find(DRIVER) is None)
            assert statuses == [(True, "")]
            assert changes == [(DRIVER, True), (DRIVER, False)]

    asyncio.run(scenario())


def test_two_drivers_of_which_one_started_before_the_kubelet(folder: Path) -> None:
    async def scenario() -> None:
        second = "nic.example.com"
        async with (
            serve_plugin(FakeDriver(device_name="gpu"), *paths(folder), on_registered=ignore_registration),
            kubelet(folder) as (registry, _),
        ):
            async with serve_plugin(
                FakeDriver(second, "nic"), *paths(folder, second), on_registered=ignore_registration
            ):
                await until(lambda: registry.connected(DRIVER) and registry.connected(second))
                gpu, nic = await asyncio.gather(prepared_name(registry), prepared_name(registry, second))
                assert (gpu, nic) == ("gpu", "nic")
            await until(lambda: list(registry.drivers()) == [DRIVER])
            assert await prepared_name(registry) == "gpu"

    asyncio.run(scenario())


def test_the_latest_instance_is_used_and_then_the_previous_one(folder: Path) -> None:
    async def scenario() -> None:
        async with kubelet(folder) as (registry, changes):
            async with serve_plugin(
                FakeDriver(device_name="old"), *paths(folder, pod_uid=OLD), on_registered=ignore_registration
            ):
                await until(lambda: registry.connected(DRIVER))
                old = registry.find(DRIVER)
                async with serve_plugin(
                    FakeDriver(device_name="new"), *paths(folder, pod_uid=NEW), on_registered=ignore_registration
                ):
                    await until(lambda: registry.find(DRIVER) is not old)
                    assert await prepared_name(registry) == "new"
                await until(lambda: registry.find(DRIVER) is old)
                assert await prepared_name(registry) == "old"
            await until(lambda: registry.find(DRIVER) is None)
            assert changes == [(DRIVER, True)] * 3 + [(DRIVER, False)]

    asyncio.run(scenario())


def test_a_killed_instance_is_replaced_by_a_connected_one_until_it_is_restarted(folder: Path) -> None:
    async def scenario() -> None:
        async with (
            kubelet(folder) as (registry, changes),
            serve_plugin(FakeDriver(device_name="old"), *paths(folder, pod_uid=OLD), on_registered=ignore_registration),
        ):
            await until(lambda: registry.connected(DRIVER))
            old = registry.find(DRIVER)
            async with driver_process(folder, "new", NEW, registered=True) as kill:
                await until(lambda: registry.find(DRIVER) is not old)
                assert await prepared_name(registry) == "new"
                await kill()
                await until(lambda: registry.find(DRIVER) is old)
                # The socket still exists and is still registered, but no process listens.
                assert paths(folder, pod_uid=NEW).registration.exists()
            async with driver_process(folder, "newer", NEW, registered=True):
                await until(lambda: registry.find(DRIVER) is not old)
                assert await prepared_name(registry) == "newer"
            assert (DRIVER, False) not in changes

    asyncio.run(scenario())


def test_without_connected_instances_calls_go_to_the_last_one_and_fail(folder: Path) -> None:
    async def scenario() -> None:
        async with kubelet(folder) as (registry, changes):
            async with driver_process(folder, registered=True) as kill:
                await until(lambda: registry.connected(DRIVER))
                # After this answer, the previous notification has been processed, too.
                assert await prepared_name(registry) == "gpu-0"
                await kill()
                await until(lambda: registry.connected(DRIVER) is None)
                plugin = registry.find(DRIVER)
                assert plugin
                with pytest.raises(Exception, match="code = Unavailable"):
                    await plugin.prepare([CLAIM])
            assert changes == [(DRIVER, True), (DRIVER, False)]

    asyncio.run(scenario())


def test_a_registered_endpoint_cannot_be_registered_again(folder: Path) -> None:
    async def scenario() -> None:
        async with (
            kubelet(folder) as (registry, _),
            serve_plugin(FakeDriver(), *paths(folder), on_registered=ignore_registration),
        ):
            await until(lambda: registry.connected(DRIVER))
            endpoint = str(paths(folder).endpoint)
            claim = {"type": "DRAPlugin", "name": DRIVER, "endpoint": endpoint, "supported_versions": ["v1.DRAPlugin"]}
            async with registration_socket(folder, claim) as statuses:
                await until(lambda: statuses)
                assert statuses[0] == (
                    False,
                    (
                        "RegisterPlugin error -- plugin registration failed with err: "
                        f"endpoint {endpoint} already registered for DRA driver plugin {DRIVER}"
                    ),
                )
            assert await prepared_name(registry) == "gpu-0"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (
            {"type": "DRAPlugin", "name": DRIVER, "endpoint": "/d.sock", "supported_versions": ["1.0.0"]},
            (
                "RegisterPlugin error -- plugin validation failed with err: invalid supported gRPC versions of "
                f"DRA driver plugin {DRIVER} at endpoint /d.sock: "
                'none of services supported by the plugin (["1.0.0"]) are supported by the kubelet '
                '(["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
            ),
        ),
        (
            {"type": "CSIPlugin", "name": "csi.example.com", "endpoint": "/c.sock"},
            "RegisterPlugin error -- no handler registered for plugin type: CSIPlugin at socket {socket}",
        ),
    ],
)
def test_a_rejected_plugin_gets_the_error_and_is_retried(folder: Path, info: dict[str, Any], text: str) -> None:
    async def scenario() -> None:
        async with kubelet(folder) as (registry, changes), registration_socket(folder, info) as statuses:
            await until(lambda: len(statuses) >= 2)
            assert statuses[0] == (False, text.replace("{socket}", str(folder / "plugins_registry" / "odd.sock")))
            assert registry.drivers() == ()
            assert changes == []

    asyncio.run(scenario())


def test_a_plugin_without_endpoint_is_called_at_its_registration_socket(folder: Path) -> None:
    async def scenario() -> None:
        info = {"type": "DRAPlugin", "name": DRIVER, "supported_versions": ["v1.DRAPlugin"]}
        async with kubelet(folder) as (registry, _), registration_socket(folder, info) as statuses:
            await until(lambda: registry.connected(DRIVER) and statuses)
            assert statuses == [(True, "")]
            plugin = registry.find(DRIVER)
            assert plugin
            with pytest.raises(Exception, match="code = Unimplemented"):
                await plugin.prepare([CLAIM])

    asyncio.run(scenario())


def test_a_plugin_with_invalid_messages_does_not_affect_the_others(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async def answer(request: bytes, context: object) -> bytes:
            return b"\xff\xff"

        endpoint, registration = paths(folder)
        server = grpc.aio.server()
        methods = {"GetInfo": grpc.unary_unary_rpc_method_handler(answer)}
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("pluginregistration.Registration", methods),)
        )
        server.add_insecure_port(f"unix:{registration.parent}/a.sock")
        await server.start()
        async with kubelet(folder) as (registry, _):
            await until(lambda: caplog.messages)
            assert caplog.messages[0] == (
                "RegisterPlugin error -- failed to get plugin info using RPC GetInfo at socket "
                f"{registration.parent}/a.sock, err: rpc error: code = Internal desc = grpc: failed to unmarshal the "
                "received message: proto: cannot parse invalid wire-format data"
            )
            async with serve_plugin(FakeDriver(), endpoint, registration, on_registered=ignore_registration):
                await until(lambda: registry.connected(DRIVER))
        await server.stop(None)

    asyncio.run(scenario())


def test_files_hidden_sockets_and_folders_are_ignored(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, registration = paths(folder)
        (registration.parent / "notes.sock").write_text("no socket")
        (registration.parent / "folder.sock").mkdir()
        async with (
            kubelet(folder) as (registry, _),
            serve_plugin(
                FakeDriver(), endpoint, registration.with_name(".hidden.sock"), on_registered=ignore_registration
            ),
            serve_plugin(FakeDriver("nic"), *paths(folder, "nic"), on_registered=ignore_registration),
        ):
            await until(lambda: registry.connected("nic"))
            assert registry.drivers() == ("nic",)

    asyncio.run(scenario())


def test_an_unchanged_folder_is_listed_once_a_second(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[object] = []
    scandir = os.scandir

    def counted(path: Any) -> Any:
        listed.append(path)
        return scandir(path)

    class Counting(Clock):
        slept: list[float] = []

        async def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)
            await asyncio.sleep(0.001)

    async def scenario() -> None:
        clock = Counting()
        async with (
            kubelet(folder, clock) as (registry, _),
            serve_plugin(FakeDriver(), *paths(folder), on_registered=ignore_registration),
        ):
            await until(lambda: registry.connected(DRIVER))
            monkeypatch.setattr(os, "scandir", counted)
            clock.slept.clear()
            await until(lambda: len(clock.slept) >= 20)
            assert set(clock.slept) == {1.0}
            assert abs(len(listed) - len(clock.slept)) <= 1
            monkeypatch.undo()

    asyncio.run(scenario())
