"""The catalog of instance types: the packaged one, extended by the user's files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.errors import InputError, InvalidManifests
from allotment.fleet.catalog import InstanceType, catalog, merged, read_catalog
from allotment.fleet.errors import suggestion
from allotment.model.problems import InputProblem
from allotment.phrases import split_words


class Catalog(NamedTuple):
    """Instance types. ``problems``: errors of rows that are ignored; ``texts``: the files, by name.

    ``providers``: the selected ones; empty: all.
    """

    types: tuple[InstanceType, ...]
    problems: tuple[InputProblem, ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    providers: tuple[str, ...] = ()

    @property
    def selected_types(self) -> tuple[InstanceType, ...]:
        """The types of the selected providers."""
        return tuple(type_ for type_ in self.types if not self.providers or type_.provider in self.providers)

    @property
    def error(self) -> InvalidManifests:
        """The errors of ignored rows as an exception."""
        return InvalidManifests(self.problems, dict(self.texts).get)


def read_catalog_files(files: Iterable[str | os.PathLike[str]]) -> Catalog:
    """Return the packaged catalog, extended by CSV files in their order. Raises InputError."""
    types = catalog()
    problems: list[InputProblem] = []
    texts: list[tuple[str, str]] = []
    for file in _paths(files):
        if "." not in file and "/" not in file and not Path(file).exists():
            hint = f"to list the types of a provider: allot catalog list {file}"
            raise InputError(f"file not found: {file!r}", hint, argument="catalog")
        try:
            text = Path(file).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            hint = "`allot catalog list -o csv` shows the format"
            raise InputError(f"{file}: expected a CSV file in UTF-8", hint) from None
        rows, wrong = read_catalog(text, file)
        types = merged(types, rows)
        problems += wrong
        texts.append((file, text))
    return Catalog(types, tuple(problems), tuple(texts))


def select_catalog(names_and_files: Iterable[str | os.PathLike[str]]) -> Catalog:
    """Return the catalog of providers such as ``aws`` and ``aws,gcp``, and of CSV files; without any, all types.

    Providers that exist only in the files are always included. Raises InputError.
    """
    named = [part for word in _paths(names_and_files) for part in ([word] if _is_file(word) else split_words(word))]
    names = [word for word in named if not _is_file(word)]
    found = read_catalog_files(word for word in named if _is_file(word))
    known = list(dict.fromkeys(instance_type.provider for instance_type in found.types))
    for name in names:
        if name not in known:
            hint = suggestion(name, known) or f"known: {', '.join(known)}; files must end in .csv"
            raise InputError(f"unknown provider {name!r}", hint, argument="catalog")
    packaged = {instance_type.provider for instance_type in catalog()}
    own = [name for name in known if name not in packaged]
    return found._replace(providers=tuple(dict.fromkeys([*names, *own])) if names else ())


def _paths(files: str | Iterable[str | os.PathLike[str]]) -> list[str]:
    return [files] if isinstance(files, str) else [os.fspath(file) for file in files]


def _is_file(word: str) -> bool:
    if Path(word).is_file():
        return True
    return "," not in word and ("/" in word or word.lower().endswith(".csv"))
