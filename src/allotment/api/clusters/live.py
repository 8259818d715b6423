"""A running cluster, which each question reads again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from allotment.api.clusters.selection import selected, selected_again
from allotment.api.clusters.source import ClusterOrigin, ClusterSource, Gates
from allotment.api.objects.inputs import Inputs, queued
from allotment.api.objects.validation import validate
from allotment.cluster.errors import NothingReadable, StatusError
from allotment.cluster.inspection.discovery import Discovery, discover
from allotment.cluster.inspection.server_facts import facts_of, with_unread
from allotment.cluster.inspection.snapshot import Snapshot, SnapshotResource, take_snapshot
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.errors import InvalidManifests
from allotment.model.loading import Document, LoadResult
from allotment.model.loading.documents import Origin
from allotment.model.meta import Object
from allotment.model.server_facts import ServerFacts, release_note, serves_devices
from allotment.model.trees import Tree
from allotment.tools.unread import unread_notes, unread_resources

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient

T = TypeVar("T")

_NO_CLAIMS: Final = (
    "the cluster does not serve resource.k8s.io: dynamic resource allocation is not available"
    " (allot doctor --select D101)"
)


class LiveSource(ClusterSource):
    """A running cluster. Raises InputError if the kubeconfig does not contain it."""

    has_objects = True

    def __init__(
        self, context: str, kubeconfig: str | PathLike[str] | None, kube: str | None, gates: Gates, prefer_lab: bool
    ) -> None:
        super().__init__(kube, gates)
        self._context, self._kubeconfig = context, fspath(kubeconfig) if kubeconfig else ""
        self._paths = [Path(kubeconfig)] if kubeconfig else []
        self.target = selected(self._paths, context, prefer_lab)

    @property
    def origin(self) -> ClusterOrigin:
        """The options with which a command selects this cluster."""
        named = (("--context", self._context), ("--kubeconfig", self._kubeconfig))
        options = tuple(word for option, value in named if value for word in (option, value))
        name = f"context {self._context}" if self._context else "the current context"
        return ClusterOrigin("cluster", options, options, f"the cluster of {name}", context=self.target.context)

    def target_now(self) -> ClusterTarget:
        """Return the target with the address and credentials that the kubeconfig has now."""
        return selected_again(self._paths, self.target)

    def read(self, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return the objects of some kinds, with notes. Raises StatusError and Unreachable."""
        return self.run(lambda client, _: self.read_with(client, kinds))

    def run(self, work: Callable[[HttpClient, ClusterTarget], Awaitable[T]]) -> T:
        """Run a coroutine with a client of the cluster, and wait for its result, also inside a running event loop."""
        from allotment.cluster.remote.http_client import HttpClient

        async def connected() -> T:
            async with HttpClient(self.target) as client:
                return await work(client, self.target)

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(connected())
        # A thread can run only one event loop: notebooks and asynchronous tests have one already.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(lambda: asyncio.run(connected())).result()

    async def read_with(self, client: HttpClient, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return the objects of some kinds, with notes."""
        discovery = await discover(client)
        now = datetime.now(UTC).isoformat()
        facts, taken = await asyncio.gather(facts_of(client, discovery, now), readable(client, discovery, kinds))
        return self.inputs(with_unread(facts, taken.refused), taken.objects)

    def inputs(self, facts: ServerFacts, trees: Iterable[Tree]) -> Inputs:
        """Return objects that were read, with the facts about the server as one of them."""
        source = f"context {self.target.context}" if self.target.context else self.target.server
        values = (*values_of(trees, source), facts)
        notes = reading_notes(facts, unread_resources(values), self.kube)
        return Inputs(self.features((facts,)), values, (), notes)


def reading_notes(facts: ServerFacts, unread: Mapping[str, str], kube: str | None) -> tuple[str, ...]:
    """Return what a user should know about how a running cluster was read. ``kube``: the release that is stated."""
    notes = ["" if kube else release_note(facts), "" if serves_devices(facts) else _NO_CLAIMS]
    return tuple(filter(None, (*notes, *unread_notes(unread))))


async def readable(
    client: HttpClient, discovery: Discovery, kinds: Sequence[SnapshotResource], namespace: str = ""
) -> Snapshot:
    """Return the objects of the kinds that the user may read. Raises NothingReadable if there is no such kind."""
    try:
        return await take_snapshot(client, discovery, kinds, namespace)
    except StatusError as error:
        if error.code != 403:
            raise
        raise NothingReadable(error.status) from None


def values_of(trees: Iterable[Tree], source: str) -> tuple[Object, ...]:
    """Return objects of a cluster as values, queued. Errors name the ``source`` instead of a file."""
    origin = Origin.without_text(source)
    documents = [Document(tree, origin, number) for number, tree in enumerate(trees)]
    values, problems = validate(LoadResult(documents, []), None)
    if problems:
        raise InvalidManifests(problems, lambda _: None)
    return queued(values)
