"""The configuration of cluster-autoscaler for Allotment's servers: its ``--cloud-config`` file, and flags."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from allotment.errors import InputError

_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
_EVERYWHERE: Final = ("", "0.0.0.0", "::")


class ListenAddress(NamedTuple):
    """The address of a server."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect to it."""
        return self.host in _LOOPBACK

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host or "0.0.0.0"
        return f"{host}:{self.port}"

    def seen(self, names: tuple[str, ...]) -> ListenAddress:
        """Return the address for clients; a wildcard host is replaced by one of the names."""
        return self._replace(host=names[0] if names else socket.gethostname()) if self.host in _EVERYWHERE else self


def parse_listen_address(option: str, text: str) -> ListenAddress:
    """Parse ``HOST:PORT``; without a host the server listens on all addresses. Raises InputError.

    >>> parse_listen_address("--expander", "[::1]:80")
    ListenAddress(host='::1', port=80)
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isdecimal() or not 0 <= int(port) <= 65535:
        raise InputError(f"{option}: expected HOST:PORT, found {text!r}", "for example 127.0.0.1:8086")
    return ListenAddress(host, int(port))


class Files(NamedTuple):
    """PEM files of the servers, of the CA that the autoscaler trusts (``authority``), and of the autoscaler."""

    certificate: Path
    key: Path
    authority: Path
    client_authority: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None


def config(
    cloud: ListenAddress | None, expander: ListenAddress | None, files: Files | None, *, plain: bool
) -> Iterator[str]:
    """Yield the lines of the ``--cloud-config`` file, with the flags as comments: valid YAML."""
    yield "# Start cluster-autoscaler with:"
    if cloud is not None:
        yield "#   --cloud-provider=externalgrpc --cloud-config=THIS-FILE"
        yield "#   --enforce-node-group-min-size=true"
    if expander is not None and files is not None:
        yield "#   --expander=grpc,least-waste"
        yield f"#   --grpc-expander-url={expander} --grpc-expander-cert={files.authority}"
    if cloud is None:
        return
    yield f"address: {json.dumps(str(cloud))}"
    if not plain and files is not None:
        # Without a client certificate the autoscaler does not use TLS at all.
        yield f"cert: {_path(files.client_certificate, 'client certificate, signed by a CA in --client-ca-file')}"
        yield f"key: {_path(files.client_key, 'key of the client certificate')}"
        yield f"cacert: {_path(files.authority, '')}"
    yield "grpc_timeout: 30s"


def _path(path: Path | None, instead: str) -> str:
    return json.dumps(str(path)) if path is not None else f'"" # {instead}'
