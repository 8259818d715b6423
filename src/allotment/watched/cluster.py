"""``WatchedCluster``: the newest view of a cluster, and a way to wait for the next one."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from allotment.api.cluster import Cluster
from allotment.api.clusters.described import SnapshotSource
from allotment.api.clusters.source import ClusterSource
from allotment.api.objects.inputs import Inputs
from allotment.cluster.inspection.snapshot import EVERYTHING
from allotment.explanation.input import AdmittedObjects
from allotment.lab.state import Register
from allotment.model.loading import Document
from allotment.model.meta import ObjectKey
from allotment.model.resource import ResourceSlice
from allotment.model.server_facts import facts_among
from allotment.phrases import listed
from allotment.tools.unread import missing_kinds_note, unread_resources
from allotment.watched.builder import ClusterIdentity
from allotment.watched.kinds import KINDS
from allotment.watched.view import ClusterView, Identity, Place

if TYPE_CHECKING:
    from allotment.cluster.remote.kubeconfig import ClusterTarget

#: The place of a cluster that does not run, by that of its origin.
_PLACES: Final[dict[str, Place]] = {"snapshot": "snapshot", "hardware": "fleet", "cluster": "cluster"}
#: Kinds of KINDS without a namespace.
_CLUSTER_SCOPED: Final = frozenset(kind.resource.kind for kind in KINDS if not kind.resource.namespaced)
#: Slices that a note names.
_MOST_NAMED: Final = 3


class ViewFeed(Protocol):
    """Where the views of a cluster that changes come from."""

    async def run(self, watched: WatchedCluster, /) -> None:
        """Publish views until cancelled."""
        ...


class WatchedCluster:
    """A cluster whose newest view is in memory. A static one has only one view."""

    def __init__(self, first: ClusterView, feed: ViewFeed | None = None, target: ClusterTarget | None = None) -> None:
        self.target = target
        """The address and credentials of a running cluster."""
        self._view = first
        self._feed = feed
        self._waiting: set[asyncio.Future[None]] = set()

    @classmethod
    def of_snapshot(cls, cluster: Cluster, *, revision: int = 1) -> WatchedCluster:
        """Return a cluster that does not change: a snapshot, described hardware, or only a release.

        Raises InvalidManifests for a snapshot.
        """
        return cls(view_of(cluster, revision))

    @classmethod
    def of_target(
        cls, target: ClusterTarget, identity: ClusterIdentity, *, revision: int = 0,
        reread: Callable[[], ClusterTarget] | None = None,
    ) -> WatchedCluster:  # fmt: skip
        """Return a running cluster, whose first view is empty and not connected. ``run`` follows it.

        A kind that may not be read in all namespaces is read in that of the target. ``revision``: of the first view.
        ``reread``: returns the target as it is configured now, for a cluster that is set up again.
        """
        from allotment.cluster.remote.http_client import HttpClient
        from allotment.watched.live import LiveFeed

        # Failures are shown immediately, and the feed retries.
        def connect() -> HttpClient:
            return HttpClient(found.target or target, retry_seconds=0)

        def has_moved() -> bool:
            before, found.target = found.target, reread() if reread is not None else target
            return found.target != before

        feed = LiveFeed(connect, identity, target.namespace, revision=revision, has_moved=has_moved)
        where = f"context {target.context}" if target.context else target.server
        found = cls(feed.builder.first(f"connecting to {where}"), feed, target)
        return found

    @classmethod
    def of(cls, cluster: Cluster, *, is_lab: bool | None = None) -> WatchedCluster:
        """Return the cluster of a question: one that runs is watched. Raises InvalidManifests for a snapshot.

        ``is_lab``: whether it may be changed; by default, whether it is a running lab of this user.
        """
        revision = _first_revision()
        if cluster.origin.place != "cluster":
            return cls.of_snapshot(cluster, revision=revision)
        from allotment.api.clusters.live import LiveSource

        source = cluster.source
        if not isinstance(source, LiveSource):
            return cls.of_snapshot(cluster, revision=revision)
        target = source.target
        if is_lab is None:
            is_lab = (target.context, target.server) in ((lab.context, lab.url) for lab in Register().running())
        name = target.context or target.server
        identity = ClusterIdentity(source.origin, name, "lab" if is_lab else "cluster", source.kube, source.gates)
        return cls.of_target(target, identity, revision=revision, reread=source.target_now)

    def view(self) -> ClusterView:
        """Return the newest view."""
        return self._view

    async def changed(self, after: int) -> ClusterView:
        """Wait for a view that is newer than a revision, and return the newest one."""
        while self._view.revision <= after:
            arrived = asyncio.get_running_loop().create_future()
            self._waiting.add(arrived)
            try:
                await arrived
            finally:
                self._waiting.discard(arrived)
        return self._view

    def publish(self, view: ClusterView) -> None:
        """Replace the view by a newer one, and wake those who wait for it."""
        self._view = view
        for arrived in self._waiting:
            if not arrived.done():
                arrived.set_result(None)

    async def run(self) -> None:
        """Keep the view current until cancelled."""
        if self._feed is not None:
            await self._feed.run(self)
        else:
            await asyncio.Event().wait()


def _first_revision() -> int:
    """Return where the revisions of this process start: higher than those of earlier processes, and apart from those
    of another copy, so that a page that is connected to another one does not take its changes for these."""
    return (int(time.time()) << 20) + secrets.randbelow(1 << 20)


def view_of(cluster: Cluster, revision: int = 1) -> ClusterView:
    """Return the view of a cluster that does not change. Raises InvalidManifests for a snapshot."""
    source = cluster.source
    inputs = source.read(EVERYTHING)
    facts = facts_among(inputs.cluster)
    place: Place = _PLACES[source.origin.place] if source.has_objects else "none"
    if place == "snapshot":
        note = missing_kinds_note(inputs.cluster)
        inputs = _without_rejected(replace(inputs, notes=(*inputs.notes, note) if note else inputs.notes))
    documents = tuple(source.manifests) if isinstance(source, SnapshotSource) else ()
    return ClusterView(
        revision=revision,
        inputs=inputs,
        origin=source.origin,
        name=_name_of(source, inputs),
        place=place,
        seen_at=facts.taken if facts is not None else "",
        unread=unread_resources(inputs.cluster),
        kube=source.kube,
        gates=tuple(source.gates),
        trees={_identity(document): document.tree for document in documents},
        events=tuple(document.tree for document in documents if document.kind == "Event"),
    )


def _without_rejected(inputs: Inputs) -> Inputs:
    """Return a snapshot without the slices that an API server would reject, which no explanation considers, and a note
    that names them."""
    admitted = AdmittedObjects(inputs.features)
    rejected = {
        id(value): f"{value.metadata.name} ({errors[0].path})"
        for value in inputs.cluster
        if isinstance(value, ResourceSlice) and not value.metadata.uid and (errors := admitted.admit(value).errors)
    }
    if not rejected:
        return inputs
    kept = tuple(value for value in inputs.cluster if id(value) not in rejected)
    names = listed([*list(rejected.values())[:_MOST_NAMED], *(["others"] if len(rejected) > _MOST_NAMED else [])])
    note = f"ignored, because an API server would reject them: ResourceSlice {names}"
    return replace(inputs, cluster=kept, notes=(*inputs.notes, note))


def _name_of(source: ClusterSource, inputs: Inputs) -> str:
    """Return the name of a cluster that does not change; for a snapshot, that of its files without their folders."""
    if not isinstance(source, SnapshotSource):
        return source.origin.name or f"Kubernetes {inputs.features.kube}"
    return listed([Path(name).name for name in source.manifests.names]) or "snapshot"


def _identity(document: Document) -> Identity:
    """Return kind and key of an object as it is written: the default namespace may be missing."""
    metadata = document.tree.get("metadata") or {}
    namespace = metadata.get("namespace") or ("" if document.kind in _CLUSTER_SCOPED else "default")
    return document.kind, ObjectKey(namespace, metadata.get("name") or "")
