"""``ClusterView``: the state of a cluster at one moment, and what is derived from it on first use."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock, RLock
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

from allotment.api.cluster import Cluster
from allotment.api.clusters.source import ClusterOrigin, ClusterSource
from allotment.api.free import answer, free
from allotment.api.objects.inputs import ClusterState, Inputs
from allotment.api.question import Question
from allotment.cluster.gc_pause import gc_paused
from allotment.cluster.inspection.snapshot import SnapshotResource
from allotment.engine.cluster.inventory import Inventory
from allotment.model.meta import Object, ObjectKey
from allotment.model.server_facts import API_VERSION, KIND, ServerFacts
from allotment.model.trees import Tree, manifest_of, to_tree
from allotment.time_limits import without_time_limit
from allotment.tools.free import FreeReport, NodeReport

T = TypeVar("T")
V = TypeVar("V", bound=Object)

#: What a view shows: a lab, another running cluster, a snapshot, described hardware, or nothing but a release.
Place: TypeAlias = Literal["lab", "cluster", "snapshot", "fleet", "none"]
#: Kind and key of an object.
Identity: TypeAlias = tuple[str, ObjectKey]


class NodeChanges(NamedTuple):
    """The nodes whose devices may differ from those at the revision before; None stands for all."""

    revision: int
    nodes: frozenset[str] | None


class _CachedValue:
    """A value that is computed once."""

    __slots__ = ("is_known", "lock", "value")

    def __init__(self) -> None:
        self.lock = RLock()
        self.is_known = False
        self.value: Any = None


class NodeValues:
    """Values that follow from the report on a node, kept for later views as long as the report is the same object."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[Hashable, dict[str, tuple[NodeReport, Any]]] = {}

    def of(self, key: Hashable, nodes: Sequence[NodeReport], make: Callable[[NodeReport], T]) -> tuple[T, ...]:
        """Return a value for each node, in order."""
        with self._lock:
            before, after = self._known.get(key, {}), dict[str, tuple[NodeReport, Any]]()
            for node in nodes:
                known = before.get(node.node)
                after[node.node] = known if known is not None and known[0] is node else (node, make(node))
            self._known[key] = after
            return tuple(value for _, value in after.values())


class CarriedValues:
    """Values that later views of a cluster use again, such as the devices as an explanation knows them."""

    def __init__(self, most: int = 4) -> None:
        """``most``: the number of values; of more, the least recently used ones are dropped."""
        self._most = most
        self._lock = Lock()
        self._values: dict[Hashable, Any] = {}

    def of(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returned for this key in an earlier view, or returns now."""
        with self._lock:
            value = self._values.pop(key) if key in self._values else make()
            self._values[key] = value  # the most recent is last
            if len(self._values) > self._most:
                del self._values[next(iter(self._values))]
            return cast("T", value)


class InputsByKey(NamedTuple):
    """The objects of some inputs by kind and key, and by key for each kind."""

    inputs: Inputs
    objects: Mapping[Identity, Object]
    by_kind: Mapping[str, Mapping[ObjectKey, Object]]


class KnownDevices(NamedTuple):
    """A report on all devices, and the nodes that exist only in slices, which it leaves out."""

    report: FreeReport
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class ClusterView:
    """The state of a cluster at one moment. What is derived from it is computed once, and may take seconds.

    ``revision``: increases with each change. ``origin``: how a command selects the cluster; ``name``: what people call
    it. ``seen_at``: when this state was last confirmed, RFC 3339; empty if it is not known. ``connected``: False for
    the last known state of a cluster that does not respond, ``error`` states why. ``unread``: the resources that could
    not be read, with the reason. ``kube`` and ``gates``: those that the user stated. ``trees``: complete objects;
    ``events``: those about pods, as the cluster has them. ``changes``: see `changed_nodes`. ``devices``: the
    report on devices, if it was computed with the view. ``node_values``: see `of_nodes`; shared by successive views.
    ``keyed``: the objects by key, if they were known with the view. ``carried``: shared by successive views, too.
    """

    revision: int
    inputs: Inputs
    origin: ClusterOrigin
    name: str
    place: Place
    seen_at: str = ""
    connected: bool = True
    error: str = ""
    unread: Mapping[str, str] = field(default_factory=dict)
    kube: str | None = None
    gates: tuple[str, ...] = ()
    trees: Mapping[Identity, Tree] = field(default_factory=dict)
    events: Sequence[Tree] = ()
    changes: tuple[NodeChanges, ...] = ()
    devices: KnownDevices | None = None
    node_values: NodeValues = field(default_factory=NodeValues)
    keyed: InputsByKey | None = None
    carried: CarriedValues = field(default_factory=CarriedValues)
    _cached: dict[Hashable, _CachedValue] = field(default_factory=dict, init=False, repr=False)

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what ``make`` returned the first time for this key. Threads that need it wait for the first one.

        ``make`` may use other cached values, but not in a circle. If it raises, nothing is stored.
        """
        entry = self._cached.setdefault(key, _CachedValue())  # one operation, so that threads get the same entry
        with entry.lock:
            if not entry.is_known:
                with without_time_limit():
                    entry.value = make()
                entry.is_known = True
            return cast("T", entry.value)

    @property
    def is_read_only(self) -> bool:
        """Whether the cluster must not be changed: only labs may be."""
        return self.place != "lab"

    @property
    def cluster(self) -> Cluster:
        """The cluster for the functions of ``allotment.api``, which answers from memory."""
        # Not a method of the view, which would then refer to itself, and not be freed before a garbage collection.
        written = partial(_written, self.inputs, self.trees, self.events)
        return self.cached(
            "cluster", lambda: _cluster(MemorySource(self.inputs, self.origin, self.kube, self.gates, written))
        )

    @property
    def state(self) -> ClusterState:
        """The objects with devices and their allocations."""
        return self.cached("state", lambda: ClusterState.of(self.inputs))

    @property
    def inventory(self) -> Inventory:
        """The engine's inventory, which only one thread may use at a time."""
        return self.cached("inventory", self.state.inventory)

    @property
    def free(self) -> FreeReport:
        """All devices, and who uses them. Raises InputError if slices or claims could not be read."""
        return self.cached("free", self._free)

    def _free(self) -> FreeReport:
        known = self.devices
        if known is None:
            with gc_paused():
                return free(self.cluster)
        question = Question(self.cluster, None, self.inputs)
        return answer(question, lambda: known.report, known.gone)

    @property
    def objects(self) -> Mapping[Identity, Object]:
        """All objects by kind and key."""
        if self.keyed is not None and self.keyed.inputs is self.inputs:
            return self.keyed.objects
        return self.cached("objects", lambda: {identity_of(value): value for value in self.inputs.cluster})

    def of_kind(self, kind: type[V]) -> Iterable[V]:
        """Return the objects of a kind, in no particular order."""
        if self.keyed is not None and self.keyed.inputs is self.inputs:
            return cast("Iterable[V]", self.keyed.by_kind.get(kind.__name__, {}).values())
        return (value for value in self.inputs.cluster if type(value) is kind)

    def find(self, kind: str, key: ObjectKey) -> Object | None:
        """Return an object, or None."""
        return self.objects.get((kind, key))

    def tree(self, kind: str, key: ObjectKey) -> Tree | None:
        """Return an object as the cluster or the file has it, without managed fields; None if there is none."""
        known = self.trees.get((kind, key))
        if known is not None:
            return known
        value = self.find(kind, key)
        return manifest_of(value) if value is not None else None

    def of_nodes(self, key: Hashable, make: Callable[[NodeReport], T]) -> tuple[T, ...]:
        """Return what ``make`` returns for each node of ``free``, in order, computed again only for changed nodes."""
        return self.cached(("nodes", key), lambda: self.node_values.of(key, self.free.nodes, make))

    def changed_nodes(self, since: int) -> frozenset[str] | None:
        """Return the nodes that changed after a revision, including removed ones; None if every node may have.

        An empty name stands for the devices that several nodes can use.
        """
        if since >= self.revision:
            return frozenset() if since == self.revision else None
        later = [change for change in self.changes if change.revision > since]
        # Without the entry of each revision in between, nothing is known about them.
        if not later or later[0].revision > since + 1:
            return None
        found: set[str] = set()
        for change in later:
            if change.nodes is None:
                return None
            found |= change.nodes
        return frozenset(found)


class MemorySource(ClusterSource):
    """Objects that have been read, as the cluster of a question. ``written``: returns them as they are written."""

    has_objects = True

    def __init__(
        self, inputs: Inputs, origin: ClusterOrigin, kube: str | None, gates: Sequence[str],
        written: Callable[[], Iterable[Tree]],
    ) -> None:  # fmt: skip
        super().__init__(kube, gates)
        self._inputs = inputs
        self._origin = origin
        self._written = written

    @property
    def origin(self) -> ClusterOrigin:
        """The options with which a command selects this cluster."""
        return self._origin

    def read(self, kinds: Sequence[SnapshotResource]) -> Inputs:
        """Return all objects, with the release that is stated now."""
        return Inputs(self.features(self._inputs.cluster), self._inputs.cluster, (), self._inputs.notes)

    def trees(self) -> Iterable[Tree]:
        """Return the objects as they are written, and the facts about the server."""
        return self._written()


def _cluster(source: ClusterSource) -> Cluster:
    cluster = Cluster()
    cluster.source = source
    return cluster


def _written(inputs: Inputs, trees: Mapping[Identity, Tree], events: Sequence[Tree]) -> Iterator[Tree]:
    """The objects as they are written, or with the known fields, and the events."""
    for value in inputs.cluster:
        if isinstance(value, ServerFacts):
            yield to_tree(value, API_VERSION, KIND)
        else:
            known = trees.get(identity_of(value))
            yield known if known is not None else manifest_of(value)
    yield from events


def identity_of(value: Object) -> Identity:
    """Return kind and key of an object."""
    return type(value).__name__, value.key
