"""Looks up a name in a driver's vocabulary: its meaning, releases and replacement, and an example of its use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.vocabulary.drivers import vocabulary
from allotment.vocabulary.parameters.fields import fields_of
from allotment.vocabulary.parameters.kinds import kinds_of
from allotment.vocabulary.terms import Attribute, Capacity, Presence, Vocabulary

EntryType: TypeAlias = Literal[
    "attribute",
    "capacity",
    "class",
    "gate",
    "parameter",
    "value",
    "chart value",
    "earlier name",
    "no such name",
    "later name",
]


class VocabularyEntry(NamedTuple):
    """A name that matches a text. ``name``: with its domain; ``meaning``: its meaning, or the name to use instead.

    ``kind``: of an attribute or parameter. ``on``: the device types that have it. ``cel``: an example of a condition.
    """

    entry_type: EntryType
    name: str
    meaning: str
    kind: str = ""
    on: dict[str, Presence] = {}
    values: tuple[str, ...] = ()
    cel: str = ""

    @property
    def short_name(self) -> str:
        """The name without its domain, in which a text is searched, because many names have the same domain."""
        return (
            self.name.rpartition("/")[2] if self.entry_type in ("attribute", "capacity", "earlier name") else self.name
        )


def find(words: Vocabulary, text: str) -> tuple[VocabularyEntry, ...]:
    """Return all names that contain ``text``, exact matches first; also values of attributes, and keys of charts.

    >>> from allotment.vocabulary import vocabulary
    >>> [(entry.entry_type, entry.name) for entry in find(vocabulary("gpu.amd.com"), "simdc")]
    [('no such name', 'simdCount')]
    """
    wanted = text.casefold()
    matches = [entry for entry in _all_entries(words) if wanted in entry.short_name.casefold()]
    return tuple(sorted(matches, key=lambda entry: entry.short_name.casefold() != wanted))


def _all_entries(words: Vocabulary) -> Iterator[VocabularyEntry]:
    for attribute in words.attributes:
        yield VocabularyEntry(
            "attribute", attribute.name, attribute.meaning, attribute.kind, attribute.on, attribute.values,
            cel_example(attribute, words),
        )  # fmt: skip
    for capacity in words.capacities:
        yield VocabularyEntry(
            "capacity", capacity.name, capacity.meaning, "quantity", capacity.on, cel=cel_example(capacity, words)
        )
    for term in words.classes:
        extended = f" ({term.extended_resource})" if term.extended_resource else ""
        yield VocabularyEntry("class", term.name, term.meaning + extended, on=dict.fromkeys(term.types, "always"))
    for gate in words.gates:
        yield VocabularyEntry(
            "gate", gate.name, f"{gate.meaning}; {'on' if gate.default else 'off'} by default: {gate.switch}"
        )
    for (_, kind), type_ in (kinds_of(words.driver, words.release) or {}).items():
        for field in fields_of(type_):
            yield VocabularyEntry("parameter", f"{kind}.{field.name}", field.meaning, field.type, values=field.values)
    for attribute in words.attributes:
        for value in attribute.values:
            yield VocabularyEntry("value", value, f"a value of {attribute.name}")
    for key, meaning in words.helm.items():
        if not key.startswith("featureGates."):
            yield VocabularyEntry("chart value", key, meaning)
    for old in words.renamed:
        now = f"since release {old.release}, use {old.becomes}" if old.becomes else f"removed in release {old.release}"
        yield VocabularyEntry("earlier name", old.name, f"was {old.meaning}; {now}")
    for name, correct in words.guessed.items():
        yield VocabularyEntry("no such name", name, f"use {correct}")
    for name, correct in words.guessed_classes.items():
        yield VocabularyEntry("no such name", name, f"use class {correct}")
    for name, since in words.later.items():
        yield VocabularyEntry("later name", name, f"available since release {since}")


# --- as CEL ----------------------------------------------------------------------------------------------------------

_COMPARED: Final = {
    "string": '{0} == "{1}"',
    "version": '{0}.isGreaterThan(semver("{1}"))',
    "int": "{0} == 0",
    "bool": "{0}",
}
_EXAMPLES: Final = {"string": "…", "version": "1.0.0"}


def cel_example(term: Attribute | Capacity, words: Vocabulary) -> str:
    """Return an example of a condition on an attribute or capacity, guarded if devices of every class may lack it."""
    domain, _, name = term.name.rpartition("/")
    if isinstance(term, Capacity):
        map_, value = f'device.capacity["{domain}"]', f'device.capacity["{domain}"].{name}'
        condition = f'{value}.compareTo(quantity("{"20Gi" if name == "memory" else "1"}")) >= 0'
    else:
        map_, value = f'device.attributes["{domain}"]', f'device.attributes["{domain}"].{name}'
        example = term.values[0] if term.values else _EXAMPLES.get(term.kind, "")
        condition = _COMPARED[term.kind].format(value, example)
    always = {type for type, presence in term.on.items() if presence == "always"}
    always_published = any(always.issuperset(device_class.types) for device_class in words.classes)
    return condition if always_published else f'"{name}" in {map_} && {condition}'


def releases_with(driver: str, name: str) -> tuple[str, ...]:
    """Return the releases of a driver that have an attribute or capacity with this full name, oldest first."""
    newest = vocabulary(driver)
    if newest is None:
        return ()
    every = ((release, vocabulary(driver, release)) for release in newest.releases)
    return tuple(
        release
        for release, words in every
        if words is not None and (name in words.attributes_by_name or name in words.capacities_by_name)
    )
