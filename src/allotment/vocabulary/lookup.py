"""Finding a name among a driver's words: what it is, since when, what it became, and how to write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

from allotment.vocabulary.drivers import vocabulary
from allotment.vocabulary.parameters.fields import fields_of
from allotment.vocabulary.parameters.kinds import kinds_of
from allotment.vocabulary.terms import Attribute, Capacity, Presence, Vocabulary

Sort: TypeAlias = Literal[
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


class Word(NamedTuple):
    """A name that was found. ``name`` is the full one; ``meaning`` what it is, or what to write for it.

    ``kind`` is an attribute's or parameter's; ``on`` the device types that have it; ``cel`` how a selector reads it.
    """

    sort: Sort
    name: str
    meaning: str
    kind: str = ""
    on: dict[str, Presence] = {}
    values: tuple[str, ...] = ()
    cel: str = ""

    @property
    def bare(self) -> str:
        """The name in which a text is looked for: without a domain, which many names have in common."""
        return self.name.rpartition("/")[2] if self.sort in ("attribute", "capacity", "earlier name") else self.name


def find(words: Vocabulary, text: str) -> tuple[Word, ...]:
    """Everything that has ``text`` in its name, exact names first; values and keys of charts where they are meant.

    >>> from allotment.vocabulary import vocabulary
    >>> [(word.sort, word.name) for word in find(vocabulary("gpu.amd.com"), "simdc")]
    [('no such name', 'simdCount')]
    """
    wanted = text.casefold()
    found = [word for word in _every(words) if wanted in word.bare.casefold()]
    return tuple(sorted(found, key=lambda word: word.bare.casefold() != wanted))


def _every(words: Vocabulary) -> Iterator[Word]:
    for attribute in words.attributes:
        yield Word(
            "attribute", attribute.name, attribute.meaning, attribute.kind, attribute.on, attribute.values,
            reading(attribute, words),
        )  # fmt: skip
    for capacity in words.capacities:
        yield Word("capacity", capacity.name, capacity.meaning, "quantity", capacity.on, cel=reading(capacity, words))
    for term in words.classes:
        extended = f" ({term.extended_resource})" if term.extended_resource else ""
        yield Word("class", term.name, term.meaning + extended, on=dict.fromkeys(term.types, "always"))
    for gate in words.gates:
        yield Word("gate", gate.name, f"{gate.meaning}; {'on' if gate.default else 'off'} by default: {gate.switch}")
    for (_, kind), type_ in (kinds_of(words.driver, words.release) or {}).items():
        for field in fields_of(type_):
            yield Word("parameter", f"{kind}.{field.name}", field.meaning, field.type, values=field.values)
    for attribute in words.attributes:
        for value in attribute.values:
            yield Word("value", value, f"a value of {attribute.name}")
    for key, meaning in words.helm.items():
        if not key.startswith("featureGates."):
            yield Word("chart value", key, meaning)
    for old in words.renamed:
        now = f"since {old.release} write {old.becomes}" if old.becomes else f"gone since {old.release}"
        yield Word("earlier name", old.name, f"was {old.meaning}; {now}")
    for name, meant in words.guessed.items():
        yield Word("no such name", name, f"write {meant}")
    for name, meant in words.guessed_classes.items():
        yield Word("no such name", name, f"write class {meant}")
    for name, since in words.later.items():
        yield Word("later name", name, f"since release {since}")


# --- as CEL ----------------------------------------------------------------------------------------------------------

_COMPARED: Final = {
    "string": '{0} == "{1}"',
    "version": '{0}.isGreaterThan(semver("{1}"))',
    "int": "{0} == 0",
    "bool": "{0}",
}
_EXAMPLES: Final = {"string": "…", "version": "1.0.0"}


def reading(term: Attribute | Capacity, words: Vocabulary) -> str:
    """An example of a condition on an attribute or capacity, guarded where devices of every class may lack it."""
    domain, _, name = term.name.rpartition("/")
    if isinstance(term, Capacity):
        map_, value = f'device.capacity["{domain}"]', f'device.capacity["{domain}"].{name}'
        condition = f'{value}.compareTo(quantity("{"20Gi" if name == "memory" else "1"}")) >= 0'
    else:
        map_, value = f'device.attributes["{domain}"]', f'device.attributes["{domain}"].{name}'
        example = term.values[0] if term.values else _EXAMPLES.get(term.kind, "")
        condition = _COMPARED[term.kind].format(value, example)
    always = {type for type, presence in term.on.items() if presence == "always"}
    sure = any(always.issuperset(one.types) for one in words.classes)
    return condition if sure else f'"{name}" in {map_} && {condition}'


def releases_with(driver: str, name: str) -> tuple[str, ...]:
    """The releases of a driver that have an attribute or capacity of that full name, oldest first."""
    newest = vocabulary(driver)
    if newest is None:
        return ()
    every = ((one, vocabulary(driver, one)) for one in newest.releases)
    return tuple(
        one
        for one, words in every
        if words is not None and (name in words.attributes_by_name or name in words.capacities_by_name)
    )
