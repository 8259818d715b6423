"""Which fields every kind has, and what Kubernetes calls their types: the packaged table that strict decoding reads.

The table is data (``data/fields.json``, made by ``scripts/fields`` from the Go types of Kubernetes 1.36): names and
types, nothing else. The claims, classes and slices of v1alpha3, which Kubernetes 1.31 to 1.33 served and later ones do
not, are described here as what differs from v1beta1, so that old manifests can still be read and migrated. Kinds that
1.37 moved to a newer version without any change are described as what they were in the older one.
"""

from __future__ import annotations

import functools
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


class _Later(NamedTuple):
    """A version of a kind that came after the table's release, with the fields that it has in an older version."""

    since: str
    same_as: str


#: By version and kind.
_LATER: Final[dict[str, dict[str, _Later]]] = {
    # KEP-5055
    f"{GROUP}/v1": {"DeviceTaintRule": _Later("1.37", f"{GROUP}/v1beta2")}
}


class Field(NamedTuple):
    """One field of a struct: its type, and what Kubernetes says of the field rather than of the type.

    ``embedded``: the Go structs it is embedded through (for texts of errors), ``within`` their protobuf numbers.
    ``always``: printed though empty. ``pointer``: Go tells an empty value from none. ``merge_key`` and ``strategies``
    are what strategic merge patches go by, ``list_type``, ``list_keys`` and ``map_type`` what apply goes by;
    ``default`` is what apply takes a missing key for. ``message``: protobuf wraps the list.
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
    """A type: a struct with ``fields`` in Go's order, a slice or map with an ``element``, or a value.

    ``form`` is ``struct``, ``slice``, ``map``, ``string``, ``bool``, ``int32``, ``int64``, ``float64``, ``bytes``,
    ``any`` or the name of a type that decodes itself (``Quantity``, ``Time`` …). ``name`` is Go's, as error texts print
    it, ``package`` where a struct is from. ``map_type`` is ``atomic`` for structs and maps that apply replaces whole.
    ``list_type`` and ``list_keys`` are those of lists that no field holds; for the others the field's count.
    ``rest`` is the shape of fields that are not among ``fields``, where a struct may have such.
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
        return f"<Shape {self.name}>"

    @property
    def bare_name(self) -> str:
        """Go's name without the package."""
        return self.name.rpartition(".")[2]


class _Table(msgspec.Struct, frozen=True):
    release: str
    packages: list[str]
    kinds: dict[str, dict[str, int]]
    types: list[msgspec.Raw]


_ALWAYS, _POINTER, _REQUIRED = 1, 2, 4


class _Shapes:
    """The table, read as far as it was asked for: a program that meets ten kinds builds the types of ten."""

    def __init__(self, table: _Table) -> None:
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
        facts = row[4]
        return Field(
            shape,
            facts.get("e", ""),
            number,
            tuple(facts.get("w", ())),
            always,
            pointer,
            required,
            merge_key=facts.get("k", ""),
            strategies=frozenset(facts["s"].split(",")) if "s" in facts else frozenset(),
            list_type=facts.get("l", "atomic"),
            list_keys=tuple(facts.get("y", ())),
            map_type=facts.get("m", shape.map_type),
            default=facts.get("d"),
            is_wrapped=facts.get("p", False),
        )


@functools.cache
def _shapes() -> _Shapes:
    packed = resources.files("allotment.model").joinpath("data/fields.json").read_bytes()
    return _Shapes(msgspec.json.decode(packed, type=_Table))


@functools.cache
def shape_of(api_version: str, kind: str) -> TypeShape | None:
    """The shape of a kind; ``None`` when this release does not know it."""
    number = _shapes().kinds.get(api_version, {}).get(kind)
    if number is not None:
        return _shapes().shape(number)
    if later := _LATER.get(api_version, {}).get(kind):
        older = _shapes().kinds[later.same_as][kind]
        return _Copier(later.same_as, api_version).of(_shapes().shape(older))
    return _removed(kind) if api_version == REMOVED_VERSION and kind in REMOVED_KINDS else None


@functools.cache
def kinds_of(api_version: str) -> frozenset[str]:
    """The kinds of an API version; empty when the version is unknown."""
    known = frozenset((*_shapes().kinds.get(api_version, ()), *_LATER.get(api_version, ())))
    return known | REMOVED_KINDS if api_version == REMOVED_VERSION else known


def introduced_in(api_version: str, kind: str) -> str:
    """The release that brought a kind in a version, if that is later than the table's; empty for all others."""
    later = _LATER.get(api_version, {}).get(kind)
    return later.since if later is not None else ""


def versions_of(kind: str) -> tuple[str, ...]:
    """The API versions that know a kind of that name, in the table's order."""
    return tuple(version for version in _shapes().kinds if kind in kinds_of(version))


class _Copier:
    """Copies shapes of one version of a group under the names of another; ``by_name`` are the structs it has copied."""

    def __init__(self, api_version: str, target: str) -> None:
        self._old = api_version.rpartition("/")[2]
        self._new = target.rpartition("/")[2]
        self._copies: dict[int, TypeShape] = {}
        self.by_name: dict[str, TypeShape] = {}

    def of(self, shape: TypeShape) -> TypeShape:
        """The copy of a shape; the same for the same one."""
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
    """The shape that v1alpha3 had: a copy of v1beta1's, changed."""
    copier = _Copier(f"{GROUP}/v1beta1", REMOVED_VERSION)
    removed, by_name = copier.of(_shapes().shape(_shapes().kinds[f"{GROUP}/v1beta1"][kind])), copier.by_name
    for struct, extra in _ONLY_IN_V1ALPHA3.items():
        if struct not in by_name:
            continue
        for name, (other, like) in extra.items():
            found = by_name.get(other) or copier.of(_struct_of_v1beta1(other))
            by_name[struct].fields[name] = Field(found.fields[like].shape)
    return removed


def _struct_of_v1beta1(name: str) -> TypeShape:
    """A struct anywhere under the kinds of v1beta1, by its bare name."""
    waiting = [_shapes().shape(number) for number in _shapes().kinds[f"{GROUP}/v1beta1"].values()]
    seen: set[int] = set()
    while waiting:
        shape = waiting.pop()
        if shape.bare_name == name:
            return shape
        if id(shape) not in seen:
            seen.add(id(shape))
            waiting.extend(field.shape for field in shape.fields.values())
            waiting.extend([shape.element] if shape.element else [])
    raise LookupError(name)
