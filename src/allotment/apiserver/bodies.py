"""Request bodies: from bytes to a checked tree, or the refusal that the real server gives.

JSON, YAML and protobuf come out as the same trees. What a body says too much (unknown fields, keys that stand twice)
is an error, a warning or nothing, as ``fieldValidation`` wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from json import JSONDecoder
from typing import Any, Final, NamedTuple

import msgspec

from allotment.apiserver import api_errors, go_json
from allotment.apiserver.kinds.kind import ServedKind
from allotment.apiserver.memo import remembered
from allotment.apiserver.request_options import Validation
from allotment.apiserver.served_kinds import api_version, is_custom, shape_in
from allotment.model.fields import TypeShape, shape_of, versions_of
from allotment.model.loading import yaml_parser
from allotment.model.loading.marks import DocumentError, split_path
from allotment.model.protobuf import MAGIC, ProtobufError
from allotment.model.protobuf import decode as decode_protobuf
from allotment.model.quoting import quote
from allotment.model.strict_decoding import SchemaViolation, strict_decode
from allotment.model.trees import Tree

Path = tuple[str | int, ...]
Warn = Callable[[str], None]

#: What a body may weigh; more is not even looked at.
LIMIT: Final = 3 * 1024 * 1024
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
ACCEPTED: Final = (JSON, YAML, PROTOBUF)
_SUMMARY: Final = 30
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_SCHEME: Final = 'in scheme "pkg/api/legacyscheme/scheme.go:30"'
_WHITE: Final = b" \n\r\t"

_encode = msgspec.json.Encoder().encode


class Decoded(NamedTuple):
    """A body as a tree; ``duplicates`` are the paths of keys that stand twice, and ``order`` of all keys then."""

    tree: Any
    duplicates: Sequence[Path] = ()
    order: Sequence[Path] = ()


@remembered(256)
def media_type(header: str) -> str:
    """The media type of a Content-Type header; JSON where there is none."""
    return header.partition(";")[0].strip().lower() or JSON


def decode(body: bytes, media: str, kind: str, *, watch_duplicates: bool = True) -> Decoded:
    """The value in a body. ``kind`` is what it should hold, for the refusal."""
    if len(body) > LIMIT:
        raise api_errors.too_large(LIMIT)
    if media == JSON:
        return _from_json(body, kind, watch_duplicates)
    if media == PROTOBUF:
        try:
            return Decoded(decode_protobuf(body, "", kind))
        except ProtobufError as error:
            raise _unrecognized(kind, str(error), body) from None
    if media == YAML:
        return _from_yaml(body, kind)
    raise api_errors.unsupported_media_type(ACCEPTED)


def _from_json(body: bytes, kind: str, watch_duplicates: bool) -> Decoded:
    try:
        tree = go_json.decode(body)
    except ValueError as error:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {error}", body) from None
    if not watch_duplicates:
        return Decoded(tree)
    # The same bytes come out again (white space aside) only if no key was lost on the way in. Most clients write what
    # we would; the others cost a second reading.
    if body.translate(None, _WHITE) == _encode(tree).translate(None, _WHITE):
        return Decoded(tree)
    return Decoded(tree, *_twice(body))


class _Pairs(list[tuple[str, Any]]):
    """An object as written."""


_read_pairs: Final = JSONDecoder(object_pairs_hook=_Pairs, strict=False).decode


def _twice(body: bytes) -> tuple[Sequence[Path], Sequence[Path]]:
    """The paths of keys that stand more than once in their object, and all paths in the order written."""
    try:
        written = _read_pairs(body.decode(errors="replace"))
    except (ValueError, RecursionError):
        return (), ()  # msgspec could read it, so only Python's depth stands in the way
    found: list[Path] = []
    order: list[Path] = []

    def walk(value: Any, path: Path) -> None:
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, item in value:
                at = (*path, key)
                order.append(at)
                if key in seen:
                    found.append(at)
                seen.add(key)
                if type(item) is list or type(item) is _Pairs:
                    walk(item, at)
        elif type(value) is list:
            for index, item in enumerate(value):
                walk(item, (*path, index))

    walk(written, ())
    return (found, order) if found else ((), ())


def _from_yaml(body: bytes, kind: str) -> Decoded:
    try:
        read = next(iter(yaml_parser.parse(body.decode("utf-8-sig"))), None)
    except UnicodeDecodeError:
        raise _unrecognized(kind, "error converting YAML to JSON: yaml: invalid leading UTF-8 octet", body) from None
    except DocumentError as fault:
        reason = f"error converting YAML to JSON: yaml: line {fault.line + 1}: {fault.message}"
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {reason}", body) from None
    if read is None:
        return Decoded({})
    return Decoded({} if read.tree is None else read.tree, tuple(split_path(twice.path) for twice in read.duplicates))


def _unrecognized(kind: str, why: str, body: bytes) -> Exception:
    shown = "<empty>"
    if body:
        start = body[:_SUMMARY]
        shown = start.decode(errors="replace") if body[:1] == b"{" else start.hex()
        shown += " ..." if len(body) > _SUMMARY else ""
    return api_errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({shown})")


# --- objects ---------------------------------------------------------------------------------------------------------


def read_object(body: bytes, media: str, kind: ServedKind, version: str, validation: Validation, warn: Warn) -> Tree:
    """The object of a body, for a resource of this kind and version: checked, in that version's shape."""
    if body.startswith(MAGIC) and media == PROTOBUF and is_custom(kind):
        raise api_errors.unsupported_media_type((JSON, YAML))
    decoded = decode(body, media, kind.kind, watch_duplicates=validation != "Ignore")
    tree = decoded.tree
    if type(tree) is not dict:
        if tree is None:
            tree = {}
        else:
            raise _unrecognized(kind.kind, f"couldn't get version/kind; json parse error: {_not_an_object(tree)}", body)
    of_kind(tree, kind, version, body)
    return checked(decoded._replace(tree=tree), kind, version, validation, warn, exact=media == JSON)


def _not_an_object(value: Any) -> str:
    found = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return f"json: cannot unmarshal {found} into Go value of type {_TYPE_META}"


def of_kind(tree: Tree, kind: ServedKind, version: str, body: bytes = b"") -> None:
    """Refuse what says that it is of another kind or version; both may be left out."""
    for key, field in (("apiVersion", "apiVersion"), ("kind", "kind")):
        found = tree.get(key)
        if found is not None and type(found) is not str:
            name = {list: "array", dict: "object", bool: "bool"}.get(type(found), "number")
            problem = f"json: cannot unmarshal {name} into Go struct field .{field} of type string"
            raise _unrecognized(kind.kind, f"couldn't get version/kind; json parse error: {problem}", body)
    expected = api_version(kind, version)
    written, found = tree.get("apiVersion") or expected, tree.get("kind") or kind.kind
    if written == expected and found == kind.kind:
        return
    if is_custom(kind):
        if found != kind.kind:
            raise api_errors.bad_request(f"the object provided is unrecognized (must be of type {kind.kind}): {found}")
        raise api_errors.bad_request(_other_version(written, expected))
    group, _, short = written.rpartition("/")
    where = f'{found} in version "{short}" cannot be handled as a {kind.kind}'
    own = found == kind.kind and group == kind.group
    if short not in kind.versions if own else written not in versions_of(found):
        raise api_errors.bad_request(f'{where}: no kind "{found}" is registered for version "{written}" {_SCHEME}')
    if own:
        raise api_errors.bad_request(_other_version(written, expected))
    internal = (kind.group or "core").partition(".")[0]
    raise api_errors.bad_request(
        f"{where}: converting ({short}.{found}) to ({internal}.{kind.kind}): unknown conversion"
    )


def _other_version(written: str, expected: str) -> str:
    return f"the API version in the data ({written}) does not match the expected API version ({expected})"


def checked(
    decoded: Decoded, kind: ServedKind, version: str, validation: Validation, warn: Warn, *, exact: bool = True,
    stored: Tree | None = None,
) -> Tree:  # fmt: skip
    """The cleaned tree; what is unknown or stands twice is refused, warned about or passed over."""
    tree, strays = cleaned(decoded.tree, kind, version, exact=exact, stored=stored)
    if decoded.duplicates:
        strays = _merged(strays, decoded)
    if strays and validation != "Ignore":
        messages = list(dict.fromkeys(stray.message for stray in strays))
        if validation == "Strict":
            raise _cannot_be_handled(kind, version, f"strict decoding error: {', '.join(messages)}")
        for message in messages:
            warn(message)
    return tree


def cleaned(
    tree: Tree, kind: ServedKind, version: str, *, exact: bool = True, stored: Tree | None = None
) -> tuple[Tree, list[SchemaViolation]]:
    """The tree without what its kind does not know, and that; a value of a wrong type is refused.

    ``stored`` is what was found right before, in that version: parts that it shares need no second look.
    """
    result = strict_decode(tree, api_version(kind, version), kind.kind, shape_in(kind, version), exact=exact, previous=stored)
    misfits = result.violations
    for sort in ("value", "type") if misfits else ():
        for misfit in misfits:
            if misfit.category == sort:
                raise _cannot_be_handled(kind, version, misfit.message)
    return result.tree, misfits


def _cannot_be_handled(kind: ServedKind, version: str, why: str) -> Exception:
    return api_errors.bad_request(f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: {why}')


def _merged(strays: Iterable[SchemaViolation], decoded: Decoded) -> list[SchemaViolation]:
    """Unknown and duplicate fields in the order in which they were written."""
    place = {path: index for index, path in enumerate(decoded.order)}
    unknown = {stray.path for stray in strays}
    twice = (
        SchemaViolation("unknown", f"duplicate field {quote(_text(path))}", path)
        for path in dict.fromkeys(decoded.duplicates)
        if path not in unknown
    )
    return sorted(chain(strays, twice), key=lambda stray: place.get(stray.path, len(place)))


def _text(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


def read_plain(body: bytes, media: str, kind: str, api_versions: Sequence[str]) -> Tree:
    """A body that is no object of the store but of a kind of its own: options, bindings, evictions, reviews.

    Empty bodies are empty objects. The kind and version may be left out; unknown fields do not matter. No
    ``api_versions``: any will do.
    """
    if not body:
        return {}
    tree = decode(body, media, kind, watch_duplicates=False).tree
    if type(tree) is not dict:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {_not_an_object(tree)}", body)
    written, found = tree.get("apiVersion") or (*api_versions, "v1")[0], tree.get("kind") or kind
    if found != kind or (api_versions and written not in api_versions):
        short = str(written).rpartition("/")[2]
        raise api_errors.bad_request(
            f'{found} in version "{short}" cannot be handled as a {kind}: no kind "{found}" is registered for version '
            f'"{written}" {_SCHEME}'
        )
    return fitting(tree, str(written), kind, exact=media == JSON)


def fitting(tree: Tree, written: str, kind: str, *, exact: bool = True) -> Tree:
    """The tree of a kind that is not stored, without what it does not know; a value of a wrong type is refused."""
    shape = plain_shape(written, kind)
    if shape is None:
        return tree
    result = strict_decode(tree, written, kind, shape, exact=exact)
    for misfit in result.violations:
        if misfit.category != "unknown":
            short = written.rpartition("/")[2]
            message = f'{kind} in version "{short}" cannot be handled as a {kind}: {misfit.message}'
            raise api_errors.bad_request(message)
    return result.tree


@lru_cache(maxsize=64)
def plain_shape(written: str, kind: str) -> TypeShape | None:
    """The shape of a kind that is not stored."""
    return shape_of(written, kind) or shape_of("meta.k8s.io/v1", kind)


def in_namespace(tree: Tree, namespace: str) -> Tree:
    """An object for the namespace of a request; one with another namespace is refused.

    For a cluster-scoped object (``namespace`` is empty) its own namespace is cleared, as kube-apiserver does it.
    """
    meta = tree.get("metadata") or {}
    found = meta.get("namespace")
    if not found or found == namespace:
        return tree
    if not namespace:
        return {**tree, "metadata": {key: value for key, value in meta.items() if key != "namespace"}}
    raise api_errors.bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def unknown_fields(misfits: Iterable[SchemaViolation]) -> Iterator[str]:
    """The texts of what a tree has too much, each once."""
    yield from dict.fromkeys(misfit.message for misfit in misfits)
