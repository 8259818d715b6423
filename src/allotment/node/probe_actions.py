"""Handlers of probes and lifecycle hooks: exec, httpGet, tcpSocket, grpc and sleep.

Failures have the kubelet's texts, because they appear in events that users search for. Two handlers are simpler than
the kubelet's: HTTPS and gRPC health checks only test whether the port is open.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, NamedTuple

from allotment.cluster.clock import Clock
from allotment.model.trees import Tree
from allotment.node.containers import Container
from allotment.node.runtimes.runtime import Connection

#: Maximum bytes read while waiting for the status line of an HTTP probe.
_LONGEST_HEAD: Final = 64 * 1024
_LONGEST_OUTPUT: Final = 10 * 1024

log = logging.getLogger(__name__)


class ProbeOutcome(NamedTuple):
    """Whether a handler succeeded, and its message."""

    ok: bool
    message: str = ""


async def attempt(handler: Tree, container: Container, pod_ip: str, *, seconds: float, clock: Clock) -> ProbeOutcome:
    """Run a handler with a timeout of ``seconds`` on ``clock``."""
    if "sleep" in handler:
        await clock.sleep(min(handler["sleep"]["seconds"], seconds))
        return ProbeOutcome(True)
    expired = asyncio.timeout(None)
    try:
        async with expired:
            timer = clock.later(seconds, lambda: expired.reschedule(asyncio.get_running_loop().time()))
            try:
                return await _attempt(handler, container, pod_ip)
            finally:
                timer.cancel()
    except TimeoutError:
        return ProbeOutcome(False, _late(handler, container, pod_ip, seconds))
    except Exception as error:
        # An internal error fails this probe only, not the pod's other containers.
        log.warning("container %s: probe failed with an internal error", container.name, exc_info=True)
        return ProbeOutcome(False, f"{type(error).__name__}: {error}")


async def _attempt(handler: Tree, container: Container, pod_ip: str) -> ProbeOutcome:
    if "exec" in handler:
        return await _command(handler["exec"].get("command") or [], container)
    if "httpGet" in handler and str(handler["httpGet"].get("scheme", "HTTP")).upper() == "HTTP":
        return await _page(handler["httpGet"], container, pod_ip)
    for kind in ("httpGet", "tcpSocket", "grpc"):
        if kind in handler:
            return await _port(handler[kind], container, pod_ip)
    return ProbeOutcome(False, "missing probe handler")


async def _command(words: list[str], container: Container) -> ProbeOutcome:
    if container.now is None:
        return ProbeOutcome(False, "container is not running")
    output = bytearray()

    async def keep(data: bytes) -> None:
        if len(output) < _LONGEST_OUTPUT:
            output.extend(data)

    code = await container.now.exec(words, stdin=None, stdout=keep, stderr=keep, tty=False)
    return ProbeOutcome(code == 0, output.decode(errors="replace"))


async def _connected(action: Tree, container: Container) -> Connection:
    if container.now is None:
        raise ConnectionRefusedError
    return await container.now.connect(port_of(action.get("port"), container.spec))


async def _port(action: Tree, container: Container, pod_ip: str) -> ProbeOutcome:
    try:
        connection = await _connected(action, container)
    except OSError as error:
        return ProbeOutcome(False, f"dial tcp {_where(action, container, pod_ip)}: {_why(error)}")
    await connection.close()
    return ProbeOutcome(True)


async def _page(action: Tree, container: Container, pod_ip: str) -> ProbeOutcome:
    where = _where(action, container, pod_ip)
    url = _url(action, where)
    try:
        connection = await _connected(action, container)
    except OSError as error:
        return ProbeOutcome(False, f'Get "{url}": dial tcp {where}: {_why(error)}')
    try:
        headers = {"Host": where, "User-Agent": "kube-probe/1.36", "Accept": "*/*", "Connection": "close"}
        headers |= {header["name"]: header["value"] for header in action.get("httpHeaders") or ()}
        lines = [f"GET {_path(action)} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        await connection.write("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n" not in head and len(head) < _LONGEST_HEAD and (data := await connection.read()):
            head += data
    except OSError as error:
        return ProbeOutcome(False, f'Get "{url}": {_why(error)}')
    finally:
        await connection.close()
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return ProbeOutcome(False, f'Get "{url}": EOF')
    code = int(words[1])
    return (
        ProbeOutcome(True) if 200 <= code < 400 else ProbeOutcome(False, f"HTTP probe failed with statuscode: {code}")
    )


def port_of(port: int | str | None, spec: Tree) -> int:
    """The number of a port given as number or name. Raises OSError for a name that the container does not declare."""
    if isinstance(port, int):
        return port
    for declared in spec.get("ports") or ():
        if declared.get("name") == port:
            return int(declared["containerPort"])
    if port is not None and port.isdigit():
        return int(port)
    raise OSError(f"port {port!r} is not a port of container {spec['name']}")


def _where(action: Tree, container: Container, pod_ip: str) -> str:
    try:
        port: int | str | None = port_of(action.get("port"), container.spec)
    except OSError:
        port = action.get("port")
    return f"{action.get('host') or pod_ip}:{port}"


def _path(action: Tree) -> str:
    path = str(action.get("path") or "/")
    return path if path.startswith("/") else f"/{path}"


def _url(action: Tree, where: str) -> str:
    return f"http://{where}{_path(action)}"


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    return str(error) or type(error).__name__


def _late(handler: Tree, container: Container, pod_ip: str, seconds: float) -> str:
    if "exec" in handler:
        return f'command timed out: "{" ".join(handler["exec"].get("command") or ())}" timed out after {seconds:g}s'
    action: Tree = next((handler[kind] for kind in ("httpGet", "tcpSocket", "grpc") if kind in handler), {})
    where = _where(action, container, pod_ip)
    if "httpGet" in handler:
        return (
            f'Get "{_url(action, where)}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)'
        )
    return f"dial tcp {where}: i/o timeout"
