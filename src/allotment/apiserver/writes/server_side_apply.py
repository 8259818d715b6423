"""Server-side apply: merges a configuration into the live object, detects conflicts and updates the field owners.

A field that a manager applied before and omits now is removed, unless another manager owns it. A field that another
manager owns with a different value is a conflict: the request fails with a message that names each such field or, if
forced, takes ownership. Several managers may own a field with the same value.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from allotment.apiserver.writes import field_sets, last_applied
from allotment.apiserver.writes.apply_merge import merge
from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError, structure_of
from allotment.apiserver.writes.comparison import compare
from allotment.apiserver.writes.field_sets import MEMBER, Fields, difference, intersection, optional_union
from allotment.apiserver.writes.managed_fields import (
    EntryKey,
    MalformedEntriesError,
    ManagedFields,
    OwnedFields,
    Versions,
    decode,
    encode,
    transfer_ownership,
    zero_object,
)
from allotment.apiserver.writes.ownership import to_field_set, with_named_fields, without_fields
from allotment.apiserver.writes.patch_errors import bad_request, unclassified
from allotment.apiserver.writes.reset_fields import reset_fields, writable_fields
from allotment.apiserver.writes.type_check import schema_errors
from allotment.cluster.errors import StatusError
from allotment.model.fields import TypeShape
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

BEFORE_FIRST_APPLY: Final = "before-first-apply"

#: Fields that no manager owns: the object's identity, and fields that the server sets.
_UNOWNED: Final[Fields] = {
    "f:apiVersion": MEMBER,
    "f:kind": MEMBER,
    "f:metadata": {
        ".": MEMBER,
        **{
            f"f:{name}": MEMBER
            for name in (
                "name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation",
                "managedFields", "resourceVersion",
            )
        },
    },
}  # fmt: skip


class Conflict(NamedTuple):
    """A field that another manager owns with a different value."""

    owner: EntryKey
    path: tuple[str, ...]


class ApplyConflictError(Exception):
    """Raised if the apply conflicts with other managers."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__(conflicts)
        self.conflicts = conflicts


class ApplyContext(NamedTuple):
    """The parameters of an apply except the objects."""

    structure: Structure
    shape: TypeShape | None
    key: EntryKey
    version: str
    now: str
    custom_status: bool
    versions: Versions | None

    def writable_fields(self, kind: str, fields: Fields) -> Fields | None:
        """The fields of a configuration that this subresource can change."""
        subresource = self.key.subresource
        return writable_fields(kind, subresource, fields, reset_fields(kind, subresource, custom=self.custom_status))


def apply(
    live: Tree | None,
    applied: Any,
    shape: TypeShape | None,
    *,
    manager: str,
    api_version: str,
    kind: str = "",
    subresource: str = "",
    force: bool = False,
    now: str,
    custom_status: bool = False,
    versions: Versions | None = None,
) -> Tree:
    """The object after the apply, with its managedFields; ``live`` itself if nothing changes.

    ``live`` is in the normal form of ``api_version``, or None; the result has neither defaults nor the normal form yet.
    ``kind`` is the kind of the request path (default: that of ``live``, else of ``applied``).
    """
    if type(applied) is not dict:
        applied = _require_object(applied)
    kind = kind or (live or applied).get("kind", "")
    _check_type(applied, api_version, kind)
    metadata = applied.get("metadata")
    if type(metadata) is not dict:
        metadata = {}  # schema_errors reports any other type
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    structure = structure_of(shape)
    problem = schema_errors(structure, applied)
    if problem:
        raise unclassified(f"failed to create typed patch object ({_object_text(applied)}): {problem}")
    context = ApplyContext(
        structure, shape, EntryKey(manager, "Apply", "", subresource), api_version, now, custom_status, versions
    )
    try:
        return _apply_to_live(context, live, applied, force=force)
    except ApplyConflictError as error:
        raise _conflict_error(error.conflicts) from None
    except UnkeyedError as error:
        raise unclassified(str(error)) from None


def _require_object(document: Any) -> Tree:
    """An empty object for an empty document. Raises StatusError for any other type."""
    if document is None:
        return {}
    json_type = {list: "array", str: "string", bool: "bool"}.get(type(document), "number")
    cause = f"json: cannot unmarshal {json_type} into Go value of type map[string]interface {{}}"
    raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {cause}")


def _check_type(applied: Tree, api_version: str, kind: str) -> None:
    if applied.get("apiVersion") != api_version or applied.get("kind") != kind:
        raise bad_request(f"invalid object type: {_kind_text(applied)}")


def not_convertible(applied: Tree, why: str) -> StatusError:
    """The error for a configuration whose value fits the schema but cannot be decoded."""
    kind = _kind_text(applied)
    cause = f"unable to convert unstructured object to {kind}: {why}"
    return unclassified(f"failed to convert new object ({_object_text(applied)}) to proper version: {cause}")


def _object_text(applied: Tree) -> str:
    metadata = applied.get("metadata")
    names = metadata if type(metadata) is dict else {}
    return f"{names.get('namespace') or ''}/{names.get('name') or ''}; {_kind_text(applied)}"


def _kind_text(tree: Tree) -> str:
    """``apps/v1, Kind=Deployment`` as Go prints it; the core group is empty."""
    group, slash, version = str(tree.get("apiVersion") or "").rpartition("/")
    return (
        f"{group}/{version}, Kind={tree.get('kind') or ''}" if slash else f"/{version}, Kind={tree.get('kind') or ''}"
    )


def _apply_to_live(context: ApplyContext, live: Tree | None, applied: Tree, *, force: bool) -> Tree:
    base = live if live is not None else {**zero_object(context.shape), "metadata": {}}
    entries = base["metadata"].get("managedFields")
    try:
        managed = decode(entries)
    except MalformedEntriesError as error:
        raise unclassified(f"failed to decode managed fields: {error}") from None
    if not managed and live is not None:
        # The object has no managedFields: the manager "before-first-apply" owns all existing fields.
        first = EntryKey(BEFORE_FIRST_APPLY, "Update", context.version, context.key.subresource)
        states = (zero_object(context.shape), live, context.structure)
        transfer_ownership(managed, states, first, context.now, custom_status=context.custom_status)
    own_metadata = {name: value for name, value in base["metadata"].items() if name != "managedFields"}
    live_object = {**base, "metadata": own_metadata}
    try:
        result, managed = apply_once(context, live_object, applied, managed, force=force)
    except ApplyConflictError as error:
        if context.key.manager != last_applied.KUBECTL:
            raise
        # The first server-side apply of kubectl does not conflict with fields from its client-side apply.
        allowed = last_applied.unchanged_fields(context.structure, live_object, context.version)
        remaining = [conflict for conflict in error.conflicts if not field_sets.contains(allowed, conflict.path)]
        if remaining or not allowed:
            raise ApplyConflictError(remaining or error.conflicts) from None
        result, managed = apply_once(context, live_object, applied, managed, force=True)
    if context.key.manager == last_applied.KUBECTL:
        synced = last_applied.with_updated_annotation(result or live_object, applied)
        result = synced if synced is not live_object else result
    fields = encode(managed)
    if result is None:
        if live is not None and fields == (entries or []):
            return live
        result = live_object
    metadata = {**(result.get("metadata") or {})}
    if fields:
        metadata["managedFields"] = fields
    return {**result, "metadata": metadata}


def apply_once(
    context: ApplyContext, live: Tree, applied: Tree, managed: ManagedFields, *, force: bool
) -> tuple[Tree | None, ManagedFields]:
    """The merged object (None if it is unchanged) and the new entries. Raises ApplyConflictError."""
    structure, key = context.structure, context.key
    kind = str(applied.get("kind", ""))
    merged_object: Tree = merge(structure, live, applied)
    previous = managed.get(key)
    field_set = to_field_set(structure, applied)
    field_set = None if field_set is None else context.writable_fields(kind, field_set)
    managed = dict(managed)
    managed[key] = OwnedFields(context.version, previous.time if previous else "", field_set or MEMBER)
    if previous is not None and previous.fields:
        pruned = _prune(context, merged_object, managed, previous)
    else:
        pruned = merged_object
    managed = _update_other_managers(context, live, pruned, managed, force=force)
    entry = managed.get(key)
    if entry is not None:
        remaining = difference(entry.fields, _UNOWNED) if entry.fields else None
        if remaining is None:
            del managed[key]
        else:
            managed[key] = entry._replace(fields=remaining)
    if pruned == live:
        return None, managed
    if key in managed:
        managed[key] = managed[key]._replace(time=context.now)
    return _drop_added_nulls(pruned, merged_object), managed


def _update_other_managers(
    context: ApplyContext, live: Tree, new: Tree, managed: ManagedFields, *, force: bool
) -> ManagedFields:
    """The entries without the fields that change. Raises ApplyConflictError for changed fields unless ``force``."""
    kind = str(new.get("kind", ""))

    def changes_in(version: str) -> tuple[Fields | None, Fields | None] | None:
        structure, before, after = context.structure, live, new
        if context.versions is not None and version != context.version:
            live_version, new_version = context.versions(live, version), context.versions(new, version)
            if live_version is None or new_version is None:
                return None
            before, after, structure = live_version[0], new_version[0], structure_of(new_version[1])
        changes = compare(structure, before, after)
        changed, removed = (None if part is None else context.writable_fields(kind, part) for part in changes)
        return changed, removed

    changes_by_version: dict[str, tuple[Fields | None, Fields | None] | None] = {}
    conflicts: list[Conflict] = []
    result: ManagedFields = {}
    for key, owned in sorted(managed.items()):
        if key == context.key:
            result[key] = owned
            continue
        if owned.version not in changes_by_version:
            changes_by_version[owned.version] = changes_in(owned.version)
        changes = changes_by_version[owned.version]
        if changes is None:
            continue
        remaining: Fields | None = owned.fields or None
        changed, removed = changes
        if remaining is not None and changed is not None:
            conflicting = intersection(remaining, changed)
            if conflicting:
                conflicts += [Conflict(key, path) for path in field_sets.paths(conflicting)]
            remaining = difference(remaining, changed)
        if remaining is not None and removed is not None:
            remaining = difference(remaining, removed)
        if remaining is not None:
            result[key] = owned._replace(fields=remaining)
    if conflicts and not force:
        raise ApplyConflictError(conflicts)
    return result


# --- pruning ------------------------------------------------------------------------------------------------------


def _prune(context: ApplyContext, merged_object: Tree, managed: ManagedFields, previous: OwnedFields) -> Tree:
    """The object without the fields that this manager applied before but not now, except those with other owners."""
    if context.versions is None or previous.version == context.version:
        return _prune_version(
            context.structure, merged_object, previous.fields, _owned_by_version(managed, previous.version)
        )
    converted = context.versions(merged_object, previous.version)
    if converted is None:
        return merged_object
    pruned = _prune_version(
        structure_of(converted[1]), converted[0], previous.fields, _owned_by_version(managed, previous.version)
    )
    converted_back = context.versions(pruned, context.version)
    return merged_object if converted_back is None else converted_back[0]


def _owned_by_version(managed: ManagedFields, version: str) -> list[Fields]:
    """The fields of all managers, one set per version, the given version first."""
    sets: dict[str, Fields | None] = {version: None}
    for owned in managed.values():
        if owned.fields:
            sets[owned.version] = optional_union(sets.get(owned.version), owned.fields)
    return [fields for fields in sets.values() if fields is not None]


def _prune_version(structure: Structure, merged_object: Tree, previous: Fields, owned: list[Fields]) -> Tree:
    def with_names(fields: Fields) -> Fields:
        return with_named_fields(fields, structure)

    merged_fields = with_names(to_field_set(structure, merged_object) or {})
    pruned: Any = without_fields(structure, merged_object, with_names(previous)) or {}
    for fields in owned:
        # Restore the removed fields that other managers own.
        retained = optional_union(with_names(to_field_set(structure, pruned) or {}) or None, with_names(fields))
        removed = difference(merged_fields, retained) if retained else merged_fields
        pruned = without_fields(structure, merged_object, removed) if removed else merged_object
    # Restore the removed fields that have no owner or that this manager never applied.
    remaining = with_names(to_field_set(structure, pruned or {}) or {})
    removed = difference(merged_fields, remaining) if remaining else merged_fields
    removed = intersection(removed, with_names(previous)) if removed else None
    result: Tree = without_fields(structure, merged_object, removed) if removed else merged_object
    return result or {}


def _drop_added_nulls(pruned: Any, merged_object: Any) -> Any:
    """The object without the nulls that pruning left for emptied maps and lists."""
    if pruned is merged_object:
        return pruned
    if type(pruned) is dict and type(merged_object) is dict:
        return {
            name: _drop_added_nulls(value, merged_object[name])
            for name, value in pruned.items()
            if value is not None or merged_object[name] is None
        }
    return pruned


# --- errors -------------------------------------------------------------------------------------------------------


def _owner_text(owner: EntryKey) -> str:
    text = quote(owner.manager)
    if owner.subresource:
        text += f" with subresource {quote(owner.subresource)}"
    return f"{text} using {owner.version}" if owner.operation == "Update" else text


def _conflict_error(conflicts: list[Conflict]) -> StatusError:
    """409, naming every field and its owner."""
    causes = [
        {
            "reason": "FieldManagerConflict",
            "message": f"conflict with {_owner_text(conflict.owner)}",
            "field": field_sets.path_text(conflict.path),
        }
        for conflict in conflicts
    ]
    if len(conflicts) == 1:
        owner, path = conflicts[0]
        message = f"1 conflict: conflict with {_owner_text(owner)}: {field_sets.path_text(path)}"
    else:
        by_owner: dict[EntryKey, list[str]] = {}
        for owner, path in conflicts:
            by_owner.setdefault(owner, []).append(f"- {field_sets.path_text(path)}")
        lines = [
            line for owner, paths in by_owner.items() for line in (f"conflicts with {_owner_text(owner)}:", *paths)
        ]
        message = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    return StatusError(failure_status(409, "Conflict", f"Apply failed with {message}", {"causes": causes}))
