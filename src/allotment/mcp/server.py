"""The MCP server: each query of the table is a tool that reads and never changes anything."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from anyio import CapacityLimiter, to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)

from allotment import __version__
from allotment.errors import InputError
from allotment.queries.brief import brief
from allotment.queries.problems import Problem, internal, problem_of
from allotment.queries.requests import LONGEST_ANSWER
from allotment.queries.schemas import request_schema
from allotment.queries.table import QUERIES, Query, query_named
from allotment.time_limits import time_limit
from allotment.watched.view import ClusterView

log = logging.getLogger(__name__)

#: Returns the newest state of the cluster; waits for the first one.
ViewNow = Callable[[], Awaitable[ClusterView]]

_ABOUT: Final = (
    "Answers about the GPUs of a Kubernetes cluster with dynamic resource allocation (DRA), by simulating its"
    " scheduler. Everything is read-only. For a pending pod, call `why` with its name: `code` is a stable name of the"
    " cause, `remedies` are changes that were tried and help, all of them together. Do not guess a cause that `why` did"
    " not name. Before manifests are applied, call `check`, or `would-fit`. Answers have at most 2 kB; what was left"
    " out is counted in `omitted`, and `detail: true` returns the whole answer."
)
#: The argument that every tool has besides the fields of its request.
_DETAIL: Final = "detail"
_DETAIL_SCHEMA: Final[Mapping[str, Any]] = {
    _DETAIL: {
        "type": "boolean",
        "default": False,
        "description": "Return the whole answer, which can be long, instead of its essence in at most 2 kB.",
    }
}
#: The most single problems of manifests in an answer.
_MOST_ERRORS: Final = 5
_MOST_AT_ONCE: Final = 4


def server(view_now: ViewNow) -> Server[dict[str, Any]]:
    """Return the server of a cluster."""
    limiter = CapacityLimiter(_MOST_AT_ONCE)
    tools = [_tool(query) for query in QUERIES]

    async def list_tools(
        context: ServerRequestContext[dict[str, Any]], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def call_tool(
        context: ServerRequestContext[dict[str, Any]], params: CallToolRequestParams
    ) -> CallToolResult:  # fmt: skip
        try:
            call = _Call.of(params.name, params.arguments or {})
            view = await view_now()
            data = await to_thread.run_sync(call.answer, view, limiter=limiter)
        except Exception as error:
            found = problem_of(error)
            if found is None:
                log.exception("%s: internal error", params.name)
                found = internal(error)
            return _result(_shown(found), is_error=True)
        return _result(data)

    return Server(
        "allotment",
        version=__version__,
        title="Allotment",
        instructions=_ABOUT,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _tool(query: Query[Any]) -> Tool:
    return Tool(
        name=query.name,
        title=query.title,
        description=query.summary,
        input_schema=request_schema(query.request, _DETAIL_SCHEMA),
        annotations=ToolAnnotations(
            title=query.title, read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
        ),
    )


class _Call(NamedTuple):
    """A call of a tool whose arguments are valid."""

    query: Query[Any]
    request: msgspec.Struct
    detail: bool

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Any]) -> _Call:
        """Return a call. Raises InputError."""
        query = query_named(name)
        detail = arguments.get(_DETAIL, False)
        if not isinstance(detail, bool):
            raise InputError(f"expected bool, found {type(detail).__name__}", argument=_DETAIL)
        request = query.converted({key: value for key, value in arguments.items() if key != _DETAIL})
        return cls(query, request, detail)

    def answer(self, view: ClusterView) -> Mapping[str, Any]:
        """Return the answer; one about a state that may have changed is marked.

        Raises InputError, Unreachable, and TookTooLongError.
        """
        with time_limit(LONGEST_ANSWER):
            answer = self.query.answer(view, self.request)
        stale = (
            {} if view.connected else {"stale": f"{view.error or 'the cluster does not respond'}; as of {view.seen_at}"}
        )
        return {**stale, **(answer if self.detail else brief(self.query.name, answer))}


def _shown(found: Problem) -> Mapping[str, Any]:
    """Return a problem with the first few problems of manifests."""
    data = found.to_dict()
    if len(found.errors) > _MOST_ERRORS:
        data["errors"] = data["errors"][:_MOST_ERRORS]
        data["omitted"] = {"errors": len(found.errors) - _MOST_ERRORS}
    return data


def _result(data: Mapping[str, Any], *, is_error: bool = False) -> CallToolResult:
    text = msgspec.json.encode(data).decode()
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=dict(data), is_error=is_error
    )  # fmt: skip
