"""TLS as the API speaks it: the server proves itself, a client may prove itself by a certificate."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from allotment.apiserver.http_messages import Peer


def server_context(certificate: Path, key: Path, client_authority: Path | None = None) -> ssl.SSLContext:
    """For listening: PEM files; certificates of clients are believed if ``client_authority`` signed them.

    A client with no certificate is let in (a token may follow); one with a bad certificate fails the handshake. No
    ALPN is offered: Go's clients take that as HTTP/1.1.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.num_tickets = 0  # connections are kept open, not resumed
    if client_authority is not None:
        context.load_verify_locations(client_authority)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def peer_of(certificate: dict[str, Any] | None) -> Peer | None:
    """Who a verified certificate (as ``SSLSocket.getpeercert`` gives it) names; None without a common name."""
    names: list[str] = []
    groups: list[str] = []
    for part in (certificate or {}).get("subject", ()):
        for key, value in part:
            if key == "commonName":
                names.append(value)
            elif key == "organizationName":
                groups.append(value)
    return Peer(names[-1], tuple(groups)) if names else None
