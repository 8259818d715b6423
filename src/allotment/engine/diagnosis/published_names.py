"""Names that ResourceSlices publish, and similar names for a misspelled one.

A name is unknown only with respect to the available slices; without slices no name can be checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from allotment.engine.claims.constraints import find_attribute
from allotment.model.resource import Device, DeviceAttribute, ResourceSlice

#: Names with a lower similarity (0 to 1) are not suggested: a wrong "did you mean" is worse than none.
MIN_SIMILARITY = 0.6
#: The minimum similarity of the label that names a domain's owner.
_MIN_OWNER = MIN_SIMILARITY
#: The attributes that name a device's model.
_MODELS = ("productName", "model")
#: Generic parts of domain names.
_TOP = frozenset({"com", "io", "org", "net", "k8s", "kubernetes", "resource"})


@dataclass(frozen=True, slots=True)
class PublishedNames:
    """Published names: drivers, and by domain the attributes (with their types) and capacities. ``models`` are the
    values of the attributes that name models, by domain and name."""

    slices: int = 0
    drivers: frozenset[str] = frozenset()
    attributes: Mapping[str, Mapping[str, frozenset[str]]] = field(default_factory=dict)
    capacities: Mapping[str, frozenset[str]] = field(default_factory=dict)
    models: Mapping[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def domains(self) -> list[str]:
        """All domains with published names, sorted."""
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
    """The kind of a device as its driver publishes it: product and partition profile."""
    words = []
    for name in (_MODELS[0], "profile", *_MODELS[1:]):
        found = find_attribute(device, driver, f"{driver}/{name}")
        if found is not None and found.string:
            words.append(found.string)
    return " ".join(words[:2])


class NameFact(NamedTuple):
    """A published name. ``kind``: driver, attribute, capacity or model; ``value``: the type of the attribute, or the
    model."""

    kind: str
    domain: str
    name: str = ""
    value: str = ""


def names_of_slice(slice_: ResourceSlice) -> tuple[NameFact, ...]:
    """The names that a slice publishes, in order, without duplicates."""
    driver = slice_.spec.driver
    found = {NameFact("driver", driver): None}
    for device in slice_.spec.devices or ():
        for key, attribute in device.attributes.items():
            domain, name = qualified(key, driver)
            found[NameFact("attribute", domain, name, attribute_kind(attribute))] = None
            if name in _MODELS and attribute.string:
                found[NameFact("model", domain, name, attribute.string)] = None
        for key in device.capacity:
            found[NameFact("capacity", *qualified(key, driver))] = None
    return tuple(found)


def published_names(slices: Iterable[ResourceSlice]) -> PublishedNames:
    """The names in all slices, including those of old generations."""
    return merged_names([names_of_slice(slice_) for slice_ in slices])


def merged_names(slices: Sequence[tuple[NameFact, ...]]) -> PublishedNames:
    """The names in all slices from those of each; see `names_of_slice`."""
    drivers: set[str] = set()
    attributes: dict[str, dict[str, set[str]]] = {}
    capacities: dict[str, set[str]] = {}
    models: dict[tuple[str, str], set[str]] = {}
    for kind, domain, name, value in dict.fromkeys(chain.from_iterable(dict.fromkeys(slices))):
        if kind == "driver":
            drivers.add(domain)
        elif kind == "attribute":
            attributes.setdefault(domain, {}).setdefault(name, set()).add(value)
        elif kind == "model":
            models.setdefault((domain, name), set()).add(value)
        else:
            capacities.setdefault(domain, set()).add(name)
    return PublishedNames(
        len(slices),
        frozenset(drivers),
        {d: {n: frozenset(k) for n, k in names.items()} for d, names in attributes.items()},
        {d: frozenset(names) for d, names in capacities.items()},
        {of: frozenset(values) for of, values in models.items()},
    )


def _words(name: str) -> frozenset[str]:
    """The words of a name: split at punctuation and at camelCase boundaries, without generic domain parts."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return frozenset(w for w in re.split(r"[^A-Za-z0-9]+", spaced.lower()) if w and w not in _TOP)


@lru_cache(maxsize=65_536)  # the same names are compared for every node and change
def similarity(left: str, right: str) -> float:
    """The similarity of two names from 0 to 1: by letters, or by common words.

    >>> similarity("productname", "productName")
    1.0
    >>> similarity("nvidia.com", "gpu.nvidia.com") > MIN_SIMILARITY > similarity("model", "productName")
    True
    """
    if left == right:
        return 1.0
    plain_one, plain_other = (re.sub(r"[^a-z0-9]", "", n.lower()) for n in (left, right))
    letters = SequenceMatcher(None, plain_one, plain_other, autojunk=False).ratio()
    words_one, words_other = _words(left), _words(right)
    shared = words_one & words_other
    by_words = len(shared) / len(words_one | words_other) if len(shared) > 1 else 0.0
    if words_one and words_one < words_other:  # nvidia.com in gpu.nvidia.com, deviceID in parentDeviceID
        by_words = max(by_words, 0.7)
    return max(letters, by_words)


def similar_names(name: str, known: Iterable[str], limit: int = 2) -> tuple[str, ...]:
    """Known names that are similar to ``name``, best first, up to ``limit`` names of nearly equal similarity.

    >>> similar_names("nvidia-mig", ["gpu.nvidia.com", "mig.nvidia.com", "gpu.amd.com"])
    ('mig.nvidia.com',)
    """
    scored = sorted((-similarity(name, k), k) for k in set(known) if k != name)
    if not scored or -scored[0][0] < MIN_SIMILARITY:
        return ()
    best = scored[0][0]
    return tuple(k for score, k in scored if score - best < 0.05)[:limit]


def of_similar_owner(name: str, known: Iterable[str]) -> list[str]:
    """The known domains whose owner's label is similar to a label of ``name``.

    The domains of two vendors are otherwise similar: gpu.amd.com is no misspelling of gpu.nvidia.com.

    >>> of_similar_owner("gpu.md.com", ["gpu.nvidia.com", "gpu.amd.com"])
    ['gpu.amd.com']
    >>> of_similar_owner("gpu.intel.com", ["gpu.nvidia.com", "gpu.amd.com"])
    []
    """
    labels = name.split(".")
    return [k for k in known if any(similarity(label, _owner(k)) >= _MIN_OWNER for label in labels)]


def _owner(domain: str) -> str:
    return (domain.split(".")[-2:] or [""])[0]


def similar_qualified_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Known names in which the domain or the rest is similar and the other part equal, best first.

    Two names of one domain are otherwise similar, whatever they mean.

    >>> similar_qualified_names("example.com/rak", ["example.com/rack", "example.com/zone", "exampel.com/rak"])
    ('example.com/rack', 'exampel.com/rak')
    """
    domain, slash, rest = name.rpartition("/")
    parts = [other.rpartition("/") for other in known]
    names = similar_names(rest, [r for d, _, r in parts if d == domain])
    domains = similar_names(domain, [d for d, _, r in parts if r == rest]) if domain else ()
    return (*(f"{domain}{slash}{other}" for other in names), *(f"{other}/{rest}" for other in domains))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with similar names for an unknown one, with a leading space; empty if there are none."""
    names = similar_names(name, known)
    return f" Did you mean {' or '.join(repr(n).replace(chr(39), chr(34)) for n in names)}?" if names else ""
