"""What strict decoding finds in a document, each fault by the rule that explains it best.

One mistake is told once. A flat request is one mistake and three unknown fields; the rule for flat requests tells it,
and the rule for unknown fields keeps silent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.model.fields import Shape, shape_of
from allotment.model.loading import Document
from allotment.model.loading.marks import Path
from allotment.model.strict_decoding import Misfit, check
from allotment.tools.check.bundle import Bundle
from allotment.tools.check.objects.api_versions import FLAT, HUB
from allotment.tools.check.objects.classic_dra import is_classic
from allotment.tools.check.objects.field_shapes import shape_at, shape_for, version_of
from allotment.tools.views import at, is_dra

Owner: TypeAlias = Literal[
    "old-version",
    "flat-request",
    "pod-claim-source",
    "key-operator-values",
    "untyped-value",
    "unknown-field",
    "wrong-type",
]

#: Structs that people write as the one value that they hold.
UNTYPED: Final = frozenset({"DeviceAttribute", "DeviceCapacity", "Counter"})


class Owned(NamedTuple):
    """A misfit, the rule that tells it, and the shape of its document."""

    owner: Owner
    misfit: Misfit
    document: Document
    shape: Shape

    @property
    def struct(self) -> Shape | None:
        """The struct that an unknown field stands in."""
        return shape_at(self.shape, self.misfit.path[:-1])

    @property
    def expected(self) -> Shape | None:
        """What belongs at the place."""
        return shape_at(self.shape, self.misfit.path)


def misfits_of(bundle: Bundle, *owners: Owner) -> Iterator[Owned]:
    """The misfits of all documents that these rules tell. Classic DRA is a mistake as a whole."""
    for document in bundle.documents:
        if document not in bundle.manifests and not is_classic(document):
            yield from (owned for owned in _misfits(document) if owned.owner in owners)


def _misfits(document: Document) -> Iterator[Owned]:
    """The misfits of one document, in the order in which the values were written."""
    shape = shape_for(document)
    if shape is None:
        return
    for misfit in check(document.tree, document.api_version, document.kind, shape).misfits:
        yield Owned(_owner(document, shape, misfit), misfit, document, shape)


def _owner(document: Document, shape: Shape, misfit: Misfit) -> Owner:
    if misfit.sort == "unknown":
        return _owner_of_field(document, shape, misfit.path)
    if _is_right_in_hub(document, misfit.path):
        return "old-version"
    expected = shape_at(shape, misfit.path)
    if expected is not None and expected.bare_name in UNTYPED and _is_scalar(at(document.tree, misfit.path)):
        return "untyped-value"
    return "wrong-type"


def _owner_of_field(document: Document, shape: Shape, path: Path) -> Owner:
    struct, name = shape_at(shape, path[:-1]), path[-1]
    bare = struct.bare_name if struct else ""
    if bare == "PodResourceClaim" and name == "source":
        return "pod-claim-source"
    if bare == "DeviceSelector" and "key" in (at(document.tree, path[:-1]) or {}):
        return "key-operator-values"
    if bare == "DeviceRequest" and _is_flat_field(struct, name):
        return "flat-request"
    return "old-version" if _is_right_in_hub(document, path) else "unknown-field"


def _is_flat_field(request: Shape | None, name: str | int) -> bool:
    """Whether a field that stands beside a request's name belongs under ``exactly``, in versions that have it."""
    exactly = shape_at(request, ("exactly",))
    return exactly is not None and name in exactly.fields


def _is_right_in_hub(document: Document, path: Path) -> bool:
    """Whether an object of an old version is written as v1 has it at this place."""
    if not is_dra(document) or version_of(document) not in FLAT:
        return False
    hub = shape_of(f"resource.k8s.io/{HUB}", document.kind)
    if hub is None or shape_at(hub, path) is None:
        return False
    faults = check(document.tree, f"resource.k8s.io/{HUB}", document.kind, hub).misfits
    return all(fault.path != path for fault in faults)


def _is_scalar(value: object) -> bool:
    return not isinstance(value, dict | list)
