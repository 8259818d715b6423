"""Credentials in use: the TLS context, and the headers that say who asks, read again where they change.

A token file is read anew each minute (a kubelet rotates it), a plugin is run when its credential ends or is refused.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from allotment.cluster.errors import Unreachable
from allotment.cluster.kubeconfig import Plugin, Target

_REREAD_SECONDS = 60.0
_PLUGIN_SECONDS = 60.0


class _Made(NamedTuple):
    """What a plugin gave; ``until``: seconds of the epoch."""

    token: str
    certificate: bytes
    key: bytes
    until: float


class Credentials:
    """Who we are to one cluster."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._made: _Made | None = None
        self._running = asyncio.Lock()
        self._token = ("", 0.0)

    async def headers(self) -> list[tuple[str, str]]:
        """The headers of a request."""
        target = self._target
        if target.token_file is not None:
            authorization = f"Bearer {self._read_token(target.token_file)}"
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
        """TLS towards the cluster, with the client's certificate where there is one."""
        target = self._target
        # Not create_default_context: since 3.13 it refuses authorities that clusters have been using for years.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if target.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif target.authority:
            try:
                context.load_verify_locations(cadata=target.authority.decode("ascii", "replace"))
            except (ssl.SSLError, ValueError) as error:
                raise Unreachable(f"{target.server}: its certificate authority is not PEM: {error}") from None
        else:
            context.load_default_certs()
        certificate, key = target.certificate, target.key
        if not certificate and target.plugin is not None:
            made = await self._plugged(target.plugin)
            certificate, key = made.certificate, made.key
        if certificate:
            _load(context, certificate, key)
        return context

    def forget(self) -> bool:
        """The cluster refused us: whether another try with fresh credentials makes sense."""
        fresh = self._target.token_file is not None or self._made is not None
        self._token = ("", 0.0)
        self._made = None
        return fresh

    def _read_token(self, path: Path) -> str:
        token, read = self._token
        now = time.monotonic()
        if not token or now - read > _REREAD_SECONDS:
            try:
                token = path.read_text().strip()
            except OSError as error:
                raise Unreachable(f"{path} cannot be read: {error.strerror}") from None
            self._token = (token, now)
        return token

    async def _plugged(self, plugin: Plugin) -> _Made:
        async with self._running:
            if self._made is None or self._made.until < time.time() + 10:
                self._made = await _run(plugin, self._target)
            return self._made


async def _run(plugin: Plugin, target: Target) -> _Made:
    """Run a plugin as KEP-541 says: what it needs is in its environment, what it made on its standard output."""
    spec: dict[str, Any] = {"interactive": False}
    if plugin.with_cluster:
        spec["cluster"] = _cluster(target)
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    environment = {**os.environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": json.dumps(info)}
    named = f"credential plugin {plugin.command!r}"
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command, *plugin.arguments, env=environment, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
    except OSError as error:
        hint = f"\n{plugin.install_hint}" if plugin.install_hint else ""
        raise Unreachable(f"{named} does not start: {error.strerror}{hint}") from None
    try:
        async with asyncio.timeout(_PLUGIN_SECONDS):
            output, complaints = await process.communicate()
    except TimeoutError:
        raise Unreachable(f"{named} did not end within {_PLUGIN_SECONDS:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        last = complaints.decode("utf-8", "replace").strip()[-500:]
        raise Unreachable(f"{named} failed with exit code {process.returncode}: {last}")
    try:
        return _made(msgspec.json.decode(output, type=dict[str, Any]))
    except (msgspec.DecodeError, ValueError, AttributeError) as error:
        raise Unreachable(f"{named} wrote no ExecCredential: {error}") from None


def _made(tree: dict[str, Any]) -> _Made:
    status = tree.get("status") or {}
    token, certificate = str(status.get("token") or ""), str(status.get("clientCertificateData") or "")
    if not token and not certificate:
        raise ValueError("its status has neither token nor clientCertificateData")
    ends = status.get("expirationTimestamp")
    until = datetime.fromisoformat(ends).timestamp() if ends else float("inf")
    return _Made(token, certificate.encode(), str(status.get("clientKeyData") or "").encode(), until)


def _cluster(target: Target) -> dict[str, Any]:
    tree = {
        "server": target.server,
        "tls-server-name": target.server_name,
        "insecure-skip-tls-verify": target.insecure,
        "certificate-authority-data": base64.b64encode(target.authority).decode(),
        "proxy-url": target.proxy,
    }
    return {key: value for key, value in tree.items() if value}


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """ssl reads certificates from files only; this one is gone at once."""
    handle, name = tempfile.mkstemp(prefix="allotment-", suffix=".pem")
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.rstrip() + b"\n" + key)
        context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise Unreachable(f"the client's certificate and key cannot be used: {error}") from None
    finally:
        path.unlink()
