from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from allotment.apiserver.http_messages import Request, Upgrade
from allotment.apiserver.streams import serve
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree
from tests.unit.apiserver.streams.nodes import POD, Nodes, Peer
from tests.unit.apiserver.streams.test_spdy import Speaker

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
SUCCESS = b'\x03{"metadata":{},"status":"Success"}'


def exchange(
    query: str, *messages: bytes | None, protocol: str = V5, nodes: Nodes | None = None, subresource: str = "exec",
    pod: Tree = POD,
) -> list[bytes]:  # fmt: skip
    """Send all messages and return the received ones."""

    async def scenario() -> list[bytes]:
        given = await serve(subresource, Request("GET", "/exec", query), pod, nodes or Nodes())
        assert isinstance(given, Upgrade)
        assert protocol in given.protocols
        peer = Peer(protocol)
        peer.push(*messages)
        async with asyncio.timeout(50):
            await given.talk(peer)
        return peer.rest()

    return asyncio.run(scenario())


def test_a_command_with_its_exit_code_as_recorded() -> None:
    received = exchange("command=fail&stdout=true&stderr=true")
    assert received == [
        b"\x01",
        b"\x01out\n",
        b"\x02err\n",
        (
            b'\x03{"metadata":{},"status":"Failure","message":"command terminated with non-zero exit code: command '
            b'terminated with exit code 3","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode",'
            b'"message":"3"}]}}'
        ),
    ]


def test_input_ends_with_the_close_signal() -> None:
    received = exchange("command=cat&stdin=true&stdout=true", b"\x00stdin-", b"\x00data\n", b"\xff\x00")
    assert b"".join(received[:-1]).replace(b"\x01", b"") == b"stdin-data\n"
    assert received[-1] == SUCCESS


def test_streams_that_were_not_requested_are_discarded() -> None:
    assert exchange("command=fail&stdout=true")[:-1] == [b"\x01", b"\x01out\n"]
    assert exchange("command=fail&stdout=true&stderr=true&tty=true")[:-1] == [b"\x01", b"\x01out\n", b"\x01err\n"]


def test_a_terminal_has_a_size() -> None:
    received = exchange(
        "command=size&stdout=true&tty=true", b"\x04nonsense", b'\x04{"Width":80,"Height":24}', b"", b"\x09?"
    )
    assert received == [b"\x01", b"\x0180x24\n", SUCCESS]


def test_disconnecting_the_client_ends_the_command() -> None:
    nodes = Nodes()
    assert exchange("command=sleep&stdout=true", None, nodes=nodes) == [b"\x01"]
    assert nodes.cancelled == 1
    assert exchange("command=cat&stdin=true", b"\x00x", b"\xff\x00", None, protocol=V4, nodes=nodes) == [b"\x01"]
    assert nodes.cancelled == 2  # v4 knows no close signal


def test_attach_shares_the_containers_streams() -> None:
    assert exchange("stdout=true&stderr=true", subresource="attach") == [b"\x01", b"\x01attached\n", SUCCESS]


def test_an_error_of_the_node_is_returned_last() -> None:
    received = exchange("command=none&stdout=true")
    assert json.loads(received[-1][1:])["message"] == "none: not found"


@pytest.mark.parametrize("subresource", ["exec", "attach"])
def test_a_stopped_container_is_reported_on_the_error_channel(subresource: str) -> None:
    waiting = {**POD, "status": {"containerStatuses": [{"name": "c", "state": {"waiting": {}}}]}}
    received = exchange("command=cat&stdout=true", pod=waiting, subresource=subresource)
    assert json.loads(received[-1][1:])["message"] == (
        'Internal error occurred: unable to upgrade connection: container not found ("c")'
    )


@pytest.mark.parametrize(
    ("query", "pod", "message"),
    [
        ("command=ls&stdout=true", {**POD, "spec": {"containers": [{"name": "c"}]}},
         "pod web does not have a host assigned"),
        ("command=ls&stdout=true&container=x", POD, "container x is not valid for pod web"),
        ("stdout=true", POD, "you must specify at least one command for the container"),
        ("command=ls", POD, "you must specify at least 1 of stdin, stdout, stderr"),
    ],
)  # fmt: skip
def test_rejections_precede_the_upgrade(query: str, pod: Tree, message: str) -> None:
    with pytest.raises(StatusError) as raised:
        exchange(query, pod=pod)
    assert (raised.value.code, str(raised.value)) == (400, message)


def over_spdy(query: str, scenario: Callable[[Speaker], Awaitable[None]], nodes: Nodes | None = None) -> None:
    async def main() -> None:
        given: Any = await serve("exec", Request("POST", "/exec", query), POD, nodes or Nodes())
        peer = Peer("SPDY/3.1+v4.channel.k8s.io")
        speaker = Speaker(peer)
        talking = asyncio.create_task(given.talk(peer))
        async with asyncio.timeout(50):
            await scenario(speaker)
            await talking

    asyncio.run(main())


def test_older_clients_use_one_spdy_stream_per_channel() -> None:
    async def scenario(speaker: Speaker) -> None:
        error, stdin, stdout = [speaker.open(streamtype=name) for name in ("error", "stdin", "stdout")]
        speaker.data(stdin, b"hello ")
        speaker.data(stdin, b"world", fin=True)
        await speaker.until_closed(error)
        assert speaker.received[stdout] == b"hello world"
        assert speaker.received[error] == SUCCESS[1:]

    over_spdy("command=cat&stdin=true&stdout=true", scenario)


def test_a_spdy_terminal_has_a_size_and_disconnecting_ends_the_command() -> None:
    async def sized(speaker: Speaker) -> None:
        streams = {name: speaker.open(streamtype=name) for name in ("error", "stdout", "resize")}
        speaker.data(streams["resize"], b'{"Width":80,')
        speaker.data(streams["resize"], b'"Height":24}\n')
        await speaker.until_closed(streams["error"])
        assert speaker.received[streams["stdout"]] == b"80x24\n"

    over_spdy("command=size&stdout=true&tty=true", sized)

    nodes = Nodes()

    async def gone(speaker: Speaker) -> None:
        for name in ("error", "stdout"):
            speaker.open(streamtype=name)
        await speaker.wait_for_replies(2)
        await asyncio.sleep(0)
        speaker.peer.push(None)

    over_spdy("command=sleep&stdout=true", gone, nodes)
    assert nodes.cancelled == 1
