"""HTTP requests to a port of a pod, as through ``kubectl port-forward``."""

from __future__ import annotations

from typing import Any, Final

from allotment.node.kubelet import Kubelets

_LONGEST: Final = 1 << 26


class NoAnswer(Exception):
    """Raised if a pod does not respond with 200 OK; the text has the pod, port, path and the response."""


async def http_get(kubelets: Kubelets, pod: dict[str, Any], port: int, path: str) -> bytes:
    """Send a GET request to a port of a pod, and return the body of the response. Raises NoAnswer."""
    name = pod["metadata"]["name"]
    target = f"{name}:{port}{path}"
    try:
        connection = await kubelets.port(pod, port)
        try:
            await connection.write(f"GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n".encode())
            answer = bytearray()
            while (part := await connection.read()) and len(answer) < _LONGEST:
                answer += part
        finally:
            await connection.close()
    except OSError as error:
        raise NoAnswer(f"{target}: {error}") from None
    head, found, body = bytes(answer).partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].decode("latin-1")
    if not found or " 200 " not in status:
        raise NoAnswer(f"{target}: expected 200 OK, found {status or 'nothing'}")
    return body
