"""What runs in a pod, through the API: its log, commands in it, its ports.

``kubelets`` says what a node must offer; ``logs``, ``commands`` and ``forwarding`` answer the subresources over it, in
the forms that clients use: WebSocket channels (``channels``), and SPDY streams (``spdy``), bare or inside a WebSocket.
"""

from __future__ import annotations

from typing import Any

from allotment.apiserver.http_messages import Answer, Request
from allotment.apiserver.streams.exec_attach import attach, execute
from allotment.apiserver.streams.kubelets import Connection as Connection
from allotment.apiserver.streams.kubelets import Kubelets as Kubelets
from allotment.apiserver.streams.logs import logs
from allotment.apiserver.streams.port_forward import forward

_ANSWERS = {"log": logs, "exec": execute, "attach": attach, "portforward": forward}


async def answer(subresource: str, request: Request, pod: dict[str, Any], kubelets: Kubelets | None) -> Answer:
    """The answer of ``log``, ``exec``, ``attach`` or ``portforward`` of a pod. Raises StatusError."""
    return await _ANSWERS[subresource](request, pod, kubelets)
