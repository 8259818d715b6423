"""TLS over a connection to a port, which may be one of a simulated pod, with the errors of Go's TLS client."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from allotment.apiserver.outbound.errors import CallFailed
from allotment.apiserver.streams.kubelets import Connection

_CHUNK: Final = 64 * 1024
#: The first bytes of the records with which a TLS server can answer: an alert or a handshake.
_RECORDS: Final = frozenset((21, 22))
_FAILED: Final = "tls: failed to verify certificate: x509: "
_UNKNOWN_AUTHORITY: Final = "certificate signed by unknown authority"
#: OpenSSL's codes of rejected certificates.
_PROBLEMS: Final[Mapping[int, str]] = {
    9: "certificate has expired or is not yet valid", 10: "certificate has expired or is not yet valid",
    18: _UNKNOWN_AUTHORITY, 19: _UNKNOWN_AUTHORITY, 20: _UNKNOWN_AUTHORITY, 21: _UNKNOWN_AUTHORITY,
    26: "certificate specifies an incompatible key usage",
}  # fmt: skip


class Trust(NamedTuple):
    """The verification of a server: ``authority`` is a PEM bundle, or empty for the authorities of this machine.

    ``identity``: the PEM files of the API server's own certificate and key, for servers that verify it.
    ``is_encrypted``: false for plain HTTP.
    """

    authority: bytes = b""
    verify: bool = True
    identity: tuple[str, str] | None = None
    is_encrypted: bool = True


@lru_cache(maxsize=256)
def tls_context(trust: Trust) -> ssl.SSLContext:
    """The settings of connections. Raises CallFailed if the bundle has no certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # Go's rules for names differ, so names are compared here, once the chain is verified.
    context.check_hostname = False
    if not trust.verify:
        context.verify_mode = ssl.CERT_NONE
    elif trust.authority:
        # As for Go, any certificate of the bundle ends the chain.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(cadata=trust.authority.decode())
        except (ssl.SSLError, ValueError):
            raise CallFailed("unable to load root certificates: unable to parse bytes as PEM block") from None
    else:
        context.load_default_certs()
    if trust.identity is not None:
        context.load_cert_chain(*trust.identity)
    return context


class TlsConnection:
    """An encrypted connection; ``handshake`` comes first."""

    def __init__(self, raw: Connection, trust: Trust, server_name: str) -> None:
        self._raw, self._trust, self._name = raw, trust, server_name
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls_context(trust).wrap_bio(self._incoming, self._outgoing, server_hostname=server_name)

    async def handshake(self) -> None:
        """Establish the connection and verify the server. Raises CallFailed or OSError."""
        is_first = True
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._flush()
            except ssl.SSLCertVerificationError as error:
                await self._flush()
                raise CallFailed(_FAILED + _PROBLEMS.get(error.verify_code, error.verify_message)) from None
            except ssl.SSLError as error:
                await self._flush()
                raise CallFailed(tls_problem(error)) from None
            data = await self._raw.read()
            if not data:
                raise CallFailed("EOF")
            if is_first and data[0] not in _RECORDS:
                is_http = data.startswith(b"HTTP/")
                raise CallFailed(
                    "http: server gave HTTP response to HTTPS client"
                    if is_http
                    else "tls: first record does not look like a TLS handshake"
                )
            is_first = False
            self._incoming.write(data)
        await self._flush()
        if self._trust.verify:
            problem = name_problem(self._tls.getpeercert() or {}, self._name)
            if problem:
                raise CallFailed(_FAILED + problem)

    async def read(self) -> bytes:
        """Return the next bytes, or empty bytes at the end. Raises OSError."""
        while True:
            try:
                return self._tls.read(_CHUNK)
            except ssl.SSLWantReadError:
                data = await self._raw.read()
                if not data:
                    return b""
                self._incoming.write(data)
            except ssl.SSLZeroReturnError:
                return b""

    async def write(self, data: bytes) -> None:
        """Encrypt and send bytes; waits while the server does not read."""
        self._tls.write(data)
        await self._flush()

    async def write_eof(self) -> None:
        """Close the sending side."""
        await self._raw.write_eof()

    async def close(self) -> None:
        """Close the connection."""
        await self._raw.close()

    async def _flush(self) -> None:
        data = self._outgoing.read()
        if data:
            await self._raw.write(data)


def tls_problem(error: ssl.SSLError) -> str:
    """The text of an error of TLS: an alert of the server, or a violation of the protocol."""
    reason = error.reason or str(error)
    alert = reason.partition("_ALERT_")[2]
    words = (alert or reason).lower().replace("_", " ")
    return f"remote error: tls: {words}" if alert else f"tls: {words}"


def name_problem(certificate: Mapping[str, Any], wanted: str) -> str:
    """The reason that a certificate (of ``getpeercert``) is not that of a name or IP address, as in Go; else empty.

    >>> name_problem({"subjectAltName": (("DNS", "*.shop.svc"),)}, "web.shop.svc")
    ''
    >>> name_problem({"subjectAltName": (("DNS", "a.svc"), ("DNS", "b.svc"))}, "c.svc")
    'certificate is valid for a.svc, b.svc, not c.svc'
    """
    alternatives: Sequence[tuple[str, str]] = certificate.get("subjectAltName") or ()
    names = [value for kind, value in alternatives if kind == "DNS"]
    addresses = [value for kind, value in alternatives if kind == "IP Address"]
    try:
        address = ipaddress.ip_address(wanted.strip("[]"))
    except ValueError:
        if any(_is_named(pattern, wanted) for pattern in names):
            return ""
        if not alternatives and any(_is_named(name, wanted) for name in _common_names(certificate)):
            return "certificate relies on legacy Common Name field, use SANs instead"
        valid = ", ".join(names)
    else:
        if any(ipaddress.ip_address(text) == address for text in addresses):
            return ""
        if not addresses:
            return f"cannot validate certificate for {address} because it doesn't contain any IP SANs"
        valid = ", ".join(addresses)
    if not valid:
        return f"certificate is not valid for any names, but wanted to match {wanted}"
    return f"certificate is valid for {valid}, not {wanted}"


def _common_names(certificate: Mapping[str, Any]) -> list[str]:
    return [value for part in certificate.get("subject") or () for key, value in part if key == "commonName"]


def _is_named(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern, whose first label may be ``*``."""
    expected, actual = pattern.lower().rstrip(".").split("."), name.lower().rstrip(".").split(".")
    if len(expected) != len(actual):
        return False
    first = 1 if expected[0] == "*" and len(expected) > 1 else 0
    return expected[first:] == actual[first:]
