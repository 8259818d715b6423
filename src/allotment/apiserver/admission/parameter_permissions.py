"""Permissions that a policy or a binding requires of its author: to read the parameters that it makes visible."""

from __future__ import annotations

from typing import Final

from allotment.apiserver.access.authorization import MASTERS_GROUP
from allotment.apiserver.kinds.kind import Errors, User, Write
from allotment.model.trees import Tree
from allotment.model.validation.errors import forbidden

_EVERYTHING: Final = "for all groups, versions and resources"


def policy_permissions(spec: Tree, before: Tree, write: Write) -> Errors:
    """The error of a policy whose parameters its author cannot read; ``before``: its spec before an update."""
    kind = spec.get("paramKind")
    if not kind or kind == before.get("paramKind") or MASTERS_GROUP in write.user.groups:
        return
    group, resource, _ = _resolved(kind, write)
    if write.authorize(write.user, "get", group, resource, "", "*", "*") is not None:
        shown = f"(kind={kind['kind']}, apiVersion={kind['apiVersion']})"
        yield forbidden(
            "spec.paramKind",
            f'user {_shown(write.user)} must have "get" permission on all objects of the referenced paramKind {shown}',
        )


def binding_permissions(spec: Tree, before: Tree, write: Write, policies: str, *, mutating: bool = False) -> Errors:
    """The error of a binding whose parameters its author cannot read; ``policies``: the bucket of its policy."""
    reference = spec.get("paramRef")
    if not reference or MASTERS_GROUP in write.user.groups or _is_same(spec, before):
        return
    entry = write.reader.get(policies, "", spec["policyName"])
    kind = None if entry is None else entry.tree["spec"].get("paramKind")
    group, resource, is_resolved = _resolved(kind, write) if kind else ("*", "*", True)
    verb = "get" if reference.get("name") else "list"
    namespace, name = reference.get("namespace") or "", reference.get("name") or ""
    if write.authorize(write.user, verb, group, resource, "", namespace, name) is None:
        return
    user = _shown(write.user)
    if entry is None:
        subject = f"unable to get policy {spec['policyName']} to determine minimum required permissions and user"
        detail = f'{subject} {user} does not have "{verb}" permission {_EVERYTHING}'
    elif not is_resolved:
        subject = f"unable to resolve paramKind {_go_kind(kind or {})} to determine minimum required permissions and"
        detail = f'{subject} user {user} does not have "{verb}" permission {_EVERYTHING}'
    else:
        # For mutating policies, upstream confuses the user and the verb.
        who, what = (verb, user) if mutating else (user, verb)
        detail = f'user {who} does not have "{what}" permission on the object referenced by paramRef'
    yield forbidden("spec.paramRef", detail)


def _is_same(spec: Tree, before: Tree) -> bool:
    """Whether upstream considers the parameters of a binding unchanged: it compares pointers."""
    reference = spec.get("paramRef") or {}
    has_pointers = reference.get("selector") is not None or reference.get("parameterNotFoundAction") is not None
    return not has_pointers and all(spec.get(name) == before.get(name) for name in ("paramRef", "policyName"))


def _resolved(kind: Tree, write: Write) -> tuple[str, str, bool]:
    """The group and resource of a kind, and whether the kind is served; else the resource is ``*``."""
    plural = write.plural(kind["apiVersion"], kind["kind"])
    return kind["apiVersion"].rpartition("/")[0], plural or "*", bool(plural)


def _go_kind(kind: Tree) -> str:
    return f"&{{{kind.get('apiVersion')} {kind.get('kind')}}}"


def _shown(user: User) -> str:
    """A user as Go prints the struct."""
    extra = " ".join(f"{key}:[{' '.join(user.extra[key])}]" for key in sorted(user.extra))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
