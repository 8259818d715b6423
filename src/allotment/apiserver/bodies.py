"""Decodes and validates request bodies, with the errors that kube-apiserver returns.

JSON, YAML and protobuf are decoded to the same trees. Unknown and duplicate fields are an error, a warning or ignored,
depending on ``fieldValidation``.
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
from allotment.apiserver.memo import memoized
from allotment.apiserver.request_options import Validation
from allotment.apiserver.served_kinds import api_version, is_custom, shape_in
from allotment.model.fields import TypeShape, shape_of, versions_of
from allotment.model.loading import yaml_parser
from allotment.model.loading.marks import DocumentError, DuplicateKey, split_path
from allotment.model.protobuf import MAGIC, ProtobufError
from allotment.model.protobuf import decode as decode_protobuf
from allotment.model.quoting import quote
from allotment.model.releases import release_table
from allotment.model.strict_decoding import SchemaViolation, strict_decode
from allotment.model.trees import Tree

Path = tuple[str | int, ...]
Warn = Callable[[str], None]

#: Maximum size of a body in bytes.
LIMIT: Final = 3 * 1024 * 1024
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
ACCEPTED: Final = (JSON, YAML, PROTOBUF)
_SUMMARY: Final = 30
_TYPE_META: Final = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_SCHEME: Final = 'in scheme "pkg/api/legacyscheme/scheme.go:30"'
_WHITESPACE: Final = b" \n\r\t"

_encode = msgspec.json.Encoder().encode


class DecodedBody(NamedTuple):
    """A decoded body. ``duplicates`` are the paths of repeated keys; if there are any, ``order`` lists all paths.

    ``yaml_duplicates``: the messages about repeated keys in YAML, which name lines instead of paths.
    """

    tree: Any
    duplicates: Sequence[Path] = ()
    order: Sequence[Path] = ()
    yaml_duplicates: Sequence[str] = ()


@memoized(256)
def media_type(header: str) -> str:
    """The media type of a Content-Type header; JSON if the header is empty."""
    return header.partition(";")[0].strip().lower() or JSON


def decode(body: bytes, media: str, kind: str, *, find_duplicates: bool = True) -> DecodedBody:
    """Decode a body. ``kind`` is the expected kind, for error messages."""
    if len(body) > LIMIT:
        raise api_errors.too_large(LIMIT)
    if media == JSON:
        return _from_json(body, kind, find_duplicates)
    if media == PROTOBUF:
        try:
            return DecodedBody(decode_protobuf(body, "", kind))
        except ProtobufError as error:
            raise _unrecognized(kind, str(error), body) from None
    if media == YAML:
        return _from_yaml(body, kind)
    raise api_errors.unsupported_media_type(ACCEPTED)


def _from_json(body: bytes, kind: str, find_duplicates: bool) -> DecodedBody:
    try:
        tree = go_json.decode(body)
    except ValueError as error:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {error}", body) from None
    if not find_duplicates:
        return DecodedBody(tree)
    return DecodedBody(tree, *_duplicate_keys(body, tree))


def duplicate_fields(body: bytes, tree: Any) -> list[str]:
    """The messages about repeated keys in a JSON body of this value, in the order in which they are found."""
    return [f"duplicate field {quote(_text(path))}" for path in dict.fromkeys(_duplicate_keys(body, tree)[0])]


class _Pairs(list[tuple[str, Any]]):
    """The key-value pairs of a JSON object in source order, duplicates included."""


_read_pairs: Final = JSONDecoder(object_pairs_hook=_Pairs, strict=False).decode


def _duplicate_keys(body: bytes, tree: Any) -> tuple[Sequence[Path], Sequence[Path]]:
    """The paths of duplicate keys, and if there are any, all paths in source order."""
    # The body equals its re-encoding (white space aside) only if it has no duplicate keys. Most clients write the same
    # compact form; other bodies are parsed a second time.
    if body.translate(None, _WHITESPACE) == _encode(tree).translate(None, _WHITESPACE):
        return (), ()
    try:
        written = _read_pairs(body.decode(errors="replace"))
    except (ValueError, RecursionError):
        return (), ()  # valid JSON that exceeds only Python's recursion limit
    duplicates: list[Path] = []
    order: list[Path] = []

    def walk(value: Any, path: Path) -> None:
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for key, item in value:
                field_path = (*path, key)
                order.append(field_path)
                if key in seen:
                    duplicates.append(field_path)
                seen.add(key)
                if type(item) is list or type(item) is _Pairs:
                    walk(item, field_path)
        elif type(value) is list:
            for index, item in enumerate(value):
                walk(item, (*path, index))

    walk(written, ())
    return (duplicates, order) if duplicates else ((), ())


def _from_yaml(body: bytes, kind: str) -> DecodedBody:
    try:
        read = next(iter(yaml_parser.parse(body.decode("utf-8-sig"), last_wins=True)), None)
    except UnicodeDecodeError:
        raise _unrecognized(kind, "error converting YAML to JSON: yaml: invalid leading UTF-8 octet", body) from None
    except DocumentError as fault:
        reason = f"error converting YAML to JSON: yaml: line {fault.line + 1}: {fault.message}"
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {reason}", body) from None
    if read is None:
        return DecodedBody({})
    return DecodedBody({} if read.tree is None else read.tree, yaml_duplicates=repeated_yaml_keys(read.duplicates))


def repeated_yaml_keys(duplicates: Iterable[DuplicateKey]) -> tuple[str, ...]:
    """The messages about repeated keys in YAML."""
    return tuple(
        f"line {duplicate.line + 1}: key {quote(str(split_path(duplicate.path)[-1]))} already set in map"
        for duplicate in duplicates
    )


def unmarshal_errors(lines: Iterable[str]) -> str:
    """The error that refuses repeated keys in YAML."""
    return "yaml: unmarshal errors:" + "".join(f"\n  {line}" for line in lines)


def _unrecognized(kind: str, reason: str, body: bytes) -> Exception:
    excerpt = "<empty>"
    if body:
        start = body[:_SUMMARY]
        excerpt = start.decode(errors="replace") if body[:1] == b"{" else start.hex()
        excerpt += " ..." if len(body) > _SUMMARY else ""
    return api_errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): {reason} ({excerpt})")


# --- objects ---------------------------------------------------------------------------------------------------------


def read_object(body: bytes, media: str, kind: ServedKind, version: str, validation: Validation, warn: Warn) -> Tree:
    """Decode a body as an object of this kind and version, and validate its fields."""
    if body.startswith(MAGIC) and media == PROTOBUF and is_custom(kind):
        raise api_errors.unsupported_media_type((JSON, YAML))
    decoded = decode(body, media, kind.kind, find_duplicates=validation != "Ignore")
    tree = decoded.tree
    if is_custom(kind) and (tree is None or (type(tree) is dict and not tree.get("kind"))):
        # Custom resources have no types by which their kind is known.
        text = body.decode(errors="replace")
        raise _unrecognized(kind.kind, f"Object 'Kind' is missing in '{text}'", body)
    if is_custom(kind) and type(tree) is dict and type(tree["kind"]) is str and not tree.get("apiVersion"):
        raise api_errors.bad_request(_version_mismatch("", api_version(kind, version)))
    if type(tree) is not dict:
        if tree is None:
            tree = {}
        else:
            raise _unrecognized(kind.kind, f"couldn't get version/kind; json parse error: {_not_an_object(tree)}", body)
    check_kind(tree, kind, version, body)
    return validated(decoded._replace(tree=tree), kind, version, validation, warn, exact=media == JSON)


def _not_an_object(value: Any) -> str:
    json_type = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
    return f"json: cannot unmarshal {json_type} into Go value of type {_TYPE_META}"


def check_kind(tree: Tree, kind: ServedKind, version: str, body: bytes = b"") -> None:
    """Raise 400 if the object's kind or version differs; both may be omitted."""
    for key, field in (("apiVersion", "apiVersion"), ("kind", "kind")):
        value = tree.get(key)
        if value is not None and type(value) is not str:
            name = {list: "array", dict: "object", bool: "bool"}.get(type(value), "number")
            problem = f"json: cannot unmarshal {name} into Go struct field .{field} of type string"
            raise _unrecognized(kind.kind, f"couldn't get version/kind; json parse error: {problem}", body)
    expected = api_version(kind, version)
    written, body_kind = tree.get("apiVersion") or expected, tree.get("kind") or kind.kind
    if written == expected and body_kind == kind.kind:
        return
    if is_custom(kind):
        if written == expected:
            raise api_errors.bad_request(
                f"the object provided is unrecognized (must be of type {kind.kind}): {body_kind}"
            )
        raise api_errors.bad_request(_version_mismatch(tree.get("apiVersion") or "", expected))
    group, _, short = written.rpartition("/")
    problem = f'{body_kind} in version "{short}" cannot be handled as a {kind.kind}'
    own = body_kind == kind.kind and group == kind.group
    # Servers also know versions that they do not serve.
    if not _is_registered(written, body_kind, kind.release) and not (own and short in kind.versions):
        raise api_errors.bad_request(
            f'{problem}: no kind "{body_kind}" is registered for version "{written}" {_SCHEME}'
        )
    if own:
        raise api_errors.bad_request(_version_mismatch(written, expected))
    internal = (kind.group or "core").partition(".")[0]
    raise api_errors.bad_request(
        f"{problem}: converting ({short}.{body_kind}) to ({internal}.{kind.kind}): unknown conversion"
    )


def _is_registered(api_version: str, kind: str, release: str) -> bool:
    if not release:
        return api_version in versions_of(kind)
    return kind in release_table(release).kinds.get(api_version, {})


def _version_mismatch(written: str, expected: str) -> str:
    return f"the API version in the data ({written}) does not match the expected API version ({expected})"


def validated(
    decoded: DecodedBody, kind: ServedKind, version: str, validation: Validation, warn: Warn, *, exact: bool = True,
    stored: Tree | None = None,
) -> Tree:  # fmt: skip
    """The tree without unknown fields, which are refused, reported as warnings or ignored, as duplicates are."""
    tree, violations = pruned(decoded.tree, kind, version, exact=exact, stored=stored)
    if decoded.duplicates:
        violations = _in_written_order(violations, decoded, duplicates_first=is_custom(kind))
    if (violations or decoded.yaml_duplicates) and validation != "Ignore":
        messages = list(dict.fromkeys(violation.message for violation in violations))
        if validation == "Strict":
            if decoded.yaml_duplicates:
                messages.insert(0, unmarshal_errors(decoded.yaml_duplicates))
            raise _cannot_be_handled(kind, version, f"strict decoding error: {', '.join(messages)}")
        for message in (*decoded.yaml_duplicates, *messages):
            warn(message)
    return tree


def pruned(
    tree: Tree, kind: ServedKind, version: str, *, exact: bool = True, stored: Tree | None = None
) -> tuple[Tree, list[SchemaViolation]]:
    """The tree without unknown fields, and the violations found. Raises 400 for a value of the wrong type.

    ``stored`` is an already validated tree in the same version: subtrees shared with it are not checked again.
    """
    result = strict_decode(
        tree, api_version(kind, version), kind.kind, shape_in(kind, version), exact=exact, previous=stored
    )
    violations = result.violations
    for category in ("value", "type") if violations else ():
        for violation in violations:
            if violation.category == category:
                raise _cannot_be_handled(kind, version, violation.message)
    return result.tree, violations


def _cannot_be_handled(kind: ServedKind, version: str, reason: str) -> Exception:
    return api_errors.bad_request(f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: {reason}')


def _in_written_order(
    violations: Iterable[SchemaViolation], decoded: DecodedBody, *, duplicates_first: bool
) -> list[SchemaViolation]:
    """Unknown and duplicate fields in source order; of custom resources, whose decoder knows no fields, duplicates
    first."""
    position: dict[Path, int] = {}
    repeated = set(decoded.duplicates)
    for index, path in enumerate(decoded.order):
        if path not in position:
            position[path] = index
        elif path in repeated:  # a duplicate is found at its second occurrence, after the contents of the first one
            position[path] = index
            repeated.discard(path)
    unknown = {violation.path for violation in violations}
    duplicates = (
        SchemaViolation("unknown", f"duplicate field {quote(_text(path))}", path)
        for path in dict.fromkeys(decoded.duplicates)
        if path not in unknown
    )

    def order(violation: SchemaViolation) -> tuple[bool, int]:
        return duplicates_first and violation.path in unknown, position.get(violation.path, len(position))

    return sorted(chain(violations, duplicates), key=order)


def _text(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[1:]


def read_unstored(body: bytes, media: str, kind: str, api_versions: Sequence[str]) -> Tree:
    """Decode a body of a kind that is not stored: options, bindings, evictions, reviews.

    An empty body is an empty object. Kind and version may be omitted; unknown fields are dropped. Empty
    ``api_versions`` accepts any version.
    """
    if not body:
        return {}
    tree = decode(body, media, kind, find_duplicates=False).tree
    if type(tree) is not dict:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {_not_an_object(tree)}", body)
    written, body_kind = tree.get("apiVersion") or (*api_versions, "v1")[0], tree.get("kind") or kind
    if body_kind != kind or (api_versions and written not in api_versions):
        short = str(written).rpartition("/")[2]
        raise api_errors.bad_request(
            f'{body_kind} in version "{short}" cannot be handled as a {kind}: no kind "{body_kind}" is registered for '
            f'version "{written}" {_SCHEME}'
        )
    return prune_unstored(tree, str(written), kind, exact=media == JSON)


def prune_unstored(tree: Tree, written: str, kind: str, *, exact: bool = True) -> Tree:
    """The tree of an unstored kind without unknown fields. Raises 400 for a value of the wrong type."""
    shape = unstored_shape(written, kind)
    if shape is None:
        return tree
    result = strict_decode(tree, written, kind, shape, exact=exact)
    for violation in result.violations:
        if violation.category != "unknown":
            short = written.rpartition("/")[2]
            message = f'{kind} in version "{short}" cannot be handled as a {kind}: {violation.message}'
            raise api_errors.bad_request(message)
    return result.tree


@lru_cache(maxsize=64)
def unstored_shape(written: str, kind: str) -> TypeShape | None:
    """The schema of an unstored kind."""
    return shape_of(written, kind) or shape_of("meta.k8s.io/v1", kind)


def in_namespace(tree: Tree, namespace: str) -> Tree:
    """Set the request's namespace as the object's default; raises 400 if the object has another one.

    For a cluster-scoped object (``namespace`` is empty) its namespace is cleared, as kube-apiserver does.
    """
    meta = tree.get("metadata") or {}
    namespace_in_body = meta.get("namespace")
    if not namespace_in_body or namespace_in_body == namespace:
        return tree
    if not namespace:
        return {**tree, "metadata": {key: value for key, value in meta.items() if key != "namespace"}}
    raise api_errors.bad_request(
        "the namespace of the provided object does not match the namespace sent on the request"
    )


def unknown_fields(violations: Iterable[SchemaViolation]) -> Iterator[str]:
    """The distinct messages for unknown fields."""
    yield from dict.fromkeys(violation.message for violation in violations)
