"""The attributes, capacities, classes, gates and parameters of drivers, by release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import to_builtins

from allotment.engine.diagnosis.published_names import similar_names
from allotment.errors import InputError
from allotment.model.trees import to_tree
from allotment.vocabulary import Vocabulary, drivers, mistaken_drivers, vendors
from allotment.vocabulary import vocabulary as find_vocabulary
from allotment.vocabulary.changes import VocabularyChange, changes
from allotment.vocabulary.changes import meanings_by_name as names_of
from allotment.vocabulary.lookup import VocabularyEntry, find
from allotment.vocabulary.parameters.fields import ParameterField, fields_of
from allotment.vocabulary.parameters.kinds import kinds_of


def vocabulary(driver: str = "", name: str = "", *, release: str = "") -> dict[str, Any]:
    """Return the known drivers; with ``driver``, what it publishes; with ``name``, only entries that contain this text.

    ``driver``: a full name, or a vendor (``"nvidia"``). ``release``: of the driver, by default the newest known. Raises
    InputError.

    The keys: ``drivers``, or with ``name`` ``found``. The keys of a known driver: ``driver``, ``vendor``, ``title``,
    ``releases``. The keys of what it publishes: ``driver``, ``vendor``, ``title``, ``release``, ``releases``,
    ``types``, ``attributes``, ``capacities``, ``classes``, ``renamed``, ``gates``, ``configs``, ``helm``, ``mistaken``,
    ``guessed``, ``guessedClasses``, ``published``, ``parameters``, ``changes``. The keys of an entry: ``driver``,
    ``sort``, ``name``, ``meaning``, ``kind``, ``on``, ``cel``, ``values``.
    """
    if not driver:
        rows = [
            {"driver": each.driver, "vendor": each.vendor, "title": each.title, "releases": list(each.releases)}
            for each in map(vocabulary_of, drivers())
        ]
        return {"drivers": rows}
    chosen = vocabularies(driver, release)
    if not name:
        return {"drivers": [_vocabulary_data(each) for each in chosen]}
    return {"found": [{"driver": each.driver, **_named_data(entry)} for each, entry in entries(chosen, name)]}


def vocabularies(driver: str, release: str = "") -> list[Vocabulary]:
    """Return the vocabulary of a driver, or those of a vendor's drivers. Raises InputError."""
    return [vocabulary_of(name, release) for name in _matching_drivers(driver)]


def vocabulary_of(driver: str, release: str = "") -> Vocabulary:
    """Return the vocabulary of a driver's release, by default the newest known. Raises InputError."""
    try:
        found = find_vocabulary(driver, release)
    except ValueError as error:
        raise InputError(str(error), f"`allot vocabulary {driver}` shows what changed between releases") from None
    assert found is not None
    return found


def entries(chosen: Sequence[Vocabulary], text: str) -> list[tuple[Vocabulary, VocabularyEntry]]:
    """Return the entries whose names contain a text. Raises InputError if there are none."""
    found = [(each, entry) for each in chosen for entry in find(each, text)]
    if found:
        return found
    names = [name.rpartition("/")[2] for each in chosen for _, name in names_of(each)]
    likely = similar_names(text, names, 3)
    raise InputError(
        f"no name in the vocabulary of {' and '.join(each.driver for each in chosen)} contains {text!r}",
        f"did you mean {' or '.join(likely)}?" if likely else f"`allot vocabulary {chosen[0].vendor}` lists all names",
    )


def _matching_drivers(text: str) -> tuple[str, ...]:
    """Return the drivers of a vendor, or the driver of that name. Raises InputError."""
    by_vendor = vendors()
    if text in drivers():
        return (text,)
    if text in by_vendor:
        return by_vendor[text]
    intended = mistaken_drivers().get(text)
    if intended is not None:
        return (intended,)
    known = (*by_vendor, *drivers())
    likely = similar_names(text, known, 2)
    raise InputError(
        f"unknown driver {text!r}: expected a vendor ({', '.join(by_vendor)}) or a driver's full name",
        f"did you mean {' or '.join(likely)}?" if likely else "`allot vocabulary` lists all drivers",
    )


def _vocabulary_data(words: Vocabulary) -> dict[str, Any]:
    data: dict[str, Any] = to_tree(words)
    data["parameters"] = [
        {"apiVersion": version, "kind": kind, "fields": [_field_data(field) for field in fields_of(type_)]}
        for (version, kind), type_ in (kinds_of(words.driver, words.release) or {}).items()
    ]
    data["changes"] = [
        {"release": release, "changes": [_named_data(change) for change in listed]}
        for release, listed in changes(words.driver)
    ]
    return data


def _field_data(field: ParameterField) -> dict[str, Any]:
    return {"name": field.name, "type": field.type} | ({"values": list(field.values)} if field.values else {})


#: Keys of JSON that differ from the names of fields.
_KEYS: Final = {"entry_type": "sort", "name_type": "sort", "change_type": "how"}


def _named_data(value: VocabularyEntry | VocabularyChange) -> dict[str, Any]:
    data: dict[str, Any] = to_builtins(value._asdict())  # copies
    return {_KEYS.get(key, key): value for key, value in data.items() if value}
