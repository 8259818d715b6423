"""gRPC errors with the texts of grpc-go, which appear in the kubelet's events and which users search for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import grpc

from allotment.grpc_codec import InvalidMessage
from allotment.kubelet_plugin.messages import PluginCallError

#: Connection errors of the C core, and Go's texts for the same errors.
_DIAL_ERRORS: Final = (
    (re.compile(r"connection refused", re.IGNORECASE), "connection refused"),
    (re.compile(r"no such file or directory", re.IGNORECASE), "no such file or directory"),
    (re.compile(r"permission denied", re.IGNORECASE), "permission denied"),
)
_CONNECTION_LOST: Final = re.compile(r"socket closed|connection reset|broken pipe|endpoint closing|EOF", re.IGNORECASE)


def call_error(error: grpc.aio.AioRpcError, endpoint: Path) -> PluginCallError:
    """Return ``error`` with grpc-go's text."""
    return PluginCallError(format_status(error.code(), error.details() or "", endpoint))


def invalid_message_error(error: InvalidMessage) -> PluginCallError:
    """Return the error for a response that cannot be parsed, with grpc-go's text."""
    return PluginCallError(f"rpc error: code = Internal desc = {error}")


def format_status(code: grpc.StatusCode, details: str, endpoint: Path) -> str:
    """Return a status as Go prints it.

    >>> format_status(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Path("/x/dra.sock"))
    'rpc error: code = DeadlineExceeded desc = context deadline exceeded'
    """
    name = "".join(part.capitalize() for part in code.name.split("_"))
    # Two names in Go differ from the rule: the American spelling of "canceled" and the upper-case OK.
    name = {"Cancelled": "Canceled", "Ok": "OK"}.get(name, name)
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        details = "context deadline exceeded"
    elif code is grpc.StatusCode.UNAVAILABLE:
        details = _format_unavailable(details, endpoint)
    return f"rpc error: code = {name} desc = {details}"


def _format_unavailable(details: str, endpoint: Path) -> str:
    for pattern, reason in _DIAL_ERRORS:
        if pattern.search(details):
            return f'connection error: desc = "transport: Error while dialing: dial unix {endpoint}: connect: {reason}"'
    return "error reading from server: EOF" if _CONNECTION_LOST.search(details) else details
