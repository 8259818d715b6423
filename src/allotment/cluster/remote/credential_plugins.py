"""Credential plugins: programs that make a token or a certificate when a cluster asks who we are (KEP-541).

What a plugin needs is in its environment, what it made on its standard output. A person may be asked (for a code, in a
browser) where a terminal is there and the configuration allows it; then the plugin has the terminal to itself.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, NamedTuple

import msgspec

from allotment.cluster.errors import NoCredentials
from allotment.cluster.remote.kubeconfig import ClusterTarget, CredentialPlugin
from allotment.model.trees import Tree

_SECONDS: Final = 60.0
#: A person takes longer.
_PERSON_SECONDS: Final = 600.0
#: Who was killed is gone by then; but somebody may hold its output, and that is waited for as well.
_END_SECONDS: Final = 2.0


class Credential(NamedTuple):
    """What a plugin gave; ``until``: seconds of the epoch."""

    token: str
    certificate: bytes
    key: bytes
    until: float


async def credential(plugin: CredentialPlugin, target: ClusterTarget) -> Credential:
    """Run a plugin. Raises NoCredentials, with what it said, or with how to install it."""
    named = f"credential plugin {plugin.command!r}"
    person = plugin.mode != "Never" and _terminal()
    if plugin.mode == "Always" and not person:
        raise NoCredentials(f"{named} requires a terminal (interactiveMode: Always), but there is none")
    spec: Tree = {"interactive": person}
    if plugin.with_cluster:
        spec["cluster"] = _cluster(plugin, target)
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    environment = {**os.environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command, *plugin.arguments, env=environment, stdin=None if person else DEVNULL, stdout=PIPE,
            stderr=None if person else PIPE, start_new_session=not person,
        )  # fmt: skip
    except OSError as error:
        hint = f". {plugin.install_hint}" if plugin.install_hint else ""
        raise NoCredentials(f"{named} cannot be started: {error.strerror}{hint}") from None
    seconds = _PERSON_SECONDS if person else _SECONDS
    try:
        async with asyncio.timeout(seconds):
            output, complaints = await process.communicate()
    except TimeoutError:
        raise NoCredentials(f"{named} did not exit within {seconds:.0f} s") from None
    finally:
        if process.returncode is None:
            await _end(process, alone=person)
    if process.returncode:
        last = (complaints or b"").decode("utf-8", "replace").strip()[-500:]
        raise NoCredentials(f"{named} failed with exit code {process.returncode}: {last}")
    try:
        return _read(msgspec.json.decode(output, type=Tree), plugin.api_version)
    except (msgspec.DecodeError, ValueError, AttributeError) as error:
        raise NoCredentials(f"{named} did not print an ExecCredential: {error}") from None


async def _end(process: Process, *, alone: bool) -> None:
    """Kill a plugin and (but for one that has the terminal) what it began, which may hold its output open for ever."""
    if alone or sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_END_SECONDS):
            await process.communicate()  # it has ended when all that it said is read


def _terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _read(tree: Tree, wanted: str) -> Credential:
    if tree.get("apiVersion", wanted) != wanted:
        raise ValueError(f"expected apiVersion {wanted} as in the kubeconfig, found {tree['apiVersion']}")
    status = tree.get("status") or {}
    token, certificate = str(status.get("token") or ""), str(status.get("clientCertificateData") or "")
    key = str(status.get("clientKeyData") or "")
    if not token and not certificate:
        raise ValueError("its status has neither token nor clientCertificateData")
    if bool(certificate) != bool(key):
        raise ValueError("a certificate needs its clientKeyData, and a key its clientCertificateData")
    ends = status.get("expirationTimestamp")
    until = float("inf")
    if ends:
        moment = datetime.fromisoformat(ends)
        until = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return Credential(token, certificate.encode(), key.encode(), until)


def _cluster(plugin: CredentialPlugin, target: ClusterTarget) -> Tree:
    tree = {
        "server": target.server,
        "tls-server-name": target.server_name,
        "insecure-skip-tls-verify": target.insecure,
        "certificate-authority-data": base64.b64encode(target.authority).decode(),
        "proxy-url": target.proxy,
        "config": json.loads(plugin.cluster_config) if plugin.cluster_config else None,
    }
    return {key: value for key, value in tree.items() if value}
