"""Which fields every kind has, and what Kubernetes calls their types: the packaged table that strict decoding reads.

The table is data (``data/fields.json``, made by ``scripts/fields`` from the Go types of Kubernetes 1.36): names and
types, nothing else. The claims, classes and slices of v1alpha3, which Kubernetes 1.31 to 1.33 served and later ones do
not, are described here as what differs from v1beta1, so that old manifests can still be read and migrated.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib import resources
from typing import Any, Final, NamedTuple

import msgspec

GROUP: Final = "resource.k8s.io"
REMOVED_VERSION: Final = f"{GROUP}/v1alpha3"
REMOVED_KINDS: Final = frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"})

# Fields that v1alpha3 had and v1beta1 has not, by struct; the type is that of a field known in v1beta1.
_ONLY_IN_V1ALPHA3: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "ResourceClaimSpec": {"controller": ("ObjectMeta", "name")},
    "AllocationResult": {"controller": ("ObjectMeta", "name")},
    "ResourceClaimStatus": {"deallocationRequested": ("OwnerReference", "controller")},
    "DeviceClassSpec": {"suitableNodes": ("AllocationResult", "nodeSelector")},
    # A capacity was a bare quantity: what ``value`` is today.
    "BasicDevice": {"capacity": ("CapacityRequirements", "requests")},
}


class Field(NamedTuple):
    """One field of a struct: its type, and the Go structs it is embedded through (for texts of errors)."""

    shape: Shape
    embedded: str


class Shape:
    """A type: a struct with ``fields``, a slice or map with an ``element``, or a value.

    ``form`` is ``struct``, ``slice``, ``map``, ``string``, ``bool``, ``int32``, ``int64``, ``bytes`` or the name of a
    type that decodes itself (``Quantity``, ``Time`` …). ``name`` is Go's, as error texts print it.
    """

    __slots__ = ("element", "fields", "form", "name")

    def __init__(self, form: str, name: str) -> None:
        self.form = form
        self.name = name
        self.fields: dict[str, Field] = {}
        self.element: Shape | None = None

    def __repr__(self) -> str:
        return f"<Shape {self.name}>"

    @property
    def bare_name(self) -> str:
        """Go's name without the package."""
        return self.name.rpartition(".")[2]


class _Table(msgspec.Struct, frozen=True):
    release: str
    kinds: dict[str, dict[str, int]]
    types: list[list[Any]]


@functools.cache
def _shapes() -> Mapping[str, Mapping[str, Shape]]:
    """Every kind's shape by API version and kind."""
    table = msgspec.json.decode(
        resources.files("allotment.model").joinpath("data/fields.json").read_bytes(), type=_Table
    )
    shapes = [Shape(row[0], row[1]) for row in table.types]
    for shape, row in zip(shapes, table.types, strict=True):
        if shape.form == "struct":
            for name, entry in row[2].items():
                number, embedded = (entry, "") if isinstance(entry, int) else entry
                shape.fields[name] = Field(shapes[number], embedded)
        elif shape.form in ("slice", "map"):
            shape.element = shapes[row[2]]
    kinds = {
        version: {kind: shapes[number] for kind, number in known.items()} for version, known in table.kinds.items()
    }
    kinds[REMOVED_VERSION] = {**_removed(kinds[f"{GROUP}/v1beta1"]), **kinds[REMOVED_VERSION]}
    return kinds


def shape_of(api_version: str, kind: str) -> Shape | None:
    """The shape of a kind; ``None`` when this release does not know it."""
    return _shapes().get(api_version, {}).get(kind)


def kinds_of(api_version: str) -> frozenset[str]:
    """The kinds of an API version; empty when the version is unknown."""
    return frozenset(_shapes().get(api_version, ()))


def versions_of(kind: str) -> tuple[str, ...]:
    """The API versions that know a kind of that name, in the table's order."""
    return tuple(version for version, kinds in _shapes().items() if kind in kinds)


def _removed(v1beta1: Mapping[str, Shape]) -> dict[str, Shape]:
    copies: dict[int, Shape] = {}
    by_name: dict[str, Shape] = {}

    def copy(shape: Shape) -> Shape:
        known = copies.get(id(shape))
        if known is not None:
            return known
        copied = copies[id(shape)] = Shape(shape.form, shape.name.replace("v1beta1.", "v1alpha3."))
        if shape.form == "struct":
            by_name[copied.bare_name] = copied
        copied.fields = {name: Field(copy(field.shape), field.embedded) for name, field in shape.fields.items()}
        copied.element = copy(shape.element) if shape.element else None
        return copied

    kinds = {kind: copy(shape) for kind, shape in v1beta1.items() if kind in REMOVED_KINDS}
    for struct, extra in _ONLY_IN_V1ALPHA3.items():
        for name, (other, like) in extra.items():
            by_name[struct].fields[name] = Field(by_name[other].fields[like].shape, "")
    return kinds
