"""``metadata.managedFields`` after a write that was no apply: who owns which fields now, and since when.

An entry per manager, operation, version and subresource. A write takes the fields it changes from everyone and gives
them to its manager; what it removes, nobody owns any more. Entries that nothing is left of go; a manager that took
nothing keeps its time. Runs on every write, so it walks only what changed and shares what did not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError, structure_of
from allotment.apiserver.writes.comparison import Touched, compared
from allotment.apiserver.writes.field_sets import MEMBER, Fields, difference, union
from allotment.apiserver.writes.reset_fields import kept, reset
from allotment.model.fields import Field, TypeShape
from allotment.model.trees import Tree

MOST_UPDATERS: Final = 10
ANCIENT: Final = "ancient-changes"
UNKNOWN_MANAGER: Final = "unknown"

#: Gives an object in the shape of another version, with its shape; None where that version is gone.
Versions = Callable[[Tree, str], tuple[Tree, TypeShape | None] | None]


class Identity(NamedTuple):
    """What tells entries apart. An apply is the same in all versions, so ``version`` is empty for it."""

    manager: str
    operation: str
    version: str = ""
    subresource: str = ""


class Ownership(NamedTuple):
    """What an entry says: the version its paths are in, when, which fields."""

    version: str
    time: str
    fields: Fields


Managed = dict[Identity, Ownership]


class MalformedError(Exception):
    """These are no managed fields."""


def decoded(entries: Any) -> Managed:
    """The entries by identity. Raises MalformedError."""
    managed: Managed = {}
    for index, entry in enumerate(entries or ()):
        operation = entry.get("operation", "")
        version = entry.get("apiVersion", "")
        if operation not in ("Apply", "Update"):
            raise MalformedError("operation must be `Apply` or `Update`")
        if not version:
            raise MalformedError("apiVersion must not be empty")
        fields_type = entry.get("fieldsType", "")
        if fields_type != "FieldsV1":
            what = f"invalid fieldsType {fields_type!r}" if fields_type else "missing fieldsType"
            raise MalformedError(f"{what} in managed fields entry {index}")
        identity = Identity(
            entry.get("manager", ""), operation, "" if operation == "Apply" else version, entry.get("subresource", "")
        )
        managed[identity] = Ownership(version, entry.get("time", ""), entry.get("fieldsV1") or MEMBER)
    return managed


def encoded(managed: Managed) -> list[Tree]:
    """The entries as objects show them: applies first, then by time, manager, version and subresource."""
    entries: list[Tree] = []
    for identity, owned in sorted(managed.items(), key=_order):
        entry: Tree = {}
        if identity.manager:
            entry["manager"] = identity.manager
        entry["operation"] = identity.operation
        entry["apiVersion"] = owned.version
        if owned.time:
            entry["time"] = owned.time
        entry["fieldsType"] = "FieldsV1"
        entry["fieldsV1"] = owned.fields
        if identity.subresource:
            entry["subresource"] = identity.subresource
        entries.append(entry)
    return entries


def _order(pair: tuple[Identity, Ownership]) -> tuple[str, str, str, str, str]:
    identity, owned = pair
    return identity.operation, owned.time, identity.manager, owned.version, identity.subresource


def updated(
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
    """The entries after a create (``old`` None), an update or a patch; empty where managedFields should be absent.

    Both trees are in the normal form of ``api_version``; ``new`` may carry managedFields of its own, as clients send
    them: an empty list (or one empty entry) drops all, anything unreadable is ignored. ``manager`` as the server names
    it: the ``fieldManager`` parameter, else the user agent up to the first slash. ``custom_status``: a custom resource
    with a status subresource. ``versions`` is needed where versions of the kind do not look alike.
    """
    managed = _managed_before(old, new, subresource)
    if managed is None or (not managed and old is not None):
        return []
    structure = structure_of(shape)
    try:
        settle(
            managed,
            (old if old is not None else blank(shape), new, structure),
            Identity(manager or UNKNOWN_MANAGER, "Update", api_version, subresource),
            now,
            custom_status=custom_status,
            versions=versions,
        )
    except UnkeyedError:
        return []
    _cap(managed)
    return encoded(managed)


def settle(
    managed: Managed,
    states: tuple[Tree, Tree, Structure],
    self: Identity,
    now: str,
    *,
    custom_status: bool = False,
    versions: Versions | None = None,
) -> None:
    """Take what changed between the states from everyone, and give it to ``self``."""
    old, new, structure = states
    kind = new.get("kind", "")
    resets = reset(kind, self.subresource, custom=custom_status)

    def touched(version: str) -> Touched | None:
        if versions is None or version == self.version:
            changed, removed = compared(structure, old, new)
        else:
            before, after = versions(old, version), versions(new, version)
            if before is None or after is None:
                return None
            changed, removed = compared(structure_of(after[1]), before[0], after[0])
        return (
            None if changed is None else kept(kind, self.subresource, changed, resets),
            None if removed is None else kept(kind, self.subresource, removed, resets),
        )

    here = touched(self.version)
    assert here is not None
    if here == (None, None) and all(owned.fields for owned in managed.values()):
        return
    known: dict[str, Touched | None] = {self.version: here}
    for identity, owned in list(managed.items()):
        if versions is not None and owned.version not in known:
            known[owned.version] = touched(owned.version)
        lost = known.get(owned.version, here)
        left: Fields | None = None
        if lost is not None:
            left = owned.fields or None
            for part in lost:
                if left is not None and part is not None:
                    left = difference(left, part)
        if left is None:
            del managed[identity]
        elif left is not owned.fields:
            managed[identity] = owned._replace(fields=left)
    gained = without_root(here[0])
    if gained is not None:
        previous = managed.get(self)
        fields = gained if previous is None else union(previous.fields, gained)
        managed[self] = Ownership(self.version, now, fields)


_ROOT_METADATA: Final[Fields] = {"f:metadata": MEMBER}


def without_root(fields: Fields | None) -> Fields | None:
    """Nobody owns metadata as such."""
    return None if fields is None else difference(fields, _ROOT_METADATA)


def _managed_before(old: Tree | None, new: Tree, subresource: str) -> Managed | None:
    """The entries to start from; None where the client resets them."""
    live = (old.get("metadata") or {}).get("managedFields") if old is not None else None
    if subresource:
        return _readable(live)
    given = (new.get("metadata") or {}).get("managedFields")
    if given is not None and (not given or given == [{}]):
        return {} if old is None else None
    if given is live:
        return _readable(live)
    try:
        managed = decoded(given)
    except (MalformedError, AttributeError):
        managed = {}
    return managed or _readable(live)


def _readable(entries: Any) -> Managed:
    try:
        return decoded(entries)
    except (MalformedError, AttributeError):
        return {}


def _cap(managed: Managed) -> None:
    """Beyond ten entries of updates, the oldest of a version melt into one."""
    if len(managed) <= MOST_UPDATERS:
        return
    updaters = [identity for identity in managed if identity.operation == "Update"]
    count = len(updaters)
    if count <= MOST_UPDATERS:
        return
    updaters.sort(key=lambda identity: (managed[identity].time, identity))
    first_of: dict[str, Identity] = {}
    for identity in updaters:
        if count <= MOST_UPDATERS:
            return
        owned = managed[identity]
        first = first_of.setdefault(owned.version, identity)
        if first is identity:
            continue
        bucket = Identity(ANCIENT, "Update", owned.version)
        if bucket not in managed:
            managed[bucket] = managed.pop(first)
        merged = union(owned.fields, managed[bucket].fields)
        del managed[identity]
        managed[bucket] = Ownership(owned.version, owned.time, merged)
        count -= 1


def only_times_differ(old: Tree, new: Tree) -> bool:
    """Whether a write changes nothing but when its fields were taken: then it is none.

    Who applies a null over an empty list, or a default over nothing, seems to change the object until it is normal.
    """
    if old == new:
        return True
    before, after = old.get("metadata") or {}, new.get("metadata") or {}
    if {**old, "metadata": None} != {**new, "metadata": None}:
        return False
    entries, others = before.get("managedFields") or [], after.get("managedFields") or []
    if {**before, "managedFields": None} != {**after, "managedFields": None} or len(entries) != len(others):
        return False
    times = {"time": None}
    # Times are part of the order, so the entries are matched by who and what they are.
    left = [{**entry, **times} for entry in entries]
    return all({**entry, **times} in left for entry in others)


_BLANKS: dict[int, tuple[TypeShape, Tree]] = {}


def blank(shape: TypeShape | None) -> Tree:
    """An object with nothing set, as it is printed: what a create is compared with."""
    if shape is None:
        return {}
    known = _BLANKS.get(id(shape))
    if known is None or known[0] is not shape:
        if len(_BLANKS) > 2000:
            _BLANKS.clear()
        known = _BLANKS[id(shape)] = (shape, _blank_struct(shape))
    return known[1]


_ZEROS: Final[dict[str, Any]] = {
    "string": "", "bool": False, "int32": 0, "int64": 0, "float64": 0, "Quantity": "0", "IntOrString": 0,
}  # fmt: skip


def _blank_struct(shape: TypeShape) -> Tree:
    return {name: _blank_value(field) for name, field in shape.fields.items() if field.always_printed}


def _blank_value(field: Field) -> Any:
    if field.pointer:
        return None
    return _blank_struct(field.shape) if field.shape.form == "struct" else _ZEROS.get(field.shape.form)
