from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from allotment.apiserver.http_messages import AnyResponse, Request, Response
from allotment.lab import certificates
from allotment.lab.http_server import Limits, server_context
from allotment.lab.http_server.tls import peer_of
from tests.polling import until
from tests.unit.lab.http_server.loopback import HTML, Run, World, served


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.ensure(tmp_path_factory.mktemp("pki"), datetime.now(UTC))


async def identify(request: Request) -> AnyResponse:
    return Response(200, HTML, repr(request.peer).encode())


def context(made: certificates.Certificates) -> ssl.SSLContext:
    return server_context(*made.server, made.authority)


def client_context(made: certificates.Certificates, identity: certificates.Identity | None) -> ssl.SSLContext:
    tls = ssl.create_default_context(cafile=str(made.authority))
    tls.verify_flags |= ssl.VERIFY_X509_STRICT
    if identity is not None:
        tls.load_cert_chain(*identity)
    return tls


async def get(world: World, tls: ssl.SSLContext, name: str) -> bytes:
    client = await world.client(ssl=tls, server_hostname=name)
    client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return (await client.answer())[2]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "::1"])
def test_a_client_certificate_identifies_the_user(run: Run, made: certificates.Certificates, name: str) -> None:
    async def scenario() -> None:
        async with served(identify, tls=context(made)) as world:
            answer = await get(world, client_context(made, made.admin), name)
            assert answer == b"Peer(name='allotment-admin', groups=('system:masters',))"

    run(scenario())


def test_a_client_without_certificate_is_accepted_as_anonymous(run: Run, made: certificates.Certificates) -> None:
    async def scenario() -> None:
        async with served(identify, tls=context(made)) as world:
            assert await get(world, client_context(made, None), "localhost") == b"None"

    run(scenario())


def test_a_certificate_of_another_authority_is_rejected(
    run: Run, made: certificates.Certificates, tmp_path: Path
) -> None:
    stranger = certificates.ensure(tmp_path, datetime.now(UTC)).admin

    async def scenario() -> None:
        async with served(identify, tls=context(made)) as world:
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await get(world, client_context(made, stranger), "localhost")
            assert await get(world, client_context(made, None), "localhost") == b"None"

    run(scenario())


def test_a_failed_handshake_does_not_affect_others(run: Run, made: certificates.Certificates) -> None:
    async def scenario() -> None:
        async with served(identify, tls=context(made)) as world:
            for data in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01", b""):
                client = await world.client()
                client.send(data)
                if not data.startswith(b"GET"):
                    client.close()
                else:
                    assert b"200" not in await client.rest()
            assert await get(world, client_context(made, None), "localhost") == b"None"

    run(scenario())


def test_silent_clients_count_as_connections(run: Run, made: certificates.Certificates) -> None:
    async def scenario() -> None:
        async with served(identify, limits=Limits(connections=8), tls=context(made)) as world:
            used = await world.client(ssl=client_context(made, made.admin), server_hostname="localhost")
            silent = [await world.client() for _ in range(30)]
            await until(lambda: sum(client.reader.at_eof() for client in silent) >= 22)
            assert "admin" in (await get(world, client_context(made, made.admin), "localhost")).decode()
            used.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"admin" in (await used.answer())[2]

    run(scenario())


def test_a_handshake_has_a_time_limit(run: Run, made: certificates.Certificates) -> None:
    async def scenario() -> None:
        async with served(identify, limits=Limits(handshake_seconds=0.3), tls=context(made)) as world:
            silent = await world.client()
            assert await silent.rest() == b""

    run(scenario())


def test_a_stop_does_not_wait_for_handshakes(run: Run, made: certificates.Certificates) -> None:
    async def scenario() -> None:
        async with served(identify, tls=context(made)) as world:
            silent = await world.client()
            await asyncio.sleep(0)
        assert await silent.rest() == b""

    run(scenario())


def test_a_request_can_arrive_with_the_end_of_the_handshake(run: Run, made: certificates.Certificates) -> None:
    async def scenario() -> None:
        async with served(identify, tls=context(made)) as world:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = client_context(made, made.admin).wrap_bio(incoming, outgoing, server_hostname="localhost")
            client = await world.client()
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    client.send(outgoing.read())
                    incoming.write(await client.reader.read(65536))
            tls.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            client.send(outgoing.read())  # the client's last message of the handshake, and its request
            answer = b""
            while b"Peer" not in answer:
                incoming.write(await client.reader.read(65536))
                with suppress(ssl.SSLWantReadError):
                    answer += tls.read()

    run(scenario())


def test_a_large_body_and_answer_pass_through_tls(run: Run, made: certificates.Certificates) -> None:
    async def mirror(request: Request) -> AnyResponse:
        return Response(200, HTML, request.body * 4)

    async def scenario() -> None:
        async with served(mirror, tls=context(made)) as world:
            client = await world.client(ssl=client_context(made, made.admin), server_hostname="localhost")
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n" + b"ab" * 1_500_000)
            assert (await client.answer())[2] == b"ab" * 6_000_000

    run(scenario())


def test_a_certificate_without_a_name_is_anonymous() -> None:
    assert peer_of(None) is None
    assert peer_of({"subject": ((("organizationName", "system:masters"),),)}) is None
