"""The server listens on this machine unless an option states another address, with TLS if it has a certificate."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from urllib.request import HTTPSHandler, Request, build_opener

import pytest

from allotment.api.cluster import Cluster
from allotment.components.certificate import CertificateError
from allotment.lab.certificates import Identity, serving
from allotment.watched.cluster import WatchedCluster
from allotment.web.options import WebOptions
from allotment.web.screen_answers import SCREENS
from allotment.web.server import serve
from tests.web.clients import TOKEN
from tests.web.visitors import page_server


def watched() -> WatchedCluster:
    return WatchedCluster.of_snapshot(Cluster.fleet("t4-4x-pcie"))


def test_the_address_contains_the_token() -> None:
    async def scenario() -> None:
        stop, addresses = asyncio.Event(), list[str]()

        def ready(address: str) -> None:
            addresses.append(address)
            stop.set()

        await serve(watched(), WebOptions(token="a b"), ready, stop)
        assert addresses[0].startswith("http://127.0.0.1:")
        assert addresses[0].endswith("/?token=a%20b")

    asyncio.run(scenario())


def test_a_port_in_use_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(OSError, match="already in use"):
        asyncio.run(serve(watched(), WebOptions(port=taken.getsockname()[1])))


def test_open_streams_do_not_delay_the_end() -> None:
    with page_server(watched(), WebOptions(token=TOKEN)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        open_streams = []
        for _ in range(5):
            stream = socket.create_connection((host, int(port)))
            stream.sendall(f"GET /events HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n".encode())
            assert b"200 OK" in stream.recv(4096)
            open_streams.append(stream)
    for stream in open_streams:  # the server has ended
        stream.settimeout(10)
        while stream.recv(4096):
            pass
        stream.close()


def test_answers_over_tls(tmp_path: Path) -> None:
    authority, own = serving(tmp_path, datetime.now(UTC))
    options = WebOptions(token=TOKEN, certificate=own.certificate, key=own.key)
    with page_server(watched(), options) as server:
        assert server.url.startswith("https://127.0.0.1:")
        opener = build_opener(HTTPSHandler(context=ssl.create_default_context(cafile=str(authority))))
        body = b'{"token": "%s"}' % TOKEN.encode()
        request = Request(f"{server.url}/login", body, {"Content-Type": "application/json"})
        with opener.open(request, timeout=60) as response:
            assert "Secure" in response.headers["Set-Cookie"]


def test_a_replaced_certificate_is_used_for_new_connections(tmp_path: Path) -> None:
    _, first = serving(tmp_path / "first", datetime.now(UTC))
    authority, second = serving(tmp_path / "second", datetime.now(UTC))
    used = WebOptions(token=TOKEN, certificate=tmp_path / "tls.crt", key=tmp_path / "tls.key")

    def install(identity: Identity) -> None:
        for old, new in ((identity.certificate, tmp_path / "tls.crt"), (identity.key, tmp_path / "tls.key")):
            replacement = tmp_path / "replacement"
            replacement.write_bytes(old.read_bytes())
            replacement.replace(new)

    install(first)
    context = ssl.create_default_context(cafile=str(authority))
    with page_server(watched(), used) as server:
        address = ("127.0.0.1", int(server.url.rpartition(":")[2]))
        with socket.create_connection(address) as plain, pytest.raises(ssl.SSLCertVerificationError):
            context.wrap_socket(plain, server_hostname="127.0.0.1")
        install(second)
        with socket.create_connection(address) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as tls:
            assert tls.version() in ("TLSv1.2", "TLSv1.3")


def test_a_file_that_is_no_certificate_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("x")
    with pytest.raises(CertificateError):
        asyncio.run(serve(watched(), WebOptions(certificate=tmp_path / "x.pem", key=tmp_path / "x.pem")))


def test_malformed_requests_have_no_answer_but_the_server_stays() -> None:
    with page_server(watched(), WebOptions(token=TOKEN)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        for request in (b"\x00\x01\x02\r\n\r\n", b"GET /" + b"a" * 200_000, b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01"):
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(request + b"\r\n\r\n")
                connection.shutdown(socket.SHUT_WR)
                connection.settimeout(30)
                answer = connection.recv(4096)
                assert b" 200 " not in answer
                assert b"Traceback" not in answer
        assert server.send("/map", TOKEN).status == 200


def test_requests_smuggled_by_two_lengths_are_rejected() -> None:
    with page_server(watched(), WebOptions(token=TOKEN)) as server:
        host, port = server.url.removeprefix("http://").split(":")
        head = f"POST /try HTTP/1.1\r\nHost: {host}\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nGET "
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(head.encode())
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(30)
            assert b" 400 " in connection.recv(4096)


def test_two_copies_answer_the_same() -> None:
    options = WebOptions(token=TOKEN)
    with page_server(watched(), options) as first, page_server(watched(), options) as second:
        replies = [server.send("/map", TOKEN) for server in (first, second)]
        assert replies[0].data == replies[1].data
        assert replies[0].headers["etag"] != replies[1].headers["etag"]


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n"], ids=["nothing", "some headers"])
def test_a_connection_that_sends_no_request_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.web.connections.HEADER_SECONDS", 0.2)
    with page_server(watched(), WebOptions(token=TOKEN)) as server, connection(server.url) as stranger:
        stranger.sendall(sent)
        assert stranger.recv(4096) == b""


def test_a_connection_is_kept_between_requests_but_not_for_half_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with page_server(watched(), WebOptions(token=TOKEN)) as server, connection(server.url) as visitor:
        for _ in range(2):
            visitor.sendall(request)
            received = b""
            while not received.endswith(b"ok\n"):
                received += visitor.recv(4096)
                assert received
        monkeypatch.setattr("allotment.web.connections.HEADER_SECONDS", 0.2)
        visitor.sendall(request[:-2])
        assert visitor.recv(4096) == b""


def test_a_computation_that_does_not_end_does_not_delay_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    started, end = Event(), Event()

    def endless(*_: object) -> None:
        started.set()
        end.wait()

    monkeypatch.setitem(SCREENS, "/pending", endless)
    stop = asyncio.Event()

    async def scenario() -> None:
        addresses: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(serve(watched(), WebOptions(token=TOKEN), addresses.set_result, stop))
        host, port = (await addresses).removeprefix("http://").split("/")[0].split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        headers = f"Host: {host}\r\nAuthorization: Bearer {TOKEN}\r\nAccept: application/json"
        writer.write(f"GET /pending HTTP/1.1\r\n{headers}\r\n\r\n".encode())
        await asyncio.to_thread(started.wait)
        stop.set()
        response = await reader.read()
        assert b"503 Service Unavailable" in response
        assert b"urn:allotment:problem:stopping" in response
        end.set()
        await serving
        writer.close()

    asyncio.run(scenario())
    assert not caplog.records


def connection(url: str) -> socket.socket:
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)
