"""Strict decoding errors of documents, each attributed to the rule that explains it best.

Each mistake is reported once. A flat request is one mistake but several unknown fields; the rule for flat requests
reports it, and the rule for unknown fields does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.model.field_history import release_advice, shape_at
from allotment.model.fields import TypeShape, shape_of
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.strict_decoding import SchemaViolation, strict_decode
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.api_versions import FLAT_VERSIONS, HUB
from allotment.tools.check.objects.classic_dra import is_classic
from allotment.tools.check.objects.field_shapes import shape_for, version_of
from allotment.tools.views import at, is_dra

RuleName: TypeAlias = Literal[
    "old-version",
    "flat-request",
    "pod-claim-source",
    "key-operator-values",
    "untyped-value",
    "other-release",
    "unknown-field",
    "wrong-type",
]

#: Structs that are often written as the single value that they hold.
VALUE_STRUCTS: Final = frozenset({"DeviceAttribute", "DeviceCapacity", "Counter"})


class AttributedError(NamedTuple):
    """A decoding error, the rule that reports it, and the shape of its document."""

    rule: RuleName
    misfit: SchemaViolation
    document: Document
    shape: TypeShape

    @property
    def struct(self) -> TypeShape | None:
        """The struct that contains the unknown field."""
        return shape_at(self.shape, self.misfit.path[:-1])

    @property
    def expected_shape(self) -> TypeShape | None:
        """The shape of a valid value at the path."""
        return shape_at(self.shape, self.misfit.path)


def decoding_errors_for(bundle: Bundle, *rules: RuleName) -> Iterator[AttributedError]:
    """The decoding errors of all documents that these rules report. Classic DRA is reported as a whole instead."""
    for document in bundle.documents:
        if document not in bundle.manifests and not is_classic(document):
            yield from (error for error in _attributed_errors(document, bundle.features.kube) if error.rule in rules)


def _attributed_errors(document: Document, release: str) -> Iterator[AttributedError]:
    """The decoding errors of one document, in the order in which the values are written."""
    shape = shape_for(document, release)
    if shape is None:
        return
    decoded = strict_decode(document.tree, document.api_version, document.kind, shape, release=release)
    for misfit in decoded.violations:
        yield AttributedError(_rule_for(document, shape, misfit, release), misfit, document, shape)


def _rule_for(document: Document, shape: TypeShape, misfit: SchemaViolation, release: str) -> RuleName:
    if misfit.category == "unknown":
        return _rule_for_unknown_field(document, shape, misfit.path, release)
    if _is_valid_in_v1(document, misfit.path, release):
        return "old-version"
    expected = shape_at(shape, misfit.path)
    if expected is not None and expected.bare_name in VALUE_STRUCTS and _is_scalar(at(document.tree, misfit.path)):
        return "untyped-value"
    return "wrong-type"


def _rule_for_unknown_field(document: Document, shape: TypeShape, path: Path, release: str) -> RuleName:
    struct, name = shape_at(shape, path[:-1]), path[-1]
    bare = struct.bare_name if struct else ""
    if bare == "PodResourceClaim" and name == "source":
        return "pod-claim-source"
    if bare == "DeviceSelector" and "key" in (at(document.tree, path[:-1]) or {}):
        return "key-operator-values"
    if bare == "DeviceRequest" and _is_flat_field(struct, name):
        return "flat-request"
    if _is_valid_in_v1(document, path, release):
        return "old-version"
    is_known = release_advice(document.api_version, document.kind, path, release)
    return "other-release" if is_known else "unknown-field"


def _is_flat_field(request: TypeShape | None, name: str | int) -> bool:
    """Whether a field next to a request's name belongs under ``exactly``, in versions that have it."""
    exactly = shape_at(request, ("exactly",))
    return exactly is not None and name in exactly.fields


def _is_valid_in_v1(document: Document, path: Path, release: str) -> bool:
    """Whether an object of an old version is written at this path as v1 requires."""
    if not is_dra(document) or version_of(document) not in FLAT_VERSIONS:
        return False
    version = f"resource.k8s.io/{HUB}"
    hub = shape_of(version, document.kind, release)
    if hub is None or shape_at(hub, path) is None:
        return False
    misfits = strict_decode(document.tree, version, document.kind, hub, release=release).violations
    return all(misfit.path != path for misfit in misfits)


def _is_scalar(value: object) -> bool:
    return not isinstance(value, dict | list)
