"""Server-side apply: a configuration merged into the live object, each manager owning what it applied.

What a manager applied last time and leaves out now is removed, unless somebody else owns it. What another manager owns
with another value is a conflict: a refusal that names every field, or, forced, a change of owner. The same value may
have several owners.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from allotment.apiserver.writes import field_sets, last_applied
from allotment.apiserver.writes.apply_merge import merged
from allotment.apiserver.writes.apply_schema import Structure, UnkeyedError, structure_of
from allotment.apiserver.writes.comparison import compared
from allotment.apiserver.writes.field_sets import MEMBER, Fields, difference, intersection, top_union
from allotment.apiserver.writes.managed_fields import (
    Identity,
    MalformedError,
    Managed,
    Ownership,
    Versions,
    blank,
    decoded,
    encoded,
    settle,
)
from allotment.apiserver.writes.ownership import claimed, with_named_fields, without
from allotment.apiserver.writes.patch_errors import bad_request, unclassified
from allotment.apiserver.writes.reset_fields import kept, reset
from allotment.apiserver.writes.type_check import misfits
from allotment.cluster.errors import StatusError
from allotment.model.fields import TypeShape
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import failure_status

BEFORE_FIRST_APPLY: Final = "before-first-apply"

#: What no manager owns, however it came: who the object is, and what the server keeps.
_STRIPPED: Final[Fields] = {
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
    """A field that somebody else owns with another value."""

    owner: Identity
    path: tuple[str, ...]


class Conflicts(Exception):
    """The apply would take fields from others."""

    def __init__(self, conflicts: list[Conflict]) -> None:
        super().__init__(conflicts)
        self.conflicts = conflicts


class Applier(NamedTuple):
    """Who applies to what: all that an apply needs beside the trees."""

    structure: Structure
    shape: TypeShape | None
    identity: Identity
    version: str
    now: str
    custom_status: bool
    versions: Versions | None

    def fields_kept(self, kind: str, fields: Fields) -> Fields | None:
        """Of the fields a configuration names, those this subresource can touch."""
        subresource = self.identity.subresource
        return kept(kind, subresource, fields, reset(kind, subresource, custom=self.custom_status))


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
    """The object after the apply, with its managedFields; the very ``live`` if nothing changes at all.

    ``live`` is in the normal form of ``api_version``, or None; what comes back still wants defaults and the normal
    form. ``kind`` is what the path asks for (default: that of ``live``, else of ``applied``).
    """
    if type(applied) is not dict:
        applied = _read(applied)
    kind = kind or (live or applied).get("kind", "")
    _check_type(applied, api_version, kind)
    metadata = applied.get("metadata")
    if type(metadata) is not dict:
        metadata = {}  # what else it may be, is told with all that does not fit
    if metadata.get("managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")
    structure = structure_of(shape)
    problem = misfits(structure, applied)
    if problem:
        raise unclassified(f"failed to create typed patch object ({_about(applied)}): {problem}")
    applier = Applier(
        structure, shape, Identity(manager, "Apply", "", subresource), api_version, now, custom_status, versions
    )
    try:
        return _applied_to(applier, live, applied, force=force)
    except Conflicts as error:
        raise _refusal(error.conflicts) from None
    except UnkeyedError as error:
        raise unclassified(str(error)) from None


def _read(document: Any) -> Tree:
    """An empty document is an empty object; anything else is none."""
    if document is None:
        return {}
    word = {list: "array", str: "string", bool: "bool"}.get(type(document), "number")
    cause = f"json: cannot unmarshal {word} into Go value of type map[string]interface {{}}"
    raise bad_request(f"error decoding YAML: error unmarshaling JSON: while decoding JSON: {cause}")


def _check_type(applied: Tree, api_version: str, kind: str) -> None:
    if applied.get("apiVersion") != api_version or applied.get("kind") != kind:
        raise bad_request(f"invalid object type: {_kind_text(applied)}")


def not_convertible(applied: Tree, why: str) -> StatusError:
    """The refusal of a configuration with a value that fits the schema and that no field can hold."""
    kind = _kind_text(applied)
    cause = f"unable to convert unstructured object to {kind}: {why}"
    return unclassified(f"failed to convert new object ({_about(applied)}) to proper version: {cause}")


def _about(applied: Tree) -> str:
    metadata = applied.get("metadata")
    named = metadata if type(metadata) is dict else {}
    return f"{named.get('namespace') or ''}/{named.get('name') or ''}; {_kind_text(applied)}"


def _kind_text(tree: Tree) -> str:
    """``apps/v1, Kind=Deployment`` as Go prints it; the core group is empty."""
    group, slash, version = str(tree.get("apiVersion") or "").rpartition("/")
    return (
        f"{group}/{version}, Kind={tree.get('kind') or ''}" if slash else f"/{version}, Kind={tree.get('kind') or ''}"
    )


def _applied_to(applier: Applier, live: Tree | None, applied: Tree, *, force: bool) -> Tree:
    base = live if live is not None else {**blank(applier.shape), "metadata": {}}
    entries = base["metadata"].get("managedFields")
    try:
        managed = decoded(entries)
    except MalformedError as error:
        raise unclassified(f"failed to decode managed fields: {error}") from None
    if not managed and live is not None:
        # Nobody was tracked so far: what is there belongs to "before-first-apply".
        first = Identity(BEFORE_FIRST_APPLY, "Update", applier.version, applier.identity.subresource)
        states = (blank(applier.shape), live, applier.structure)
        settle(managed, states, first, applier.now, custom_status=applier.custom_status)
    present = {name: value for name, value in base["metadata"].items() if name != "managedFields"}
    bare = {**base, "metadata": present}
    try:
        result, managed = apply_once(applier, bare, applied, managed, force=force)
    except Conflicts as error:
        if applier.identity.manager != last_applied.KUBECTL:
            raise
        # Who moves over from client-side apply does not conflict with what that applied.
        allowed = last_applied.unchanged(applier.structure, bare, applier.version)
        left = [conflict for conflict in error.conflicts if not field_sets.has(allowed, conflict.path)]
        if left or not allowed:
            raise Conflicts(left or error.conflicts) from None
        result, managed = apply_once(applier, bare, applied, managed, force=True)
    if applier.identity.manager == last_applied.KUBECTL:
        synced = last_applied.synced(result or bare, applied)
        result = synced if synced is not bare else result
    fields = encoded(managed)
    if result is None:
        if live is not None and fields == (entries or []):
            return live
        result = bare
    metadata = {**(result.get("metadata") or {})}
    if fields:
        metadata["managedFields"] = fields
    return {**result, "metadata": metadata}


def apply_once(
    applier: Applier, live: Tree, applied: Tree, managed: Managed, *, force: bool
) -> tuple[Tree | None, Managed]:
    """The merged object (None if it is no other than before) and the owners. Raises Conflicts."""
    structure, identity = applier.structure, applier.identity
    kind = str(applied.get("kind", ""))
    joined: Tree = merged(structure, live, applied)
    last = managed.get(identity)
    claims = claimed(structure, applied)
    claims = None if claims is None else applier.fields_kept(kind, claims)
    managed = dict(managed)
    managed[identity] = Ownership(applier.version, last.time if last else "", claims or MEMBER)
    if last is not None and last.fields:
        pruned = _pruned(applier, joined, managed, last)
    else:
        pruned = joined
    managed = _taken(applier, live, pruned, managed, force=force)
    own = managed.get(identity)
    if own is not None:
        left = difference(own.fields, _STRIPPED) if own.fields else None
        if left is None:
            del managed[identity]
        else:
            managed[identity] = own._replace(fields=left)
    if pruned == live:
        return None, managed
    if identity in managed:
        managed[identity] = managed[identity]._replace(time=applier.now)
    return _tidy(pruned, joined), managed


def _taken(applier: Applier, live: Tree, new: Tree, managed: Managed, *, force: bool) -> Managed:
    """What the others lose; without ``force`` they may lose only what is gone."""
    kind = str(new.get("kind", ""))

    def touched(version: str) -> tuple[Fields | None, Fields | None] | None:
        structure, before, after = applier.structure, live, new
        if applier.versions is not None and version != applier.version:
            one, other = applier.versions(live, version), applier.versions(new, version)
            if one is None or other is None:
                return None
            before, after, structure = one[0], other[0], structure_of(other[1])
        parts = compared(structure, before, after)
        changed, removed = (None if part is None else applier.fields_kept(kind, part) for part in parts)
        return changed, removed

    known: dict[str, tuple[Fields | None, Fields | None] | None] = {}
    conflicts: list[Conflict] = []
    result: Managed = {}
    for identity, owned in sorted(managed.items()):
        if identity == applier.identity:
            result[identity] = owned
            continue
        if owned.version not in known:
            known[owned.version] = touched(owned.version)
        parts = known[owned.version]
        if parts is None:
            continue
        left: Fields | None = owned.fields or None
        changed, removed = parts
        if left is not None and changed is not None:
            lost = intersection(left, changed)
            if lost:
                conflicts += [Conflict(identity, path) for path in field_sets.paths(lost)]
            left = difference(left, changed)
        if left is not None and removed is not None:
            left = difference(left, removed)
        if left is not None:
            result[identity] = owned._replace(fields=left)
    if conflicts and not force:
        raise Conflicts(conflicts)
    return result


# --- what is applied no more --------------------------------------------------------------------------------------


def _pruned(applier: Applier, joined: Tree, managed: Managed, last: Ownership) -> Tree:
    """Without what this manager applied last time and not now, unless somebody owns it."""
    if applier.versions is None or last.version == applier.version:
        return _pruned_here(applier.structure, joined, last.fields, _owned_by_version(managed, last.version))
    there = applier.versions(joined, last.version)
    if there is None:
        return joined
    pruned = _pruned_here(structure_of(there[1]), there[0], last.fields, _owned_by_version(managed, last.version))
    back = applier.versions(pruned, applier.version)
    return joined if back is None else back[0]


def _owned_by_version(managed: Managed, first: str) -> list[Fields]:
    """All that anybody owns, one set per version, the given version first."""
    sets: dict[str, Fields | None] = {first: None}
    for owned in managed.values():
        if owned.fields:
            sets[owned.version] = top_union(sets.get(owned.version), owned.fields)
    return [fields for fields in sets.values() if fields is not None]


def _pruned_here(structure: Structure, joined: Tree, last: Fields, owned: list[Fields]) -> Tree:
    def named(fields: Fields) -> Fields:
        return with_named_fields(fields, structure)

    everything = named(claimed(structure, joined) or {})
    pruned: Any = without(structure, joined, named(last)) or {}
    for fields in owned:
        # Put back what others own of what was taken away.
        staying = top_union(named(claimed(structure, pruned) or {}) or None, named(fields))
        gone = difference(everything, staying) if staying else everything
        pruned = without(structure, joined, gone) if gone else joined
    # Put back what nobody owns, and what this manager never applied.
    left = named(claimed(structure, pruned or {}) or {})
    gone = difference(everything, left) if left else everything
    gone = intersection(gone, named(last)) if gone else None
    result: Tree = without(structure, joined, gone) if gone else joined
    return result or {}


def _tidy(pruned: Any, joined: Any) -> Any:
    """Without the nulls that stand where something was emptied."""
    if pruned is joined:
        return pruned
    if type(pruned) is dict and type(joined) is dict:
        return {
            name: _tidy(value, joined[name])
            for name, value in pruned.items()
            if value is not None or joined[name] is None
        }
    return pruned


# --- refusals -----------------------------------------------------------------------------------------------------


def _owner_text(owner: Identity) -> str:
    text = quote(owner.manager)
    if owner.subresource:
        text += f" with subresource {quote(owner.subresource)}"
    return f"{text} using {owner.version}" if owner.operation == "Update" else text


def _refusal(conflicts: list[Conflict]) -> StatusError:
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
        by_owner: dict[Identity, list[str]] = {}
        for owner, path in conflicts:
            by_owner.setdefault(owner, []).append(f"- {field_sets.path_text(path)}")
        lines = [
            line for owner, paths in by_owner.items() for line in (f"conflicts with {_owner_text(owner)}:", *paths)
        ]
        message = f"{len(conflicts)} conflicts: " + "\n".join(lines)
    return StatusError(failure_status(409, "Conflict", f"Apply failed with {message}", {"causes": causes}))
