"""Programs that use the network between the pods of a lab: ``nc``, ``wget``, ``curl``, ``nslookup``, ``getent``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from allotment.node.pod_network import UnknownHost
from allotment.node.programs.container_view import ContainerView, Program, options
from allotment.node.shell_language.arithmetic import whole
from allotment.node.shell_language.process import Process
from allotment.node.shell_language.syntax import NotSimulated

_URL: Final = re.compile(r"(?:(https?)://)?([^/:?#]+)(?::(\d{1,5}))?([/?][^#]*)?")
_LONGEST: Final = 16 * 2**20


class _Response(NamedTuple):
    status: int
    reason: str
    body: bytes


async def _get(process: Process, inside: ContainerView, url: str) -> tuple[_Response, str, int]:
    """The response to a GET request, and the host and port. Raises UnknownHost, OSError and NotSimulated."""
    found = _URL.fullmatch(url)
    if found is None or found.group(1) == "https" or inside.network is None:
        raise NotSimulated(" ".join(process.words))
    _, host, port, path = found.groups()
    number = int(port or 80)
    connection = await inside.network(host, number)
    try:
        target = (path or "/") if (path or "/").startswith("/") else f"/{path}"
        request = (
            f"GET {target} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: {process.words[0]}\r\nConnection: close\r\n\r\n"
        )
        await connection.write(request.encode())
        data = bytearray()
        while len(data) < _LONGEST and (part := await connection.read()):
            data += part
    finally:
        await connection.close()
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    words = head.split(b"\r\n")[0].decode("latin-1").split(" ", 2)
    status = whole(words[1]) if len(words) > 1 and words[0].startswith("HTTP/") else None
    if status is None:
        raise ConnectionResetError("the answer is not HTTP")
    return _Response(status, words[2] if len(words) > 2 else "", body), host, number


async def _curl(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "sSfkvLgi", "om", ("--silent", "--fail", "--show-error", "--location"))
    if len(given.operands) != 1 or "i" in given:
        raise NotSimulated(" ".join(process.words))
    silent = ("s" in given or "--silent" in given) and "S" not in given and "--show-error" not in given
    url = given.operands[0]

    async def fail(code: int, message: str) -> int:
        if not silent:
            await process.streams.err(f"curl: ({code}) {message}\n".encode())
        return code

    try:
        response, _, _ = await _get(process, inside, url)
    except UnknownHost as error:
        return await fail(6, f"Could not resolve host: {error}")
    except OSError:
        return await fail(7, f"Failed to connect to {url}: Connection refused")
    if response.status >= 400 and ("f" in given or "--fail" in given):
        return await fail(22, f"The requested URL returned error: {response.status}")
    if "o" in given:
        await process.files.write(given.given["o"], response.body, process.directory)
    else:
        await process.streams.out(response.body)
    return 0


async def _wget(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "qS", "OTt", ("--spider", "--no-check-certificate", "--quiet"))
    if len(given.operands) != 1:
        raise NotSimulated(" ".join(process.words))
    url = given.operands[0]
    try:
        response, host, port = await _get(process, inside, url)
    except UnknownHost as error:
        return await process.fail(f"bad address '{error}'")
    except OSError:
        return await process.fail(f"can't connect to remote host ({url}): Connection refused")
    if response.status >= 400:
        return await process.fail(f"server returned error: HTTP/1.1 {response.status} {response.reason}")
    if "--spider" in given:
        return 0
    path = given.given.get("O") or url.partition("?")[0].rstrip("/").rpartition("/")[2] or "index.html"
    if path == "-":
        await process.streams.out(response.body)
    else:
        name = "index.html" if path in (host, f"{host}:{port}") else path
        await process.files.write(name, response.body, process.directory)
    return 0


async def _nc(process: Process, inside: ContainerView) -> int:
    given = options(process.words, "zvn", "wqi")
    port = whole(given.operands[1]) if len(given.operands) == 2 else None
    if port is None or "z" not in given or inside.network is None:
        raise NotSimulated(" ".join(process.words))
    host = given.operands[0]
    try:
        connection = await inside.network(host, port)
    except UnknownHost:
        return await process.fail(f"bad address '{host}'")
    except OSError:
        return await process.fail(f"connect to {host} port {port} (tcp) failed: Connection refused")
    await connection.close()
    if "v" in given:
        await process.streams.err(f"Connection to {host} {port} port [tcp/*] succeeded!\n".encode())
    return 0


async def _lookup(process: Process, inside: ContainerView) -> int:
    """``nslookup NAME`` and ``getent hosts NAME``."""
    words = options(process.words).operands
    getent = process.words[0].rpartition("/")[2] == "getent"
    if len(words) != 1 + int(getent) or (getent and words[0] not in ("hosts", "ahosts")) or inside.addresses is None:
        raise NotSimulated(" ".join(process.words))
    host = words[-1]
    try:
        addresses = inside.addresses(host)
    except UnknownHost:
        if not getent:
            await process.print(f"** server can't find {host}: NXDOMAIN\n")
        return 2 if getent else 1
    for address in addresses:
        await process.print(f"{address:<15} {host}\n" if getent else f"Name:\t{host}\nAddress: {address}\n")
    return 0


NETWORK_PROGRAMS: Final[Mapping[str, Program]] = {
    "curl": _curl, "wget": _wget, "nc": _nc, "nslookup": _lookup, "getent": _lookup,
}  # fmt: skip
