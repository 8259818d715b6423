"""TLS of the API: server certificate, and optional client certificates."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from allotment.apiserver.http_messages import Peer


def server_context(certificate: Path, key: Path, client_authority: Path | None = None) -> ssl.SSLContext:
    """A context for listening, from PEM files; client certificates must be signed by ``client_authority``.

    A client without a certificate is accepted (a token may follow); one with an invalid certificate fails the
    handshake. No ALPN is offered: Go's clients take that as HTTP/1.1.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.num_tickets = 0  # clients keep connections open and do not resume sessions
    if client_authority is not None:
        context.load_verify_locations(client_authority)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def peer_of(certificate: dict[str, Any] | None) -> Peer | None:
    """The user in a verified certificate (from ``SSLSocket.getpeercert``); None without a common name."""
    names: list[str] = []
    groups: list[str] = []
    for part in (certificate or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName":
                names.append(value)
            elif key == "organizationName":
                groups.append(value)
    return Peer(names[-1], tuple(groups)) if names else None
