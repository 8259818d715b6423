"""The gRPC server for cluster-autoscaler, in plain text or with TLS.

cluster-autoscaler calls expanders only over TLS and without a client certificate. Every client of a cloud provider can
order machines: in plain text it must listen on loopback only; otherwise it must require client certificates.
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

#: Time for calls in flight to finish at shutdown.
_GRACE_SECONDS: Final = 5.0
#: Options contain their pods; a few thousand exceed gRPC's default limit of 4 MiB.
_MAX_REQUEST_BYTES: Final = 256 << 20


class ListenError(Exception):
    """Raised if the server cannot listen on the address."""


class TlsFileError(Exception):
    """Raised if a certificate or key file cannot be used."""


class TlsFiles(NamedTuple):
    """PEM files: the server's certificate, its key, and the CA of permitted client certificates, if required."""

    certificate: Path
    key: Path
    client_authority: Path | None = None


@asynccontextmanager
async def serve(address: str, services: Sequence[Service], tls: TlsFiles | None = None) -> AsyncIterator[int]:
    """Serve on ``HOST:PORT`` while the block runs; yield the port. Raises ListenError, TlsFileError."""
    options = (("grpc.max_receive_message_length", _MAX_REQUEST_BYTES), ("grpc.so_reuseport", 0))
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers(tuple(services))
    try:
        port = server.add_insecure_port(address) if tls is None else server.add_secure_port(address, _credentials(tls))
    except RuntimeError as error:
        raise ListenError(
            f"cannot listen on {address}: the address is in use or does not belong to this machine"
        ) from error
    await server.start()
    try:
        yield port
    finally:
        await server.stop(_GRACE_SECONDS)


def check_tls_files(tls: TlsFiles) -> None:
    """Raise TlsFileError if a file cannot be used: the C core would accept it and reject every connection later."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for path in filter(None, tls):
        try:
            path.read_bytes()
        except OSError as error:
            raise TlsFileError(f"{path}: {(error.strerror or str(error)).lower()}") from None
    try:
        context.load_cert_chain(tls.certificate, tls.key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        reason = (
            "the key belongs to a different certificate"
            if "mismatch" in str(error).lower()
            else "expected a certificate and a key in PEM format"
        )
        raise TlsFileError(f"{tls.certificate} and {tls.key} are not a certificate and its key: {reason}") from None
    if tls.client_authority is not None:
        try:
            context.load_verify_locations(tls.client_authority)
        except ssl.SSLError:
            raise TlsFileError(f"{tls.client_authority}: expected certificates in PEM format") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _credentials(tls: TlsFiles) -> grpc.ServerCredentials:
    """Return credentials that are reloaded when the files change, as renewed certificates do."""
    check_tls_files(tls)
    stamps, current = _file_stamps(tls), _certificate_configuration(tls)

    def reload() -> grpc.ServerCertificateConfiguration:
        nonlocal stamps, current
        # Some of the files may be updated before the others: the next handshake checks again.
        with suppress(OSError, TlsFileError):
            new_stamps = _file_stamps(tls)
            if new_stamps != stamps:
                check_tls_files(tls)
                stamps, current = new_stamps, _certificate_configuration(tls)
        return current

    return grpc.dynamic_ssl_server_credentials(
        current, reload, require_client_authentication=tls.client_authority is not None
    )


def _file_stamps(tls: TlsFiles) -> tuple[tuple[int, int], ...]:
    return tuple((stat.st_mtime_ns, stat.st_ino) for stat in (path.stat() for path in tls if path is not None))


def _certificate_configuration(tls: TlsFiles) -> grpc.ServerCertificateConfiguration:
    pairs = [(tls.key.read_bytes(), tls.certificate.read_bytes())]
    authority = tls.client_authority.read_bytes() if tls.client_authority is not None else None
    return grpc.ssl_server_certificate_configuration(pairs, root_certificates=authority)
