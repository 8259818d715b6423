"""Listening for cluster-autoscaler, in plain text or with TLS.

An expander is only ever asked over TLS, by an autoscaler that has no certificate of its own. A cloud provider orders
machines for whoever reaches it: in plain text it belongs on loopback, and elsewhere behind a client's certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import grpc

if TYPE_CHECKING:
    from allotment.externalgrpc.services import Service

#: Calls under way may take so long to end.
_GRACE_SECONDS: Final = 5.0
#: The pods of each option come along; gRPC's own limit of 4 MiB is reached with some thousand.
_MAX_REQUEST_BYTES: Final = 256 << 20


class ListenError(Exception):
    """The address cannot be listened at."""


class TlsFileError(Exception):
    """A file of a certificate or a key cannot be used."""


class TlsFiles(NamedTuple):
    """PEM files: the server's certificate and its key; the authority whose clients alone are let in, if any."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


@asynccontextmanager
async def serve(address: str, services: Sequence[Service], tls: TlsFiles | None = None) -> AsyncIterator[int]:
    """Serve at ``HOST:PORT`` while the block runs; gives the port. Raises CannotListen, UnusableCertificate."""
    options = (("grpc.max_receive_message_length", _MAX_REQUEST_BYTES), ("grpc.so_reuseport", 0))
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers(tuple(services))
    try:
        port = server.add_insecure_port(address) if tls is None else server.add_secure_port(address, _credentials(tls))
    except RuntimeError as error:
        raise ListenError(f"cannot listen at {address}: the address is in use, or none of this machine") from error
    await server.start()
    try:
        yield port
    finally:
        await server.stop(_GRACE_SECONDS)


def check_tls_files(tls: TlsFiles) -> None:
    """Raises UnusableCertificate: the C core would take anything, and refuse every connection later."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for path in filter(None, tls):
        try:
            path.read_bytes()
        except OSError as error:
            raise TlsFileError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        why = "the key is another certificate's" if "mismatch" in str(error).lower() else "wanted both as PEM"
        raise TlsFileError(f"{tls.certificate} and {tls.key} are no certificate with its key: {why}") from None
    if tls.client_authority is not None:
        try:
            context.load_verify_locations(tls.client_authority)
        except ssl.SSLError:
            raise TlsFileError(f"{tls.client_authority}: wanted certificates as PEM") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    """Read again whenever the files have changed: certificates are renewed while servers run."""
    check_tls_files(tls)
    known, current = _file_stamps(tls), _certificate_configuration(tls)

    def renewed() -> grpc.ServerCertificateConfiguration:
        nonlocal known, current
        # Half of the files may be new: the next handshake looks again.
        with suppress(OSError, TlsFileError):
            now = _file_stamps(tls)
            if now != known:
                check_tls_files(tls)
                known, current = now, _certificate_configuration(tls)
        return current

    return grpc.dynamic_ssl_server_credentials(
        current, renewed, require_client_authentication=tls.client_authority is not None
    )


def _file_stamps(tls: TlsFiles) -> tuple[tuple[int, int], ...]:
    return tuple((stat.st_mtime_ns, stat.st_ino) for stat in (path.stat() for path in tls if path is not None))


def _certificate_configuration(tls: TlsFiles) -> grpc.ServerCertificateConfiguration:
    pairs = [(tls.key.read_bytes(), tls.certificate.read_bytes())]
    authority = tls.client_authority.read_bytes() if tls.client_authority is not None else None
    return grpc.ssl_server_certificate_configuration(pairs, root_certificates=authority)
