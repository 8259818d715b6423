"""``ViewBuilder``: makes the next view of a running cluster from the changes since the one before.

Used by one thread at a time, apart from the event loop: decoding and reports take long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from allotment.api.clusters.live import reading_notes
from allotment.api.clusters.source import ClusterOrigin
from allotment.api.objects.inputs import Inputs
from allotment.api.objects.releases import features_among
from allotment.cluster.inspection.server_facts import with_unread
from allotment.model.meta import ObjectKey
from allotment.model.server_facts import ServerFacts
from allotment.tools.unread import unread_resources
from allotment.watched.devices import DeviceMemory
from allotment.watched.keyed_objects import KeyedObjects
from allotment.watched.kinds import WatchedKind
from allotment.watched.objects import ObjectMemory
from allotment.watched.view import CarriedValues, ClusterView, InputsByKey, NodeChanges, NodeValues, Place

#: The newest tree of each changed object, as `keyed_objects.packed`; None if the object was deleted.
Changes: TypeAlias = Mapping[tuple[WatchedKind, ObjectKey], bytes | None]
#: Revisions whose changed nodes are kept: a page that is further behind reads the whole map.
_KEPT: Final = 1000


class ClusterIdentity(NamedTuple):
    """The constant part of a view: see `ClusterView`."""

    origin: ClusterOrigin
    name: str
    place: Place
    kube: str | None = None
    gates: tuple[str, ...] = ()


class ConnectionState(NamedTuple):
    """``facts``: about the server, as last read. ``refused``: the resources that may not be read, with the reason.

    ``seen_at``: when the server last responded. ``error``: why it does not respond, or empty.
    """

    facts: ServerFacts = ServerFacts()
    refused: Mapping[str, str] = {}
    seen_at: str = ""
    error: str = ""

    def without_time(self) -> ConnectionState:
        """The same, to compare it with another one."""
        return self._replace(seen_at="")


class ViewBuilder:
    """The objects and devices of a cluster as of the last view. ``revision``: of the first view."""

    def __init__(self, identity: ClusterIdentity, revision: int = 0) -> None:
        self._identity = identity
        self._objects = ObjectMemory()
        self._features = features_among(identity.kube, identity.gates, ())
        self._devices = DeviceMemory(self._features)
        self._revision = revision
        self._connection: ConnectionState | None = None
        self._changes: tuple[NodeChanges, ...] = ()
        self._node_values = NodeValues()
        self._carried = CarriedValues()

    def first(self, error: str) -> ClusterView:
        """The view before anything has been read."""
        identity = self._identity
        return ClusterView(
            self._revision, Inputs(self._features), identity.origin, identity.name, identity.place,
            connected=False, error=error, kube=identity.kube, gates=identity.gates,
        )  # fmt: skip

    def next(self, changes: Changes, connection: ConnectionState) -> ClusterView | None:
        """The view after some changes; None if it is the same as the last one."""
        identity = self._identity
        is_same = self._connection is not None and self._connection.without_time() == connection.without_time()
        self._connection = connection
        facts = with_unread(connection.facts, connection.refused)
        features = features_among(identity.kube, identity.gates, (facts,))
        is_new = features != self._features
        for (kind, key), written in changes.items():
            if kind.type is None:
                is_same &= not self._objects.put_event(key, written)
            elif (change := self._objects.put(kind.type, key, written)) is not None:
                is_same = False
                if not is_new:
                    self._devices.change(*change)
        if is_same:
            return None
        if is_new:
            self._features, self._devices = features, DeviceMemory(features)
            for value in self._objects.values():
                self._devices.change(None, value)
        known, nodes = self._devices.changes()
        self._revision += 1
        self._changes = (*self._changes[-_KEPT:], NodeChanges(self._revision, None if is_new else nodes))
        values = (facts, *self._objects.values())
        unread = unread_resources((facts, *self._objects.of_optional_kinds()))
        inputs = Inputs(features, values, (), reading_notes(facts, unread, identity.kube))
        by_kind = self._objects.by_kind(facts)
        keyed = InputsByKey(inputs, KeyedObjects(by_kind), by_kind)
        return ClusterView(
            self._revision, inputs, identity.origin, identity.name, identity.place, connection.seen_at,
            not connection.error, connection.error, unread, identity.kube, identity.gates,
            self._objects.trees(), self._objects.events(), self._changes, known, self._node_values,
            keyed, self._carried,
        )  # fmt: skip
