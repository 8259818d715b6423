"""Reads the packaged tables of a driver, and derives its vocabulary in one release.

A table (``data/DRIVER.toml``) covers all releases: an entry that is not in all of them has ``since`` or ``before``.
Values that depend on hardware (product names, MIG profiles) are those of the packaged hardware profiles.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final, Literal, Protocol, TypeVar

import msgspec

from allotment.decoding import decodable
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
        result = (
            value
            for accelerator in accelerators().values()
            if accelerator.vendor == vendor
            for value in of(accelerator)
        )
        return tuple(dict.fromkeys(filter(None, result)))

    return values


#: Columns of the packaged hardware that ``from_hardware`` can name, each with its values by vendor.
VALUES: Final[Mapping[str, Callable[[str], tuple[str, ...]]]] = {
    "product": _column(lambda accelerator: [accelerator.product]),
    "mig profile": _column(
        lambda accelerator: [profile.name for profile in accelerator.mig.profiles] if accelerator.mig else []
    ),
    "pci device": _column(
        lambda accelerator: [accelerator.pci_device, AMD_VIRTUAL_FUNCTIONS.get(accelerator.pci_device, "")]
    ),
    "partition profile": _column(lambda accelerator: [partition.profile for partition in accelerator.partitions]),
    "compute partition": _column(lambda accelerator: [partition.compute for partition in accelerator.partitions]),
    "memory partition": _column(lambda accelerator: [partition.memory for partition in accelerator.partitions]),
    "family": _column(lambda accelerator: [accelerator.family]),
}


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of all entries: valid ``since`` one release and ``before`` another."""

    since: str = ""
    before: str = ""


class _Dated(Protocol):
    @property
    def since(self) -> str: ...
    @property
    def before(self) -> str: ...


class ReleaseEntry(_Entry, frozen=True):
    """A release, with its publication date and other names."""

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

    ``on`` may name types that only later releases have. ``each``: it differs between devices of one kind. The values of
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
    """A DeviceClass that the driver's chart installs."""

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


class DriverRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The data of a driver for all its releases."""

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


def load_record(driver: str) -> DriverRecord:
    """Return the packaged record of a driver."""
    return msgspec.convert(_read(f"{driver}.toml"), decodable(DriverRecord))


@cache
def load_chart(name: str) -> tuple[HelmEntry, ...]:
    """Return the packaged values of a chart."""
    return msgspec.convert(_read(f"charts/{name}.toml"), decodable(Chart)).values


def build_vocabulary(record: DriverRecord, release: str, values: Iterable[HelmEntry] = ()) -> Vocabulary:
    """Return the vocabulary of a driver in one of its releases; ``values``: those of its chart."""
    releases = [release.name for release in record.releases]
    index = releases.index(release)
    types = tuple(
        DeviceType(name=entry.name, meaning=entry.meaning, special=entry.special)
        for entry in _valid_entries(record.types, releases, index)
    )
    attributes = tuple(_attributes(record, _valid_entries(record.attributes, releases, index), types))
    capacities = tuple(_capacities(record, _valid_entries(record.capacities, releases, index), types))
    classes = tuple(
        ClassTerm(name=entry.name, types=entry.types, meaning=entry.meaning, extended_resource=entry.extended_resource)
        for entry in _valid_entries(record.classes, releases, index)
    )
    gates = tuple(
        Gate(name=entry.name, default=entry.default, meaning=entry.meaning, switch=f"featureGates.{entry.name}=true")
        for entry in _valid_entries(record.gates, releases, index)
    )
    names = {term.name for group in (attributes, capacities, classes, gates) for term in group}
    return Vocabulary(
        driver=record.driver,
        vendor=record.vendor,
        title=record.title,
        release=release,
        releases=tuple(releases),
        types=types,
        attributes=attributes,
        capacities=capacities,
        classes=classes,
        renamed=tuple(
            entry for entry in _renamed(record, releases, index) if entry.redefined or entry.name not in names
        ),
        gates=gates,
        configs={entry.kind: entry.types for entry in _valid_entries(record.configs, releases, index)},
        helm={entry.key: entry.meaning for entry in _valid_entries(tuple(values), releases, index)},
        mistaken=record.mistaken,
        guessed={
            name: to for name, to in record.guessed.items() if f"{record.driver}/{name}" not in names and to in names
        },
        guessed_classes=record.guessed_classes,
        later={name: since for name, since in _later(record, releases, index).items() if name not in names},
        published={release.name: release.published for release in record.releases},
    )


def _read(file: str) -> dict[str, Any]:
    with resources.files("allotment.vocabulary").joinpath("data", file).open("rb") as stream:
        return tomllib.load(stream)


_AnyEntry = TypeVar("_AnyEntry", bound=_Dated)


def _valid_entries(entries: Sequence[_AnyEntry], releases: Sequence[str], index: int) -> list[_AnyEntry]:
    """Return the entries that are valid in the release at an index of the order."""
    return [
        entry
        for entry in entries
        if (not entry.since or releases.index(entry.since) <= index)
        and (not entry.before or index < releases.index(entry.before))
    ]


def _full_name(record: DriverRecord, name: str) -> str:
    return name if "/" in name else f"{record.driver}/{name}"


def _names(record: DriverRecord, entry: AttributeEntry | CapacityEntry) -> list[str]:
    name = _full_name(record, entry.name)
    return [f"{name}{number}" for number in entry.numbers] or [name]


def _attributes(
    record: DriverRecord, entries: Iterable[AttributeEntry], types: Sequence[DeviceType]
) -> Iterable[Attribute]:
    for entry in entries:
        values = (*entry.values, *(VALUES[entry.from_hardware](record.vendor) if entry.from_hardware else ()))
        if entry.name == "type" and entry.closed:
            values = tuple(type_.name for type_ in types)
        on = _on(entry.on, types)
        for name in _names(record, entry) if on else ():
            yield Attribute(
                name=name,
                kind=entry.kind,
                on=on,
                meaning=entry.meaning,
                values=tuple(dict.fromkeys(values)),
                closed=entry.closed,
                shared=not entry.each,
            )


def _capacities(
    record: DriverRecord, entries: Iterable[CapacityEntry], types: Sequence[DeviceType]
) -> Iterable[Capacity]:
    for entry in entries:
        on = _on(entry.on, types)
        for name in _names(record, entry) if on else ():
            yield Capacity(name=name, on=on, meaning=entry.meaning, consumable=entry.consumable)


def _on(on: Mapping[str, Presence], types: Sequence[DeviceType]) -> dict[str, Presence]:
    return {type_.name: on[type_.name] for type_ in types if type_.name in on}


def _renamed(record: DriverRecord, releases: Sequence[str], index: int) -> Iterable[Renamed]:
    for entry in record.renamed:
        if releases.index(entry.release) <= index:
            named = entry.kind in ("attribute", "capacity")
            yield Renamed(
                name=_full_name(record, entry.name) if named else entry.name,
                becomes=_full_name(record, entry.becomes) if named and entry.becomes else entry.becomes,
                release=entry.release,
                meaning=entry.meaning,
                kind=entry.kind,
                redefined=entry.redefined,
            )


def _later(record: DriverRecord, releases: Sequence[str], index: int) -> Mapping[str, str]:
    """Return the names that only later releases have, each with the first such release."""
    result: dict[str, str] = {}
    terms: list[tuple[str, str]] = [
        *((name, entry.since) for entry in record.attributes for name in _names(record, entry)),
        *((name, entry.since) for entry in record.capacities for name in _names(record, entry)),
        *((entry.name, entry.since) for entry in record.classes),
        *((entry.name, entry.since) for entry in record.gates),
    ]
    for name, since in terms:
        if since and releases.index(since) > index:
            result.setdefault(name, since)
    return result
