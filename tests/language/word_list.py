"""``docs/language.toml``: the glossary and the words to avoid, read and compiled.

The tables of the file are the fields of ``Term``, ``Avoid`` and ``Quote``; the head of the file explains
them. Texts are searched in lower case.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import msgspec

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCE: Final = ROOT / "docs" / "language.toml"

#: The categories of text. The first four are read by users.
Category = Literal["help", "message", "deploy", "docs", "docstring", "comment", "name"]
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)
#: The kinds of names in Python source.
NameKind = Literal["module", "class", "function", "parameter", "variable", "attribute", "key"]

#: A word ends where no identifier, path, option or URL goes on.
_BEFORE: Final = r"(?<![\w./\\$@<-])"
_AFTER: Final = r"(?![\w(=/-]|\.\w)"
#: Identifiers in code quotes, links and URLs are not prose: ``told``, [text](told.md).
_CODE: Final = re.compile(r"(`+)[^`\s]+\1|\]\([^)\s]*\)|https?://\S+")


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A term of the glossary. ``link`` leads to the documentation that defines it, ``page`` to our page on it."""

    term: str
    group: Literal["Kubernetes", "Devices", "Planning", "Allotment"]
    meaning: str
    link: str = ""
    page: str = ""


class Avoid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A word to avoid: where it is found, what to use, and an example of each."""

    word: str
    use: str
    prose: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    only: tuple[Category, ...] = ()
    names: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    bad: str = ""
    good: str = ""
    note: str = ""


class Quote(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A text of another project that Allotment repeats to the letter."""

    text: str
    source: str


class WordList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    avoid: tuple[Avoid, ...]
    term: tuple[Term, ...] = ()
    quote: tuple[Quote, ...] = ()


class Match(NamedTuple):
    """A word to avoid in a text, with its position."""

    avoid: Avoid
    start: int
    end: int


def read(path: Path = SOURCE) -> WordList:
    """The word list of a file."""
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), WordList)


class Searcher:
    """Finds the words of a list in prose and in names."""

    def __init__(self, words: WordList) -> None:
        self._any = {category: _any_of(words.avoid, category) for category in CATEGORIES}
        self._each = {category: list(_each_of(words.avoid, category)) for category in CATEGORIES}
        self._unless = {
            entry.word: re.compile("|".join(entry.unless), re.ASCII) for entry in words.avoid if entry.unless
        }
        self._quotes = re.compile("|".join(re.escape(quote.text.lower()) for quote in words.quote) or r"(?!)")
        self._names = _NameTable(words.avoid)

    def in_prose(self, text: str, category: Category) -> Iterator[Match]:
        """The words to avoid in a text whose white space is single blanks."""
        lowered = text.lower()
        if not self._any[category].search(lowered):  # most texts, once the wording is right
            return
        masked = self._quotes.sub(_mask, _CODE.sub(_mask, lowered))
        for found in self._any[category].finditer(masked):
            entry, end = self._entry_at(found, category)
            unless = self._unless.get(entry.word)
            if not (unless and any(one.start() <= found.start() < one.end() for one in unless.finditer(masked))):
                yield Match(entry, found.start(), end)

    def _entry_at(self, found: re.Match[str], category: Category) -> tuple[Avoid, int]:
        """The first entry with a pattern that matches where any does, and the end of that match."""
        matches = ((entry, pattern.match(found.string, found.start())) for entry, pattern in self._each[category])
        return next((entry, match.end()) for entry, match in matches if match)

    def in_name(self, name: str, kind: NameKind) -> Avoid | None:
        """The entry that a name in source is to avoid, if any."""
        return self._names.find(name, kind)


@cache
def searcher() -> Searcher:
    """The searcher for the words of this project."""
    return Searcher(read())


def name_parts(name: str) -> list[str]:
    """The words of an identifier, in lower case.

    >>> name_parts("_GpuConfig"), name_parts("is_going_by"), name_parts("MIGDevice")
    (['gpu', 'config'], ['is', 'going', 'by'], ['mig', 'device'])
    """
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


class _NameTable:
    """Entries by the first word of the names that they forbid, and by whole names of modules and classes."""

    def __init__(self, entries: Sequence[Avoid]) -> None:
        self._parts: dict[str, list[tuple[list[str], Avoid]]] = {}
        self._whole: dict[tuple[str, str], Avoid] = {}
        for entry in entries:
            for name in entry.names:
                parts = name.split("_")
                self._parts.setdefault(parts[0], []).append((parts, entry))
            self._whole.update({("module", name): entry for name in entry.modules})
            self._whole.update({("class", name.lower()): entry for name in entry.classes})

    def find(self, name: str, kind: NameKind) -> Avoid | None:
        if entry := self._whole.get((kind, name.strip("_").lower())):
            return entry
        words = name_parts(name)
        for position, word in enumerate(words):
            for parts, entry in self._parts.get(word, ()):
                if words[position : position + len(parts)] == parts:
                    return entry
        return None


def _each_of(entries: Sequence[Avoid], category: Category) -> Iterator[tuple[Avoid, re.Pattern[str]]]:
    for entry in entries:
        if entry.prose and (not entry.only or category in entry.only):
            yield entry, _bounded(entry.prose)


def _any_of(entries: Sequence[Avoid], category: Category) -> re.Pattern[str]:
    """All patterns for a category as one without groups: several times as fast as one with a group for each."""
    return _bounded([pattern for entry, _ in _each_of(entries, category) for pattern in entry.prose])


def _bounded(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile(rf"\b{_BEFORE}(?:{'|'.join(patterns)}){_AFTER}", re.ASCII)


def _mask(found: re.Match[str]) -> str:
    return "\0" * len(found[0])
