"""Patches an object with JSON patch, merge patch, strategic merge patch or server-side apply."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver import api_errors, bodies, go_json, scale
from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.operation import Operation
from allotment.apiserver.request_options import Validation, WriteOptions
from allotment.apiserver.served_kinds import api_version, is_custom, shape_in
from allotment.apiserver.storage.store import Entry
from allotment.apiserver.verbs import Verbs, check_name
from allotment.apiserver.writes import json_patch
from allotment.apiserver.writes.go_format import format_value
from allotment.apiserver.writes.merge_patch import apply_merge_patch
from allotment.apiserver.writes.server_side_apply import apply, not_convertible
from allotment.apiserver.writes.strategic_merge_patch import apply_strategic_merge_patch
from allotment.apiserver.writes.unstructured_conversion import conversion_problem
from allotment.cluster.errors import StatusError
from allotment.model.features import Features
from allotment.model.loading import yaml_parser
from allotment.model.loading.marks import DocumentError
from allotment.model.strict_decoding import strict_decode
from allotment.model.trees import Tree
from allotment.model.validation.errors import invalid

JSON_PATCH: Final = "application/json-patch+json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
FORMS: Final = {JSON_PATCH: "json", MERGE: "merge", STRATEGIC: "strategic", APPLY: "apply"}
_FRACTION: Final = re.compile(r"json: cannot unmarshal number -?\d*\.\d\S* .* of type (\w+)$")
_OF_CUSTOM: Final = (JSON_PATCH, MERGE, APPLY)


def patch_type(media: str, kind: ServedKind) -> str:
    """The patch type for a media type. Raises StatusError 415; custom resources have no strategic merge patch."""
    if is_custom(kind) and media not in _OF_CUSTOM:
        raise api_errors.unsupported_media_type(_OF_CUSTOM)
    if media not in FORMS:
        raise api_errors.unsupported_patch_type()
    return FORMS[media]


class DecodedPatch(NamedTuple):
    """A patch, and the messages about its repeated keys."""

    change: Any
    duplicates: Sequence[str] = ()


def read(body: bytes, form: str, features: Features) -> DecodedPatch:
    """Decode a patch."""
    if len(body) > bodies.LIMIT:
        raise api_errors.too_large(bodies.LIMIT)
    if form == "apply":
        return _read_yaml(body)
    try:
        change = go_json.decode(body)
    except ValueError as error:
        raise api_errors.bad_request(_undecodable(str(error), form, features)) from None
    return DecodedPatch(change, () if form == "json" else bodies.duplicate_fields(body, change))


def _undecodable(error: str, form: str, features: Features) -> str:
    if features.since("1.37"):
        return "invalid JSON patch"
    return error if form == "strategic" else f"error decoding patch: {error}"


def _read_yaml(body: bytes) -> DecodedPatch:
    try:
        document = next(iter(yaml_parser.parse(body.decode("utf-8-sig"), last_wins=True)), None)
    except UnicodeDecodeError:
        raise api_errors.bad_request("error decoding YAML: yaml: invalid leading UTF-8 octet") from None
    except DocumentError as fault:
        message = f"error decoding YAML: error converting YAML to JSON: yaml: line {fault.line + 1}: {fault.message}"
        raise api_errors.bad_request(message) from None
    if document is None:
        return DecodedPatch(None)
    return DecodedPatch(document.tree, bodies.repeated_yaml_keys(document.duplicates))


def patch(
    verbs: Verbs, operation: Operation, form: str, decoded: DecodedPatch, options: WriteOptions
) -> tuple[Entry, bool]:
    """Patch an object. Returns its new state, and whether it was created (possible with apply only)."""
    change = decoded.change
    operation = operation._replace(verb="patch")
    if form == "apply":
        return _apply(verbs, operation, decoded, options)
    entry = verbs.entry(operation)
    kind, version = operation.kind, operation.version
    live = in_version(kind, version, entry.tree)
    shape = shape_in(kind, version)
    if form == "json":
        patched = json_patch.apply_json_patch(live, change)
    elif form == "merge":
        patched = apply_merge_patch(live, change)
    else:
        patched = apply_strategic_merge_patch(live, change, shape)

    def rejection(reason: str) -> StatusError:
        encoded = msgspec.json.encode(patched, order="sorted").decode()
        patch_text = format_value(change) if form == "strategic" else encoded
        reason = conversion_problem(patched, shape) or reason if form == "strategic" else reason
        return api_errors.invalid("", "", "", (invalid("patch", patch_text, reason),))

    tree = _validated(patched, live, operation, options.validation, rejection, decoded.duplicates)
    tree = bodies.in_namespace(tree, operation.namespace)
    uid = (tree.get("metadata") or {}).get("uid")
    if uid and uid != entry.tree["metadata"]["uid"]:
        # kube-apiserver: a changed uid is a conflict in an update (storage check), but invalid in a patch (validation,
        # which is run twice).
        error = invalid("metadata.uid", uid, "field is immutable")
        raise api_errors.invalid(kind.group, kind.kind, operation.name, (error, error))
    return verbs.update(operation, tree), False


def patched_scale(view: Tree, form: str, change: Any) -> Tree:
    """The Scale that results from a patch."""
    if form == "json":
        patched: Any = json_patch.apply_json_patch(view, change)
    else:
        patched = apply_merge_patch(view, change)
    return bodies.prune_unstored(patched if type(patched) is dict else {}, scale.API_VERSION, "Scale")


def _validated(
    patched: Any,
    live: Tree | None,
    operation: Operation,
    validation: Validation,
    rejection: Callable[[str], StatusError],
    duplicates: Sequence[str] = (),
) -> Tree:
    """The patched object without unknown fields. Values that do not fit the schema raise ``rejection``."""
    if type(patched) is not dict:
        patched = {}
    kind, version = operation.kind, operation.version
    expected = api_version(kind, version)
    if (patched.get("apiVersion"), patched.get("kind")) != (expected, kind.kind):
        bodies.check_kind(patched, kind, version)
    result = strict_decode(patched, expected, kind.kind, shape_in(kind, version), exact=True, previous=live)
    for category in ("value", "type") if result.violations else ():
        for violation in result.violations:
            if violation.category == category:
                raise rejection(violation.message)
    unknown = [*duplicates, *bodies.unknown_fields(result.violations)]
    if unknown and validation == "Strict":
        raise rejection(f"strict decoding error: {', '.join(unknown)}")
    if validation == "Warn":
        for message in unknown:
            operation.warn(message)
    return result.tree


def _apply(verbs: Verbs, operation: Operation, decoded: DecodedPatch, options: WriteOptions) -> tuple[Entry, bool]:
    applied = decoded.change
    kind, version = operation.kind, operation.version
    entry = verbs.store.get(kind.store_bucket, operation.namespace, operation.name)
    if entry is None and operation.subresource:
        raise api_errors.not_found(kind.group, kind.plural, operation.name)
    live = in_version(kind, version, entry.tree) if entry is not None else None
    tree = apply(
        live,
        applied,
        shape_in(kind, version),
        manager=operation.manager,
        api_version=operation.api_version,
        kind=kind.kind,
        subresource=operation.subresource,
        force=bool(options.force),
        now=verbs.now(),
        custom_status=is_custom(kind) and "status" in kind.subresources,
        versions=verbs.versions(kind),
    )
    if decoded.duplicates and options.validation == "Strict":
        errors = bodies.unmarshal_errors(decoded.duplicates)
        what = "patch" if verbs.features.since("1.37") else "YAML"
        raise api_errors.bad_request(f"error strict decoding {what}: error converting YAML to JSON: {errors}")
    for message in decoded.duplicates if options.validation == "Warn" else ():
        operation.warn(message)
    tree = bodies.in_namespace(tree, operation.namespace)
    name = (applied.get("metadata") or {}).get("name")
    if name and name != operation.name:
        message = f"the name of the object ({name}) does not match the name on the URL ({operation.name})"
        raise api_errors.bad_request(message)
    tree = _validated(
        tree, live, operation, "Ignore", lambda reason: not_convertible(applied, _unstructured_message(reason))
    )
    if entry is None:
        check_name(name, operation.name)
        return verbs.create(operation, tree, is_apply=True), True
    return verbs.update(operation, tree, is_apply=True), False


def _unstructured_message(reason: str) -> str:
    """Upstream decodes applied objects with another decoder, whose messages for bytes and numbers differ."""
    if reason.startswith("illegal base64"):
        return f"error decoding from json: {reason}"
    number = _FRACTION.match(reason)
    return f"cannot convert float64 to {number[1]}" if number else reason
