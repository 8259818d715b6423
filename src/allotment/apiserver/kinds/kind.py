"""Served kinds: names, versions and subresources of a resource, and the rules for its reads and writes.

Rules are plain functions on trees in the storage version. The default rules do nothing, so that a kind that is only
stored takes one line in a table.
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
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = {}


class StoreReader(Protocol):
    """Read access to the store for rules, by bucket (``pods``, ``resourceclaims.resource.k8s.io``)."""

    @property
    def revision(self) -> int:
        """The revision of the latest write."""
        ...

    def get(self, resource: str, namespace: str, name: str) -> Entry | None:
        """The latest state of an object; None if it does not exist."""
        ...

    def list(self, resource: str, namespace: str | None = None) -> Sequence[Entry]:
        """All objects of a bucket or of one namespace, sorted by namespace and name."""
        ...


#: Computes the objects of a kind, of one or all namespaces, sorted by namespace and name, at a time (RFC 3339).
ComputeEntries = Callable[[StoreReader, str | None, str], Sequence[Entry]]


class Authorize(Protocol):
    """Return None if the user is allowed to do the request, else the reason why not."""

    def __call__(
        self, user: User, verb: str, group: str = "", resource: str = "", subresource: str = "", namespace: str = "",
        name: str = "", path: str = "",
    ) -> str | None:  # fmt: skip
        ...


class Write(NamedTuple):
    """The context of a write, for rules.

    ``version``: the API version that the client wrote, without group. ``now``: RFC 3339, whole seconds. ``suffix()``:
    five random characters, as in generated names. ``subresource``: "" for the object itself. ``warn(text)``: adds a
    Warning header. ``disabled_plugins``: admission plugins that do not run, by Kubernetes' names. ``verb``: that of
    the request, which differs for an object that a patch changes. ``authorize``: whether the user has a permission.
    ``plural``: the resource of a kind, given its apiVersion and kind; empty if it is not served.
    """

    user: User
    reader: StoreReader
    features: Features
    now: str
    suffix: Callable[[], str]
    warn: Callable[[str], None]
    namespace: str = ""
    version: str = "v1"
    subresource: str = ""
    dry_run: bool = False
    disabled_plugins: frozenset[str] = frozenset()
    verb: str = "update"
    authorize: Authorize = lambda *request: None
    plural: Callable[[str, str], str] = lambda api_version, kind: ""


Errors = Iterable[FieldError]


class TypedWrite(NamedTuple):
    """The result of a write to a kind that is validated as typed values: the tree to store, normalized, and errors.

    ``owned``: the tree whose fields the client owns: also the fields of disabled features that it wrote.
    """

    tree: Tree
    owned: Tree
    errors: Sequence[FieldError] = ()


class KindRules(NamedTuple):
    """Functions that process a written object.

    They never modify their arguments, which may be stored objects, but copy the parts that change.

    Order for a create: ``default`` (after decoding, every write), ``prepare_create`` (drop status, set fields that the
    server sets), ``admit`` (mutating admission; can raise StatusError), ``drop_disabled(tree, None, write)``,
    ``validate_create``. For an update: ``default``, ``prepare_update(new, old, write)`` (reset what this subresource
    cannot change), ``admit_update``, ``drop_disabled(new, old, write)``, ``validate_update``. The verbs validate
    metadata (names, labels, finalizers, ownerReferences, uid, generation), the same for all kinds.
    """

    #: Parts that are identical to the stored object are already defaulted.
    default: Callable[[Tree, Tree | None], Tree] = lambda tree, stored: tree
    prepare_create: Callable[[Tree, Write], Tree] = lambda tree, write: tree
    admit: Callable[[Tree, Write], Tree] = lambda tree, write: tree
    validate_create: Callable[[Tree, Write], Errors] = lambda tree, write: ()
    prepare_update: Callable[[Tree, Tree, Write], Tree] = lambda new, old, write: new
    admit_update: Callable[[Tree, Tree, Write], Tree] = lambda new, old, write: new
    validate_update: Callable[[Tree, Tree, Write], Errors] = lambda new, old, write: ()
    #: Removes fields whose feature gates are off; the client that wrote them owns them nevertheless.
    drop_disabled: Callable[[Tree, Tree | None, Write], Tree] = lambda tree, old, write: tree
    #: Whether metadata.generation counts changes of spec, and the metadata fields whose changes it also counts.
    has_generation: bool = False
    generation_counts: tuple[str, ...] = ()
    #: Whether status can be set on create (as for nodes).
    keeps_status_on_create: bool = False
    #: The errors of an object name.
    name: Callable[[str], list[str]] = subdomain_problems
    #: For kinds validated as typed values: replace the functions above by one from defaults to validation, metadata
    #: included. The argument is the decoded tree in the storage version.
    create: Callable[[Tree, Write], TypedWrite] | None = None
    update: Callable[[Tree, Tree, Write], TypedWrite] | None = None


class Column(NamedTuple):
    """A table column; ``priority`` 1 is shown only with ``-o wide``. ``type``: string, integer or date."""

    name: str
    type: str
    description: str
    priority: int = 0
    format: str = ""


class TableConverter(NamedTuple):
    """Converts objects to table rows.

    ``cells(tree, now, reader)`` returns a value per column; ``tree`` is in the served version.
    """

    columns: tuple[Column, ...]
    cells: Callable[[Tree, str, StoreReader], list[Any]]


class Convert(Protocol):
    """Converts an object to a version. ``is_stored``: it was read from the store, not from a request."""

    def __call__(self, tree: Tree, version: str, *, is_stored: bool) -> Tree:
        """The object in a version; the same tree if it has that version."""
        ...


class ScalePaths(NamedTuple):
    """Field paths of replicas and selector for the scale subresource; the selector is an object or a string."""

    spec: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] = ("spec", "selector")


class ServedKind(NamedTuple):
    """A resource with all its served versions, the preferred one first."""

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str
    namespaced: bool
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    #: Such as status, scale, binding, eviction, log, exec, attach, portforward, token.
    subresources: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
    rules: KindRules = KindRules()
    table: TableConverter | None = None
    #: Getters for field selectors other than metadata.name and metadata.namespace.
    fields: Mapping[str, Callable[[Tree], str]] = {}
    #: Convert from the storage version to another version and back; None if the versions are identical. For kinds
    #: that are ``stored_as`` another one, they convert every version.
    to_version: Callable[[Tree, str], Tree] | None = None
    from_version: Callable[[Tree, str], Tree] | None = None
    #: Completes what is read from the store: a definition may have got defaults after an object was written. Returns
    #: the same tree if nothing is missing. None if stored objects are always complete.
    complete: Callable[[Tree], Tree] | None = None
    #: For custom resources with several versions, instead of the functions above: converts any version to any other.
    convert: Convert | None = None
    #: DELETE returns the object (pods, claims, namespaces) instead of a Status.
    delete_returns_object: bool = False
    #: Versions in which it returns a Status nevertheless.
    delete_returns_status: frozenset[str] = frozenset()
    #: Whether updates without a resourceVersion are allowed.
    unconditional_update: bool = True
    #: Versions in which they are not allowed nevertheless.
    conditional_update: frozenset[str] = frozenset()
    #: Whether an update can create the object.
    create_on_update: bool = False
    #: Whether deletion orphans dependents by default (as for jobs).
    orphans_dependents: bool = False
    #: Deprecation warnings by version.
    deprecated: Mapping[str, str] = {}
    #: For kinds with a scale subresource.
    scale: ScalePaths = ScalePaths()
    #: The version in which the lab stores objects, if it is not the preferred one: it need not be served.
    hub: str = ""
    #: The version in which Kubernetes stores them, if it differs; clients see its hash.
    stored_in: str = ""
    #: The Kubernetes release whose types the kind has; empty: the newest.
    release: str = ""
    #: Shapes by version, for kinds that are not in the packaged table.
    shapes: Mapping[str, TypeShape] = {}
    #: OpenAPI schemas by version, for custom resources.
    schemas: Mapping[str, Tree] = {}
    #: The bucket of another kind with the same objects (events are in two groups); "" for its own bucket.
    stored_as: str = ""
    #: Computes the objects when they are read, for a kind that is not stored.
    computed: ComputeEntries | None = None
    #: The getters of custom resources by version, which read objects in that version.
    version_fields: Mapping[str, Mapping[str, Callable[[Tree], str]]] = {}
    #: Whether its definition is being deleted: objects can only be read, changed and deleted.
    is_terminating: bool = False

    def fields_in(self, version: str) -> Mapping[str, Callable[[Tree], str]]:
        """The getters for field selectors in a version."""
        return self.version_fields.get(version, {}) if self.shapes else self.fields

    @property
    def listed_verbs(self) -> tuple[str, ...]:
        """The verbs that discovery lists."""
        if not self.is_terminating:
            return self.verbs
        return tuple(verb for verb in self.verbs if verb not in ("create", "patch", "update"))

    @property
    def bucket(self) -> str:
        """Its name in messages, and in the store unless ``store_bucket`` differs: ``pods``, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def deletion_returns_object(self, version: str) -> bool:
        """Whether DELETE in a version returns the object instead of a Status."""
        return self.delete_returns_object and version not in self.delete_returns_status

    @property
    def storage_version(self) -> str:
        """The version in which objects are stored."""
        return self.hub or self.versions[0]

    @property
    def store_bucket(self) -> str:
        """The bucket that stores its objects."""
        return self.stored_as or self.bucket
