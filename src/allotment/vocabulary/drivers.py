"""The drivers whose words are known."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from allotment.vocabulary.records import HelmEntry, Record, chart, record, words
from allotment.vocabulary.terms import ClassTerm, Vocabulary

#: In the order in which they are listed; each has a file of its name among the data.
_DRIVERS: Final = (
    "gpu.nvidia.com",
    "compute-domain.nvidia.com",
    "gpu.amd.com",
    "gpu.intel.com",
    "gaudi.intel.com",
    "qat.intel.com",
    "tpu.google.com",
    "dra.net",
    "dra.cpu",
    "gpu.example.com",
    "net.example.com",
    "cpu.example.com",
)


def drivers() -> tuple[str, ...]:
    """The drivers whose words are known, by name: ``gpu.nvidia.com`` first."""
    return _DRIVERS


def vocabulary(driver: str, release: str = "") -> Vocabulary | None:
    """The words of a driver in a release, by default the newest known; None for a driver that nobody told us of.

    A release may be written with a ``v``, with or without the numbers of a patch: ``v25.8.1`` is ``25.8``.
    Raises ValueError for a release that is not known of a driver that is.

    >>> words = vocabulary("gpu.nvidia.com", "v25.8.0")
    >>> words.release, words.attribute("gpu.nvidia.com", "pcieBusID").kind
    ('25.8', 'string')
    """
    if driver not in _DRIVERS:
        return None
    known = _record(driver)
    return _words(driver, release_of(known, release))


def release_of(known: Record, release: str) -> str:
    """The known release that is meant. Raises ValueError for none."""
    if not release:
        return known.releases[-1].name
    wanted = release.removeprefix("v")
    for one in reversed(known.releases):
        if wanted == one.name or release in one.aliases or wanted in one.aliases:
            return one.name
    for one in reversed(known.releases):
        # A patch of it, or only the beginning of its number.
        base = one.name.partition("-")[0]
        if wanted.startswith((f"{base}.", f"{base}-")) or one.name.startswith(f"{wanted}."):
            return one.name
    names = ", ".join(one.name for one in known.releases)
    raise ValueError(f"{known.driver} has no release {release}: expected one of {names}")


@cache
def installed_classes() -> Mapping[str, tuple[str, ClassTerm]]:
    """The DeviceClasses that the drivers' charts install, in any release, by name: the driver and the class.

    >>> installed_classes()["mig.nvidia.com"][0]
    'gpu.nvidia.com'
    """
    found: dict[str, tuple[str, ClassTerm]] = {}
    for driver in _DRIVERS:
        for one in _record(driver).releases:
            for term in _words(driver, one.name).classes:
                found[term.name] = (driver, term)
    return MappingProxyType(found)


@cache
def guessed_classes() -> Mapping[str, str]:
    """Names of classes that people write and nobody installs, with the class that they mean.

    >>> guessed_classes()["nvidia-mig"]
    'mig.nvidia.com'
    """
    return MappingProxyType({name: to for d in _DRIVERS for name, to in _record(d).guessed_classes.items()})


@cache
def mistaken_drivers() -> Mapping[str, str]:
    """Names that people write for drivers, with the driver that they mean.

    >>> mistaken_drivers()["nvidia.com"]
    'gpu.nvidia.com'
    """
    return MappingProxyType({name: driver for driver in _DRIVERS for name in _record(driver).mistaken})


@cache
def vendors() -> Mapping[str, tuple[str, ...]]:
    """The drivers of each vendor.

    >>> vendors()["nvidia"]
    ('gpu.nvidia.com', 'compute-domain.nvidia.com')
    """
    found: dict[str, tuple[str, ...]] = {}
    for driver in _DRIVERS:
        vendor = _record(driver).vendor
        found[vendor] = (*found.get(vendor, ()), driver)
    return MappingProxyType(found)


@cache
def _record(driver: str) -> Record:
    return record(driver)


@cache
def _words(driver: str, release: str) -> Vocabulary:
    known = _record(driver)
    return words(known, release, _values(known.chart) if known.chart else ())


@cache
def _values(name: str) -> tuple[HelmEntry, ...]:
    """The values of a chart, with the feature gates of all drivers that it installs."""
    gates = (gate for driver in _DRIVERS if _record(driver).chart == name for gate in _record(driver).gates)
    return chart(name) + tuple(
        HelmEntry(key=f"featureGates.{one.name}", meaning=one.meaning, since=one.since, before=one.before)
        for one in gates
    )
