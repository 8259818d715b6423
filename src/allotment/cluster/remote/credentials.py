"""The TLS context and authentication headers of a client, renewed when credentials change.

Files are read again every minute (the kubelet rotates tokens and the CA, cert-manager certificates); a plugin runs when
its credential expires or is rejected. A changed certificate makes a new TLS context; open connections stay.
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
    """A file that other programs replace."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._content = b""
        self._read = 0.0

    def content(self) -> bytes:
        """The content, at most a minute old. Raises NoCredentials."""
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
        """Read the file again on the next use."""
        self._content = b""


class Credentials:
    """The credentials for one cluster."""

    def __init__(self, target: ClusterTarget) -> None:
        self._target = target
        self._credential: Credential | None = None
        self._running: asyncio.Task[Credential] | None = None
        self._token = _file(target.token_file)
        self._authority = _file(target.authority_file)
        self._certificate = _file(target.certificate_file)
        self._key = _file(target.key_file)
        self._context: ssl.SSLContext | None = None
        self._loaded: tuple[bytes, ...] = ()

    async def headers(self) -> list[tuple[str, str]]:
        """The authentication headers of a request."""
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
        """The TLS context with the client certificate, if any; the same object until credentials change."""
        target = self._target
        authority = self._authority.content() if self._authority else target.authority
        certificate = self._certificate.content() if self._certificate else target.certificate
        key = self._key.content() if self._key else target.key
        if not certificate and target.plugin is not None:
            issued = await self._plugged(target.plugin)
            certificate, key = issued.certificate, issued.key
        if self._context is None or self._loaded != (authority, certificate, key):
            try:
                self._context = _context(target, authority, certificate, key)
            except NoCredentials:
                # A file is being written, or only one of certificate and key has been replaced yet.
                if self._context is None:
                    raise
            self._loaded = (authority, certificate, key)
        return self._context

    def forget(self) -> bool:
        """Discard credentials after a rejection; returns whether a retry may get new ones."""
        files = [file for file in (self._token, self._certificate, self._key) if file is not None]
        fresh = bool(files) or self._credential is not None
        for file in files:
            file.forget()
        self._credential = None
        return fresh

    async def _plugged(self, plugin: CredentialPlugin) -> Credential:
        """The credential of the plugin. Concurrent callers share one run and its error."""
        if self._running is None:
            if self._credential is not None and self._credential.until >= time.time() + 10:
                return self._credential
            self._running = asyncio.create_task(credential(plugin, self._target))
            self._running.add_done_callback(self._ended)
        # A cancelled caller does not cancel the run for the others.
        return await asyncio.shield(self._running)

    def _ended(self, run: asyncio.Task[Credential]) -> None:
        self._running = None
        if not run.cancelled() and run.exception() is None:
            self._credential = run.result()


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
            raise NoCredentials(f"{target.server}: the certificate authority is not in PEM format: {error}") from None
    else:
        context.load_default_certs()
    if certificate:
        _load(context, certificate, key)
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load a certificate from a temporary file, since ssl reads files only."""
    with _file_of(certificate.rstrip() + b"\n" + key) as path:
        try:
            context.load_cert_chain(path)
        except ssl.SSLError as error:
            raise NoCredentials(f"the client certificate and key cannot be used: {error}") from None


@contextmanager
def _file_of(content: bytes) -> Iterator[str]:
    """A temporary file, in memory on Linux, so that the key is not on disk and no writable directory is needed."""
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
