"""A kubelet's calls: exactly one answer for each claim, and errors with the texts of grpc-go."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest

from allotment.kubelet_plugin import encoding
from allotment.kubelet_plugin.client import (
    PluginClient,
    PluginInfo,
    UnsupportedVersions,
    choose_health_version,
    choose_version,
)
from allotment.kubelet_plugin.encoding import HealthVersion
from allotment.kubelet_plugin.messages import ClaimRef, DeviceHealth, HealthNotSupported, PluginCallError, PrepareResult
from allotment.kubelet_plugin.server import serve_plugin
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

BOTH = ("v1.DRAPlugin", "v1beta1.DRAPlugin")
OTHER = ClaimRef("ml", "9b2e-uid", "other")


@pytest.fixture
def folder() -> Iterator[Path]:
    with kubelet_folder() as folder:
        yield folder


@asynccontextmanager
async def driver_at(folder: Path, driver: FakeDriver) -> AsyncIterator[PluginClient]:
    endpoint, registration = paths(folder)
    info = PluginInfo(DRIVER, endpoint, (*BOTH, encoding.HEALTH_V1.service))
    async with (
        serve_plugin(driver, endpoint, registration, on_registered=ignore_registration),
        PluginClient(info) as kubelet,
    ):
        yield kubelet


@asynccontextmanager
async def driver_process(
    folder: Path, device: str = "gpu-0", pod_uid: str = "", *, registered: bool = False
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Run a driver in a separate process; yield a function that kills it."""
    driver = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.unit.kubelet_plugin.driver_program",
        folder,
        device,
        pod_uid,
        stdout=asyncio.subprocess.PIPE,
    )

    async def kill() -> None:
        if driver.returncode is None:
            os.kill(driver.pid, signal.SIGKILL)
        await driver.communicate()

    try:
        assert driver.stdout
        assert await driver.stdout.readline() == b"ready\n"
        if registered:
            assert await driver.stdout.readline() == b"registered\n"
        yield kill
    finally:
        await kill()


async def error_of(kubelet: PluginClient) -> str:
    """Return the error of a call."""
    with pytest.raises(PluginCallError) as failed:
        await kubelet.prepare([CLAIM])
    return str(failed.value)


def test_the_first_supported_service_of_the_plugin_is_used() -> None:
    assert choose_version(BOTH) is encoding.V1
    assert choose_version(BOTH[::-1]) is encoding.V1BETA1
    assert choose_version(("v2.DRAPlugin", "v1alpha1.DRAResourceHealth", "v1beta1.DRAPlugin")) is encoding.V1BETA1


@pytest.mark.parametrize(
    ("versions", "text"),
    [
        ((), "empty list of supported gRPC services (aka supported versions)"),
        (
            ("1.0.0", 'a"b'),
            (
                r'none of services supported by the plugin (["1.0.0" "a\"b"]) are supported by the kubelet '
                '(["v1.DRAPlugin" "v1beta1.DRAPlugin"])'
            ),
        ),
    ],
)
def test_lists_without_a_supported_service_are_rejected(versions: tuple[str, ...], text: str) -> None:
    with pytest.raises(UnsupportedVersions) as refused:
        choose_version(versions)
    assert str(refused.value) == text


class AnswersOtherClaims(FakeDriver):
    """Answers other claims than the requested ones."""

    def __init__(self, *uids: str) -> None:
        super().__init__()
        self.uids = uids

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        return {uid: PrepareResult() for uid in self.uids}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        return dict.fromkeys(self.uids, "")


@pytest.mark.parametrize(
    ("uids", "text"),
    [
        ((), "skipped 2 ResourceClaims"),
        ((OTHER.uid,), "skipped 1 ResourceClaims"),
        ((CLAIM.uid, OTHER.uid, "who"), "returned result for unknown claim UID who"),
        (("who",), "returned result for unknown claim UID who"),
    ],
)
def test_answers_for_missing_or_unknown_claims_fail(folder: Path, uids: tuple[str, ...], text: str) -> None:
    async def scenario() -> None:
        async with driver_at(folder, AnswersOtherClaims(*uids)) as kubelet:
            with pytest.raises(PluginCallError, match=f"^NodePrepareResources {text}$"):
                await kubelet.prepare([CLAIM, OTHER])
            with pytest.raises(PluginCallError, match=f"^NodeUnprepareResources {text}$"):
                await kubelet.unprepare([CLAIM, OTHER])

    asyncio.run(scenario())


def test_an_error_of_a_claim_is_in_its_answer(folder: Path) -> None:
    async def scenario() -> None:
        async with driver_at(folder, FakeDriver()) as kubelet:
            stuck = OTHER._replace(name="stuck")
            assert await kubelet.unprepare([CLAIM, stuck]) == {CLAIM.uid: "", stuck.uid: "gpu-0 is in use"}

    asyncio.run(scenario())


def test_a_call_times_out(folder: Path) -> None:
    async def scenario() -> None:
        driver, cancelled = FakeDriver(), asyncio.Event()

        async def for_ever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        driver.before = for_ever
        async with (
            driver_at(folder, driver) as slow_client,
            PluginClient(PluginInfo(DRIVER, paths(folder)[0], BOTH), seconds=0.1) as kubelet,
        ):
            while not driver.calls:  # on a busy machine a call may end before it arrives
                assert await error_of(kubelet) == "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
            await cancelled.wait()
            driver.before = None
            assert await slow_client.prepare([CLAIM]) == {CLAIM.uid: PrepareResult((prepared_device(),))}

    asyncio.run(scenario())


def test_a_call_without_a_driver_fails(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, _ = paths(folder)
        async with PluginClient(PluginInfo(DRIVER, endpoint, BOTH)) as kubelet:
            with pytest.raises(PluginCallError) as failed:
                await kubelet.prepare([CLAIM])
            assert str(failed.value) == (
                'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
                f'dial unix {endpoint}: connect: no such file or directory"'
            )
            assert not kubelet.is_connected

    asyncio.run(scenario())


def test_the_client_reconnects_to_a_restarted_driver(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, _ = paths(folder)
        changes: list[bool] = []
        async with PluginClient(PluginInfo(DRIVER, endpoint, BOTH)) as kubelet:
            kubelet.on_connection = lambda: changes.append(kubelet.is_connected)
            async with driver_process(folder, "before") as kill:
                await until(lambda: kubelet.is_connected)
                assert await kubelet.prepare([CLAIM]) == {CLAIM.uid: PrepareResult((prepared_device("before"),))}
                await kill()
                await until(lambda: not kubelet.is_connected)
            refused = 'rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: '
            refused += f'dial unix {endpoint}: connect: connection refused"'

            async def refuses() -> bool:
                return await error_of(kubelet) == refused

            # Before the next connection attempt, the error is that of the last connection.
            await until(refuses)
            async with driver_process(folder, "after"):
                await until(lambda: kubelet.is_connected)
                assert await kubelet.prepare([CLAIM]) == {CLAIM.uid: PrepareResult((prepared_device("after"),))}
        assert changes == [True, False, True, False]

    asyncio.run(scenario())


def test_a_call_fails_if_the_driver_is_killed(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, _ = paths(folder)
        info = PluginInfo(DRIVER, endpoint, (*BOTH, encoding.HEALTH_V1.service))
        async with driver_process(folder, "never answers") as kill, PluginClient(info) as kubelet:
            call = asyncio.create_task(kubelet.prepare([CLAIM]))
            await until((folder / "called").exists)
            await kill()
            with pytest.raises(PluginCallError) as failed:
                await call
            assert str(failed.value) == "rpc error: code = Unavailable desc = error reading from server: EOF"

    asyncio.run(scenario())


def test_the_health_stream_ends_with_the_driver(folder: Path) -> None:
    async def scenario() -> None:
        driver = FakeDriver()
        driver.health_messages = asyncio.Queue()
        message = (DeviceHealth("node-1", "gpu-0", "Unhealthy", 7, 60, "Xid 79"),)
        driver.health_messages.put_nowait(message)
        async with driver_at(folder, driver) as kubelet:
            stream = kubelet.health()
            assert stream is not None
            assert await anext(stream) == message
            driver.health_messages = None
            # The driver does not report health any more.
            silent = kubelet.health()
            assert silent is not None
            with pytest.raises(HealthNotSupported, match="code = Unimplemented"):
                await anext(silent)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("listed", "kubelet", "chosen"),
    [
        (("v1alpha1.DRAResourceHealth", "v1.DRAResourceHealth"), encoding.HEALTH_VERSIONS, encoding.HEALTH_V1),
        (("v1.DRAResourceHealth",), encoding.HEALTH_VERSIONS, encoding.HEALTH_V1),
        (("v1alpha1.DRAResourceHealth",), encoding.HEALTH_VERSIONS, encoding.HEALTH_V1ALPHA1),
        (("v1.DRAResourceHealth",), (encoding.HEALTH_V1ALPHA1,), None),
        (BOTH, encoding.HEALTH_VERSIONS, None),
    ],
)
def test_the_kubelet_chooses_the_newest_health_service_that_both_support(
    listed: tuple[str, ...], kubelet: tuple[HealthVersion, ...], chosen: HealthVersion | None
) -> None:
    assert choose_health_version(listed, kubelet) is chosen


def test_health_is_not_called_if_the_driver_does_not_list_it(folder: Path) -> None:
    async def scenario() -> None:
        endpoint, _ = paths(folder)
        async with PluginClient(PluginInfo(DRIVER, endpoint, BOTH)) as kubelet:
            assert kubelet.health() is None

    asyncio.run(scenario())


def test_a_call_fails_if_the_answer_cannot_be_parsed(folder: Path) -> None:
    async def scenario() -> None:
        async def answer(request: bytes, context: object) -> bytes:
            return b"\xff\xff"

        async def send(request: bytes, context: object) -> AsyncIterator[bytes]:
            yield b"\xff\xff"

        server = grpc.aio.server()
        prepare = {encoding.PREPARE: grpc.unary_unary_rpc_method_handler(answer)}
        watch = {encoding.WATCH: grpc.unary_stream_rpc_method_handler(send)}
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(encoding.V1.service, prepare),
                grpc.method_handlers_generic_handler(encoding.HEALTH_V1.service, watch),
            )
        )
        endpoint = folder / "dra.sock"
        server.add_insecure_port(f"unix:{endpoint}")
        await server.start()
        text = "rpc error: code = Internal desc = grpc: failed to unmarshal the received message: "
        text += "proto: cannot parse invalid wire-format data"
        async with PluginClient(PluginInfo(DRIVER, endpoint, (*BOTH, encoding.HEALTH_V1.service))) as kubelet:
            assert await error_of(kubelet) == text
            stream = kubelet.health()
            assert stream is not None
            with pytest.raises(PluginCallError) as failed:
                await anext(stream)
            assert str(failed.value) == text
        await server.stop(None)

    asyncio.run(scenario())
