"""What the given ResourceSlices publish, and which of those names a misspelt one comes near.

A name is called unknown only against slices that were given; without any, nothing can be said of a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache

from allotment.engine.claims.constraints import find_attribute
from allotment.model.resource import Device, DeviceAttribute, ResourceSlice

#: Below this likeness (0 to 1) a name is not offered: a wrong "did you mean" costs more than none.
NEAR = 0.6
#: Parts of domain names that say nothing of what they name.
_TOP = frozenset({"com", "io", "org", "net", "k8s", "kubernetes", "resource"})


@dataclass(frozen=True, slots=True)
class Published:
    """Names in the slices: drivers, and by domain the attributes (with their types) and capacities."""

    slices: int = 0
    drivers: frozenset[str] = frozenset()
    attributes: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    capacities: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def domains(self) -> list[str]:
        """Every domain that a selector can find something in, sorted."""
        return sorted({*self.drivers, *self.attributes, *self.capacities})


def qualified(key: str, driver: str) -> tuple[str, str]:
    """Domain and identifier of an attribute or capacity key; a bare key belongs to its driver.

    >>> qualified("memory", "gpu.nvidia.com"), qualified("resource.kubernetes.io/pcieRoot", "gpu.nvidia.com")
    (('gpu.nvidia.com', 'memory'), ('resource.kubernetes.io', 'pcieRoot'))
    """
    domain, slash, name = key.partition("/")
    return (domain, name) if slash else (driver, key)


def attribute_kind(attribute: DeviceAttribute) -> str:
    """The attribute's type as the API names it: int, bool, string, version, or a list of them.

    >>> attribute_kind(DeviceAttribute(version="1.0.0"))
    'version'
    """
    for kind, value in (
        ("int", attribute.int_),
        ("bool", attribute.bool_),
        ("string", attribute.string),
        ("version", attribute.version),
        ("ints", attribute.ints),
        ("bools", attribute.bools),
        ("strings", attribute.strings),
        ("versions", attribute.versions),
    ):
        if value is not None:
            return kind
    return "unknown"


def kind_of(device: Device, driver: str) -> str:
    """What a device is, in its driver's words: product and partition profile."""
    words = []
    for name in ("productName", "profile", "model"):
        found = find_attribute(device, driver, f"{driver}/{name}")
        if found is not None and found.string:
            words.append(found.string)
    return " ".join(words[:2])


def published(slices: Iterable[ResourceSlice]) -> Published:
    """Collect the names of all slices; old generations count, too (they tell what a driver calls things)."""
    count = 0
    drivers: set[str] = set()
    attributes: dict[str, dict[str, set[str]]] = {}
    capacities: dict[str, set[str]] = {}
    for slice_ in slices:
        count += 1
        driver = slice_.spec.driver
        drivers.add(driver)
        for device in slice_.spec.devices or ():
            for key, attribute in device.attributes.items():
                domain, name = qualified(key, driver)
                attributes.setdefault(domain, {}).setdefault(name, set()).add(attribute_kind(attribute))
            for key in device.capacity:
                domain, name = qualified(key, driver)
                capacities.setdefault(domain, set()).add(name)
    return Published(
        count,
        frozenset(drivers),
        {d: {n: frozenset(k) for n, k in names.items()} for d, names in attributes.items()},
        {d: frozenset(names) for d, names in capacities.items()},
    )


def _words(name: str) -> frozenset[str]:
    """The words of a name: split at punctuation and at camelCase humps, without empty domain endings."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return frozenset(w for w in re.split(r"[^A-Za-z0-9]+", spaced.lower()) if w and w not in _TOP)


@lru_cache(maxsize=65_536)  # the same mistaken name is held against the same known ones for every node and change
def likeness(one: str, other: str) -> float:
    """How alike two names are, 0 to 1: by letters, or by the words they share.

    >>> likeness("productname", "productName")
    1.0
    >>> likeness("nvidia.com", "gpu.nvidia.com") > NEAR > likeness("model", "productName")
    True
    """
    if one == other:
        return 1.0
    plain_one, plain_other = (re.sub(r"[^a-z0-9]", "", n.lower()) for n in (one, other))
    letters = SequenceMatcher(None, plain_one, plain_other, autojunk=False).ratio()
    words_one, words_other = _words(one), _words(other)
    shared = words_one & words_other
    by_words = len(shared) / len(words_one | words_other) if len(shared) > 1 else 0.0
    if words_one and words_one < words_other:  # nvidia.com in gpu.nvidia.com, deviceID in parentDeviceID
        by_words = max(by_words, 0.7)
    return max(letters, by_words)


def near(name: str, known: Iterable[str], limit: int = 2) -> tuple[str, ...]:
    """Known names that ``name`` may have been meant for, best first; ties are all given, up to ``limit``.

    >>> near("nvidia-mig", ["gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com"])
    ('mig.nvidia.com',)
    """
    scored = sorted((-likeness(name, k), k) for k in set(known) if k != name)
    if not scored or -scored[0][0] < NEAR:
        return ()
    best = scored[0][0]
    return tuple(k for score, k in scored if score - best < 0.05)[:limit]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The question to put after an unknown name, with a leading space; empty if nothing comes near."""
    names = near(name, known)
    return f" Did you mean {' or '.join(repr(n).replace(chr(39), chr(34)) for n in names)}?" if names else ""
