"""Streams between clients and containers: logs, exec, attach and port-forward.

``kubelets`` is the interface to the nodes; ``logs``, ``exec_attach`` and ``port_forward`` implement the subresources on
it, over WebSocket channels or SPDY streams (``spdy``), the latter directly or tunneled through a WebSocket.
"""

from __future__ import annotations

from typing import Any

from allotment.apiserver.http_messages import AnyResponse, Request
from allotment.apiserver.streams.exec_attach import attach, execute
from allotment.apiserver.streams.kubelets import Connection as Connection
from allotment.apiserver.streams.kubelets import Kubelets as Kubelets
from allotment.apiserver.streams.logs import logs
from allotment.apiserver.streams.port_forward import forward

_HANDLERS = {"log": logs, "exec": execute, "attach": attach, "portforward": forward}


async def serve(subresource: str, request: Request, pod: dict[str, Any], kubelets: Kubelets | None) -> AnyResponse:
    """Serve a request for ``log``, ``exec``, ``attach`` or ``portforward`` of a pod. Raises StatusError."""
    return await _HANDLERS[subresource](request, pod, kubelets)
