"""Selects a cluster by ``--context`` and ``--kubeconfig``, connects to it, and reports its errors as kubectl does.

The default cluster is the lab: the current context if it belongs to a running lab, else the context ``allotment`` of
kubectl's configuration, else a running lab with a configuration file of its own, else the current context. A production
cluster thus does not receive objects meant for the lab; a command that writes to another cluster than a lab reports it.
kubectl's plugin uses kubectl's current context.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import sys
from argparse import Namespace
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from allotment.api.clusters.selection import selected
from allotment.cli import kubectl_plugin
from allotment.cli.output.errors import Failure
from allotment.cluster.errors import NoCredentials, NothingReadable, StatusError, Unreachable
from allotment.cluster.remote.kubeconfig import ClusterTarget, KubeconfigNotFound, contexts, default_paths
from allotment.errors import InputError
from allotment.lab.state import DEFAULT_NAME, Register, context_of

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

T = TypeVar("T")

_LAB = context_of(DEFAULT_NAME)
_START = "start a lab with allot up, or select another cluster with --context"
_ELSEWHERE = "check that it is running and reachable (network, VPN, proxy), or select another cluster with --context"
_STRANGER = "check the cluster's certificate-authority-data in the kubeconfig, and any proxies in between"


def way_to(arguments: Namespace) -> ClusterTarget:
    """Return the selected cluster. Raises InputError."""
    paths = [Path(arguments.kubeconfig)] if arguments.kubeconfig else []
    with no_cluster(arguments):
        return selected(paths, arguments.context or "", not kubectl_plugin.is_plugin())


@contextmanager
def no_cluster(arguments: Namespace) -> Iterator[None]:
    """Convert the error for a missing kubeconfig to what the command requires."""
    try:
        yield
    except KubeconfigNotFound as error:
        if arguments.context:
            raise
        missing = getattr(arguments, "missing", "")
        hint = getattr(arguments, "otherwise", "start a lab with allot up")
        raise InputError(f"{missing}, and {error.problem}" if missing else error.problem, hint) from None


def _contexts() -> list[str]:
    return contexts()[0] if any(path.exists() for path in default_paths()) else []


def lab_options() -> tuple[str, ...]:
    """Return the options that select a running lab, preferably the default one; empty if no lab is running."""
    labs = sorted(Register().running(), key=lambda lab: lab.name != DEFAULT_NAME)
    if not labs:
        return ()
    known = labs[0].context in _contexts()
    return ("--context", labs[0].context) if known else ("--kubeconfig", labs[0].kubeconfig)


def kubectl_options(arguments: Namespace, way: ClusterTarget) -> tuple[str, ...]:
    """Return the options with which kubectl uses the same cluster and namespace, whatever its current context is."""
    kubeconfig = arguments.kubeconfig or ""
    lab = Register().status(DEFAULT_NAME)
    if not kubeconfig and lab is not None and lab.context == way.context and way.context not in _contexts():
        kubeconfig = lab.kubeconfig
    named = (("--kubeconfig", kubeconfig), ("--context", way.context), ("-n", arguments.namespace))
    return tuple(word for option, value in named if value for word in (option, value))


def namespace_of(arguments: Namespace, way: ClusterTarget) -> str:
    """Return the selected namespace. Raises Failure for an invalid name."""
    namespace = arguments.namespace or way.namespace
    if "/" in namespace or namespace in (".", ".."):
        raise Failure(f"error: {namespace!r} is not a valid namespace name")
    return namespace


def announce(arguments: Namespace, way: ClusterTarget) -> None:
    """Before a write, report the cluster if it was selected by default and is not a lab."""
    is_lab = way.context.startswith(_LAB) and urlsplit(way.server).hostname in ("127.0.0.1", "::1", "localhost")
    if not arguments.context and not is_lab:
        where = f"context {way.context!r}, the current context" if way.context else way.server
        sys.stderr.write(f"no lab is running: using {where}\n")


@asynccontextmanager
async def connected(way: ClusterTarget) -> AsyncIterator[HttpClient]:
    """Return a context manager with a client of the cluster."""
    from allotment.cluster.remote.http_client import HttpClient

    async with HttpClient(way) as client:
        yield client


def on_cluster(arguments: Namespace, work: Callable[[HttpClient, ClusterTarget], Awaitable[T]]) -> T:
    """Run a coroutine on the selected cluster. Raises InputError or Failure for errors."""
    way = way_to(arguments)

    async def run() -> T:
        async with connected(way) as client:
            return await work(client, way)

    with cluster_errors(way):
        return asyncio.run(run())


@contextmanager
def cluster_errors(way: ClusterTarget) -> Iterator[None]:
    """Convert errors of a cluster to InputError and Failure."""
    try:
        yield
    except StatusError as error:
        raise _refused(way, error) from None
    except NoCredentials as error:
        raise InputError(f"{f'context {way.context}: ' if way.context else ''}{error}") from None
    except Unreachable as error:
        where = f" (context {way.context})" if way.context else ""
        hint = _START if way.context.startswith(_LAB) else _ELSEWHERE
        if _distrust(error) is not None:
            hint = _STRANGER
        raise InputError(f"no answer from {way.server}{where}: {cause(error)}", hint) from None


def _refused(way: ClusterTarget, error: StatusError) -> Failure:
    where = f"context {way.context}" if way.context else way.server
    if error.code == 401:
        words = "error: You must be logged in to the server (Unauthorized)"
        return Failure(words, f"{where}: the token, certificate or login was rejected; log in again")
    if isinstance(error, NothingReadable):
        return Failure(refusal(error), "allot rbac reader prints the required permissions")
    anonymous = error.code == 403 and '"system:anonymous"' in str(error)
    return Failure(refusal(error), f"{where} has no credentials for its user" * anonymous)


def _distrust(error: Unreachable) -> ssl.SSLCertVerificationError | None:
    """Return the certificate error that caused an error, or None."""
    reason: BaseException | None = error.__cause__
    while reason is not None and not isinstance(reason, ssl.SSLCertVerificationError):
        reason = reason.__cause__
    return reason


def cause(error: Unreachable) -> str:
    """Return the cause of a connection error, without the request."""
    if isinstance(error.__cause__, ConnectionRefusedError):
        return "nothing is listening on this address"
    if (distrust := _distrust(error)) is not None:
        return f"the server's certificate is not trusted: {distrust.verify_message.rstrip('.')}"
    # The text of an operating system error without "[Errno 2]".
    return re.sub(r"^\[Errno -?\d+\] ", "", str(error.__cause__ or error))


def refusal(error: StatusError, doing: str = "") -> str:
    """Format a Status as kubectl does, with ``doing`` before the message.

    >>> refusal(StatusError({"reason": "NotFound", "message": 'pods "a" not found'}))
    'Error from server (NotFound): pods "a" not found'
    """
    reason = f" ({error.reason})" if error.reason else ""
    return f"Error from server{reason}: {doing}{error}"
