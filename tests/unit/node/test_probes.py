"""Startup, readiness and liveness probes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from allotment.node.runtimes.runtime import Connection
from tests.unit.cluster import idle
from tests.unit.node.world import FakeContainer, World, world

FAST = {"periodSeconds": 1, "failureThreshold": 2}
HTTP = {"httpGet": {"path": "/healthz", "port": "web"}, **FAST}
WEB = {"ports": [{"name": "web", "containerPort": 8080}]}


def run_scenario(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def run() -> None:
        async with world(speed=200.0) as on:
            await scenario(on)

    idle.run(asyncio.wait_for(run(), 20))


def test_readiness_follows_the_probe() -> None:
    async def scenario(on: World) -> None:
        on.pod(main={"readinessProbe": HTTP, **WEB})
        await on.until(lambda: on.phase() == "Running" and on.events("Unhealthy"))
        assert (on.ready(), on.main()["ready"]) == ("False", False)
        where = on.now()["status"]["podIP"] + ":8080"
        message = f'Readiness probe failed: Get "http://{where}/healthz": dial tcp {where}: connect: connection refused'
        assert on.events("Unhealthy") == [message]
        on.runtime.ports = {8080}
        await on.until(lambda: on.ready() == "True" and on.main()["ready"])
        on.runtime.ports.clear()
        await on.until(lambda: on.ready() == "False")
        assert on.main()["restartCount"] == 0, "an unready container is not restarted"

    run_scenario(scenario)


def test_a_failed_liveness_probe_restarts_the_container() -> None:
    async def scenario(on: World) -> None:
        on.runtime.printed = b"cannot connect"
        on.pod(main={"livenessProbe": {"exec": {"command": ["check"]}, **FAST}})
        await on.until(lambda: on.phase() == "Running")
        on.runtime.exec_code = 1
        await on.until(lambda: on.main()["restartCount"] == 1)
        await on.flush_events()
        assert "Liveness probe failed: cannot connect" in on.events("Unhealthy")
        assert on.events("Killing") == ["Container main failed liveness probe, will be restarted"]

    run_scenario(scenario)


def test_a_failed_liveness_probe_ends_a_container_that_never_restarts() -> None:
    async def scenario(on: World) -> None:
        on.runtime.exec_code = 1
        on.pod(main={"livenessProbe": {"exec": {"command": ["check"]}, **FAST}}, restartPolicy="Never")
        await on.until(lambda: on.phase() == "Failed")
        await on.flush_events()
        assert on.events("Killing") == ["Container main failed liveness probe"]

    run_scenario(scenario)


def test_other_probes_wait_for_the_startup_probe() -> None:
    async def scenario(on: World) -> None:
        startup = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 1000}
        liveness = {"exec": {"command": ["check"]}, "periodSeconds": 1, "failureThreshold": 1}
        on.runtime.exec_code = 1
        on.pod(main={"startupProbe": startup, "livenessProbe": liveness})
        await on.until(lambda: len(on.events("Unhealthy")) == 1)
        assert not on.runtime.containers["main"].ran
        assert (on.main()["started"], on.ready()) == (False, "False")
        on.runtime.exec_code = 0
        on.runtime.ports = {8080}
        await on.until(lambda: on.ready() == "True" and on.main()["started"])
        await on.until(lambda: on.runtime.containers["main"].ran)

    run_scenario(scenario)


def test_a_failed_startup_probe_restarts_the_container() -> None:
    async def scenario(on: World) -> None:
        on.pod(main={"startupProbe": {"grpc": {"port": 8080}, **FAST}})
        await on.until(lambda: on.events("Killing"))
        assert on.events("Killing") == ["Container main failed startup probe, will be restarted"]

    run_scenario(scenario)


class Answer:
    """A connection that returns a fixed answer."""

    def __init__(self, text: bytes) -> None:
        self.text = text

    async def read(self) -> bytes:
        text, self.text = self.text, b""
        return text

    async def write(self, data: bytes) -> None:
        assert data.startswith(b"GET /healthz HTTP/1.1\r\nHost: ")

    async def write_eof(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 500 No\r\n\r\n", "HTTP probe failed with statuscode: 500"),
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "HTTP probe failed with statuscode: 404"),
        (b"", 'Get "http://{}/healthz": EOF'),
        (b"SSH-2.0-what\r\n", 'Get "http://{}/healthz": EOF'),
    ],
    ids=["an error", "another page", "nothing", "something else"],
)
def test_http_probe_failures(answer: bytes, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(self: FakeContainer, port: int) -> Connection:
        return Answer(answer)

    monkeypatch.setattr(FakeContainer, "connect", connect)

    async def scenario(on: World) -> None:
        on.pod(main={"readinessProbe": HTTP, **WEB})
        await on.until(lambda: on.events("Unhealthy"))
        where = on.now()["status"]["podIP"] + ":8080"
        assert on.events("Unhealthy") == ["Readiness probe failed: " + message.format(where)]

    run_scenario(scenario)


def test_an_exec_probe_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def execute(self: FakeContainer, words: Any, **streams: Any) -> int:
        await asyncio.sleep(60)
        return 0

    monkeypatch.setattr(FakeContainer, "exec", execute)

    async def scenario(on: World) -> None:
        on.pod(main={"readinessProbe": {"exec": {"command": ["slow", "one"]}, "timeoutSeconds": 2}})
        await on.until(lambda: on.events("Unhealthy"))
        assert on.events("Unhealthy") == [
            'Readiness probe failed: command timed out: "slow one" timed out after 2s'
        ]  # fmt: skip

    run_scenario(scenario)
