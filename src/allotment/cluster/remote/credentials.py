"""Credentials in use: the TLS context, and the headers that say who asks, read again where they change.

Files are read anew each minute (a kubelet rotates tokens and the cluster's authority, cert-manager certificates), a
plugin is run when its credential ends or is refused. A certificate that has changed makes a new TLS context; what was
opened with the old one may go on.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allotment.cluster.errors import NoCredentials
from allotment.cluster.remote.credential_plugins import Credential, credential
from allotment.cluster.remote.kubeconfig import ClusterTarget, CredentialPlugin

_REREAD_SECONDS = 60.0


class _File:
    """A file that somebody else replaces."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = b""
        self._read = 0.0

    def content(self) -> bytes:
        """What is in it, at most a minute old. Raises NoCredentials."""
        now = time.monotonic()
        if not self._content or now - self._read > _REREAD_SECONDS:
            try:
                self._content = self._path.read_bytes()
            except OSError as error:
                if not self._content:
                    raise NoCredentials(f"{self._path} cannot be read: {error.strerror}") from None
            self._read = now
        return self._content

    def forget(self) -> None:
        """Read it again when it is asked for."""
        self._content = b""


class Credentials:
    """Who we are to one cluster."""

    def __init__(self, target: ClusterTarget) -> None:
        self._target = target
        self._made: Credential | None = None
        self._running: asyncio.Task[Credential] | None = None
        self._token = _file(target.token_file)
        self._authority = _file(target.authority_file)
        self._certificate = _file(target.certificate_file)
        self._key = _file(target.key_file)
        self._context: ssl.SSLContext | None = None
        self._shown: tuple[bytes, ...] = ()

    async def headers(self) -> list[tuple[str, str]]:
        """The headers of a request."""
        target = self._target
        if self._token is not None:
            authorization = f"Bearer {self._token.content().decode('ascii', 'replace').strip()}"
        elif target.token:
            authorization = f"Bearer {target.token}"
        elif target.user:
            pair = f"{target.user}:{target.password}".encode()
            authorization = f"Basic {base64.b64encode(pair).decode()}"
        elif target.plugin is not None and (token := (await self._plugged(target.plugin)).token):
            authorization = f"Bearer {token}"
        else:
            return list(target.impersonation)
        return [("Authorization", authorization), *target.impersonation]

    async def context(self) -> ssl.SSLContext:
        """TLS towards the cluster, with the client's certificate where there is one; the same until that changes."""
        target = self._target
        authority = self._authority.content() if self._authority else target.authority
        certificate = self._certificate.content() if self._certificate else target.certificate
        key = self._key.content() if self._key else target.key
        if not certificate and target.plugin is not None:
            made = await self._plugged(target.plugin)
            certificate, key = made.certificate, made.key
        if self._context is None or self._shown != (authority, certificate, key):
            try:
                self._context = _context(target, authority, certificate, key)
            except NoCredentials:
                # A file is being written, or of a certificate and its key one is replaced before the other.
                if self._context is None:
                    raise
            self._shown = (authority, certificate, key)
        return self._context

    def forget(self) -> bool:
        """The cluster refused us: whether another try with fresh credentials makes sense."""
        files = [file for file in (self._token, self._certificate, self._key) if file is not None]
        fresh = bool(files) or self._made is not None
        for file in files:
            file.forget()
        self._made = None
        return fresh

    async def _plugged(self, plugin: CredentialPlugin) -> Credential:
        """What the plugin makes. All who ask while it runs wait for the same run, and hear the same of a failure."""
        if self._running is None:
            if self._made is not None and self._made.until >= time.time() + 10:
                return self._made
            self._running = asyncio.create_task(credential(plugin, self._target))
            self._running.add_done_callback(self._ended)
        # Who waits no longer does not end it for the others.
        return await asyncio.shield(self._running)

    def _ended(self, run: asyncio.Task[Credential]) -> None:
        self._running = None
        if not run.cancelled() and run.exception() is None:
            self._made = run.result()


def _file(path: Path | None) -> _File | None:
    return None if path is None else _File(path)


def _context(target: ClusterTarget, authority: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    # Not create_default_context: since 3.13 it refuses authorities that clusters have been using for years.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if target.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif authority:
        try:
            context.load_verify_locations(cadata=authority.decode("ascii", "replace"))
        except (ssl.SSLError, ValueError) as error:
            raise NoCredentials(f"{target.server}: its certificate authority is not PEM: {error}") from None
    else:
        context.load_default_certs()
    if certificate:
        _load(context, certificate, key)
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """ssl reads certificates from files only; this one is gone at once."""
    with _file_of(certificate.rstrip() + b"\n" + key) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise NoCredentials(f"the client's certificate and key cannot be used: {error}") from None


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """A file for a moment: in memory where that can be, so that a key is on no disk, and none need be writable."""
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("certificate"), "wb", buffering=0) as memory:
            memory.write(content)
            yield f"/proc/self/fd/{memory.fileno()}"
    else:
        handle, name = tempfile.mkstemp(prefix="allotment-", suffix=".pem")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            yield name
        finally:
            Path(name).unlink()
