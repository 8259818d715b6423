"""Content negotiation and response bodies: JSON, YAML or protobuf; whole objects, metadata only or tables.

The stored JSON bytes of an object are reused in responses, lists and watch events. Only other versions and
representations are encoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from allotment.apiserver import api_errors
from allotment.apiserver.conversion import in_version
from allotment.apiserver.kinds.kind import Column, ServedKind, StoreReader, TableConverter
from allotment.apiserver.memo import memoized
from allotment.apiserver.reads import protobuf
from allotment.apiserver.reads.paging import Page
from allotment.apiserver.served_kinds import api_version, is_custom
from allotment.apiserver.storage.store import Entry
from allotment.model.protobuf import encode as encode_protobuf
from allotment.model.serialization import to_yaml
from allotment.model.trees import Tree

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_AVAILABLE: Final = f"{JSON}, {YAML}, {PROTOBUF}"
#: Media types and ranges, and the media type of the response.
_MEDIA: Final = {JSON: JSON, YAML: YAML, PROTOBUF: PROTOBUF, "*/*": JSON, "application/*": JSON}
_FORMS: Final = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_META_VERSIONS: Final = ("v1", "v1beta1")

encode = msgspec.json.Encoder().encode


class Form(NamedTuple):
    """The negotiated representation: media type, and whole objects, their metadata or a table.

    ``include``: which part of the object a table row contains (query parameter includeObject).
    """

    media: str = JSON
    shown: Literal["whole", "table", "metadata"] = "whole"
    version: str = "v1"
    include: str = "Metadata"


WHOLE: Final = Form()


def negotiate(accept: str, *, stream: bool = False, custom: bool = False, tables: bool = True) -> Form:
    """The first acceptable representation that is available. Raises StatusError 406.

    ``custom``: the kind is a custom resource, which has no protobuf encoding. ``tables``: its objects have table rows,
    as all that are stored.
    """
    form = _negotiated(accept, stream, custom, tables)
    if form is not None:
        return form
    if stream:
        types = f"{JSON};stream=watch, {PROTOBUF};stream=watch"
        raise api_errors.not_acceptable(f"only the following media types are accepted: {types}")
    if any(clause.partition(";")[0].strip() in _MEDIA for clause in accept.split(",")):
        # The media type is known, but the requested representation is not.
        raise api_errors.not_acceptable(f"only the following media types are accepted: {_AVAILABLE}")
    raise api_errors.not_acceptable(f"406: Not Acceptable\n\nAvailable representations: {_AVAILABLE}", {})


@memoized(512)
def _negotiated(accept: str, stream: bool, custom: bool, tables: bool) -> Form | None:
    if not accept:
        return WHOLE
    for media, parameters in _clauses(accept):
        if media == YAML and stream:
            continue
        requested = parameters.get("as", "")
        if not requested:
            if custom and media == PROTOBUF:
                continue
            return Form(media)
        if parameters.get("g") == "meta.k8s.io" and parameters.get("v") in _META_VERSIONS and requested in _FORMS:
            if requested == "Table" and (media == PROTOBUF or not tables):
                continue
            return Form(media, "table" if requested == "Table" else "metadata", parameters["v"])
    return None


@memoized(512)
def status_form(accept: str) -> Form:
    """The representation of a Status: the first accepted media type without an "as" parameter; otherwise JSON."""
    return next((Form(media) for media, parameters in _clauses(accept) if "as" not in parameters), WHOLE)


def _clauses(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The known media types of an Accept header with their parameters, in order of preference."""
    for clause in _by_quality(accept):
        media, *parameters = (part.strip() for part in clause.split(";"))
        supported = _MEDIA.get(media)
        if supported is not None:
            yield supported, dict(part.partition("=")[::2] for part in parameters)


def _by_quality(accept: str) -> list[str]:
    clauses = [clause.strip() for clause in accept.split(",")]
    return sorted(clauses, key=_quality, reverse=True) if "q=" in accept else clauses


def _quality(clause: str) -> float:
    for part in clause.split(";")[1:]:
        name, _, value = part.strip().partition("=")
        if name == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


# --- bytes -----------------------------------------------------------------------------------------------------------


def encode_tree(tree: Tree, form: Form = WHOLE) -> bytes:
    """Encode a tree in a form's media type."""
    if form.media == PROTOBUF:
        return encode_protobuf(tree)
    return to_yaml([_sorted(tree)]).encode() if form.media == YAML else encode(tree)


def _sorted(value: Any) -> Any:
    """Sort the keys, as upstream does in YAML responses."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def object_json(kind: ServedKind, version: str, entry: Entry) -> bytes:
    """An object as JSON; the stored bytes if it is stored so."""
    tree = in_version(kind, version, entry.tree)
    return entry.json if tree is entry.tree else encode(tree)


def object_body(kind: ServedKind, version: str, entry: Entry, form: Form, now: str, reader: StoreReader) -> bytes:
    """The response body for one object."""
    if form is WHOLE or (form.shown == "whole" and form.media == JSON):
        return object_json(kind, version, entry)
    if form.shown == "table":
        meta = {"resourceVersion": entry.tree["metadata"].get("resourceVersion", "")}
        return encode_tree(table(kind, version, (entry,), meta, form, now, reader), form)
    if form.shown == "metadata":
        if form.media == PROTOBUF:
            return protobuf.metadata_body(entry.tree, form.version)
        return encode_tree(metadata_only(entry.tree, form.version), form)
    if form.media == PROTOBUF:
        return protobuf.object_body(kind, version, entry)
    return encode_tree(in_version(kind, version, entry.tree), form)


def list_body(kind: ServedKind, version: str, page: Page, form: Form, now: str, reader: StoreReader) -> bytes:
    """The response body for a page of a list."""
    if form.shown == "table":
        return encode_tree(table(kind, version, page.entries, page.meta, form, now, reader), form)
    if form.media == PROTOBUF:
        if form.shown == "metadata":
            return protobuf.metadata_list_body((entry.tree for entry in page.entries), page.meta, form.version)
        return protobuf.list_body(kind, version, page.meta, page.entries)
    if form.shown == "metadata":
        items = [metadata_only(entry.tree, form.version) for entry in page.entries]
        head = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{form.version}"}
        return encode_tree({**head, "metadata": page.meta, "items": items}, form)
    if form.media != JSON:
        return encode_tree(list_tree(kind, version, page), form)
    opening = encode({**_list_head(kind, version), "metadata": _list_meta(kind, page), "items": []})[:-2]
    return b"".join((opening, b",".join(_items(kind, version, page.entries)), b"]}"))


def _list_meta(kind: ServedKind, page: Page) -> Tree:
    """List metadata; lists of custom resources always have ``continue``, as upstream."""
    return {"continue": "", **page.meta} if is_custom(kind) else page.meta


def list_tree(kind: ServedKind, version: str, page: Page) -> Tree:
    """The list object for a page."""
    items = [in_version(kind, version, entry.tree) for entry in page.entries]
    if not is_custom(kind):
        items = [{key: value for key, value in item.items() if key not in ("kind", "apiVersion")} for item in items]
    return {**_list_head(kind, version), "metadata": _list_meta(kind, page), "items": items}


def _list_head(kind: ServedKind, version: str) -> Tree:
    return {"kind": f"{kind.kind}List", "apiVersion": api_version(kind, version)}


def _items(kind: ServedKind, version: str, entries: Sequence[Entry]) -> list[bytes]:
    """The items of a list; those of built-in kinds have no kind and apiVersion, as upstream."""
    bodies = [object_json(kind, version, entry) for entry in entries]
    if is_custom(kind):
        return bodies
    start = encode({"kind": kind.kind, "apiVersion": api_version(kind, version)})[:-1] + b","
    size = len(start)
    return [b"{" + body[size:] if body.startswith(start) else _without_kind(body) for body in bodies]


def _without_kind(body: bytes) -> bytes:
    tree = msgspec.json.decode(body)
    return encode({key: value for key, value in tree.items() if key not in ("kind", "apiVersion")})


# --- other forms -----------------------------------------------------------------------------------------------------


def metadata_only(tree: Tree, version: str) -> Tree:
    """The PartialObjectMetadata of an object."""
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": tree["metadata"]}


def _default_cells(tree: Tree, now: str, reader: StoreReader) -> list[Any]:
    return [tree["metadata"]["name"], tree["metadata"].get("creationTimestamp", "")]


#: The table of kinds without columns of their own.
_DEFAULT_TABLE: Final = TableConverter(
    (
        Column("Name", "string", "Name must be unique within a namespace.", 0, "name"),
        Column("Created At", "date", "When the server made the object.", 0),
    ),
    _default_cells,
)


def table(
    kind: ServedKind, version: str, entries: Sequence[Entry], meta: Tree, form: Form, now: str, reader: StoreReader,
    *, with_columns: bool = True,
) -> Tree:  # fmt: skip
    """The Table of some objects. ``with_columns``: include column definitions (in a watch, only in the first event)."""
    row_table = kind.table or _DEFAULT_TABLE
    rows = []
    for entry in entries:
        tree = in_version(kind, version, entry.tree)
        row: Tree = {"cells": row_table.cells(tree, now, reader)}
        if form.include == "Object":
            row["object"] = tree
        elif form.include == "None":
            row["object"] = None
        else:
            row["object"] = metadata_only(tree, form.version)
        rows.append(row)
    columns = [
        {"name": c.name, "type": c.type, "format": c.format, "description": c.description, "priority": c.priority}
        for c in row_table.columns
    ]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": meta,
        "columnDefinitions": columns if with_columns else None,
        "rows": rows,
    }
