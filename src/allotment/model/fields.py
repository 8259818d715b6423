"""The fields of every kind in each release, and the Go names of their types, for strict decoding.

The types are in the table of each release (:mod:`allotment.model.releases`): names and types only. Without a release,
a kind has the fields of the newest release that has it. The claims, classes and slices of v1alpha3, which only
Kubernetes 1.31 to 1.33 served, are described here as differences from v1beta1, so that old manifests can still be read
and migrated.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from allotment.model.releases import RELEASES, Lifecycle, ReleaseTable, release_table

GROUP: Final = "resource.k8s.io"
REMOVED_VERSION: Final = f"{GROUP}/v1alpha3"
REMOVED_KINDS: Final = frozenset({"DeviceClass", "ResourceClaim", "ResourceClaimTemplate", "ResourceSlice"})
#: The tables of releases begin with the release that no longer has these kinds in this version.
REMOVED_LIFECYCLE: Final = Lifecycle(introduced="1.31", deprecated="", removed="1.34", replacement=f"{GROUP}/v1")

_VERSION: Final = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STAGES: Final = {"alpha": 0, "beta": 1, None: 2}
#: The release whose v1beta1 is nearest to the removed version.
_OLDEST: Final = RELEASES[0]

# Fields of v1alpha3 that v1beta1 does not have, by struct; the type is that of a field in v1beta1.
_ONLY_IN_V1ALPHA3: Final[dict[str, dict[str, tuple[str, str]]]] = {
    "ResourceClaimSpec": {"controller": ("ObjectMeta", "name")},
    "AllocationResult": {"controller": ("ObjectMeta", "name")},
    "ResourceClaimStatus": {"deallocationRequested": ("OwnerReference", "controller")},
    "DeviceClassSpec": {"suitableNodes": ("AllocationResult", "nodeSelector")},
    # A capacity was a bare quantity: what ``value`` is today.
    "BasicDevice": {"capacity": ("CapacityRequirements", "requests")},
}


class Field(NamedTuple):
    """One field of a struct: its type, and the properties that belong to the field and not to the type.

    ``embedded``: the Go structs that embed it (for error messages); ``embedded_numbers``: their protobuf numbers.
    ``always_printed``: without omitempty. ``pointer``: Go distinguishes an empty value from none. ``merge_key`` and
    ``strategies``: for strategic merge patches. ``list_type``, ``list_keys`` and ``map_type``: for server-side apply;
    ``default``: the value of a missing list key there. ``is_wrapped``: protobuf wraps the list in a message.
    """

    shape: TypeShape
    embedded: str = ""
    number: int = 0
    embedded_numbers: tuple[int, ...] = ()
    always_printed: bool = False
    pointer: bool = False
    required: bool = False
    merge_key: str = ""
    strategies: frozenset[str] = frozenset()
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    map_type: str = "granular"
    default: Any = None
    is_wrapped: bool = False


class TypeShape:
    """A type: a struct with ``fields`` in Go's order, a slice or map with an ``element``, or a scalar.

    ``form``: ``struct``, ``slice``, ``map``, ``string``, ``bool``, ``int32``, ``int64``, ``float64``, ``bytes``,
    ``any`` or the name of a type with its own decoder (``Quantity``, ``Time`` …). ``name``: the Go name, as in error
    messages. ``package``: the Go package of a struct. ``map_type``: ``atomic`` for structs and maps that apply replaces
    as a whole. ``list_type`` and ``list_keys``: for lists that are not the value of a field; otherwise the field's
    values apply. ``rest``: the type of fields that are not among ``fields``, if the struct allows them.
    """

    __slots__ = ("element", "fields", "form", "list_keys", "list_type", "map_type", "name", "package", "rest")

    def __init__(self, form: str, name: str, package: str = "", map_type: str = "granular") -> None:
        self.form = form
        self.name = name
        self.package = package
        self.fields: dict[str, Field] = {}
        self.element: TypeShape | None = None
        self.map_type = map_type
        self.list_type = "atomic"
        self.list_keys: tuple[str, ...] = ()
        self.rest: TypeShape | None = None

    def __repr__(self) -> str:
        return f"<TypeShape {self.name}>"

    @property
    def bare_name(self) -> str:
        """The Go name without the package."""
        return self.name.rpartition(".")[2]


_ALWAYS, _POINTER, _REQUIRED = 1, 2, 4


class _ShapeTable:
    """Builds types from a release's table on demand: a program that uses ten kinds builds the types of ten kinds."""

    def __init__(self, table: ReleaseTable) -> None:
        self.kinds = table.kinds
        self._packages = table.packages
        self._rows = table.types
        self._built: dict[int, TypeShape] = {}

    def shape(self, number: int) -> TypeShape:
        known = self._built.get(number)
        if known is not None:
            return known
        form, name, *rest = msgspec.json.decode(self._rows[number])
        shape = self._built[number] = TypeShape(form, name)
        if form == "struct":
            package, atomic, fields = rest
            shape.package = self._packages[package]
            shape.map_type = atomic or "granular"
            shape.fields = {row[0]: self._field(row) for row in fields}
        elif rest:
            shape.element = self.shape(rest[0])
        return shape

    def _field(self, row: list[Any]) -> Field:
        shape, number, flags = self.shape(row[1]), row[2], row[3]
        always, pointer, required = bool(flags & _ALWAYS), bool(flags & _POINTER), bool(flags & _REQUIRED)
        if len(row) == 4:
            return Field(shape, "", number, (), always, pointer, required, map_type=shape.map_type)
        details = row[4]
        return Field(
            shape,
            details.get("e", ""),
            number,
            tuple(details.get("w", ())),
            always,
            pointer,
            required,
            merge_key=details.get("k", ""),
            strategies=frozenset(details["s"].split(",")) if "s" in details else frozenset(),
            list_type=details.get("l", "atomic"),
            list_keys=tuple(details.get("y", ())),
            map_type=details.get("m", shape.map_type),
            default=details.get("d"),
            is_wrapped=details.get("p", False),
        )


@functools.cache
def _shapes(release: str) -> _ShapeTable:
    return _ShapeTable(release_table(release))


def _tables(release: str) -> Iterator[_ShapeTable]:
    """The table of a release; without one, those of all releases, newest first."""
    return map(_shapes, (release,) if release else reversed(RELEASES))


@functools.cache
def shape_of(api_version: str, kind: str, release: str = "") -> TypeShape | None:
    """The type of a kind in a release, or in the newest one that has it; None if there is none."""
    for table in _tables(release):
        number = table.kinds.get(api_version, {}).get(kind)
        if number is not None:
            return table.shape(number)
    return _removed(kind) if api_version == REMOVED_VERSION and kind in REMOVED_KINDS else None


@functools.cache
def kinds_of(api_version: str, release: str = "") -> frozenset[str]:
    """The kinds of an API version in a release, or in any; empty if the version is unknown."""
    kinds = frozenset(kind for table in _tables(release) for kind in table.kinds.get(api_version, ()))
    return kinds | REMOVED_KINDS if api_version == REMOVED_VERSION else kinds


def version_key(api_version: str) -> tuple[int, int, int]:
    """An API version as a value that can be compared: v1alpha2 < v1beta1 < v1, as kubectl prefers them.

    >>> sorted(["v1", "v1alpha3", "v1beta2", "v1beta10"], key=version_key)
    ['v1alpha3', 'v1beta2', 'v1beta10', 'v1']
    """
    match = _VERSION.fullmatch(api_version.rpartition("/")[2])
    return (_STAGES[match[2]], int(match[1]), int(match[3] or 0)) if match else (-1, 0, 0)


@functools.cache
def versions_of(kind: str, release: str = "") -> tuple[str, ...]:
    """The API versions that have a kind of that name in a release, or in any, in the tables' order."""
    versions = dict.fromkeys(version for table in _tables(release) for version in table.kinds)
    return tuple(version for version in versions if kind in kinds_of(version, release))


def introduced_in(api_version: str, kind: str) -> str:
    """The first modeled release that has a version of a kind; empty if the oldest has it, or none."""
    first = next((release for release in RELEASES if kind in _shapes(release).kinds.get(api_version, ())), RELEASES[0])
    return "" if first == RELEASES[0] else first


class _Copier:
    """Copies types of one version of a group under the names of another. ``by_name``: the copied structs."""

    def __init__(self, api_version: str, target: str) -> None:
        self._old = api_version.rpartition("/")[2]
        self._new = target.rpartition("/")[2]
        self._copies: dict[int, TypeShape] = {}
        self.by_name: dict[str, TypeShape] = {}

    def of(self, shape: TypeShape) -> TypeShape:
        """The copy of a type; equal arguments return the same copy."""
        known = self._copies.get(id(shape))
        if known is not None:
            return known
        name = shape.name.replace(f"{self._old}.", f"{self._new}.")
        package = shape.package.replace(f"resource/{self._old}", f"resource/{self._new}")
        copied = self._copies[id(shape)] = TypeShape(shape.form, name, package, shape.map_type)
        if shape.form == "struct":
            self.by_name[copied.bare_name] = copied
        copied.fields = {name: field._replace(shape=self.of(field.shape)) for name, field in shape.fields.items()}
        copied.element = self.of(shape.element) if shape.element else None
        return copied


def _removed(kind: str) -> TypeShape:
    """The type of a kind in v1alpha3: a modified copy of v1beta1's."""
    copier = _Copier(f"{GROUP}/v1beta1", REMOVED_VERSION)
    table = _shapes(_OLDEST)
    removed, by_name = copier.of(table.shape(table.kinds[f"{GROUP}/v1beta1"][kind])), copier.by_name
    for struct, extra in _ONLY_IN_V1ALPHA3.items():
        if struct not in by_name:
            continue
        for name, (struct_name, like) in extra.items():
            shape = by_name.get(struct_name) or copier.of(_struct_of_v1beta1(struct_name))
            by_name[struct].fields[name] = Field(shape.fields[like].shape)
    return removed


def _struct_of_v1beta1(name: str) -> TypeShape:
    """A struct of any kind of v1beta1, by its bare name. Raises LookupError."""
    table = _shapes(_OLDEST)
    pending = [table.shape(number) for number in table.kinds[f"{GROUP}/v1beta1"].values()]
    seen: set[int] = set()
    while pending:
        shape = pending.pop()
        if shape.bare_name == name:
            return shape
        if id(shape) not in seen:
            seen.add(id(shape))
            pending.extend(field.shape for field in shape.fields.values())
            pending.extend([shape.element] if shape.element else [])
    raise LookupError(name)
