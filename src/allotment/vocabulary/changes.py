"""What a driver's words became from one release to the next."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from allotment.vocabulary.drivers import vocabulary
from allotment.vocabulary.terms import Renamed, Vocabulary

Sort: TypeAlias = Literal["attribute", "capacity", "class", "extended resource", "gate", "parameters"]


class Change(NamedTuple):
    """A name that came, went or was given another meaning. ``becomes``: what to write instead; ``meaning``: it now has,
    or had.
    """

    sort: Sort
    name: str
    how: Literal["new", "gone", "redefined"]
    becomes: str = ""
    meaning: str = ""


def changes(driver: str) -> tuple[tuple[str, tuple[Change, ...]], ...]:
    """Each known release of a driver but the first, with what it changed; nothing for a driver that is not known.

    >>> [(change.how, change.name) for change in dict(changes("gpu.nvidia.com"))["25.8"]][0]
    ('new', 'resource.kubernetes.io/pcieRoot')
    """
    newest = vocabulary(driver)
    if newest is None:
        return ()
    every = [words for name in newest.releases if (words := vocabulary(driver, name)) is not None]
    return tuple((after.release, tuple(_between(before, after))) for before, after in pairwise(every))


def _between(before: Vocabulary, after: Vocabulary) -> Iterator[Change]:
    earlier, now = names(before), names(after)
    renamed = {term.name: term for term in after.renamed if term.release == after.release}
    for (sort, name), meaning in now.items():
        if (sort, name) not in earlier:
            yield Change(sort, name, "new", meaning=meaning)
    for (sort, name), meaning in earlier.items():
        told: Renamed | None = renamed.get(name)
        becomes = told.becomes if told is not None else ""
        if (sort, name) not in now:
            yield Change(sort, name, "gone", becomes, told.meaning if told is not None else meaning)
        elif told is not None and told.redefined:
            yield Change(sort, name, "redefined", becomes, told.meaning)


def names(words: Vocabulary) -> dict[tuple[Sort, str], str]:
    """Every name of a vocabulary by its sort, with its meaning; attributes and capacities in full."""
    found: dict[tuple[Sort, str], str] = {}
    found.update({("attribute", term.name): term.meaning for term in words.attributes})
    found.update({("capacity", term.name): term.meaning for term in words.capacities})
    found.update({("class", term.name): term.meaning for term in words.classes})
    found.update({("extended resource", t.extended_resource): t.meaning for t in words.classes if t.extended_resource})
    found.update({("gate", term.name): term.meaning for term in words.gates})
    found.update({("parameters", kind): "" for kind in words.configs})
    return found
