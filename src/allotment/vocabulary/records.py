"""From the packaged tables of a driver to its words in one release.

The tables (``data/DRIVER.toml``) hold every release at once: what is not in all of them says ``since`` which, and
``before`` which. Values that hardware decides (names of products, MIG profiles) are those of the packaged hardware.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from allotment.fleet import accelerators
from allotment.fleet.modes import AMD_VIRTUAL_FUNCTIONS
from allotment.fleet.profiles import Accelerator
from allotment.vocabulary.terms import (
    Attribute,
    AttributeKind,
    Capacity,
    ClassTerm,
    DeviceType,
    Gate,
    Presence,
    Renamed,
    Vocabulary,
)


def _column(of: Callable[[Accelerator], Iterable[str]]) -> Callable[[str], tuple[str, ...]]:
    def values(vendor: str) -> tuple[str, ...]:
        found = (value for one in accelerators().values() if one.vendor == vendor for value in of(one))
        return tuple(dict.fromkeys(filter(None, found)))

    return values


#: What an attribute's ``from_hardware`` may name -> its values by vendor.
VALUES: Final[Mapping[str, Callable[[str], tuple[str, ...]]]] = {
    "product": _column(lambda one: [one.product]),
    "mig profile": _column(lambda one: [profile.name for profile in one.mig.profiles] if one.mig else []),
    "pci device": _column(lambda one: [one.pci_device, AMD_VIRTUAL_FUNCTIONS.get(one.pci_device, "")]),
    "partition profile": _column(lambda one: [partition.profile for partition in one.partitions]),
    "compute partition": _column(lambda one: [partition.compute for partition in one.partitions]),
    "memory partition": _column(lambda one: [partition.memory for partition in one.partitions]),
    "family": _column(lambda one: [one.family]),
}


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all entries: from which release on, and before which one."""

    since: str = ""
    before: str = ""


class _Dated(Protocol):
    @property
    def since(self) -> str: ...
    @property
    def before(self) -> str: ...


class ReleaseEntry(_Entry, frozen=True):
    """A release: when it came out, and what else it is called."""

    name: str
    published: str = ""
    aliases: tuple[str, ...] = ()


class TypeEntry(_Entry, frozen=True):
    """A type of device."""

    name: str
    meaning: str
    special: bool = False


class AttributeEntry(_Entry, frozen=True):
    """An attribute, or one for each of ``numbers``; ``from_hardware`` names a column of the packaged hardware.

    ``on`` may name types that only later releases have. ``each``: it tells devices of one kind apart. The values of
    attribute ``type`` are the types.
    """

    name: str
    kind: AttributeKind
    on: dict[str, Presence]
    meaning: str
    numbers: tuple[int, ...] = ()
    values: tuple[str, ...] = ()
    from_hardware: str = ""
    closed: bool = False
    each: bool = False


class CapacityEntry(_Entry, frozen=True):
    """A capacity, or one for each of ``numbers``."""

    name: str
    on: dict[str, Presence]
    meaning: str
    numbers: tuple[int, ...] = ()
    consumable: bool = False


class ClassEntry(_Entry, frozen=True):
    """A DeviceClass."""

    name: str
    types: tuple[str, ...]
    meaning: str
    extended_resource: str = ""


class RenamedEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name of an earlier release."""

    name: str
    release: str
    meaning: str
    becomes: str = ""
    kind: Literal["attribute", "capacity", "driver", "class"] = "attribute"
    redefined: bool = False


class GateEntry(_Entry, frozen=True):
    """A feature gate of the driver."""

    name: str
    meaning: str
    default: bool = False


class ConfigEntry(_Entry, frozen=True):
    """A kind of parameters."""

    kind: str
    types: tuple[str, ...]


class HelmEntry(_Entry, frozen=True):
    """A key of a chart's values."""

    key: str
    meaning: str


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is known of a driver, of all its releases."""

    driver: str
    vendor: str
    title: str
    releases: tuple[ReleaseEntry, ...]
    chart: str = ""
    mistaken: tuple[str, ...] = ()
    types: tuple[TypeEntry, ...] = ()
    attributes: tuple[AttributeEntry, ...] = ()
    capacities: tuple[CapacityEntry, ...] = ()
    classes: tuple[ClassEntry, ...] = ()
    renamed: tuple[RenamedEntry, ...] = ()
    gates: tuple[GateEntry, ...] = ()
    configs: tuple[ConfigEntry, ...] = ()
    guessed: dict[str, str] = {}
    guessed_classes: dict[str, str] = {}


class Chart(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values of a Helm chart."""

    values: tuple[HelmEntry, ...]


def record(driver: str) -> Record:
    """The packaged record of a driver."""
    return msgspec.convert(_read(f"{driver}.toml"), Record)


@cache
def chart(name: str) -> tuple[HelmEntry, ...]:
    """The packaged values of a chart."""
    return msgspec.convert(_read(f"charts/{name}.toml"), Chart).values


def words(known: Record, release: str, values: Iterable[HelmEntry] = ()) -> Vocabulary:
    """The words of a driver in one of its releases; ``values``: those of its chart."""
    order = [one.name for one in known.releases]
    at = order.index(release)
    types = tuple(
        DeviceType(name=one.name, meaning=one.meaning, special=one.special) for one in _of(known.types, order, at)
    )
    attributes = tuple(_attributes(known, _of(known.attributes, order, at), types))
    capacities = tuple(_capacities(known, _of(known.capacities, order, at), types))
    classes = tuple(
        ClassTerm(name=one.name, types=one.types, meaning=one.meaning, extended_resource=one.extended_resource)
        for one in _of(known.classes, order, at)
    )
    gates = tuple(
        Gate(name=one.name, default=one.default, meaning=one.meaning, switch=f"featureGates.{one.name}=true")
        for one in _of(known.gates, order, at)
    )
    here = {one.name for group in (attributes, capacities, classes, gates) for one in group}
    return Vocabulary(
        driver=known.driver,
        vendor=known.vendor,
        title=known.title,
        release=release,
        releases=tuple(order),
        types=types,
        attributes=attributes,
        capacities=capacities,
        classes=classes,
        renamed=tuple(one for one in _renamed(known, order, at) if one.redefined or one.name not in here),
        gates=gates,
        configs={one.kind: one.types for one in _of(known.configs, order, at)},
        helm={one.key: one.meaning for one in _of(tuple(values), order, at)},
        mistaken=known.mistaken,
        guessed={name: to for name, to in known.guessed.items() if f"{known.driver}/{name}" not in here and to in here},
        guessed_classes=known.guessed_classes,
        later={name: since for name, since in _later(known, order, at).items() if name not in here},
        published={one.name: one.published for one in known.releases},
    )


def _read(file: str) -> dict[str, Any]:
    with resources.files("allotment.vocabulary").joinpath("data", file).open("rb") as stream:
        return tomllib.load(stream)


_Any = TypeVar("_Any", bound=_Dated)


def _of(entries: Sequence[_Any], order: Sequence[str], at: int) -> list[_Any]:
    """The entries of the release at a place of the order."""
    return [
        one
        for one in entries
        if (not one.since or order.index(one.since) <= at) and (not one.before or at < order.index(one.before))
    ]


def _full(known: Record, name: str) -> str:
    return name if "/" in name else f"{known.driver}/{name}"


def _names(known: Record, entry: AttributeEntry | CapacityEntry) -> list[str]:
    name = _full(known, entry.name)
    return [f"{name}{number}" for number in entry.numbers] or [name]


def _attributes(known: Record, entries: Iterable[AttributeEntry], types: Sequence[DeviceType]) -> Iterable[Attribute]:
    for one in entries:
        values = (*one.values, *(VALUES[one.from_hardware](known.vendor) if one.from_hardware else ()))
        if one.name == "type" and one.closed:
            values = tuple(each.name for each in types)
        on = _on(one.on, types)
        for name in _names(known, one) if on else ():
            yield Attribute(
                name=name,
                kind=one.kind,
                on=on,
                meaning=one.meaning,
                values=tuple(dict.fromkeys(values)),
                closed=one.closed,
                shared=not one.each,
            )


def _capacities(known: Record, entries: Iterable[CapacityEntry], types: Sequence[DeviceType]) -> Iterable[Capacity]:
    for one in entries:
        on = _on(one.on, types)
        for name in _names(known, one) if on else ():
            yield Capacity(name=name, on=on, meaning=one.meaning, consumable=one.consumable)


def _on(on: Mapping[str, Presence], types: Sequence[DeviceType]) -> dict[str, Presence]:
    return {one.name: on[one.name] for one in types if one.name in on}


def _renamed(known: Record, order: Sequence[str], at: int) -> Iterable[Renamed]:
    for one in known.renamed:
        if order.index(one.release) <= at:
            named = one.kind in ("attribute", "capacity")
            yield Renamed(
                name=_full(known, one.name) if named else one.name,
                becomes=_full(known, one.becomes) if named and one.becomes else one.becomes,
                release=one.release,
                meaning=one.meaning,
                kind=one.kind,
                redefined=one.redefined,
            )


def _later(known: Record, order: Sequence[str], at: int) -> Mapping[str, str]:
    """Names that only later releases have, with the first of them."""
    found: dict[str, str] = {}
    terms: list[tuple[str, str]] = [
        *((name, one.since) for one in known.attributes for name in _names(known, one)),
        *((name, one.since) for one in known.capacities for name in _names(known, one)),
        *((one.name, one.since) for one in known.classes),
        *((one.name, one.since) for one in known.gates),
    ]
    for name, since in terms:
        if since and order.index(since) > at:
            found.setdefault(name, since)
    return found
