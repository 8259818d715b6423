"""The changes in a driver's vocabulary from one release to the next."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, TypeAlias

from allotment.vocabulary.drivers import vocabulary
from allotment.vocabulary.terms import Renamed, Vocabulary

NameType: TypeAlias = Literal["attribute", "capacity", "class", "extended resource", "gate", "parameters"]


class VocabularyChange(NamedTuple):
    """A name that was added, removed or redefined. ``becomes``: the name to use instead; ``meaning``: its meaning now,
    or before its removal.
    """

    name_type: NameType
    name: str
    change_type: Literal["new", "gone", "redefined"]
    becomes: str = ""
    meaning: str = ""


def changes(driver: str) -> tuple[tuple[str, tuple[VocabularyChange, ...]], ...]:
    """Return the changes of each known release of a driver except the first; none for an unknown driver.

    >>> [(change.change_type, change.name) for change in dict(changes("gpu.nvidia.com"))["25.8"]][0]
    ('new', 'resource.kubernetes.io/pcieRoot')
    """
    newest = vocabulary(driver)
    if newest is None:
        return ()
    releases = [words for name in newest.releases if (words := vocabulary(driver, name)) is not None]
    return tuple((after.release, tuple(_between(before, after))) for before, after in pairwise(releases))


def _between(before: Vocabulary, after: Vocabulary) -> Iterator[VocabularyChange]:
    earlier, now = meanings_by_name(before), meanings_by_name(after)
    renamed = {term.name: term for term in after.renamed if term.release == after.release}
    for (name_type, name), meaning in now.items():
        if (name_type, name) not in earlier:
            yield VocabularyChange(name_type, name, "new", meaning=meaning)
    for (name_type, name), meaning in earlier.items():
        entry: Renamed | None = renamed.get(name)
        becomes = entry.becomes if entry is not None else ""
        if (name_type, name) not in now:
            yield VocabularyChange(name_type, name, "gone", becomes, entry.meaning if entry is not None else meaning)
        elif entry is not None and entry.redefined:
            yield VocabularyChange(name_type, name, "redefined", becomes, entry.meaning)


def meanings_by_name(words: Vocabulary) -> dict[tuple[NameType, str], str]:
    """Return the names of a vocabulary with their meanings, by type; attributes and capacities with their domain."""
    result: dict[tuple[NameType, str], str] = {}
    result.update({("attribute", term.name): term.meaning for term in words.attributes})
    result.update({("capacity", term.name): term.meaning for term in words.capacities})
    result.update({("class", term.name): term.meaning for term in words.classes})
    result.update({("extended resource", t.extended_resource): t.meaning for t in words.classes if t.extended_resource})
    result.update({("gate", term.name): term.meaning for term in words.gates})
    result.update({("parameters", kind): "" for kind in words.configs})
    return result
