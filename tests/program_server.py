"""The HTTP API and the MCP server for tests: both answer about a view that tests can replace."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import uvicorn
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.types import CallToolResult, TextContent, Tool
from starlette.applications import Starlette
from starlette.requests import Request as ServerRequest

from allotment.mcp.server import server
from allotment.queries.openapi import PREFIX
from allotment.watched.view import ClusterView
from allotment.web.problems import error_handlers
from allotment.web.program_api import program_routes


class Reply(NamedTuple):
    """The response to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class ProgramServer:
    """The routes for programs on a port of this machine. ``view``: the state of the cluster."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

        async def view_of(_: ServerRequest) -> ClusterView:
            return self.view

        application = Starlette(routes=program_routes(view_of, asyncio.Event()), exception_handlers=error_handlers())
        self._server = uvicorn.Server(uvicorn.Config(application, log_level="critical"))
        self._thread = Thread(target=lambda: asyncio.run(self._server.serve([self._socket])))

    def __enter__(self) -> ProgramServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    def post(self, query: str, **fields: Any) -> Reply:
        """POST a request with these fields."""
        return self.send("POST", f"{PREFIX}{query}", json.dumps(fields).encode())

    def get(self, query: str, **parameters: Any) -> Reply:
        """GET a query with these parameters."""
        return self.send("GET", f"{PREFIX}{query}?{urlencode(parameters, doseq=True)}")

    def send(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json") -> Reply:
        request = Request(f"{self.url}{path}", body, {"Content-Type": kind}, method=method)
        try:
            with urlopen(request, timeout=120) as response:
                return Reply(response.status, dict(response.headers), response.read())
        except HTTPError as error:
            with error:
                return Reply(error.code, dict(error.headers), error.read())


class Tools:
    """A client of the MCP server in this process. ``view``: the state of the cluster."""

    def __init__(self, view: ClusterView, portal: BlockingPortal) -> None:
        self.view = view
        self._portal = portal
        self._client: Client

    async def now(self) -> ClusterView:
        return self.view

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        return self._portal.call(lambda: self._client.call_tool(tool, arguments))

    def list_tools(self) -> list[Tool]:
        return self._portal.call(self._client.list_tools).tools

    def answer(self, tool: str, **arguments: Any) -> Any:
        """The JSON of the text that a tool returns."""
        return json.loads(text_of(self.call(tool, **arguments)))


@contextmanager
def tools(view: ClusterView) -> Iterator[Tools]:
    """A connected client of the MCP server."""
    with start_blocking_portal() as portal:
        found = Tools(view, portal)
        with portal.wrap_async_context_manager(Client(server(found.now))) as client:
            found._client = client
            yield found


def text_of(result: CallToolResult) -> str:
    """The only text of a result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text
