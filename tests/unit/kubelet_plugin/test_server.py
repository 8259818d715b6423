"""A driver's sockets: services, permissions and cleanup."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from allotment import grpc_codec
from allotment.kubelet_plugin import encoding, sockets
from allotment.kubelet_plugin.client import PluginClient, PluginInfo
from allotment.kubelet_plugin.messages import DeviceHealth, PluginCallError, PrepareResult
from allotment.kubelet_plugin.server import serve_plugin
from allotment.kubelet_plugin.sockets import SocketError, socket_paths
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
    sockets_in,
)

OLD_POD = "0aaa6a34-5f4c-4d64-9d0e-6f5d9a3c1b2e"


@pytest.fixture
def folder() -> Iterator[Path]:
    with kubelet_folder() as folder:
        yield folder


async def call_method(path: Path, method: str, request: Any, answer: Any) -> Any:
    async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
        call = channel.unary_unary(
            method, request_serializer=grpc_codec.encode, response_deserializer=answer.FromString
        )
        return await call(request, timeout=30)


async def info_of(registration: Path) -> registration_pb2.PluginInfo:
    info: registration_pb2.PluginInfo = await call_method(
        registration, "/pluginregistration.Registration/GetInfo", registration_pb2.InfoRequest(),
        registration_pb2.PluginInfo,
    )  # fmt: skip
    return info


def of(endpoint: Path, *versions: str) -> PluginInfo:
    return PluginInfo(DRIVER, endpoint, versions or ("v1.DRAPlugin",))


def listening_socket(path: Path) -> socket.socket:
    """A socket with a listening process."""
    path.parent.mkdir(parents=True, exist_ok=True)
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()
    return server


def stale_socket(path: Path, *, minutes: float = 5) -> None:
    """A stale socket."""
    listening_socket(path).close()
    modified = path.stat().st_mtime - 60 * minutes
    os.utime(path, (modified, modified))


@pytest.mark.parametrize("has_health", [False, True])
def test_get_info_lists_all_services(folder: Path, has_health: bool) -> None:
    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        if has_health:
            driver.health_messages = asyncio.Queue()
        async with serve_plugin(driver, endpoint, registration, on_registered=ignore_registration):
            info = await info_of(registration)
            assert (info.type, info.name, info.endpoint) == ("DRAPlugin", DRIVER, str(endpoint))
            assert list(info.supported_versions) == [
                "v1.DRAPlugin", "v1beta1.DRAPlugin",
                *["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"] * has_health,
            ]  # fmt: skip

    asyncio.run(scenario())


def test_both_versions_call_the_same_driver(folder: Path) -> None:
    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        async with serve_plugin(driver, endpoint, registration, on_registered=ignore_registration):
            for versions, answer in (
                ("v1.DRAPlugin", prepared_device()),
                ("v1beta1.DRAPlugin", prepared_device()._replace(share_id="")),
            ):
                async with PluginClient(of(endpoint, versions)) as kubelet:
                    assert await kubelet.prepare([CLAIM]) == {CLAIM.uid: PrepareResult((answer,))}
                    assert await kubelet.unprepare([CLAIM]) == {CLAIM.uid: ""}
        assert driver.calls == [(CLAIM,)] * 4

    asyncio.run(scenario())


def test_the_driver_gets_the_registration_status(folder: Path) -> None:
    async def scenario() -> None:
        statuses: list[tuple[bool, str]] = []
        endpoint, registration = paths(folder)
        async with serve_plugin(
            FakeDriver(), endpoint, registration, on_registered=lambda *status: statuses.append(status)
        ):
            for status in ({"plugin_registered": True}, {"error": "endpoint in use"}):
                await call_method(
                    registration, "/pluginregistration.Registration/NotifyRegistrationStatus",
                    registration_pb2.RegistrationStatus(**status), registration_pb2.RegistrationStatusResponse,
                )  # fmt: skip
        assert statuses == [(True, ""), (False, "endpoint in use")]

    asyncio.run(scenario())


def test_sockets_are_accessible_by_the_owner_only_and_removed_at_the_end(folder: Path) -> None:
    async def scenario() -> None:
        mask = os.umask(0o022)
        os.umask(mask)
        endpoint, registration = paths(folder)
        async with serve_plugin(FakeDriver(), endpoint, registration, on_registered=ignore_registration):
            for path in (endpoint, registration):
                assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert sockets_in(folder) == ["dra.sock", f"{DRIVER}-reg.sock"]
        assert sockets_in(folder) == []
        now = os.umask(mask)
        assert now == mask

    asyncio.run(scenario())


def test_the_registration_socket_is_removed_first_and_calls_in_flight_are_answered(folder: Path) -> None:
    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        started, go_on = asyncio.Event(), asyncio.Event()

        async def slowly() -> None:
            started.set()
            await go_on.wait()

        driver.before = slowly
        over = asyncio.Event()

        async def serve() -> None:
            async with serve_plugin(driver, endpoint, registration, on_registered=ignore_registration):
                await over.wait()

        serving = asyncio.create_task(serve())
        await until(registration.exists)
        async with PluginClient(of(endpoint)) as kubelet:
            call = asyncio.create_task(kubelet.prepare([CLAIM]))
            await started.wait()
            over.set()
            await until(lambda: not sockets_in(folder))
            assert not serving.done()
            go_on.set()
            assert await call == {CLAIM.uid: PrepareResult((prepared_device(),))}
            await serving

    asyncio.run(scenario())


def test_exceptions_of_a_driver_become_the_call_s_status(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        raised: BaseException = PluginCallError("claim ml/train was replaced – größer")

        async def refuse() -> None:
            raise raised

        driver.before = refuse
        async with (
            serve_plugin(driver, endpoint, registration, on_registered=ignore_registration),
            PluginClient(of(endpoint)) as kubelet,
        ):
            with pytest.raises(PluginCallError) as failed:
                await kubelet.prepare([CLAIM])
            assert str(failed.value) == "rpc error: code = Unknown desc = claim ml/train was replaced – größer"
            assert not caplog.records
            raised = KeyError("gpu-7")
            with pytest.raises(PluginCallError) as failed:
                await kubelet.unprepare([CLAIM])
            assert str(failed.value) == "rpc error: code = Internal desc = KeyError: 'gpu-7'"
            assert [record.levelname for record in caplog.records] == ["ERROR"]
            raised = PluginCallError("ü" * 100_000)
            with pytest.raises(PluginCallError, match=r"code = Unknown desc = ü{1000,}\.\.\.$"):
                await kubelet.prepare([CLAIM])

    asyncio.run(scenario())


def test_an_invalid_request_does_not_reach_the_driver(folder: Path) -> None:
    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        async with serve_plugin(driver, endpoint, registration, on_registered=ignore_registration):
            for method in (encoding.PREPARE, encoding.UNPREPARE):
                async with grpc.aio.insecure_channel(f"unix:{endpoint}") as channel:
                    call = channel.unary_unary(
                        f"/{encoding.V1.service}/{method}", request_serializer=bytes, response_deserializer=bytes
                    )
                    with pytest.raises(grpc.aio.AioRpcError, match="cannot parse invalid wire-format data"):
                        await call(b"\xff\xff")
        assert driver.calls == []

    asyncio.run(scenario())


@pytest.mark.parametrize("version", encoding.HEALTH_VERSIONS, ids=lambda version: version.service)
def test_each_kubelet_gets_its_own_health_stream(
    folder: Path, monkeypatch: pytest.MonkeyPatch, version: encoding.HealthVersion
) -> None:
    # An open stream does not delay the shutdown.
    monkeypatch.setattr("allotment.kubelet_plugin.server._GRACE_SECONDS", 3600.0)

    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        driver.health_messages = asyncio.Queue()
        messages = [
            (DeviceHealth("node-1", "gpu-0", "Healthy", 7),),
            (DeviceHealth("node-1", "gpu-0", "Unhealthy", 9),),
        ]
        async with serve_plugin(driver, endpoint, registration, on_registered=ignore_registration):
            info = of(endpoint, "v1.DRAPlugin", version.service)
            async with PluginClient(info) as kubelet:
                stream = kubelet.health()
                assert stream is not None
                for message in messages:
                    driver.health_messages.put_nowait(message)
                    assert await anext(stream) == message
                assert driver.watchers == 1
            # Without a kubelet, the stream is closed.
            await until(lambda: driver.watchers == 0)
            async with PluginClient(info) as kubelet:
                stream = kubelet.health()
                assert stream is not None
                driver.health_messages.put_nowait(messages[0])
                assert await anext(stream) == messages[0]
        assert driver.watchers == 0

    asyncio.run(scenario())


@pytest.mark.parametrize("version", encoding.HEALTH_VERSIONS, ids=lambda version: version.service)
def test_health_is_unimplemented_without_a_stream(folder: Path, version: encoding.HealthVersion) -> None:
    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        driver.health_messages = asyncio.Queue()
        async with serve_plugin(driver, endpoint, registration, on_registered=ignore_registration):
            driver.health_messages = None
            for server in ("one that had it at the start", "one that never had it"):
                async with grpc.aio.insecure_channel(f"unix:{endpoint}") as channel:
                    watch = channel.unary_stream(
                        f"/{version.service}/NodeWatchResources",
                        request_serializer=grpc_codec.encode,
                        response_deserializer=version.wire.NodeWatchResourcesResponse.FromString,
                    )
                    with pytest.raises(grpc.aio.AioRpcError) as failed:
                        await watch(version.wire.NodeWatchResourcesRequest()).read()
                    assert failed.value.code() is grpc.StatusCode.UNIMPLEMENTED, server
                endpoint, registration = paths(folder, pod_uid=OLD_POD)
                if server == "one that had it at the start":
                    await again.enter(driver, endpoint, registration)
            await again.leave()

    again = _Entered()
    asyncio.run(scenario())


class _Entered:
    """Starts a second server concurrently."""

    async def enter(self, driver: FakeDriver, endpoint: Path, registration: Path) -> None:
        self.context = serve_plugin(driver, endpoint, registration, on_registered=ignore_registration)
        await self.context.__aenter__()

    async def leave(self) -> None:
        await self.context.__aexit__(None, None, None)


def test_stale_sockets_are_replaced(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, registration = paths(folder)
        stale_socket(endpoint)
        stale_socket(registration)
        async with serve_plugin(FakeDriver(), endpoint, registration, on_registered=ignore_registration):
            assert (await info_of(registration)).name == DRIVER

    asyncio.run(scenario())


def test_a_socket_that_is_in_use_is_not_removed(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, registration = paths(folder)
        with listening_socket(registration):
            with pytest.raises(SocketError, match="is served by another process: stop that process first"):
                async with serve_plugin(FakeDriver(), endpoint, registration, on_registered=ignore_registration):
                    raise AssertionError("served")
            assert sockets_in(folder) == [f"{DRIVER}-reg.sock"]

    asyncio.run(scenario())


def test_another_file_at_the_path_is_not_removed(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, registration = paths(folder)
        registration.write_text("notes")
        with pytest.raises(SocketError, match="exists and is not a socket"):
            async with serve_plugin(FakeDriver(), endpoint, registration, on_registered=ignore_registration):
                raise AssertionError("served")
        assert registration.read_text() == "notes"

    asyncio.run(scenario())


def test_instances_of_a_rolling_update_run_concurrently_and_remove_stale_sockets(folder: Path) -> None:
    async def scenario() -> None:
        old, new = paths(folder, pod_uid=OLD_POD), paths(folder, pod_uid="1b" * 16)
        assert old.endpoint.name == f"dra-{OLD_POD}.sock"
        assert old.registration.name == f"{DRIVER}-{OLD_POD}-reg.sock"
        killed = paths(folder, pod_uid=OLD_POD.replace("0aaa", "0bbb"))
        other = paths(folder, "gpu.example.com-2", pod_uid=OLD_POD)
        young = paths(folder, pod_uid="2c" * 16)
        for path in (*killed, *other):
            stale_socket(path)
        for path in young:
            stale_socket(path, minutes=0)
        async with (
            serve_plugin(FakeDriver(), *old, on_registered=ignore_registration),
            serve_plugin(FakeDriver(), *new, on_registered=ignore_registration),
        ):
            present = sorted(path.name for path in (*old, *new, *other, *young))
            assert sockets_in(folder) == present
            assert (await info_of(old.registration)).endpoint == str(old.endpoint)
            assert (await info_of(new.registration)).endpoint == str(new.endpoint)

    asyncio.run(scenario())


def test_a_new_server_does_not_wait_for_calls_of_the_old_one(folder: Path) -> None:
    async def scenario() -> None:
        first, second, (endpoint, registration) = (
            FakeDriver(device_name="old"),
            FakeDriver(device_name="new"),
            paths(folder),
        )
        go_on = asyncio.Event()

        async def slowly() -> None:
            await go_on.wait()

        first.before = slowly
        old = serve_plugin(first, endpoint, registration, on_registered=ignore_registration)
        await old.__aenter__()
        async with PluginClient(of(endpoint)) as kubelet:
            call = asyncio.create_task(kubelet.prepare([CLAIM]))
            await until(lambda: first.calls)
            ending = asyncio.create_task(old.__aexit__(None, None, None))
            await until(lambda: not sockets_in(folder))
            async with serve_plugin(second, endpoint, registration, on_registered=ignore_registration):
                go_on.set()
                assert await call == {CLAIM.uid: PrepareResult((prepared_device("old"),))}
                await ending
                async with PluginClient(of(endpoint)) as again:
                    assert await again.prepare([CLAIM]) == {CLAIM.uid: PrepareResult((prepared_device("new"),))}

    asyncio.run(scenario())


def test_a_path_that_is_too_long_is_rejected(folder: Path) -> None:
    async def scenario() -> None:
        deep = folder / ("d" * 100)
        with pytest.raises(SocketError, match=r"has \d+ bytes; the maximum is 107\. Use a shorter directory"):
            socket_paths(DRIVER, plugins_dir=folder, registry_dir=deep)
        with pytest.raises(SocketError, match="bytes"):
            async with serve_plugin(
                FakeDriver(), deep / "dra.sock", folder / "reg.sock", on_registered=ignore_registration
            ):
                raise AssertionError("served")

    asyncio.run(scenario())


def test_the_longest_path_is_served(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, registration = paths(folder)
        longest = endpoint.parent / ("e" * (sockets.MAX_PATH_BYTES - len(str(endpoint.parent)) - 1))
        async with (
            serve_plugin(FakeDriver(), longest, registration, on_registered=ignore_registration),
            PluginClient(of(longest)) as kubelet,
        ):
            assert CLAIM.uid in await kubelet.prepare([CLAIM])

    asyncio.run(scenario())


def test_two_hundred_concurrent_prepares(folder: Path) -> None:
    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        waiting = asyncio.Barrier(200)

        async def together() -> None:
            await waiting.wait()

        driver.before = together
        async with (
            serve_plugin(driver, endpoint, registration, on_registered=ignore_registration),
            PluginClient(of(endpoint)) as kubelet,
        ):
            refs = [CLAIM._replace(uid=f"uid-{number}") for number in range(200)]
            answers = await asyncio.gather(*(kubelet.prepare([ref]) for ref in refs))
            assert [set(answer) for answer in answers] == [{ref.uid} for ref in refs]

    asyncio.run(scenario())


def test_a_cancelled_call_cancels_the_driver_s_call(folder: Path) -> None:
    async def scenario() -> None:
        driver, (endpoint, registration) = FakeDriver(), paths(folder)
        state: list[str] = []

        async def slowly() -> None:
            state.append("started")
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                state.append("cancelled")
                raise

        driver.before = slowly
        async with (
            serve_plugin(driver, endpoint, registration, on_registered=ignore_registration),
            PluginClient(of(endpoint)) as kubelet,
        ):
            call = asyncio.create_task(kubelet.prepare([CLAIM]))
            await until(lambda: state)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: state == ["started", "cancelled"])

    asyncio.run(scenario())


def test_a_registration_succeeds_even_if_the_callback_fails(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fail(registered: bool, error: str) -> None:
        raise ValueError("an invalid pool")

    async def scenario() -> None:
        endpoint, registration = paths(folder)
        async with serve_plugin(FakeDriver(), endpoint, registration, on_registered=fail):
            await call_method(
                registration, "/pluginregistration.Registration/NotifyRegistrationStatus",
                registration_pb2.RegistrationStatus(plugin_registered=True),
                registration_pb2.RegistrationStatusResponse,
            )  # fmt: skip

    asyncio.run(scenario())
    assert "an invalid pool" in caplog.text
