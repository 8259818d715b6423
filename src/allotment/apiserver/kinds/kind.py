"""A kind as the API serves it: names, versions, subresources, and the rules that make it more than a record.

Rules are plain functions on trees in the storage version's shape. The defaults do nothing, so that a kind that is only
stored (a Lease, say) is one line in a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from allotment.apiserver.storage.store import Entry
from allotment.model.features import Features
from allotment.model.fields import TypeShape
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError
from allotment.model.validation.names import subdomain_problems


class User(NamedTuple):
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


class Reader(Protocol):
    """What rules may read of the store, by bucket (``pods``, ``resourceclaims.resource.k8s.io``)."""

    @property
    def revision(self) -> int:
        """Of the newest write."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The newest state."""
        ...

    def list(self, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        """All objects by namespace and name."""
        ...


class Write(NamedTuple):
    """The write being judged: everything a rule may need beside the objects.

    ``version``: the API version that the client wrote, without group. ``now``: RFC 3339, whole seconds. ``suffix()``:
    five fresh characters, as generated names end in. ``subresource``: "" for the object itself. ``warn(text)``: adds a
    Warning header.
    """

    user: User
    reader: Reader
    features: Features
    now: str
    suffix: Callable[[], str]
    warn: Callable[[str], None]
    namespace: str = ""
    version: str = "v1"
    subresource: str = ""
    dry_run: bool = False


Errors = Iterable[FieldError]


class Rules(NamedTuple):
    """What happens to an object on its way in. Functions never change what they are given, for it may be stored, or
    be needed as it came: they copy along the path that changes.

    Order for a create: ``default`` (after decoding, every write), ``prepare_create`` (drop status, set what the server
    sets), ``admit`` (mutating admission; may raise StatusError), ``validate_create``. For an update:
    ``default``, ``prepare_update(new, old, write)`` (reset what this subresource may not touch), ``admit_update``,
    ``validate_update``. Metadata (names, labels, finalizers, ownerReferences, uid, generation) is judged by the verbs
    themselves, the same for all kinds.
    """

    #: Parts that are those of the stored state, if there is one, have theirs already.
    default: Callable[[Tree, Tree | None], Tree] = lambda tree, stored: tree
    prepare_create: Callable[[Tree, Write], Tree] = lambda tree, write: tree
    admit: Callable[[Tree, Write], Tree] = lambda tree, write: tree
    validate_create: Callable[[Tree, Write], Errors] = lambda tree, write: ()
    prepare_update: Callable[[Tree, Tree, Write], Tree] = lambda new, old, write: new
    admit_update: Callable[[Tree, Tree, Write], Tree] = lambda new, old, write: new
    validate_update: Callable[[Tree, Tree, Write], Errors] = lambda new, old, write: ()
    #: Whether metadata.generation counts changes of spec, and which changes of metadata it counts beside them.
    has_generation: bool = False
    generation_counts: tuple[str, ...] = ()
    #: Whether a new object may bring its status along (nodes do).
    keeps_status: bool = False
    #: What keeps a text from being the name of an object.
    name: Callable[[str], list[str]] = subdomain_problems
    #: For kinds judged as typed values: everything from defaults to validation at once, metadata included. The tree is
    #: as decoded, in the storage version's shape; what comes out is to be stored and in its normal form. They replace
    #: the functions above.
    create: Callable[[Tree, Write], tuple[Tree, Sequence[FieldError]]] | None = None
    update: Callable[[Tree, Tree, Write], tuple[Tree, Sequence[FieldError]]] | None = None


class Column(NamedTuple):
    """A column of a kind's table; ``priority`` 1 shows under ``-o wide`` only. ``type``: string, integer or date."""

    name: str
    type: str
    description: str
    priority: int = 0
    format: str = ""


class Table(NamedTuple):
    """How a kind is shown as rows. ``cells(tree, now, reader)`` gives one value per column; tree is in served shape."""

    columns: tuple[Column, ...]
    cells: Callable[[Tree, str, Reader], list[Any]]


class Scaled(NamedTuple):
    """Where a kind with a scale subresource keeps its numbers, and its selector (a label selector, or its text)."""

    spec: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")


class Kind(NamedTuple):
    """A resource with all its versions; ``versions[0]`` is what is stored."""

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: Beyond the object itself: status, scale, binding, eviction, log, exec, attach, portforward, token …
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    rules: Rules = Rules()
    table: Table | None = None
    #: Values that field selectors may ask for beside metadata.name and metadata.namespace.
    fields: Mapping[str, Callable[[Tree], str]] = {}
    #: From the storage version's shape to another version's and back; None where all versions look alike. Of kinds
    #: that are ``stored_as`` another, every version goes through them.
    to_version: Callable[[Tree, str], Tree] | None = None
    from_version: Callable[[Tree, str], Tree] | None = None
    #: DELETE answers with the object (pods, claims, namespaces) instead of a Status.
    delete_returns_object: bool = False
    #: Whether an update may come without a resourceVersion, and whether it may create.
    unconditional_update: bool = True
    #: Versions in which it may not, though it may in others.
    conditional_update: frozenset[str] = frozenset()
    create_on_update: bool = False
    #: Whether deletion leaves dependents alone unless told otherwise (jobs do).
    orphans: bool = False
    #: What to warn users of a version with.
    deprecated: Mapping[str, str] = {}
    #: Of kinds with a scale subresource.
    scale: Scaled = Scaled()
    #: The shape by version, of kinds that are not in the packaged table.
    shapes: Mapping[str, TypeShape] = {}
    #: The OpenAPI schema by version, of kinds that users defined.
    schemas: Mapping[str, Tree] = {}
    #: The bucket of another kind that holds the same objects (events exist in two groups); "" for its own.
    stored_as: str = ""

    @property
    def bucket(self) -> str:
        """Its name in messages, and in the store unless ``store_bucket`` differs: ``pods``, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def store_bucket(self) -> str:
        """Where its objects are stored."""
        return self.stored_as or self.bucket
