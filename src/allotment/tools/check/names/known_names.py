"""What names there are: the words of drivers in the releases that a bundle is checked for, and the given slices'."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from allotment.engine.diagnosis.published_names import likeness, near
from allotment.tools.check.bundle import Bundle
from allotment.vocabulary import Vocabulary, drivers, vocabulary

#: From here on two names differ by a slip of the finger, not by what they mean.
SLIP: Final = 0.85

#: The domain of names that several drivers publish (KEP-4381).
STANDARD: Final = "resource.kubernetes.io"


def words_of(bundle: Bundle, driver: str) -> Vocabulary | None:
    """The words of a driver in the release that the files are checked for; None for one that is not known."""
    return vocabulary(driver, bundle.settings.drivers.get(driver, ""))


def vocabularies(bundle: Bundle) -> Iterator[Vocabulary]:
    """The words of every known driver, in the release that the files are checked for."""
    for driver in drivers():
        words = words_of(bundle, driver)
        if words is not None:
            yield words


def slip(name: str, known: Iterable[str]) -> str:
    """The name that ``name`` is a slip of the finger for; empty if it is none of them.

    >>> slip("gpu.nvida.com", ["gpu.nvidia.com", "gpu.amd.com"]), slip("driver.example.com", ["gpu.example.com"])
    ('gpu.nvidia.com', '')
    """
    best = near(name, known, 1)
    return best[0] if best and likeness(name, best[0]) >= SLIP else ""


def is_in_other_map(bundle: Bundle, kind: Literal["attributes", "capacity"], domain: str, name: str) -> bool:
    """Whether a name is known, from the driver's words or the given slices, in the other map only."""
    words, given = words_of(bundle, domain), bundle.published
    full = f"{domain}/{name}"
    attribute = words is not None and full in words.attributes_by_name
    capacity = words is not None and full in words.capacities_by_name
    if given is not None:
        attribute = attribute or name in given.attributes.get(domain, ())
        capacity = capacity or name in given.capacities.get(domain, ())
    return capacity and not attribute if kind == "attributes" else attribute and not capacity
