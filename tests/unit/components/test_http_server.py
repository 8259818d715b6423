"""Endpoints are served by separate threads, with or without TLS, and errors at startup are reported."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from email.message import Message
from pathlib import Path
from typing import NamedTuple

import pytest

from allotment.components.certificate import Certificate, CertificateError
from allotment.components.http_server import AddressUnavailable, HttpResponse, serve, text
from allotment.components.settings import Address
from allotment.lab.certificates import serving
from tests.polling import wait_until

HERE = Address("127.0.0.1", 0)


class HttpResult(NamedTuple):
    code: int
    body: str
    headers: Message


def get(where: Address, path: str = "/", context: ssl.SSLContext | None = None, method: str = "GET") -> HttpResult:
    scheme = "http" if context is None else "https"
    request = urllib.request.Request(f"{scheme}://localhost:{where.port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return HttpResult(answer.status, answer.read().decode(), answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return HttpResult(error.code, error.read().decode(), error.headers)


def connected(where: Address) -> socket.socket:
    return socket.create_connection((where.host, where.port))


def echo(path: str, query: str, headers: Message) -> HttpResponse:
    return text(200, f"{path} {query} {headers.get('Accept')}")


def test_requests_are_answered() -> None:
    with serve(HERE, echo) as where:
        got = get(where, "/readyz?verbose")
        assert got.code == 200
        assert got.body == "/readyz verbose None"
        assert got.headers["X-Content-Type-Options"] == "nosniff"
        head = get(where, "/", method="HEAD")
        assert (head.code, head.body, head.headers["Content-Length"]) == (200, "", "7")
        assert get(where, "/", method="POST").code == 501


def test_requests_are_answered_while_the_event_loop_is_blocked() -> None:
    async def scenario() -> None:
        with serve(HERE, echo) as where, ThreadPoolExecutor() as others:
            assert others.submit(get, where).result().code == 200

    asyncio.run(scenario())


def test_an_internal_error_is_a_response_and_the_server_continues() -> None:
    def fails(path: str, query: str, headers: Message) -> HttpResponse:
        raise RuntimeError("a mistake")

    with serve(HERE, fails) as where:
        assert get(where).code == 500
        assert "a mistake" not in get(where).body


def test_unusable_addresses_are_reported() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        message = f"127.0.0.1:{port}: the address is already in use"
        with pytest.raises(AddressUnavailable, match=message), serve(Address("127.0.0.1", port), echo):
            pass
    with pytest.raises(AddressUnavailable, match=r"203\.0\.113\.1:0: "), serve(Address("203.0.113.1", 0), echo):
        pass


def test_the_port_is_released() -> None:
    with serve(HERE, echo) as where:
        assert get(where).code == 200
    with serve(where, echo) as again:
        assert again == where
        assert get(again).code == 200


def ended(connection: socket.socket) -> bool:
    """Send another byte; return whether the server has closed the connection."""
    connection.settimeout(0.1)
    try:
        connection.sendall(b"G")
        return not connection.recv(1)
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_slow_requests_time_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.components.http_server._SECONDS", 0.4)
    with serve(HERE, echo) as where, connected(where) as slow:
        wait_until(lambda: ended(slow))


def test_idle_connections_use_a_limited_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("allotment.components.http_server._SECONDS", 0.5)
    monkeypatch.setattr("allotment.components.http_server._MAX_THREADS", 8)
    most = threading.active_count() + 1 + 8
    with serve(HERE, echo) as where, ExitStack() as stack:
        for connection in [stack.enter_context(connected(where)) for _ in range(40)]:
            assert threading.active_count() <= most
            connection.settimeout(30)
            with suppress(ConnectionError):
                assert connection.recv(1) == b"", "idle connections are closed"

        def answered() -> bool:
            with suppress(OSError):  # the last connections may still be closing
                return get(where).code == 200
            return False

        wait_until(answered, "a connection is accepted again")


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path, Path]:
    authority, server = serving(tmp_path / "first", datetime.now(UTC))
    return authority, server.certificate, server.key


def test_tls_is_served_and_plain_clients_do_not_affect_others(made: tuple[Path, Path, Path]) -> None:
    authority, certificate, key = made
    context = ssl.create_default_context(cafile=str(authority))
    with serve(HERE, echo, Certificate(certificate, key)) as where, connected(where), connected(where) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        with suppress(ConnectionResetError):
            assert b"200 OK" not in plain.recv(100)
        assert get(where, "/metrics", context).code == 200, "idle connections do not block others"


def test_a_rotated_certificate_is_used_for_the_next_connection(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    authority, certificate, key = made
    next_authority, following = serving(tmp_path / "second", datetime.now(UTC))
    trusts_next = ssl.create_default_context(cafile=str(next_authority))
    with serve(HERE, echo, Certificate(certificate, key)) as where:
        with pytest.raises(urllib.error.URLError):
            get(where, "/", trusts_next)
        shutil.copy(following.certificate, certificate)
        # A half rotated certificate: the old one stays in use.
        assert get(where, "/", ssl.create_default_context(cafile=str(authority))).code == 200
        shutil.copy(following.key, key)
        assert get(where, "/", trusts_next).code == 200


def test_invalid_certificate_files_are_reported_at_startup(made: tuple[Path, Path, Path], tmp_path: Path) -> None:
    _, certificate, key = made
    with pytest.raises(CertificateError, match=r"absent\.crt: No such file or directory"):
        Certificate(tmp_path / "absent.crt", key)
    with pytest.raises(CertificateError, match="are not a certificate and its private key"):
        Certificate(key, certificate)
