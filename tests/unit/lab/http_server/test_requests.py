from __future__ import annotations

import asyncio
import json

import pytest

from allotment.apiserver.http_messages import AnyResponse, Request, Response
from allotment.lab.http_server import Limits
from tests.unit.lab.http_server.loopback import HTML, Run, echo, served

GET = b"GET /a%20b?x=1 HTTP/1.1\r\nHost: x\r\n\r\n"


def test_a_connection_stays_open_after_a_response(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            for _ in range(3):
                client.send(GET)
                code, headers, body = await client.answer()
                assert (code, body) == (200, b"GET /a%20b x=1 0")
                assert headers["content-type"] == "text/plain"
                assert headers["date"].endswith("GMT")
                assert "connection" not in headers

    run(scenario())


def test_pipelined_requests_are_answered_in_their_order(run: Run) -> None:
    async def late_first(request: Request) -> AnyResponse:
        await asyncio.sleep(0.05 if request.path == "/0" else 0)
        return Response(200, HTML, request.path.encode())

    async def scenario() -> None:
        async with served(late_first) as world:
            client = await world.client()
            client.send(b"".join(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % n for n in range(200)))
            assert [(await client.answer())[2] for _ in range(200)] == [b"/%d" % n for n in range(200)]

    run(scenario())


@pytest.mark.parametrize("step", [1, 7])
def test_a_request_can_arrive_in_any_fragments(run: Run, step: int) -> None:
    data = b"POST /p?q HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello" + GET

    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            for start in range(0, len(data), step):
                client.send(data[start : start + step])
                await asyncio.sleep(0)
            assert (await client.answer())[2] == b"POST /p q 5"
            assert (await client.answer())[2] == b"GET /a%20b x=1 0"

    run(scenario())


def test_a_body_can_be_chunked_and_trailers_are_not_headers(run: Run) -> None:
    async def show(request: Request) -> AnyResponse:
        return Response(200, HTML, request.body + b"|" + request.headers.get("x-remote-user", "-").encode())

    async def scenario() -> None:
        async with served(show) as world:
            client = await world.client()
            client.send(b"PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            client.send(b"3\r\nabc\r\n2\r\nde\r\n0\r\nX-Remote-User: root\r\n\r\n")
            assert (await client.answer())[2] == b"abcde|-"

    run(scenario())


def test_headers_are_lower_case_and_repeated_ones_joined(run: Run) -> None:
    async def show(request: Request) -> AnyResponse:
        return Response(200, HTML, json.dumps(dict(request.headers)).encode())

    async def scenario() -> None:
        async with served(show) as world:
            client = await world.client()
            client.send(b"GET / HTTP/1.1\r\nHOST: h\r\nAccept: a\r\naccept: b\r\nCookie: c\r\nCookie: d\r\n\r\n")
            assert json.loads((await client.answer())[2]) == {"host": "h", "accept": "a, b", "cookie": "c; d"}

    run(scenario())


def test_a_target_in_absolute_form_is_its_path(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(b"GET http://proxy:1/api/v1?limit=1 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await client.answer())[2] == b"GET /api/v1 limit=1 0"
            client.send(b"GET https://proxy HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await client.answer())[2] == b"GET /  0"

    run(scenario())


def test_responses_without_a_body(run: Run) -> None:
    async def by_path(request: Request) -> AnyResponse:
        return Response(int(request.path[1:]), HTML, b"twelve bytes")

    async def scenario() -> None:
        async with served(by_path) as world:
            client = await world.client()
            client.send(b"HEAD /200 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await client.answer(body=False))[1]["content-length"] == "12"
            for code in (304, 204):
                client.send(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % code)
                status, headers = await client.head()
                assert status == code
                assert "content-length" not in headers
                assert "transfer-encoding" not in headers
            client.send(b"GET /200 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await client.answer())[2] == b"twelve bytes"
            assert await client.rest() == b""

    run(scenario())


def test_http_1_0_closes_the_connection(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(b"GET /old HTTP/1.0\r\n\r\n")
            code, headers, body = await client.answer()
            assert (code, headers["connection"], body) == (200, "close", b"GET /old  0")
            assert await client.rest() == b""

    run(scenario())


def test_data_after_a_closing_request_is_ignored(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(b"GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + GET)
            assert (await client.answer())[2] == b"GET /last  0"
            assert await client.rest() == b""

    run(scenario())


def test_expect_100_continue_is_answered(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            assert await client.head() == (100, {})
            client.send(b"abc")
            assert (await client.answer())[2] == b"POST /  3"

    run(scenario())


def test_continue_is_sent_in_request_order(run: Run) -> None:
    release = asyncio.Event()

    async def slow(request: Request) -> AnyResponse:
        if request.method == "GET":
            await release.wait()
        return await echo(request)

    async def scenario() -> None:
        async with served(slow) as world:
            client = await world.client()
            client.send(GET)
            client.send(b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
            await asyncio.sleep(0.05)
            release.set()
            assert (await client.answer())[2] == b"GET /a%20b x=1 0"
            assert await client.head() == (100, {})
            client.send(b"abc")
            assert (await client.answer())[2] == b"POST /  3"

    run(scenario())


def test_a_request_for_another_http_version_is_ignored(run: Run) -> None:
    async def scenario() -> None:
        async with served() as world:
            client = await world.client()
            client.send(b"GET /1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + GET)
            assert (await client.answer())[2] == b"GET /1  0"
            assert (await client.answer())[2] == b"GET /a%20b x=1 0"
            client.send(
                b"POST /2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 3\r\n\r\nabc"
            )
            assert (await client.answer())[2] == b"POST /2  3"

    run(scenario())


def test_headers_cannot_be_injected(run: Run) -> None:
    async def warn(request: Request) -> AnyResponse:
        return Response(200, (("Warning", '299 - "unknown field a\r\nSet-Cookie: x"'),), b"")

    async def scenario() -> None:
        async with served(warn) as world:
            client = await world.client()
            client.send(GET)
            _, headers, _ = await client.answer()
            assert headers["warning"] == '299 - "unknown field a  Set-Cookie: x"'
            assert "set-cookie" not in headers

    run(scenario())


def test_an_exception_is_an_internal_error_and_is_logged(run: Run, expected_warnings: list[str]) -> None:
    expected_warnings.append("GET /a%20b failed")

    async def broken(request: Request) -> AnyResponse:
        raise ZeroDivisionError

    async def scenario() -> None:
        async with served(broken) as world:
            client = await world.client()
            for _ in range(2):
                client.send(GET)
                code, _, body = await client.answer()
                assert (code, json.loads(body)["reason"]) == (500, "InternalError")

    run(scenario())


def test_a_large_response_is_complete(run: Run) -> None:
    async def large(request: Request) -> AnyResponse:
        return Response(200, HTML, b"x" * 20_000_000)

    async def scenario() -> None:
        async with served(large, Limits()) as world:
            client = await world.client()
            client.send(GET * 2)
            for _ in range(2):
                assert len((await client.answer())[2]) == 20_000_000

    run(scenario())
