"""Parses and validates query parameters into the options of each verb, with kube-apiserver's errors.

Upstream validates options like objects: invalid values are 422 errors about ``CreateOptions.meta.k8s.io`` and the
like; values that cannot be parsed are 400 errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple
from urllib.parse import parse_qs

from allotment.apiserver import api_errors
from allotment.apiserver.memo import memoized
from allotment.model.quoting import quote
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError, invalid, not_supported, required, too_long
from allotment.model.validation.errors import forbidden as forbidden_field

Query = Mapping[str, Sequence[str]]
Validation = Literal["Strict", "Warn", "Ignore"]

_MANAGER_MAX: Final = 128
_PROPAGATIONS: Final = ("Foreground", "Background", "Orphan")
_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"


class WriteOptions(NamedTuple):
    """Options of a create, update or patch. ``force`` is None if unset."""

    dry_run: bool = False
    manager: str = ""
    validation: Validation = "Warn"
    force: bool | None = None


class DeleteOptions(NamedTuple):
    """Options of a delete. ``propagation`` is empty if unset; ``orphan`` is the deprecated orphanDependents."""

    grace: int | None = None
    uid: str | None = None
    revision: str | None = None
    propagation: str = ""
    orphan: bool | None = None
    dry_run: bool = False


class ListOptions(NamedTuple):
    """Options of a list or watch. ``revision`` is None if unset; ``initial`` is sendInitialEvents."""

    labels: str = ""
    fields: str = ""
    limit: int = 0
    token: str = ""
    revision: int | None = None
    match: str = ""
    watch: bool = False
    bookmarks: bool = False
    initial: bool | None = None
    timeout: int | None = None


@memoized(4096)
def parse_query(query: str) -> Query:
    """The values of each query parameter. The result is cached: do not change it."""
    return parse_qs(query, keep_blank_values=True) if query else {}


def first(query: Query, name: str) -> str:
    """The first value of a parameter; empty if it is missing."""
    values = query.get(name)
    return values[0] if values else ""


def boolean(query: Query, name: str) -> bool:
    """A flag: true if present and neither ``false`` nor ``0``."""
    values = query.get(name)
    return values is not None and values[0].lower() not in ("false", "0")


def integer(query: Query, name: str) -> int | None:
    """An integer parameter; None if it is missing."""
    text = first(query, name)
    if not text:
        return None
    try:
        return _parse_integer(text, -(2**63), 2**63)
    except ValueError as error:
        raise api_errors.bad_request(f"strconv.ParseInt: parsing {quote(text)}: {error}") from None


def revision(text: str) -> int:
    """Parse a resourceVersion."""
    try:
        return _parse_integer(text, 0, 2**64)
    except ValueError as error:
        reason = f"resourceVersion: Invalid value: {quote(text)}: strconv.ParseUint: parsing {quote(text)}: {error}"
        raise api_errors.unclassified(reason) from None


def _parse_integer(text: str, minimum: int, maximum: int) -> int:
    digits = text[1:] if text[:1] in ("+", "-") and minimum < 0 else text
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("invalid syntax")
    value = int(text)
    if not minimum <= value < maximum:
        raise ValueError("value out of range")
    return value


def _reject(kind: str, errors: Sequence[FieldError]) -> None:
    if errors:
        raise api_errors.invalid("meta.k8s.io", kind, "", errors)


_NO_WRITE_OPTIONS: Final = WriteOptions()


def write_options(query: Query, kind: str, *, patch: str = "") -> WriteOptions:
    """Parse write options; ``kind`` is CreateOptions, UpdateOptions or PatchOptions, ``patch`` the patch type."""
    if not query and not patch:
        return _NO_WRITE_OPTIONS
    force = boolean(query, "force") if query.get("force") else None
    manager, dry_run = first(query, "fieldManager"), list(query.get("dryRun", ()))
    validation = first(query, "fieldValidation")
    errors: list[FieldError] = []
    if patch == "apply" and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    elif patch and patch != "apply" and force is not None:
        errors.append(forbidden_field("force", "may not be specified for non-apply patch"))
    errors += _manager_errors(manager)
    errors += _dry_run_errors(dry_run)
    if validation not in ("", "Ignore", "Strict", "Warn"):
        errors.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    _reject(kind, errors)
    chosen: Validation = "Strict" if validation == "Strict" else "Ignore" if validation == "Ignore" else "Warn"
    return WriteOptions(bool(dry_run), manager, chosen, force)


def _manager_errors(manager: str) -> list[FieldError]:
    if len(manager.encode(errors="replace")) > _MANAGER_MAX:
        return [too_long("fieldManager", _MANAGER_MAX)]
    for position, character in enumerate(manager):
        if not character.isprintable():
            problem = f"invalid character {quote(character)[1:-1]!r} (at position {position})"
            return [invalid("fieldManager", manager, f"{problem}: only printable characters are allowed")]
    return []


def _dry_run_errors(values: Sequence[str]) -> list[FieldError]:
    return [not_supported("dryRun", values, ("All",))] if any(value != "All" for value in values) else []


def delete_options(query: Query, body: Tree) -> DeleteOptions:
    """Parse the options of a delete: those of the body or, if it is empty, those of the query."""
    given = body or {
        "gracePeriodSeconds": integer(query, "gracePeriodSeconds"),
        "orphanDependents": boolean(query, "orphanDependents") if query.get("orphanDependents") else None,
        "propagationPolicy": first(query, "propagationPolicy") or None,
        "dryRun": list(query.get("dryRun", ())),
        "preconditions": {
            "uid": first(query, "preconditions.uid") or None,
            "resourceVersion": first(query, "preconditions.resourceVersion") or None,
        },
    }
    propagation, orphan, dry_run = (
        given.get("propagationPolicy"),
        given.get("orphanDependents"),
        given.get("dryRun") or [],
    )
    if body and query.get("dryRun"):
        dry_run = list(query["dryRun"])
    errors: list[FieldError] = []
    if propagation is not None:
        if orphan is not None:
            detail = "orphanDependents and deletionPropagation cannot be both set"
            errors.append(invalid("propagationPolicy", propagation, detail))
        if propagation not in _PROPAGATIONS:
            errors.append(not_supported("propagationPolicy", propagation, (*_PROPAGATIONS, "nil")))
    errors += _dry_run_errors(dry_run)
    _reject("DeleteOptions", errors)
    preconditions = given.get("preconditions") or {}
    return DeleteOptions(
        given.get("gracePeriodSeconds"),
        preconditions.get("uid"),
        preconditions.get("resourceVersion"),
        propagation or "",
        orphan,
        bool(dry_run),
    )


def list_options(query: Query, *, watch: bool = False) -> ListOptions:
    """Parse the options of a list or watch. ``watch``: the path already requests a watch."""
    if not query:
        return ListOptions(watch=watch)
    requested = revision(first(query, "resourceVersion")) if first(query, "resourceVersion") else None
    options = ListOptions(
        first(query, "labelSelector"),
        first(query, "fieldSelector"),
        integer(query, "limit") or 0,
        first(query, "continue"),
        requested,
        first(query, "resourceVersionMatch"),
        watch or boolean(query, "watch"),
        boolean(query, "allowWatchBookmarks"),
        boolean(query, "sendInitialEvents") if query.get("sendInitialEvents") else None,
        integer(query, "timeoutSeconds"),
    )
    _reject("ListOptions", _watch_errors(options) if options.watch else _list_errors(options))
    return options


def _list_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    match, field = options.match, "resourceVersionMatch"
    if match:
        if options.revision is None:
            errors.append(forbidden_field(field, f"{field} is forbidden unless resourceVersion is provided"))
        if options.token:
            errors.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
        if match not in (_EXACT, _NOT_OLDER):
            errors.append(not_supported(field, match, (_EXACT, _NOT_OLDER, "")))
        if match == _EXACT and options.revision == 0:
            errors.append(forbidden_field(field, f'{field} "exact" is forbidden for resourceVersion "0"'))
    if options.initial is not None:
        errors.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    match, field = options.match, "resourceVersionMatch"
    if options.initial is not None and match != _NOT_OLDER:
        errors.append(forbidden_field(field, f"sendInitialEvents requires setting {field} to {_NOT_OLDER}"))
    if match:
        if options.initial is None:
            errors.append(
                forbidden_field(field, f"{field} is forbidden for watch unless sendInitialEvents is provided")
            )
        if match != _NOT_OLDER:
            errors.append(not_supported(field, match, (_NOT_OLDER,)))
        if options.token:
            errors.append(forbidden_field(field, f"{field} is forbidden when continue is provided"))
    return errors
