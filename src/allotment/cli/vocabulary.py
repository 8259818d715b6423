"""``allot vocabulary``: shows the attributes, capacities and parameters of drivers, by release."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from allotment.cli.output.console import Screen, folded, open_screen
from allotment.reference.vocabularies import entries, vocabularies, vocabulary, vocabulary_of
from allotment.vocabulary import Vocabulary, drivers
from allotment.vocabulary.changes import VocabularyChange, changes
from allotment.vocabulary.lookup import VocabularyEntry, releases_with
from allotment.vocabulary.parameters.fields import fields_of
from allotment.vocabulary.parameters.kinds import kinds_of
from allotment.vocabulary.terms import Attribute, Capacity, Presence

_SIGNS: Final = {"new": "+", "gone": "-", "redefined": "!"}
_DIGITS: Final = "0123456789"


def run(arguments: Namespace) -> int:
    """Print all drivers, the vocabulary of some, or the entries of one name."""
    screen = open_screen()
    driver, name, release = arguments.driver or "", arguments.name or "", arguments.release
    if arguments.output:
        screen.data(vocabulary(driver, name, release=release), arguments.output)
    elif not driver:
        _list(screen)
    elif name:
        _search(screen, vocabularies(driver, release), name)
    else:
        chosen = vocabularies(driver, release)
        for number, words in enumerate(chosen):
            if number:
                screen.line()
            _show(screen, words)
    return 0


# --- all drivers -----------------------------------------------------------------------------------------------------


def _list(screen: Screen) -> None:
    rows = [[w.driver, w.vendor, _span(w.releases), w.title] for w in map(vocabulary_of, drivers())]
    screen.table(["DRIVER", "VENDOR", "RELEASES", "DEVICES"], rows, cut=["DEVICES"])
    screen.line()
    screen.line("`allot vocabulary VENDOR` shows what its drivers publish; --version R selects a release.")


def _span(releases: Sequence[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} … {releases[-1]}"


# --- one driver ------------------------------------------------------------------------------------------------------


def _show(screen: Screen, words: Vocabulary) -> None:
    when = words.published.get(words.release, "")
    screen.line(f"{screen.paint(words.driver, 'bold')}: {words.title}")
    others = [item for item in words.releases if item != words.release]
    text = f"release {words.release}" + (f" ({when})" if when not in ("", words.release) else "")
    _fold(screen, text + (f"; other known releases: {', '.join(others)}" if others else ""), "")
    if len(words.types) > 1:
        _heading(screen, "DEVICE TYPES")
        for item in words.types:
            _entry(screen, item.name, "", item.meaning)
    terms: dict[str, Attribute | Capacity] = {**words.attributes_by_name, **words.capacities_by_name}
    for title, map_, names in (
        ("ATTRIBUTES", "attributes", words.attributes_by_name), ("CAPACITIES", "capacity", words.capacities_by_name)
    ):  # fmt: skip
        if names:
            _heading(screen, f'{title}, in selectors as device.{map_}["{words.driver}"].NAME')
        for name, members in _numbered(list(names)):
            term = terms[members[0]]
            kind = term.kind if isinstance(term, Attribute) else "quantity"
            _entry(screen, _short(name, words), f"<{kind}>{_on(term.on, words)}", term.meaning, _values(term))
    if words.classes:
        _heading(screen, "CLASSES, installed by the driver's chart")
        for class_ in words.classes:
            extended = f"extended resource {class_.extended_resource}" if class_.extended_resource else ""
            _entry(screen, class_.name, extended, class_.meaning)
    if words.gates:
        _heading(screen, "FEATURE GATES, set in the chart's values as featureGates.NAME")
        for gate in words.gates:
            _entry(screen, gate.name, "on by default" if gate.default else "off by default", gate.meaning)
    _show_parameters(screen, words)
    _show_changes(screen, words)


def _show_parameters(screen: Screen, words: Vocabulary) -> None:
    kinds = kinds_of(words.driver, words.release)
    if not kinds:
        return
    _heading(screen, "PARAMETERS, in config[].opaque.parameters of claims and classes")
    for (version, kind), type_ in kinds.items():
        suited = words.configs.get(f"{version}/{kind}", ())
        _entry(screen, kind, f"of {version}", f"for devices of type {', '.join(suited)}" if any(suited) else "")
        for field in fields_of(type_):
            if field.type != "object":
                _fold(screen, f"{field.name} <{field.type}>" + (": " if field.values else "") + ", ".join(field.values))


def _show_changes(screen: Screen, words: Vocabulary) -> None:
    every = [(release, differences) for release, differences in changes(words.driver) if differences]
    if not every:
        return
    _heading(screen, "CHANGES: + added, - removed, ! different meaning")
    for release, differences in reversed(every):
        when = words.published.get(release, "")
        screen.line(f"  {release}{f' ({when})' if when else ''}")
        for name, change in _grouped(differences, words):
            _fold(screen, f"{_SIGNS[change.change_type]} {change.name_type} {name}{_consequence(change, words)}")


def _grouped(differences: Sequence[VocabularyChange], words: Vocabulary) -> Iterator[tuple[str, VocabularyChange]]:
    by_name = {change.name: change for change in differences}
    for name, members in _numbered(list(by_name)):
        yield _short(name, words), by_name[members[0]]


def _consequence(change: VocabularyChange, words: Vocabulary) -> str:
    if change.change_type == "redefined":
        return f", was {change.meaning}" + (f"; write {_short(change.becomes, words)}" if change.becomes else "")
    return f", now {_short(change.becomes, words)}" if change.becomes else ""


# --- one name --------------------------------------------------------------------------------------------------------


def _search(screen: Screen, chosen: Sequence[Vocabulary], text: str) -> None:
    """Print the entries with this name, or if there are none those that contain it."""
    found = entries(chosen, text)
    exact = [pair for pair in found if text.casefold() in (pair[1].name.casefold(), pair[1].short_name.casefold())]
    shown = exact or found
    for words in chosen:
        for sort in dict.fromkeys(word.entry_type for item, word in shown if item is words):
            named = {word.name: word for item, word in shown if item is words and word.entry_type == sort}
            for name, members in _numbered(list(named)):
                _details(screen, words, named[members[0]], name)
    if len(found) > len(shown):
        matching = {word.name for _, word in exact}
        others = [word.name for _, word in found if word.name not in matching and word.entry_type != "no such name"]
        if others:
            names_ = ", ".join(name for name, _ in _numbered(others))
            _fold(screen, f"other names that contain {text!r}: {names_}", "")


def _details(screen: Screen, words: Vocabulary, word: VocabularyEntry, name: str) -> None:
    kind = f" <{word.kind}>" if word.kind else ""
    screen.line(f"{screen.paint(name, 'bold')}  {word.entry_type}{kind}{_on(word.on, words)}")
    for line in filter(None, (word.meaning, f"values: {', '.join(word.values)}" if word.values else "")):
        _fold(screen, line)
    if word.cel:
        releases = releases_with(words.driver, word.name)
        if releases and releases != words.releases:
            _fold(screen, f"releases: {', '.join(releases)}")
        screen.line("    example:")  # not folded, to be copied
        screen.line(f"      {word.cel}")


# --- lines -----------------------------------------------------------------------------------------------------------


def _fold(screen: Screen, text: str, indent: str = "    ") -> None:
    for line in folded(text, screen.width, indent):
        screen.line(line)


def _heading(screen: Screen, text: str) -> None:
    """Print a heading in bold."""
    rest = text.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    capitals = text.removesuffix(rest).rstrip()
    screen.line()
    screen.line(screen.paint(capitals, "bold") + text.removeprefix(capitals))


def _entry(screen: Screen, name: str, facts: str, meaning: str, values: str = "") -> None:
    _fold(screen, f"{name}{'  ' if facts else ''}{facts}", "  ")
    for text in filter(None, (meaning, values)):
        for line in folded(text, screen.width, "    "):
            screen.line(screen.paint(line, "dim"))


def _values(term: Attribute | Capacity) -> str:
    if not isinstance(term, Attribute) or not term.values:
        return ""
    return f"{'one of' if term.closed else 'known:'} {', '.join(term.values)}"


def _on(on: Mapping[str, Presence], words: Vocabulary) -> str:
    """Return the device types with an entry, if the driver has several types."""
    parts = [name for name, presence in on.items() if presence == "always" and name]
    parts += [f"some {name or 'devices'}" for name, presence in on.items() if presence == "sometimes"]
    return f" on {', '.join(parts)}" if parts else ""


def _short(name: str, words: Vocabulary) -> str:
    """Return a name as in selectors: without the driver's own domain."""
    return name.removeprefix(f"{words.driver}/")


def _numbered(names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Merge names that differ only in a trailing number: ``memorySlice0…11``."""
    sizes = Counter(name.rstrip(_DIGITS) for name in names)
    groups: dict[str, list[str]] = {}
    for name in names:
        bare = name.rstrip(_DIGITS)
        groups.setdefault(bare if bare != name and sizes[bare] > 1 else name, []).append(name)
    for bare, members in groups.items():
        last = members[-1].removeprefix(bare)
        yield (members[0] if len(members) == 1 else f"{members[0]}…{last}"), members
