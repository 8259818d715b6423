"""The drivers with a known vocabulary, their releases, and the DeviceClasses that they install."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from allotment.vocabulary.records import DriverRecord, HelmEntry, build_vocabulary, load_chart, load_record
from allotment.vocabulary.terms import ClassTerm, Vocabulary

#: In the order of output; each driver has a file with its name in ``data``.
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
    """Return the names of the drivers with a known vocabulary, ``gpu.nvidia.com`` first."""
    return _DRIVERS


def vocabulary(driver: str, release: str = "") -> Vocabulary | None:
    """Return the vocabulary of a driver in a release, by default the newest known one; None for an unknown driver.

    A release may start with ``v`` and may have a patch version: ``v25.8.1`` is ``25.8``.
    Raises ValueError for an unknown release of a known driver.

    >>> words = vocabulary("gpu.nvidia.com", "v25.8.0")
    >>> words.release, words.attribute("gpu.nvidia.com", "pcieBusID").kind
    ('25.8', 'string')
    """
    if driver not in _DRIVERS:
        return None
    record = _record(driver)
    return _vocabulary(driver, release_of(record, release))


def release_of(record: DriverRecord, release: str) -> str:
    """Return the known release that a text refers to. Raises ValueError if there is none."""
    if not release:
        return record.releases[-1].name
    wanted = release.removeprefix("v")
    for candidate in reversed(record.releases):
        if wanted == candidate.name or release in candidate.aliases or wanted in candidate.aliases:
            return candidate.name
    for candidate in reversed(record.releases):
        # A patch of it, or only the beginning of its number.
        base = candidate.name.partition("-")[0]
        if wanted.startswith((f"{base}.", f"{base}-")) or candidate.name.startswith(f"{wanted}."):
            return candidate.name
    names = ", ".join(candidate.name for candidate in record.releases)
    raise ValueError(f"{record.driver} has no release {release}: expected one of {names}")


@cache
def installed_classes() -> Mapping[str, tuple[str, ClassTerm]]:
    """Return the DeviceClasses that the drivers' charts install in any release, by name, each with its driver.

    >>> installed_classes()["mig.nvidia.com"][0]
    'gpu.nvidia.com'
    """
    result: dict[str, tuple[str, ClassTerm]] = {}
    for driver in _DRIVERS:
        for release in _record(driver).releases:
            for term in _vocabulary(driver, release.name).classes:
                result[term.name] = (driver, term)
    return MappingProxyType(result)


@cache
def guessed_classes() -> Mapping[str, str]:
    """Return names of DeviceClasses that users write but no chart installs, with the intended class.

    >>> guessed_classes()["nvidia-mig"]
    'mig.nvidia.com'
    """
    return MappingProxyType({name: to for d in _DRIVERS for name, to in _record(d).guessed_classes.items()})


@cache
def mistaken_drivers() -> Mapping[str, str]:
    """Return wrong names that users write for drivers, with the intended driver.

    >>> mistaken_drivers()["nvidia.com"]
    'gpu.nvidia.com'
    """
    return MappingProxyType({name: driver for driver in _DRIVERS for name in _record(driver).mistaken})


@cache
def vendors() -> Mapping[str, tuple[str, ...]]:
    """Return the drivers of each vendor.

    >>> vendors()["nvidia"]
    ('gpu.nvidia.com', 'compute-domain.nvidia.com')
    """
    result: dict[str, tuple[str, ...]] = {}
    for driver in _DRIVERS:
        vendor = _record(driver).vendor
        result[vendor] = (*result.get(vendor, ()), driver)
    return MappingProxyType(result)


@cache
def _record(driver: str) -> DriverRecord:
    return load_record(driver)


@cache
def _vocabulary(driver: str, release: str) -> Vocabulary:
    record = _record(driver)
    return build_vocabulary(record, release, _values(record.chart) if record.chart else ())


@cache
def _values(name: str) -> tuple[HelmEntry, ...]:
    """The values of a chart, with the feature gates of all drivers that it installs."""
    gates = (gate for driver in _DRIVERS if _record(driver).chart == name for gate in _record(driver).gates)
    return load_chart(name) + tuple(
        HelmEntry(key=f"featureGates.{gate.name}", meaning=gate.meaning, since=gate.since, before=gate.before)
        for gate in gates
    )
