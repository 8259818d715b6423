"""Creates, updates and deletes objects in the store: the one write path for HTTP and in-process clients.

Each write runs the same steps: namespace check, defaulting, server-set fields, admission, validation, managed fields,
storage. All steps are synchronous, so no other write can interleave. Written objects may not be durable yet: callers
wait for that before they respond.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeVar

import msgspec

from allotment.apiserver import api_errors, metadata
from allotment.apiserver.access.authorization import Authorizer
from allotment.apiserver.admission.attempts import Attempt, carry_out
from allotment.apiserver.admission.chain import Admission
from allotment.apiserver.bodies import in_namespace
from allotment.apiserver.conversion import as_stored, completed, converted_metadata, in_version
from allotment.apiserver.custom_resources.conversion import ConversionNeeded
from allotment.apiserver.custom_resources.definitions import DEFINITIONS
from allotment.apiserver.custom_resources.registration import delete_objects
from allotment.apiserver.kinds.kind import ServedKind, User, Write
from allotment.apiserver.operation import Operation
from allotment.apiserver.outbound.client import OutboundClient
from allotment.apiserver.outbound.conversions import convert_needed
from allotment.apiserver.served_kinds import Catalog, is_custom, shape_in
from allotment.apiserver.storage.store import Entry, Store
from allotment.apiserver.writes import managed_fields
from allotment.cluster.errors import StatusError
from allotment.model.features import Features
from allotment.model.fields import TypeShape, shape_of
from allotment.model.normal_form import normalize
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, invalid

Result = TypeVar("Result")

_NAMESPACES: Final = "namespaces"
#: How often a write is repeated because it needs the conversion of another object.
_MAX_CONVERSIONS: Final = 100
_CONTROLLERS: Final = "kube-controller-manager"
_CONTROLLER_USER: Final = User("system:kube-controller-manager", ("system:masters",))
#: Metadata that a new object gets after mutating admission.
_SET_AT_STORAGE: Final = ("uid", "resourceVersion", "generation", "creationTimestamp")
#: Metadata that updates do not change: mutating admission gets what the client wrote.
_KEPT_IN_UPDATES: Final = (*_SET_AT_STORAGE, "deletionTimestamp", "deletionGracePeriodSeconds")
#: Kinds that can be created in a terminating namespace, because they are not stored.
_UNSTORED: Final = frozenset({"localsubjectaccessreviews"})

_encode = msgspec.json.Encoder().encode


class Ids(Protocol):
    """Generates uids and the suffixes of generated names."""

    def uid(self) -> str:
        """A new UUID."""
        ...

    def suffix(self) -> str:
        """Five new random characters."""
        ...


class Verbs:
    """Write operations on a store, following the rules of the served kinds."""

    def __init__(
        self, store: Store, catalog: Catalog, *, clock: Callable[[], datetime], ids: Ids, features: Features,
        authorizer: Authorizer, namespace_objects: Callable[[str], Iterable[Tree]], outbound: OutboundClient,
    ) -> None:  # fmt: skip
        self.store = store
        self.catalog = catalog
        self.features = features
        self.ids: Ids = ids
        #: Calls other servers, such as webhooks.
        self.outbound = outbound
        #: Namespaces whose objects are created once webhooks can be called for them.
        self._new_namespaces: list[str] = []
        self._clock = clock
        self._authorizer = authorizer
        self._namespace_objects = namespace_objects
        self.admission = Admission(store, catalog, features, authorizer)

    def close(self) -> None:
        """Unsubscribe from the store."""
        self.admission.close()

    def now(self) -> str:
        """The current time in RFC 3339."""
        if self.admission.attempt is not None:
            return self.admission.attempt.now
        return self._clock().isoformat()[:19] + "Z"

    async def admitted(self, write: Callable[[], Result], warnings: list[str] | None = None) -> Result:
        """The result of a write by other methods; webhooks are called for it. ``warnings``: where it adds warnings."""
        for _ in range(_MAX_CONVERSIONS):
            try:
                return await self._with_webhooks(write, warnings) if self.admission.has_webhooks else write()
            except ConversionNeeded as needed:
                await convert_needed(self.outbound, needed)
        raise api_errors.internal("the object changed during its conversion")

    async def _with_webhooks(self, write: Callable[[], Result], warnings: list[str] | None) -> Result:
        def attempt_write(attempt: Attempt) -> Result:
            ids = self.ids
            self.ids, self.admission.attempt = attempt, attempt
            try:
                return write()
            finally:
                self.ids, self.admission.attempt = ids, None

        result = await carry_out(
            attempt_write, Attempt(self.ids, self.now()), self.outbound, [] if warnings is None else warnings
        )
        while self._new_namespaces:
            await self._create_companions(self._new_namespaces.pop())
        return result

    def entry(self, operation: Operation) -> Entry:
        """The stored object of an operation; raises 404."""
        entry = self.store.get(operation.kind.store_bucket, operation.namespace, operation.name)
        if entry is None:
            raise api_errors.not_found(operation.kind.group, operation.kind.plural, operation.name)
        return entry

    def write_context(self, operation: Operation, now: str) -> Write:
        """The context passed to the kind's rules."""
        return Write(
            operation.user, self.store, self.features, now, self.ids.suffix, operation.warn, operation.namespace,
            operation.version, operation.subresource, operation.dry_run, self.admission.disabled_plugins,
            operation.verb, self._authorizer, self._plural,
        )  # fmt: skip

    def _plural(self, written: str, name: str) -> str:
        kind = self.catalog.named(written, name)
        return "" if kind is None else kind.plural

    # --- creating ----------------------------------------------------------------------------------------------------

    def create(self, operation: Operation, tree: Tree, *, is_apply: bool = False) -> Entry:
        """Create an object from a validated tree in the requested version. ``is_apply``: managed fields are set."""
        kind, rules = operation.kind, operation.kind.rules
        self._check_namespace(operation, (tree.get("metadata") or {}).get("name") or "")
        if kind.is_terminating:
            reason = "create not allowed while custom resource definition is terminating"
            raise api_errors.forbidden(kind, (tree.get("metadata") or {}).get("name") or "", reason)
        now = self.now()
        write = self.write_context(operation, now)
        metadata_in_body: Tree = tree.get("metadata") or {}
        meta = metadata.new_metadata(
            metadata_in_body,
            namespace=operation.namespace,
            uid=self.ids.uid(),
            now=now,
            suffix=self.ids.suffix,
            generation=rules.has_generation,
        )
        shape = _stored_shape(kind)
        stored = as_stored(kind, operation.version, tree)
        meta = converted_metadata(kind, meta, stored.get("metadata") or {})
        stored = {"kind": kind.kind, "apiVersion": stored["apiVersion"], "metadata": meta, **_rest(stored)}
        self.admission.restrict_node(operation, "CREATE", stored, name=metadata_in_body.get("name") or "")
        mutation: _Mutated | None = None
        if self.admission.can_mutate(operation):
            mutation = self._mutated_create(operation, stored, metadata_in_body, write, is_apply=is_apply)
            stored = mutation.tree
            meta = stored["metadata"]
        if rules.create is not None:
            stored, owned, problems = rules.create(stored, write)
        else:
            if "name" not in meta:  # the rules require a name
                _raise_if_invalid(kind, "", metadata.create_problems(meta, kind))
            known = None if mutation is None else mutation.known
            stored = normalize(rules.default(stored, known), shape, known)
            owned = stored
            fresh = stored if rules.keeps_status_on_create else _without_status(stored, kind)
            stored = rules.prepare_create(fresh, write)
            stored = rules.drop_disabled(rules.admit(stored, write), None, write)
            problems = (*metadata.create_problems(stored["metadata"], kind), *rules.validate_create(stored, write))
        name = stored["metadata"].get("name") or ""
        _raise_if_invalid(kind, name, problems)
        if mutation is not None:
            fields = mutation.fields
        elif is_apply:
            fields = metadata_in_body.get("managedFields")
        else:
            fields = self._managed_fields(operation, None, _without_status(owned, kind), metadata_in_body, now)
        self.admission.validate_by_plugins(operation, "CREATE", stored, name=name)
        if self.admission.can_deny(operation):
            shown = normalize(_without_revision(with_managed_fields(stored, fields)), shape, owned)
            self.admission.validate(self.admission.attributes(operation, "CREATE", shown, None, name=name))
        if metadata_in_body.get("resourceVersion") and not is_apply:
            raise api_errors.unclassified("resourceVersion should not be set on objects to be created")
        if self.store.get(kind.store_bucket, operation.namespace, name) is not None:
            raise api_errors.already_exists(kind, name)
        entry = self._store_object(operation, name, stored, stored["metadata"], fields, owned)
        if kind.bucket == _NAMESPACES and not operation.dry_run:
            if self.admission.attempt is None:
                for companion, missing in self._missing_companions(name):
                    with contextlib.suppress(StatusError):  # a policy may deny them
                        self.create(companion, missing)
            else:
                self._new_namespaces.append(name)
        return entry

    def _missing_companions(self, namespace: str) -> Iterator[tuple[Operation, Tree]]:
        """The objects that every namespace has, so that its first pod is admitted immediately."""
        for tree in self._namespace_objects(namespace):
            version = tree["apiVersion"].rpartition("/")[2]
            kind = self.catalog.named(tree["apiVersion"], tree["kind"])
            assert kind is not None, "objects of a new namespace are of built-in kinds"
            # Some may be left over from a namespace of this name whose finalizers were removed by force.
            if self.store.get(kind.store_bucket, namespace, tree["metadata"]["name"]) is None:
                yield Operation(kind, version, namespace, "", _CONTROLLER_USER, _CONTROLLERS), tree

    async def _create_companions(self, namespace: str) -> None:
        """Create the objects of a new namespace, about which webhooks decide.

        Kubernetes' controllers retry while a webhook cannot be called; here it is then not called.
        """
        for companion, tree in list(self._missing_companions(namespace)):
            try:
                await self._with_webhooks(partial(self.create, companion, tree), None)
            except StatusError as error:
                if error.reason == "InternalError":
                    with contextlib.suppress(StatusError):
                        self.create(companion._replace(is_admitted=True), tree)

    def _check_namespace(self, operation: Operation, name: str) -> None:
        """Raise if the namespace does not exist or is terminating."""
        if not operation.kind.namespaced:
            return
        entry = self.store.get(_NAMESPACES, "", operation.namespace)
        if entry is None:
            raise api_errors.not_found("", _NAMESPACES, operation.namespace)
        if "deletionTimestamp" in entry.tree["metadata"] and operation.kind.plural not in _UNSTORED:
            reason = f"unable to create new content in namespace {operation.namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {operation.namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise api_errors.forbidden(operation.kind, name, reason, (cause,))

    # --- changing ----------------------------------------------------------------------------------------------------

    def update(self, operation: Operation, tree: Tree, *, is_apply: bool = False) -> Entry:
        """Replace an object with a validated tree in the requested version. ``is_apply``: as in ``create``."""
        kind, rules = operation.kind, operation.kind.rules
        requested: Tree = tree.get("metadata") or {}
        check_name(requested.get("name"), operation.name)
        entry = self.store.get(kind.store_bucket, operation.namespace, operation.name)
        if entry is None:
            if kind.create_on_update and not operation.subresource:
                return self.create(operation, {**tree, "metadata": {**requested, "name": operation.name}})
            raise api_errors.not_found(kind.group, kind.plural, operation.name)
        old = completed(kind, entry.tree)
        before: Tree = old["metadata"]
        self._preconditions(operation, requested, before)
        now = self.now()
        write = self.write_context(operation, now)
        stored = as_stored(kind, operation.version, tree)
        meta = metadata.updated_metadata(converted_metadata(kind, requested, stored.get("metadata") or {}), before)
        new: Tree = {"kind": kind.kind, "apiVersion": old["apiVersion"], "metadata": meta, **_rest(stored)}
        self.admission.restrict_node(operation, "UPDATE", new, old)
        mutation: _Mutated | None = None
        if self.admission.can_mutate(operation):
            mutation = self._mutated_update(operation, new, old, requested, write, is_apply=is_apply)
            new = mutation.tree
        if rules.update is not None:
            new, owned, problems = rules.update(new, old, write)
            normalized = new
        else:
            known = old if mutation is None else mutation.known
            normalized = normalize(rules.default(new, known), _stored_shape(kind), known)
            new = rules.prepare_update(_restore_read_only(normalized, old, operation), old, write)
            owned = rules.admit_update(new, old, write)
            new = rules.drop_disabled(owned, old, write)
            problems = (
                *metadata.update_problems(new["metadata"], before, kind),
                *rules.validate_update(new, old, write),
            )
        _raise_if_invalid(kind, operation.name, problems)
        meta = new["metadata"]
        if (
            rules.has_generation
            and operation.subresource != "status"
            and _increments_generation(new, old, rules.generation_counts)
        ):
            meta = metadata.ordered({**meta, "generation": (before.get("generation") or 0) + 1})
        if mutation is not None:
            fields = mutation.fields
        elif is_apply:
            fields = requested.get("managedFields")
        else:
            fields = self._managed_fields(operation, old, owned, requested, now)
        self.admission.validate_by_plugins(operation, "UPDATE", new, old)
        if self.admission.can_deny(operation):
            shown = with_managed_fields({**new, "metadata": meta}, fields)
            shown = normalize(shown, _stored_shape(kind), {**normalized, **_shared_parts(shown, old)})
            self.admission.validate(self.admission.attributes(operation, "UPDATE", shown, old))
        return self._store_object(operation, operation.name, new, meta, fields, normalized, entry)

    def _preconditions(self, operation: Operation, requested: Tree, before: Tree) -> None:
        """Raise a conflict if the uid or the resourceVersion in the object differs from the stored one."""
        kind, uid, revision = operation.kind, requested.get("uid"), requested.get("resourceVersion")
        if uid and uid != before["uid"]:
            prefix = f"{kind.group}/" if is_custom(kind) else ""
            key = "/".join(
                ("/registry", f"{prefix}{kind.plural}", *filter(None, (operation.namespace, operation.name)))
            )
            reason = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
                f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
            )
            raise api_errors.conflict(kind.group, kind.plural, operation.name, reason)
        if revision in (None, "", "0"):
            if not kind.unconditional_update or operation.version in kind.conditional_update:
                error = invalid("metadata.resourceVersion", 0, "must be specified for an update")
                raise api_errors.invalid(kind.group, kind.plural, operation.name, (error,))
        elif revision != before["resourceVersion"]:
            raise api_errors.modified(kind, operation.name)

    def remove(self, operation: Operation) -> Entry:
        """Delete an object from the store. Deleting a definition also deletes the objects of its kind."""
        if operation.kind.bucket == DEFINITIONS:
            delete_objects(self.store, operation.name)
        return self.store.delete(operation.kind.store_bucket, operation.namespace, operation.name)

    # --- mutating admission ------------------------------------------------------------------------------------------

    def _mutated_create(
        self, operation: Operation, stored: Tree, requested: Tree, write: Write, *, is_apply: bool
    ) -> _Mutated:
        """A new object after mutating admission; managed fields are those of the client."""
        kind, rules, given = operation.kind, operation.kind.rules, stored["metadata"]
        if rules.create is not None:
            shown, owned, _ = rules.create(stored, write)
        else:
            owned = normalize(rules.default(stored, None), _stored_shape(kind))
            shown = rules.admit(owned, write)
        fields = requested.get("managedFields") if is_apply else self._managed_fields(
            operation, None, _without_status(owned, kind), requested, write.now
        )  # fmt: skip
        set_later = {*_SET_AT_STORAGE, *(() if requested.get("name") else ("name",))}
        meta = {key: value for key, value in shown["metadata"].items() if key not in set_later}
        new = with_managed_fields({**shown, "metadata": meta}, fields)
        tree = self.admission.mutated(
            self.admission.attributes(operation, "CREATE", new, None, name=str(requested.get("name") or "")),
            default=lambda tree, before: normalize(rules.default(tree, before), _stored_shape(kind), before),
            admit=lambda tree: rules.admit(tree, write),
        )  # fmt: skip
        if tree is None or tree is new:
            return _Mutated({**owned, "metadata": given}, fields, owned)
        tree = _of_request(operation, tree, new)
        kept = {key: given[key] for key in (*_SET_AT_STORAGE, "name") if key in given}
        return _Mutated({**tree, "metadata": metadata.ordered({**kept, **tree["metadata"]})}, fields, tree)

    def _mutated_update(
        self, operation: Operation, new: Tree, old: Tree, requested: Tree, write: Write, *, is_apply: bool
    ) -> _Mutated:
        """A changed object after mutating admission; managed fields are those of the client."""
        kind, rules = operation.kind, operation.kind.rules
        if rules.update is not None:
            shown, owned, _ = rules.update(new, old, write)
        else:
            normalized = normalize(rules.default(new, old), _stored_shape(kind), old)
            prepared = rules.prepare_update(_restore_read_only(normalized, old, operation), old, write)
            shown = owned = rules.admit_update(prepared, old, write)
            if not operation.subresource:
                shown = {**owned, **_only(normalized, ("status",))}
        meta = {key: value for key, value in shown["metadata"].items() if key not in _KEPT_IN_UPDATES}
        shown = {**shown, "metadata": metadata.ordered({**meta, **_only(requested, _KEPT_IN_UPDATES)})}
        fields = requested.get("managedFields") if is_apply else self._managed_fields(
            operation, old, owned, requested, write.now
        )  # fmt: skip
        shown = with_managed_fields(shown, fields)
        tree = self.admission.mutated(
            self.admission.attributes(operation, "UPDATE", shown, old),
            default=lambda tree, before: normalize(rules.default(tree, before), _stored_shape(kind), before),
            admit=lambda tree: rules.admit_update(tree, old, write),
        )  # fmt: skip
        if tree is None or tree is shown:
            return _Mutated(new, fields, old)
        tree = _of_request(operation, tree, shown)
        meta = metadata.updated_metadata(tree["metadata"], old["metadata"])
        return _Mutated({**tree, "metadata": meta}, fields, tree)

    # --- storing -----------------------------------------------------------------------------------------------------

    def _managed_fields(
        self, operation: Operation, old: Tree | None, new: Tree, requested: Tree, now: str
    ) -> list[Any]:
        """The managed fields after a write, computed in the version that was written."""
        kind = operation.kind
        new = in_version(kind, operation.version, new)
        if "managedFields" in requested:
            new = {**new, "metadata": {**new["metadata"], "managedFields": requested["managedFields"]}}
        return managed_fields.updated_entries(
            None if old is None else in_version(kind, operation.version, old),
            new,
            shape_in(kind, operation.version),
            manager=operation.manager,
            api_version=operation.api_version,
            subresource=operation.subresource,
            now=now,
            custom_status=is_custom(kind) and "status" in kind.subresources,
            versions=self.versions(kind),
        )

    def versions(self, kind: ServedKind) -> managed_fields.Versions | None:
        """A converter to other versions, for managers that wrote in those; None if the kind has one version."""
        if len(kind.versions) == 1:
            return None

        def convert(tree: Tree, api_version_written: str) -> tuple[Tree, TypeShape] | None:
            short = api_version_written.rpartition("/")[2]
            if short not in kind.versions:
                return None
            stored = as_stored(kind, str(tree["apiVersion"]).rpartition("/")[2], tree)
            return in_version(kind, short, stored), shape_in(kind, short)

        return convert

    def _store_object(
        self, operation: Operation, name: str, tree: Tree, meta: Tree, fields: Sequence[Any] | None, normalized: Tree,
        before: Entry | None = None,
    ) -> Entry:  # fmt: skip
        """Store an object; skipped if nothing changed, in a dry run, or if the write removes the last finalizer.

        Parts shared with ``normalized`` or with the state ``before`` are already in normal form.
        """
        kind = operation.kind
        known_values = normalized if before is None else {**normalized, **_shared_parts(tree, before.tree)}
        tree = normalize(with_managed_fields({**tree, "metadata": meta}, fields), _stored_shape(kind), known_values)
        if before is not None:
            if managed_fields.only_times_differ(before.tree, tree):
                return before
            if is_removable(tree) and not operation.dry_run:
                # The client that removes the last finalizer gets the object as written, with its old revision.
                self.remove(operation)
                return transient_entry(operation.namespace, name, tree)
        if operation.dry_run:
            if before is None:
                del tree["metadata"]["resourceVersion"]
            return transient_entry(operation.namespace, name, tree)
        return self.store.put(kind.store_bucket, operation.namespace, name, tree)


class _Mutated(NamedTuple):
    """An object after mutating admission, and its managed fields. Parts of ``known`` are complete and normalized."""

    tree: Tree
    fields: Sequence[Any] | None
    known: Tree


def with_managed_fields(tree: Tree, fields: Sequence[Any] | None) -> Tree:
    """An object with these managed fields instead of its own."""
    meta = {key: value for key, value in tree["metadata"].items() if key != "managedFields"}
    return {**tree, "metadata": {**meta, "managedFields": fields} if fields else meta}


def transient_entry(namespace: str, name: str, tree: Tree) -> Entry:
    """An entry for a response that is not in the store."""
    return Entry(namespace, name, 0, tree, _encode(tree))


def is_removable(tree: Tree) -> bool:
    """Whether an object is being deleted and has no finalizers or grace period left."""
    meta = tree["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return not (
        tree["kind"] == "Namespace" and tree["apiVersion"] == "v1" and (tree.get("spec") or {}).get("finalizers")
    )


def _without_revision(tree: Tree) -> Tree:
    """A new object, which has no resourceVersion before it is stored."""
    return {**tree, "metadata": {key: value for key, value in tree["metadata"].items() if key != "resourceVersion"}}


def _rest(tree: Tree) -> Tree:
    return {key: value for key, value in tree.items() if key not in ("kind", "apiVersion", "metadata")}


def _of_request(operation: Operation, tree: Tree, before: Tree) -> Tree:
    """An object that mutating admission has changed: of the kind that it had, and in the namespace of the request.

    Raises 400 if it is in another namespace now.
    """
    namespace = operation.namespace if operation.kind.namespaced else ""
    return in_namespace({**tree, "apiVersion": before["apiVersion"], "kind": before["kind"]}, namespace)


def _without_status(tree: Tree, kind: ServedKind) -> Tree:
    if "status" not in tree or "status" not in kind.subresources:
        return tree
    return {key: value for key, value in tree.items() if key != "status"}


def _restore_read_only(new: Tree, old: Tree, operation: Operation) -> Tree:
    """Restore the fields that a write to this subresource, or to the main resource, cannot change."""
    if operation.subresource == "status":
        return {**{key: value for key, value in old.items() if key != "status"}, **_only(new, ("metadata", "status"))}
    if operation.subresource == "finalize":
        finalizers = _only(new.get("spec") or {}, ("finalizers",))
        writable = {key: value for key, value in (old.get("spec") or {}).items() if key != "finalizers"}
        return {**old, "metadata": new["metadata"], "spec": {**writable, **finalizers}}
    if not operation.subresource and "status" in operation.kind.subresources:
        return {**_without_status(new, operation.kind), **_only(old, ("status",))}
    return new


def _shared_parts(tree: Tree, other: Tree) -> Tree:
    """The fields whose values are identical (``is``) in both."""
    return {name: part for name, part in tree.items() if part is other.get(name)}


def _only(tree: Tree, keys: Iterable[str]) -> Tree:
    return {key: tree[key] for key in keys if key in tree}


def _increments_generation(new: Tree, old: Tree, counted: tuple[str, ...]) -> bool:
    """Whether a change increments the generation: one outside status and metadata, or in ``counted`` metadata."""
    if any(new.get(key) != old.get(key) for key in {*new, *old} - {"metadata", "status", "kind", "apiVersion"}):
        return True
    return any(new["metadata"].get(key) != old["metadata"].get(key) for key in counted)


def check_name(actual: Any, expected: str) -> None:
    """Raise 400 if the object's name differs from the name in the path."""
    if not actual:
        message = f"the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        raise api_errors.bad_request(message)
    if actual != expected:
        message = f"the name of the object ({actual}) does not match the name on the URL ({expected})"
        raise api_errors.bad_request(message)


def _raise_if_invalid(kind: ServedKind, name: str, problems: Iterable[FieldError]) -> None:
    errors = list(problems)
    if errors:
        group = "" if kind.stored_as else kind.group
        raise api_errors.invalid(group, kind.kind, name, errors)


def _stored_shape(kind: ServedKind) -> TypeShape | None:
    return shape_of("v1", kind.kind) if kind.stored_as else shape_in(kind, kind.storage_version)
