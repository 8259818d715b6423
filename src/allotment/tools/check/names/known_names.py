"""Known names: drivers' vocabularies in the releases that a bundle is checked for, and the names in given slices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, Literal

from allotment.engine.diagnosis.published_names import similar_names, similarity
from allotment.engine.diagnosis.selector_corrections import intended_name
from allotment.tools.check.bundle import Bundle
from allotment.vocabulary import Vocabulary, drivers, vocabulary

#: Names at least this similar are treated as typos of each other.
TYPO_SIMILARITY: Final = 0.85

#: The domain of attributes that several drivers publish (KEP-4381).
STANDARD_DOMAIN: Final = "resource.kubernetes.io"


def vocabulary_of(bundle: Bundle, driver: str) -> Vocabulary | None:
    """A driver's vocabulary in the release that the files are checked for; None for an unknown driver."""
    return vocabulary(driver, bundle.settings.drivers.get(driver, ""))


def vocabularies(bundle: Bundle) -> Iterator[Vocabulary]:
    """The vocabularies of all known drivers, in the releases that the files are checked for."""
    for driver in drivers():
        vocab = vocabulary_of(bundle, driver)
        if vocab is not None:
            yield vocab


def typo_of(name: str, known: Iterable[str]) -> str:
    """The known name of which ``name`` is a typo; empty if there is none.

    >>> typo_of("gpu.nvida.com", ["gpu.nvidia.com", "gpu.amd.com"]), typo_of("driver.example.com", ["gpu.example.com"])
    ('gpu.nvidia.com', '')
    """
    nearest = similar_names(name, known, 1)
    return nearest[0] if nearest and similarity(name, nearest[0]) >= TYPO_SIMILARITY else ""


def name_in_other_map(bundle: Bundle, kind: Literal["attributes", "capacity"], domain: str, name: str) -> str:
    """The intended name in the other of the two maps; empty if the name belongs to this one, or to none.

    It is the name itself if only the other map has it, in the driver's vocabulary or the given slices. If neither has
    it, it is a name in the given slices that is similar to it, unless this map has one, too.
    """
    vocab, published = vocabulary_of(bundle, domain), bundle.published
    full = f"{domain}/{name}"
    attribute = vocab is not None and full in vocab.attributes_by_name
    capacity = vocab is not None and full in vocab.capacities_by_name
    if published is not None:
        attribute = attribute or name in published.attributes.get(domain, ())
        capacity = capacity or name in published.capacities.get(domain, ())
    if attribute or capacity:
        is_in_other = capacity and not attribute if kind == "attributes" else attribute and not capacity
        return name if is_in_other else ""
    intended, other = intended_name(domain, name, kind, published) if published is not None else (kind, "")
    return other if intended != kind else ""
