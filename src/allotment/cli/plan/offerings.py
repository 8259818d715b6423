"""Reads ``--catalog``: providers of the packaged catalog, and files that extend it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.cli.catalog.selection import Opened, opened
from allotment.errors import InputError
from allotment.fleet.catalog import InstanceType, catalog
from allotment.fleet.errors import suggestion


class Offered(NamedTuple):
    """The available instance types, optionally only those of some providers."""

    catalog: Opened
    providers: tuple[str, ...]

    def sold(self) -> tuple[InstanceType, ...]:
        """Return the types of these providers; rejected rows are reported on standard error."""
        self.catalog.complain()
        return tuple(
            instance_type
            for instance_type in self.catalog.types
            if not self.providers or instance_type.provider in self.providers
        )


def offered(words: Iterable[str]) -> Offered:
    """Return the catalog of ``--catalog``: names such as ``aws,gcp`` are providers, the rest are files.

    Providers that exist only in the files are always included.
    """
    named = [part for word in words for part in ([word] if _is_file(word) else _parts(word))]
    files = [word for word in named if _is_file(word)]
    names = [word for word in named if not _is_file(word)]
    opened_files = opened(files)
    known = list(dict.fromkeys(instance_type.provider for instance_type in opened_files.types))
    for name in names:
        if name not in known:
            hint = suggestion(name, known) or f"known: {', '.join(known)}; files must end in .csv"
            raise InputError(f"--catalog: unknown provider {name!r}", hint)
    packaged = {instance_type.provider for instance_type in catalog()}
    own = [name for name in known if name not in packaged]
    return Offered(opened_files, tuple(dict.fromkeys([*names, *own])) if names else ())


def _parts(word: str) -> list[str]:
    return [part.strip() for part in word.split(",") if part.strip()]


def _is_file(word: str) -> bool:
    if Path(word).is_file():
        return True
    return "," not in word and ("/" in word or word.lower().endswith(".csv"))
