"""Completion of labs, kubeconfig contexts, and the names of objects in a cluster.

A cluster that does not answer within a second is ignored.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from allotment.cli.completion.command_line import Candidate, Line

if TYPE_CHECKING:
    from allotment.cluster.client import Resource
    from allotment.cluster.remote.http_client import HttpClient
    from allotment.cluster.remote.kubeconfig import ClusterTarget


Work: TypeAlias = "Callable[[HttpClient, ClusterTarget], Awaitable[list[Candidate]]]"

#: Timeout for the cluster.
TIMEOUT_SECONDS = 1.0
#: Maximum number of names.
_MOST: Final = 500
#: Requests metadata only, if the server supports it.
_NAMES_ONLY: Final = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#: The prefixes that ``allot explain`` accepts, and the resource of each.
_EXPLAINED: Final = {
    "pod": "pods", "claim": "resourceclaims", "deploy": "deployments", "sts": "statefulsets", "ds": "daemonsets",
    "job": "jobs", "cronjob": "cronjobs",
}  # fmt: skip
#: Aliases of resources.
_CLAIMS: Final = {"claim": "resourceclaims", "claims": "resourceclaims"}


def namespaces(line: Line) -> list[Candidate]:
    """Return the namespaces of the cluster."""
    return _named(line, ["namespaces"])


def nodes(line: Line) -> list[Candidate]:
    """Return the nodes of the cluster."""
    return _named(line, ["nodes"])


def device_classes(line: Line) -> list[Candidate]:
    """Return the device classes of the cluster."""
    return _named(line, ["deviceclasses"])


def named(line: Line) -> list[Candidate]:
    """Return kinds and names for ``KIND``, ``KIND NAME …`` and ``KIND/NAME …``, as kubectl does."""
    kind, slash, _ = line.word.partition("/")
    arguments = line.given.get("objects", [])
    if slash:
        return _named(line, [kind], f"{kind}/")
    if arguments and "/" not in arguments[0]:
        return [candidate for candidate in _named(line, arguments[0].split(",")) if candidate.value not in arguments]
    return _kinds(line, "/" if arguments else "")


def explained(line: Line) -> Iterable[Candidate]:
    """Return pods, claims and workloads of all namespaces, or of the one given."""
    if line.given.get("cluster") or line.given.get("fleet"):
        return ()
    kind, slash, _ = line.word.partition("/")
    arguments = line.given.get("object", [])
    if slash and not arguments:
        return _named(line, [kind], f"{kind}/", everywhere=True)
    if arguments:
        return _named(line, arguments, everywhere=True) if len(arguments) == 1 and "/" not in arguments[0] else ()
    kinds = [Candidate(f"{word}/", plural) for word, plural in _EXPLAINED.items()]
    return [*kinds, *_named(line, ["pods", "resourceclaims"], everywhere=True)]


def logged(line: Line) -> list[Candidate]:
    """Return pods, and workloads for ``KIND/``."""
    kind, slash, _ = line.word.partition("/")
    return _named(line, [kind], f"{kind}/") if slash else _named(line, ["pods"])


def containers(line: Line) -> list[Candidate]:
    """Return the containers of the pod on the command line."""

    async def work(client: HttpClient, way: ClusterTarget) -> list[Candidate]:
        from allotment.cli.live.tables import path_of
        from allotment.cluster.resources import PODS

        tree = await client.read(path_of(PODS, _namespace(line, way), line.last("pod").removeprefix("pod/")))
        spec = tree.get("spec") or {}
        return [
            Candidate(container["name"], container.get("image", ""))
            for key in ("containers", "initContainers")
            for container in spec.get(key) or ()
        ]

    return _query(line, work) if line.last("pod") else []


def _named(line: Line, words: Sequence[str], before: str = "", everywhere: bool = False) -> list[Candidate]:
    """Return the objects of kinds, in the selected namespace."""

    async def work(client: HttpClient, way: ClusterTarget) -> list[Candidate]:
        from allotment.cli.live.resource_arguments import kinds_of
        from allotment.cluster.inspection.discovery import discover

        discovery = await discover(client)
        namespace = line.last("namespace") if everywhere else _namespace(line, way)
        found: list[Candidate] = []
        for word in words:
            for served in kinds_of(discovery, _CLAIMS.get(word, word)):
                trees = await _list(client, served.resource, namespace)
                found += (_candidate(tree, before, everywhere) for tree in trees)
        return found

    return _query(line, work)


def _kinds(line: Line, ending: str) -> list[Candidate]:
    """Return the kinds that the cluster serves, by their shortest unambiguous name; also after a comma."""
    before, comma, _ = line.word.rpartition(",")

    async def work(client: HttpClient, way: ClusterTarget) -> list[Candidate]:
        from allotment.cluster.inspection.discovery import discover

        discovery = await discover(client)
        found: dict[str, str] = {}
        for served in discovery.served:
            if "list" in served.verbs:
                first = discovery.by_word(served.resource.plural)
                same = first is not None and first.resource.group == served.resource.group
                found.setdefault(served.resource.plural if same else served.plural_label, served.resource.kind)
        return [Candidate(f"{before}{comma}{word}{ending}", kind) for word, kind in found.items()]

    return _query(line, work)


async def _list(client: HttpClient, resource: Resource, namespace: str) -> Iterator[dict[str, Any]]:
    tree = await client.read(resource.path(namespace), [("limit", str(_MOST))], _NAMES_ONLY)
    return (item.get("metadata") or {} for item in tree.get("items") or ())


def _candidate(metadata: dict[str, Any], before: str, everywhere: bool) -> Candidate:
    where = f"in {metadata['namespace']}" if everywhere and metadata.get("namespace") else ""
    return Candidate(f"{before}{metadata.get('name', '')}", where)


def _namespace(line: Line, way: ClusterTarget) -> str:
    return line.last("namespace") or way.namespace


def _query(line: Line, work: Work) -> list[Candidate]:
    """Run a query on the selected cluster; return nothing if it takes longer than a second.

    It runs in a daemon thread, because name resolution and credential plugins cannot be interrupted.
    """
    from allotment.cli.live.connection import on_cluster

    file = line.last("kubeconfig")
    kubeconfig = str(Path(file).expanduser()) if file else ""
    arguments = Namespace(context=line.last("context"), kubeconfig=kubeconfig)
    found: list[Candidate] = []

    def query() -> None:
        with suppress(Exception):
            found.extend(on_cluster(arguments, work))

    with suppress(ImportError):
        import_module(
            "allotment.cluster.remote.http_client"
        )  # imports take most of the time; the timeout is for the cluster
    thread = Thread(target=query, daemon=True)
    thread.start()
    thread.join(TIMEOUT_SECONDS)
    return list(found)


def contexts(line: Line) -> Iterator[Candidate]:
    """Yield the contexts of the selected kubeconfig."""
    from allotment.cluster.remote.kubeconfig import contexts as read

    file = line.last("kubeconfig")
    known, current = read([Path(file).expanduser()] if file else [])
    return (Candidate(name, "the current context" if name == current else "") for name in known)


def labs(line: Line) -> Iterator[Candidate]:
    """Yield the running labs."""
    from allotment.lab.state import Register

    return (Candidate(lab.name, ",".join(lab.fleet)) for lab in Register().running())
