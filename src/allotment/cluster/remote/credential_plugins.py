"""Credential plugins: programs that create a token or a certificate for a cluster (KEP-541).

A plugin gets its input in the environment and prints the credential to standard output. It may be interactive (read
a code, open a browser) if there is a terminal and the kubeconfig allows it; then it uses the terminal.
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
#: Time limit for interactive plugins.
_INTERACTIVE_SECONDS: Final = 600.0
#: Time limit for a killed plugin to end and for its output, which a child may keep open.
_KILL_SECONDS: Final = 2.0


class Credential(NamedTuple):
    """The credential of a plugin; ``until``: expiry in seconds since the epoch."""

    token: str
    certificate: bytes
    key: bytes
    until: float


async def credential(plugin: CredentialPlugin, target: ClusterTarget) -> Credential:
    """Run a plugin. Raises NoCredentials with its error output or its install hint."""
    named = f"credential plugin {plugin.command!r}"
    interactive = plugin.mode != "Never" and _terminal()
    if plugin.mode == "Always" and not interactive:
        raise NoCredentials(f"{named} requires a terminal (interactiveMode: Always), but there is none")
    spec: Tree = {"interactive": interactive}
    if plugin.with_cluster:
        spec["cluster"] = _cluster(plugin, target)
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    environment = {**os.environ, **dict(plugin.environment), "KUBERNETES_EXEC_INFO": json.dumps(info)}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command, *plugin.arguments, env=environment, stdin=None if interactive else DEVNULL, stdout=PIPE,
            stderr=None if interactive else PIPE, start_new_session=not interactive,
        )  # fmt: skip
    except OSError as error:
        hint = f". {plugin.install_hint}" if plugin.install_hint else ""
        raise NoCredentials(f"{named} cannot be started: {error.strerror}{hint}") from None
    seconds = _INTERACTIVE_SECONDS if interactive else _SECONDS
    try:
        async with asyncio.timeout(seconds):
            output, errors = await process.communicate()
    except TimeoutError:
        raise NoCredentials(f"{named} did not exit within {seconds:.0f} s") from None
    finally:
        if process.returncode is None:
            await _kill(process, alone=interactive)
    if process.returncode:
        last = (errors or b"").decode("utf-8", "replace").strip()[-500:]
        raise NoCredentials(f"{named} failed with exit code {process.returncode}: {last}")
    try:
        return _read(msgspec.json.decode(output, type=Tree), plugin.api_version)
    except (msgspec.DecodeError, ValueError, AttributeError) as error:
        raise NoCredentials(f"{named} did not print an ExecCredential: {error}") from None


async def _kill(process: Process, *, alone: bool) -> None:
    """Kill a plugin and, unless it uses the terminal, its process group, which may keep its output open."""
    if alone or sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        async with asyncio.timeout(_KILL_SECONDS):
            await process.communicate()  # it has ended when its output is at the end


def _terminal() -> bool:
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _read(tree: Tree, expected: str) -> Credential:
    if tree.get("apiVersion", expected) != expected:
        raise ValueError(f"expected apiVersion {expected} as in the kubeconfig, found {tree['apiVersion']}")
    status = tree.get("status") or {}
    token, certificate = str(status.get("token") or ""), str(status.get("clientCertificateData") or "")
    key = str(status.get("clientKeyData") or "")
    if not token and not certificate:
        raise ValueError("its status has neither token nor clientCertificateData")
    if bool(certificate) != bool(key):
        raise ValueError("clientCertificateData and clientKeyData are required together")
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
