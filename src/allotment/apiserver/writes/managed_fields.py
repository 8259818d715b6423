"""Updates ``metadata.managedFields`` after a create, update or patch other than apply.

There is an entry per manager, operation, version and subresource. A write moves the fields that it changes from all
entries to that of its manager; removed fields have no owner. Empty entries are dropped; an entry without new fields
keeps its time. This runs on every write, so it walks only what changed and shares the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError, structure_of
from allotment.apiserver.writes.comparison import Changes, compare
from allotment.apiserver.writes.field_sets import MEMBER, Fields, difference, union
from allotment.apiserver.writes.reset_fields import reset_fields, writable_fields
from allotment.model.fields import Field, TypeShape
from allotment.model.trees import Tree

MAX_UPDATE_ENTRIES: Final = 10
ANCIENT: Final = "ancient-changes"
UNKNOWN_MANAGER: Final = "unknown"

#: Converts an object to another version; returns it with its shape, or None if the version is no longer served.
Versions = Callable[[Tree, str], tuple[Tree, TypeShape | None] | None]


class EntryKey(NamedTuple):
    """The key of an entry. ``version`` is empty for an apply, which has one entry for all versions."""

    manager: str
    operation: str
    version: str = ""
    subresource: str = ""


class OwnedFields(NamedTuple):
    """The contents of an entry: the version of its paths, its time and its fields."""

    version: str
    time: str
    fields: Fields


ManagedFields = dict[EntryKey, OwnedFields]


class MalformedEntriesError(Exception):
    """Raised for invalid managedFields."""


def decode(entries: Any) -> ManagedFields:
    """The entries by key. Raises MalformedEntriesError."""
    managed: ManagedFields = {}
    for index, entry in enumerate(entries or ()):
        operation = entry.get("operation", "")
        version = entry.get("apiVersion", "")
        if operation not in ("Apply", "Update"):
            raise MalformedEntriesError("operation must be `Apply` or `Update`")
        if not version:
            raise MalformedEntriesError("apiVersion must not be empty")
        fields_type = entry.get("fieldsType", "")
        if fields_type != "FieldsV1":
            problem = f"invalid fieldsType {fields_type!r}" if fields_type else "missing fieldsType"
            raise MalformedEntriesError(f"{problem} in managed fields entry {index}")
        key = EntryKey(
            entry.get("manager", ""), operation, "" if operation == "Apply" else version, entry.get("subresource", "")
        )
        managed[key] = OwnedFields(version, entry.get("time", ""), entry.get("fieldsV1") or MEMBER)
    return managed


def encode(managed: ManagedFields) -> list[Tree]:
    """The entries in the order of the API: applies first, then by time, manager, version and subresource."""
    entries: list[Tree] = []
    for key, owned in sorted(managed.items(), key=_order):
        entry: Tree = {}
        if key.manager:
            entry["manager"] = key.manager
        entry["operation"] = key.operation
        entry["apiVersion"] = owned.version
        if owned.time:
            entry["time"] = owned.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = owned.fields
        if key.subresource:
            entry["subresource"] = key.subresource
        entries.append(entry)
    return entries


def _order(pair: tuple[EntryKey, OwnedFields]) -> tuple[str, str, str, str, str]:
    key, owned = pair
    return key.operation, owned.time, key.manager, owned.version, key.subresource


def updated_entries(
    old: Tree | None,
    new: Tree,
    shape: TypeShape | None,
    *,
    manager: str,
    api_version: str,
    subresource: str = "",
    now: str,
    custom_status: bool = False,
    versions: Versions | None = None,
) -> list[Tree]:
    """The entries after a create (``old`` None), an update or a patch; empty if managedFields should be absent.

    Both trees are in the normal form of ``api_version``. ``new`` can contain managedFields from the client: an empty
    list (or one empty entry) drops all entries, an invalid value is ignored. ``manager`` is the ``fieldManager``
    parameter, or the user agent up to the first slash. ``custom_status``: a custom resource with a status subresource.
    ``versions`` is required if versions of the kind differ.
    """
    managed = _entries_before(old, new, subresource)
    if managed is None or (not managed and old is not None):
        return []
    structure = structure_of(shape)
    try:
        transfer_ownership(
            managed,
            (old if old is not None else zero_object(shape), new, structure),
            EntryKey(manager or UNKNOWN_MANAGER, "Update", api_version, subresource),
            now,
            custom_status=custom_status,
            versions=versions,
        )
    except UnkeyedError:
        return []
    _merge_oldest_updates(managed)
    return encode(managed)


def transfer_ownership(
    managed: ManagedFields,
    states: tuple[Tree, Tree, Structure],
    writer: EntryKey,
    now: str,
    *,
    custom_status: bool = False,
    versions: Versions | None = None,
) -> None:
    """Remove the fields that changed between the states from all entries, and add them to the entry of ``writer``."""
    old, new, structure = states
    kind = new.get("kind", "")
    resets = reset_fields(kind, writer.subresource, custom=custom_status)

    def changes_in(version: str) -> Changes | None:
        if versions is None or version == writer.version:
            changed, removed = compare(structure, old, new)
        else:
            before, after = versions(old, version), versions(new, version)
            if before is None or after is None:
                return None
            changed, removed = compare(structure_of(after[1]), before[0], after[0])
        return (
            None if changed is None else writable_fields(kind, writer.subresource, changed, resets),
            None if removed is None else writable_fields(kind, writer.subresource, removed, resets),
        )

    changes_here = changes_in(writer.version)
    assert changes_here is not None
    if changes_here == (None, None) and all(owned.fields for owned in managed.values()):
        return
    changes_by_version: dict[str, Changes | None] = {writer.version: changes_here}
    for key, owned in list(managed.items()):
        if versions is not None and owned.version not in changes_by_version:
            changes_by_version[owned.version] = changes_in(owned.version)
        changes = changes_by_version.get(owned.version, changes_here)
        remaining: Fields | None = None
        if changes is not None:
            remaining = owned.fields or None
            for part in changes:
                if remaining is not None and part is not None:
                    remaining = difference(remaining, part)
        if remaining is None:
            del managed[key]
        elif remaining is not owned.fields:
            managed[key] = owned._replace(fields=remaining)
    set_fields = without_metadata_root(changes_here[0])
    if set_fields is not None:
        previous = managed.get(writer)
        fields = set_fields if previous is None else union(previous.fields, set_fields)
        managed[writer] = OwnedFields(writer.version, now, fields)


_ROOT_METADATA: Final[Fields] = {"f:metadata": MEMBER}


def without_metadata_root(fields: Fields | None) -> Fields | None:
    """The set without ``metadata`` itself, which has no owner."""
    return None if fields is None else difference(fields, _ROOT_METADATA)


def _entries_before(old: Tree | None, new: Tree, subresource: str) -> ManagedFields | None:
    """The entries before the write; None if the client resets them."""
    live = (old.get("metadata") or {}).get("managedFields") if old is not None else None
    if subresource:
        return _decode_or_empty(live)
    sent = (new.get("metadata") or {}).get("managedFields")
    if sent is not None and (not sent or sent == [{}]):
        return {} if old is None else None
    if sent is live:
        return _decode_or_empty(live)
    try:
        managed = decode(sent)
    except (MalformedEntriesError, AttributeError):
        managed = {}
    return managed or _decode_or_empty(live)


def _decode_or_empty(entries: Any) -> ManagedFields:
    try:
        return decode(entries)
    except (MalformedEntriesError, AttributeError):
        return {}


def _merge_oldest_updates(managed: ManagedFields) -> None:
    """If there are more than ten update entries, merge the oldest ones of each version."""
    if len(managed) <= MAX_UPDATE_ENTRIES:
        return
    updates = [key for key in managed if key.operation == "Update"]
    count = len(updates)
    if count <= MAX_UPDATE_ENTRIES:
        return
    updates.sort(key=lambda key: (managed[key].time, key))
    first_by_version: dict[str, EntryKey] = {}
    for key in updates:
        if count <= MAX_UPDATE_ENTRIES:
            return
        owned = managed[key]
        first = first_by_version.setdefault(owned.version, key)
        if first is key:
            continue
        bucket = EntryKey(ANCIENT, "Update", owned.version)
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        merged = union(owned.fields, managed[bucket].fields)
        del managed[key]
        managed[bucket] = OwnedFields(owned.version, owned.time, merged)
        count -= 1


def only_times_differ(old: Tree, new: Tree) -> bool:
    """Whether a write changes only the times of its managedFields entries; such a write is not stored.

    Applying a null over an empty list, or a default over an absent field, is such a write after normalization.
    """
    if old == new:
        return True
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    if {**old, "metadata": None} != {**new, "metadata": None}:
        return False
    old_entries, new_entries = before.get("managedFields") or [], after.get("managedFields") or []
    if {**before, "managedFields": None} != {**after, "managedFields": None} or len(old_entries) != len(new_entries):
        return False
    times = {"time": None}
    # Times are part of the order of entries, so the entries are compared as sets.
    without_times = [{**entry, **times} for entry in old_entries]
    return all({**entry, **times} in without_times for entry in new_entries)


_ZERO_OBJECTS: dict[int, tuple[TypeShape, Tree]] = {}


def zero_object(shape: TypeShape | None) -> Tree:
    """An object with no field set, as it is printed: a create is compared with it."""
    if shape is None:
        return {}
    cached = _ZERO_OBJECTS.get(id(shape))
    if cached is None or cached[0] is not shape:
        if len(_ZERO_OBJECTS) > 2000:
            _ZERO_OBJECTS.clear()
        cached = _ZERO_OBJECTS[id(shape)] = (shape, _zero_struct(shape))
    return cached[1]


_ZEROS: Final[dict[str, Any]] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0, "Quantity": "0", "IntOrString": 0,
}  # fmt: skip


def _zero_struct(shape: TypeShape) -> Tree:
    return {name: _zero_value(field) for name, field in shape.fields.items() if field.always_printed}


def _zero_value(field: Field) -> Any:
    if field.pointer:
        return None
    return _zero_struct(field.shape) if field.shape.form == "struct" else _ZEROS.get(field.shape.form)
