"""Changing an object by a patch, in the four forms: from the object as its version shows it to what is written."""

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
from allotment.apiserver.verbs import Ask, Verbs
from allotment.apiserver.writes import json_patch
from allotment.apiserver.writes.go_maps import shown
from allotment.apiserver.writes.merge_patch import apply_merge_patch
from allotment.apiserver.writes.server_side_apply import apply, not_convertible
from allotment.apiserver.writes.strategic_merge_patch import apply_strategic
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


def form_of(media: str, kind: ServedKind) -> str:
    """Which form of patch a media type is. Raises StatusError 415; custom resources have no merge keys."""
    accepted = (JSON_PATCH, MERGE, APPLY) if is_custom(kind) else _ACCEPTED
    if media not in FORMS or media not in accepted:
        raise api_errors.unsupported_media_type(accepted)
    return FORMS[media]


def read(body: bytes, form: str) -> Any:
    """The patch in a body."""
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


def patch(verbs: Verbs, ask: Ask, form: str, change: Any, options: WriteOptions) -> tuple[Entry, bool]:
    """Patch an object; gives its new state, and whether it is a new object (only an apply creates)."""
    if form == "apply":
        return _apply(verbs, ask, change, options)
    entry = verbs.entry(ask)
    kind, version = ask.kind, ask.version
    live = in_version(kind, version, entry.tree)
    shape = shape_in(kind, version)
    if form == "json":
        patched = json_patch.apply_json_patch(live, change)
    elif form == "merge":
        patched = apply_merge_patch(live, change)
    else:
        patched = apply_strategic(live, change, shape)

    def refused(why: str) -> StatusError:
        told = shown(change) if form == "strategic" else msgspec.json.encode(patched).decode()
        return api_errors.invalid("", "", "", (invalid("patch", told, why),))

    tree = bodies.in_namespace(_checked(patched, live, ask, options.validation, refused), ask.namespace)
    uid = (tree.get("metadata") or {}).get("uid")
    if uid and uid != entry.tree["metadata"]["uid"]:
        # Of whole objects the storage says so, as a conflict; a patched one is compared with what it was made from.
        raise api_errors.invalid(kind.group, kind.kind, ask.name, (invalid("metadata.uid", uid, "field is immutable"),))
    return verbs.update(ask, tree), False


def patched_scale(view: Tree, form: str, change: Any) -> Tree:
    """A Scale after a patch."""
    if form == "json":
        patched: Any = json_patch.apply_json_patch(view, change)
    else:
        patched = apply_merge_patch(view, change)
    return bodies.fitting(patched if type(patched) is dict else {}, scale.API_VERSION, "Scale")


def _checked(
    patched: Any, live: Tree | None, ask: Ask, validation: Validation, refused: Callable[[str], StatusError]
) -> Tree:
    """The patched object if its kind can hold it; what it cannot hold is the patch's fault, which is ``refused``."""
    if type(patched) is not dict:
        patched = {}
    kind, version = ask.kind, ask.version
    expected = api_version(kind, version)
    if (patched.get("apiVersion"), patched.get("kind")) != (expected, kind.kind):
        bodies.of_kind(patched, kind, version)
    result = strict_decode(patched, expected, kind.kind, shape_in(kind, version), exact=True, previous=live)
    for sort in ("value", "type") if result.violations else ():
        for misfit in result.violations:
            if misfit.category == sort:
                raise refused(misfit.message)
    unknown = list(bodies.unknown_fields(result.violations))
    if unknown and validation == "Strict":
        raise refused(f"strict decoding error: {', '.join(unknown)}")
    if validation == "Warn":
        for message in unknown:
            ask.warn(message)
    return result.tree


def _apply(verbs: Verbs, ask: Ask, applied: Any, options: WriteOptions) -> tuple[Entry, bool]:
    kind, version = ask.kind, ask.version
    entry = verbs.store.get(kind.store_bucket, ask.namespace, ask.name)
    if entry is None and ask.subresource:
        raise api_errors.not_found(kind.group, kind.plural, ask.name)
    live = in_version(kind, version, entry.tree) if entry is not None else None
    tree = apply(
        live,
        applied,
        shape_in(kind, version),
        manager=ask.manager,
        api_version=ask.api_version,
        kind=kind.kind,
        subresource=ask.subresource,
        force=bool(options.force),
        now=verbs.now(),
        custom_status=is_custom(kind) and "status" in kind.subresources,
        versions=verbs.versions(kind),
    )
    tree = bodies.in_namespace(tree, ask.namespace)
    found = (applied.get("metadata") or {}).get("name")
    if found and found != ask.name:
        message = f"the name of the object ({found}) does not match the name on the URL ({ask.name})"
        raise api_errors.bad_request(message)
    tree = _checked(tree, live, ask, "Ignore", lambda why: not_convertible(applied, _unstructured(why)))
    if entry is None:
        tree["metadata"] = {**tree["metadata"], "name": ask.name}
        return verbs.create(ask, tree, applied=True), True
    return verbs.update(ask, tree, applied=True), False


def _unstructured(why: str) -> str:
    """Upstream decodes what was applied in another way than bodies, and says so of bytes and numbers."""
    if why.startswith("illegal base64"):
        return f"error decoding from json: {why}"
    number = _FRACTION.match(why)
    return f"cannot convert float64 to {number[1]}" if number else why
