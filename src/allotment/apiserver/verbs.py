"""Creating and changing objects: the one way in for everybody, whether over a socket or from within.

A write goes through the same stations always: is it allowed here, defaults, what the server sets, admission,
validation, who owns which field, and the store. All of it is synchronous, so a write sees the state as it is and no
other write comes between; what is not yet on disk, whoever answers must wait for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from allotment.apiserver import api_errors, metadata
from allotment.apiserver.conversion import as_stored, in_version
from allotment.apiserver.custom_resources.definitions import DEFINITIONS
from allotment.apiserver.custom_resources.registration import delete_objects
from allotment.apiserver.kinds.kind import ServedKind, User, Write
from allotment.apiserver.served_kinds import Catalog, api_version, is_custom, shape_in
from allotment.apiserver.storage.store import Entry, Store
from allotment.apiserver.writes import managed_fields
from allotment.model.features import Features
from allotment.model.fields import TypeShape, shape_of
from allotment.model.normal_form import normalize
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, invalid

_NAMESPACES: Final = "namespaces"
_CONTROLLERS: Final = "kube-controller-manager"
_SYSTEM: Final = User("system:kube-controller-manager", ("system:masters",))
#: What may be written though the namespace goes away: it is not stored.
_UNSTORED: Final = frozenset({"localsubjectaccessreviews"})

_encode = msgspec.json.Encoder().encode


class Ids(Protocol):
    """Where uids and the ends of generated names come from."""

    def uid(self) -> str:
        """A fresh UUID."""
        ...

    def suffix(self) -> str:
        """Five fresh characters."""
        ...


def _unheard(text: str) -> None:
    """A warning that nobody listens to."""


class Ask(NamedTuple):
    """What is asked, by whom: a write to a kind in one of its versions. ``warn`` adds a Warning header."""

    kind: ServedKind
    version: str
    namespace: str
    name: str
    user: User
    manager: str = "unknown"
    subresource: str = ""
    dry_run: bool = False
    warn: Callable[[str], None] = _unheard

    @property
    def api_version(self) -> str:
        """The version as objects write it."""
        return api_version(self.kind, self.version)


class Verbs:
    """Writes to a store, by the rules of the kinds that are served."""

    def __init__(
        self, store: Store, catalog: Catalog, *, clock: Callable[[], datetime], ids: Ids, features: Features,
        companions: Callable[[str], Iterable[Tree]],
    ) -> None:  # fmt: skip
        self.store = store
        self.catalog = catalog
        self.features = features
        self.ids = ids
        self._clock = clock
        self._companions = companions

    def now(self) -> str:
        """The time, as objects carry it."""
        return self._clock().isoformat()[:19] + "Z"

    def entry(self, ask: Ask) -> Entry:
        """The object that is asked about; raises 404."""
        entry = self.store.get(ask.kind.store_bucket, ask.namespace, ask.name)
        if entry is None:
            raise api_errors.not_found(ask.kind.group, ask.kind.plural, ask.name)
        return entry

    def write(self, ask: Ask, now: str) -> Write:
        """What rules are told of a write."""
        return Write(
            ask.user, self.store, self.features, now, self.ids.suffix, ask.warn, ask.namespace, ask.version,
            ask.subresource, ask.dry_run,
        )  # fmt: skip

    # --- creating ----------------------------------------------------------------------------------------------------

    def create(self, ask: Ask, tree: Tree, *, applied: bool = False) -> Entry:
        """A new object from a checked tree in the version asked. ``applied``: its managed fields are settled."""
        kind, rules = ask.kind, ask.kind.rules
        self._namespace_takes(ask, (tree.get("metadata") or {}).get("name") or "")
        now = self.now()
        write = self.write(ask, now)
        given: Tree = tree.get("metadata") or {}
        meta = metadata.created(
            given,
            namespace=ask.namespace,
            uid=self.ids.uid(),
            now=now,
            suffix=self.ids.suffix,
            generation=rules.has_generation,
        )
        shape = _stored_shape(kind)
        stored = as_stored(kind, ask.version, tree)
        stored = {"kind": kind.kind, "apiVersion": stored["apiVersion"], "metadata": meta, **_rest(stored)}
        if rules.create is not None:
            stored, problems = rules.create(stored, write)
            owned = stored
        else:
            if "name" not in meta:  # rules take it for granted
                _refuse(kind, "", metadata.create_problems(meta, kind))
            stored = normalize(rules.default(stored, None), shape)
            owned = stored
            fresh = stored if rules.keeps_status_on_create else _without_status(stored, kind)
            stored = rules.prepare_create(fresh, write)
            stored = rules.admit(stored, write)
            problems = (*metadata.create_problems(stored["metadata"], kind), *rules.validate_create(stored, write))
        name = stored["metadata"].get("name") or ""
        _refuse(kind, name, problems)
        if given.get("resourceVersion") and not applied:
            raise api_errors.unclassified("resourceVersion should not be set on objects to be created")
        if self.store.get(kind.store_bucket, ask.namespace, name) is not None:
            raise api_errors.already_exists(kind, name)
        if applied:
            fields = given.get("managedFields")
        else:
            fields = self._fields(ask, None, _without_status(owned, kind), given, now)
        entry = self._put(ask, name, stored, stored["metadata"], fields, owned)
        if kind.bucket == _NAMESPACES and not ask.dry_run:
            self._furnish(name)
        return entry

    def _furnish(self, namespace: str) -> None:
        """What belongs to every namespace comes with it, so that its first pod is admitted at once."""
        for tree in self._companions(namespace):
            version = tree["apiVersion"].rpartition("/")[2]
            kind = self.catalog.named(tree["apiVersion"], tree["kind"])
            assert kind is not None, "a namespace's own objects are of built-in kinds"
            if self.store.get(kind.store_bucket, namespace, tree["metadata"]["name"]) is not None:
                continue  # left over from a namespace of this name whose finalizers somebody took away
            self.create(Ask(kind, version, namespace, "", _SYSTEM, _CONTROLLERS), tree)

    def _namespace_takes(self, ask: Ask, name: str) -> None:
        """Whether there is a namespace, and one that takes new objects."""
        if not ask.kind.namespaced:
            return
        entry = self.store.get(_NAMESPACES, "", ask.namespace)
        if entry is None:
            raise api_errors.not_found("", _NAMESPACES, ask.namespace)
        if "deletionTimestamp" in entry.tree["metadata"] and ask.kind.plural not in _UNSTORED:
            why = f"unable to create new content in namespace {ask.namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {ask.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise api_errors.forbidden(ask.kind, name, why, (cause,))

    # --- changing ----------------------------------------------------------------------------------------------------

    def update(self, ask: Ask, tree: Tree, *, applied: bool = False) -> Entry:
        """Replace an object by a checked tree in the version asked. ``applied``: its managed fields are settled."""
        kind, rules = ask.kind, ask.kind.rules
        given: Tree = tree.get("metadata") or {}
        check_name(given.get("name"), ask.name)
        entry = self.store.get(kind.store_bucket, ask.namespace, ask.name)
        if entry is None:
            if kind.create_on_update and not ask.subresource:
                return self.create(ask, {**tree, "metadata": {**given, "name": ask.name}})
            raise api_errors.not_found(kind.group, kind.plural, ask.name)
        old = entry.tree
        before: Tree = old["metadata"]
        self._preconditions(ask, given, before)
        now = self.now()
        write = self.write(ask, now)
        meta = metadata.updated(given, before)
        stored = as_stored(kind, ask.version, tree)
        new: Tree = {"kind": kind.kind, "apiVersion": old["apiVersion"], "metadata": meta, **_rest(stored)}
        if rules.update is not None:
            new, problems = rules.update(new, old, write)
            settled = new
        else:
            settled = normalize(rules.default(new, old), _stored_shape(kind), old)
            new = rules.prepare_update(_reset(settled, old, ask), old, write)
            new = rules.admit_update(new, old, write)
            problems = (
                *metadata.update_problems(new["metadata"], before, kind),
                *rules.validate_update(new, old, write),
            )
        _refuse(kind, ask.name, problems)
        meta = new["metadata"]
        if rules.has_generation and ask.subresource != "status" and _grown(new, old, rules.generation_counts):
            meta = metadata.ordered({**meta, "generation": (before.get("generation") or 0) + 1})
        fields = given.get("managedFields") if applied else self._fields(ask, old, new, given, now)
        return self._put(ask, ask.name, new, meta, fields, settled, entry)

    def _preconditions(self, ask: Ask, given: Tree, before: Tree) -> None:
        """The uid and the resourceVersion in an object are what the writer expects."""
        kind, uid, revision = ask.kind, given.get("uid"), given.get("resourceVersion")
        if uid and uid != before["uid"]:
            where = f"{kind.group}/" if is_custom(kind) else ""
            key = "/".join(("/registry", f"{where}{kind.plural}", *filter(None, (ask.namespace, ask.name))))
            why = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
            )
            raise api_errors.conflict(kind.group, kind.plural, ask.name, why)
        if revision in (None, "", "0"):
            if not kind.unconditional_update or ask.version in kind.conditional_update:
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise api_errors.invalid(kind.group, kind.plural, ask.name, (error,))
        elif revision != before["resourceVersion"]:
            raise api_errors.modified(kind, ask.name)

    def remove(self, ask: Ask) -> Entry:
        """Delete what nothing holds any more. A definition takes the objects of its kind along."""
        if ask.kind.bucket == DEFINITIONS:
            delete_objects(self.store, ask.name)
        return self.store.delete(ask.kind.store_bucket, ask.namespace, ask.name)

    # --- storing -----------------------------------------------------------------------------------------------------

    def _fields(self, ask: Ask, old: Tree | None, new: Tree, given: Tree, now: str) -> list[Any]:
        """The managed fields after a write, judged in the version that was written."""
        kind = ask.kind
        new = in_version(kind, ask.version, new)
        if "managedFields" in given:
            new = {**new, "metadata": {**new["metadata"], "managedFields": given["managedFields"]}}
        return managed_fields.updated(
            None if old is None else in_version(kind, ask.version, old),
            new,
            shape_in(kind, ask.version),
            manager=ask.manager,
            api_version=ask.api_version,
            subresource=ask.subresource,
            now=now,
            custom_status=is_custom(kind) and "status" in kind.subresources,
            versions=self.versions(kind),
        )

    def versions(self, kind: ServedKind) -> managed_fields.Versions | None:
        """How the same object looks in another version, for owners that wrote that one; None if there is but one."""
        if len(kind.versions) == 1:
            return None

        def seen(tree: Tree, written: str) -> tuple[Tree, TypeShape] | None:
            short = written.rpartition("/")[2]
            if short not in kind.versions:
                return None
            stored = as_stored(kind, str(tree["apiVersion"]).rpartition("/")[2], tree)
            return in_version(kind, short, stored), shape_in(kind, short)

        return seen

    def _put(
        self, ask: Ask, name: str, tree: Tree, meta: Tree, fields: Sequence[Any] | None, settled: Tree,
        before: Entry | None = None,
    ) -> Entry:  # fmt: skip
        """Store an object, unless nothing changes, or nothing keeps it any more, or it is only a trial.

        Parts that are those of ``settled`` or of the state ``before`` are in their normal form.
        """
        kind = ask.kind
        meta = {key: value for key, value in meta.items() if key != "managedFields"}
        if fields:
            meta["managedFields"] = fields
        known = settled if before is None else {**settled, **_shared(tree, before.tree)}
        tree = normalize({**tree, "metadata": meta}, _stored_shape(kind), known)
        if before is not None:
            if managed_fields.only_times_differ(before.tree, tree):
                return before
            if released(tree) and not ask.dry_run:
                # Whoever takes the last finalizer away sees the object as he left it, under its old revision.
                self.remove(ask)
                return unstored(ask.namespace, name, tree)
        if ask.dry_run:
            if before is None:
                del tree["metadata"]["resourceVersion"]
            return unstored(ask.namespace, name, tree)
        return self.store.put(kind.store_bucket, ask.namespace, name, tree)


def unstored(namespace: str, name: str, tree: Tree) -> Entry:
    """An answer that looks like an object of the store and is none."""
    return Entry(namespace, name, 0, tree, _encode(tree))


def released(tree: Tree) -> bool:
    """Whether an object is being deleted and nothing holds it back any more."""
    meta = tree["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return not (
        tree["kind"] == "Namespace" and tree["apiVersion"] == "v1" and (tree.get("spec") or {}).get("finalizers")
    )


def _rest(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in ("kind", "apiVersion", "metadata")}


def _without_status(tree: Tree, kind: ServedKind) -> Tree:
    if "status" not in tree or "status" not in kind.subresources:
        return tree
    return {key: value for key, value in tree.items() if key != "status"}


def _reset(new: Tree, old: Tree, ask: Ask) -> Tree:
    """What a write to an object or to its status cannot touch is as it was."""
    if ask.subresource == "status":
        return {**{key: value for key, value in old.items() if key != "status"}, **_only(new, ("metadata", "status"))}
    if ask.subresource == "finalize":
        finalizers = _only(new.get("spec") or {}, ("finalizers",))
        kept = {key: value for key, value in (old.get("spec") or {}).items() if key != "finalizers"}
        return {**old, "metadata": new["metadata"], "spec": {**kept, **finalizers}}
    if not ask.subresource and "status" in ask.kind.subresources:
        return {**_without_status(new, ask.kind), **_only(old, ("status",))}
    return new


def _shared(tree: Tree, other: Tree) -> Tree:
    """The parts that are the same objects in both."""
    return {name: part for name, part in tree.items() if part is other.get(name)}


def _only(tree: Tree, keys: Iterable[str]) -> Tree:
    return {key: tree[key] for key in keys if key in tree}


def _grown(new: Tree, old: Tree, counted: tuple[str, ...]) -> bool:
    """Whether anything changed that the generation counts: all but status and what of the metadata is not counted."""
    if any(new.get(key) != old.get(key) for key in {*new, *old} - {"metadata", "status", "kind", "apiVersion"}):
        return True
    return any(new["metadata"].get(key) != old["metadata"].get(key) for key in counted)


def check_name(found: Any, wanted: str) -> None:
    """Refuse an object that does not have the name of the path."""
    if not found:
        message = f"the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        raise api_errors.bad_request(message)
    if found != wanted:
        message = f"the name of the object ({found}) does not match the name on the URL ({wanted})"
        raise api_errors.bad_request(message)


def _refuse(kind: ServedKind, name: str, problems: Iterable[FieldError]) -> None:
    errors = list(problems)
    if errors:
        group = "" if kind.stored_as else kind.group
        raise api_errors.invalid(group, kind.kind, name, errors)


def _stored_shape(kind: ServedKind) -> TypeShape | None:
    return shape_of("v1", kind.kind) if kind.stored_as else shape_in(kind, kind.versions[0])
