"""``allot mcp`` with the client of the MCP SDK: over standard input and output, over HTTP, and about a running lab."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

import allotment
from allotment.cli.main import main
from allotment.queries.table import QUERIES
from tests.corpus.test_corpus import HERE
from tests.program_server import text_of

SNAPSHOT = str(HERE / "devices-in-use.yaml")
PROGRAM = (sys.executable, "-m", "allotment.cli.main", "mcp")


def over_stdio(*arguments: str) -> Client:
    """A client that starts the program."""
    program = StdioServerParameters(command=PROGRAM[0], args=[*PROGRAM[1:], *arguments], env=dict(os.environ))
    return Client(stdio_client(program))


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[str, str]]:
    """The address and the token of a server on a free port."""
    program = [*PROGRAM, *arguments, "--http", "0"]
    with subprocess.Popen(program, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        address = re.search(r"http://\S+", process.stderr.readline())
        token = "" if "--token-file" in arguments else process.stderr.readline().split()[-1]
        assert address is not None
        try:
            yield address[0], token
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0


@asynccontextmanager
async def over_http(url: str, token: str) -> AsyncIterator[Client]:
    """A client of a server with a token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def check_conformance(client: Client) -> None:
    """The steps of every client: initialize, list the tools, call one, and make a mistake."""
    assert client.server_info is not None
    assert (client.server_info.name, client.server_info.version) == ("allotment", allotment.__version__)
    assert "read-only" in (client.instructions or "")
    tools = (await client.list_tools()).tools
    assert [tool.name for tool in tools] == [query.name for query in QUERIES]
    found = await client.call_tool("why", {"name": "trainer"})
    assert not found.is_error
    assert json.loads(text_of(found))["pending"][0]["code"] == "devices-in-use"
    assert (await client.call_tool("why", {"name": "nope"})).is_error
    assert (await client.call_tool("delete", {})).is_error


def test_over_standard_input_and_output() -> None:
    async def run() -> None:
        async with over_stdio("--cluster", SNAPSHOT) as client:
            await check_conformance(client)

    asyncio.run(run())


def test_over_http() -> None:
    async def run(url: str, token: str) -> None:
        async with over_http(url, token) as client:
            await check_conformance(client)

    with serving("--cluster", SNAPSHOT) as (url, token):
        asyncio.run(run(url, token))


def test_two_clients_at_once(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")

    async def answers_of(url: str) -> Any:
        async with over_http(url, "secret") as client:
            return [await client.call_tool("free", {}) for _ in range(3)]

    async def run(url: str) -> None:
        first, second = await asyncio.gather(answers_of(url), answers_of(url))
        assert [text_of(each) for each in first] == [text_of(each) for each in second]

    with serving("--fleet", "t4", "--token-file", str(tmp_path / "token")) as (url, _):
        asyncio.run(run(url))


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Basic TOKEN"}, 401),
        ({"Authorization": "Bearer TOKEN", "Host": "evil.example"}, 421),
        ({"Authorization": "Bearer TOKEN", "Origin": "https://evil.example"}, 403),
    ],
)
def test_strangers_are_rejected(headers: dict[str, str], status: int, http_server: tuple[str, str]) -> None:
    url, token = http_server
    sent = {name: value.replace("TOKEN", token) for name, value in headers.items()}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    assert httpx2.post(url, json=message, headers=sent).status_code == status


@pytest.fixture(scope="module")
def http_server() -> Iterator[tuple[str, str]]:
    with serving("--fleet", "t4") as found:
        yield found


def test_a_message_that_is_not_json_does_not_end_the_server(http_server: tuple[str, str]) -> None:
    url, token = http_server
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    assert httpx2.post(url, content=b"{", headers=headers).status_code == 400
    assert httpx2.post(url, content=b"x" * 6_000_000, headers=headers).status_code == 413

    async def run() -> None:
        async with over_http(url, token) as client:
            assert (await client.call_tool("free", {})).is_error is False

    asyncio.run(run())


def test_it_ends_with_its_client() -> None:
    program = [*PROGRAM, "--fleet", "t4"]
    found = subprocess.run(program, input=b"not json\n", capture_output=True, timeout=60, check=False)
    assert (found.returncode, found.stderr.decode()) == (0, "")


def test_it_ends_with_ctrl_c() -> None:
    with subprocess.Popen(
        [*PROGRAM, "--fleet", "t4"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == -signal.SIGINT
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_answers_follow_a_running_cluster(tmp_path: Path) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "large"},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "8"}}}]},
    }

    async def until(condition: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(60):
            while not await condition():
                await asyncio.sleep(0.05)

    async def run(lab: allotment.Lab) -> None:
        async with over_stdio("--kubeconfig", str(lab.kubeconfig)) as client:

            async def has_devices() -> bool:
                (kind,) = json.loads(text_of(await client.call_tool("free", {}))).get("devices") or [{"count": 0}]
                return bool(kind["count"] == 4)

            await until(has_devices)
            assert (await client.call_tool("why", {"name": "large"})).is_error
            lab.apply(pod)

            async def is_known() -> bool:
                answer = await client.call_tool("why", {"name": "large"})
                return not answer.is_error and '"code"' in text_of(answer)

            await until(is_known)

    with allotment.Lab(fleet="t4-4x-pcie", speed=50) as lab:
        asyncio.run(run(lab))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--http x", "--http: expected [ADDRESS:]PORT, found 'x'"),
        ("--http 1:2:x", "--http: expected [ADDRESS:]PORT"),
        ("--http 99999", "--http: expected [ADDRESS:]PORT"),
        ("--http 203.0.113.1:80", "--http: cannot listen on 203.0.113.1:80"),
        ("--token-file t", "--token-file: requires --http"),
        ("--http 0 --token-file missing", "missing: no such file"),
        ("--http 0 --token-file empty", "--token-file: expected one word in empty"),
        ("--cluster missing.yaml", "missing.yaml"),
    ],
)
def test_wrong_options_are_reported(
    words: str, message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").write_text("\n")
    fleet = [] if "--cluster" in words else ["--fleet", "t4"]
    assert main(["mcp", *words.split(), *fleet]) == 2
    assert message in capsys.readouterr().err
