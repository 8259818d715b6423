"""Patches an object with JSON patch, merge patch, strategic merge patch or server-side apply."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from allotment.apiserver import api_errors, bodies, go_json, scale
from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.request_options import Validation, WriteOptions
from allotment.apiserver.served_kinds import api_version, is_custom, shape_in
from allotment.apiserver.storage.store import Entry
from allotment.apiserver.verbs import Operation, Verbs
from allotment.apiserver.writes import json_patch
from allotment.apiserver.writes.go_format import format_value
from allotment.apiserver.writes.merge_patch import apply_merge_patch
from allotment.apiserver.writes.server_side_apply import apply, not_convertible
from allotment.apiserver.writes.strategic_merge_patch import apply_strategic_merge_patch
from allotment.cluster.errors import StatusError
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
_ACCEPTED: Final = (JSON_PATCH, MERGE, STRATEGIC, APPLY, "application/apply-patch+cbor")


def patch_type(media: str, kind: ServedKind) -> str:
    """The patch type for a media type. Raises StatusError 415; custom resources have no strategic merge patch."""
    accepted = (JSON_PATCH, MERGE, APPLY) if is_custom(kind) else _ACCEPTED
    if media not in FORMS or media not in accepted:
        raise api_errors.unsupported_media_type(accepted)
    return FORMS[media]


def read(body: bytes, form: str) -> Any:
    """Decode a patch."""
    if len(body) > bodies.LIMIT:
        raise api_errors.too_large(bodies.LIMIT)
    if form == "apply":
        return _read_yaml(body)
    try:
        return go_json.decode(body)
    except ValueError as error:
        raise api_errors.bad_request(f"error decoding patch: {error}" if form == "json" else str(error)) from None


def _read_yaml(body: bytes) -> Any:
    try:
        document = next(iter(yaml_parser.parse(body.decode("utf-8-sig"))), None)
    except UnicodeDecodeError:
        raise api_errors.bad_request("error decoding YAML: yaml: invalid leading UTF-8 octet") from None
    except DocumentError as fault:
        message = f"error decoding YAML: error converting YAML to JSON: yaml: line {fault.line + 1}: {fault.message}"
        raise api_errors.bad_request(message) from None
    return document.tree if document is not None else None


def patch(verbs: Verbs, operation: Operation, form: str, change: Any, options: WriteOptions) -> tuple[Entry, bool]:
    """Patch an object. Returns its new state, and whether it was created (possible with apply only)."""
    if form == "apply":
        return _apply(verbs, operation, change, options)
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
        patch_text = format_value(change) if form == "strategic" else msgspec.json.encode(patched).decode()
        return api_errors.invalid("", "", "", (invalid("patch", patch_text, reason),))

    tree = bodies.in_namespace(_validated(patched, live, operation, options.validation, rejection), operation.namespace)
    uid = (tree.get("metadata") or {}).get("uid")
    if uid and uid != entry.tree["metadata"]["uid"]:
        # kube-apiserver: a changed uid is a conflict in an update (storage check), but invalid in a patch (validation).
        raise api_errors.invalid(
            kind.group, kind.kind, operation.name, (invalid("metadata.uid", uid, "field is immutable"),)
        )
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
    unknown = list(bodies.unknown_fields(result.violations))
    if unknown and validation == "Strict":
        raise rejection(f"strict decoding error: {', '.join(unknown)}")
    if validation == "Warn":
        for message in unknown:
            operation.warn(message)
    return result.tree


def _apply(verbs: Verbs, operation: Operation, applied: Any, options: WriteOptions) -> tuple[Entry, bool]:
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
    tree = bodies.in_namespace(tree, operation.namespace)
    name = (applied.get("metadata") or {}).get("name")
    if name and name != operation.name:
        message = f"the name of the object ({name}) does not match the name on the URL ({operation.name})"
        raise api_errors.bad_request(message)
    tree = _validated(
        tree, live, operation, "Ignore", lambda reason: not_convertible(applied, _unstructured_message(reason))
    )
    if entry is None:
        tree["metadata"] = {**tree["metadata"], "name": operation.name}
        return verbs.create(operation, tree, is_apply=True), True
    return verbs.update(operation, tree, is_apply=True), False


def _unstructured_message(reason: str) -> str:
    """Upstream decodes applied objects with another decoder, whose messages for bytes and numbers differ."""
    if reason.startswith("illegal base64"):
        return f"error decoding from json: {reason}"
    number = _FRACTION.match(reason)
    return f"cannot convert float64 to {number[1]}" if number else reason
