"""``--catalog``: providers of the packaged catalog, and files that extend it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.cli.catalog.selection import Opened, opened
from allotment.cli.output.errors import Mistake
from allotment.fleet.catalog import InstanceType, catalog
from allotment.fleet.errors import suggestion


class Offered(NamedTuple):
    """What can be bought, and of whom; no providers: of all."""

    catalog: Opened
    providers: tuple[str, ...]

    def sold(self) -> tuple[InstanceType, ...]:
        """The types of these providers; which rows were left out is said on standard error."""
        self.catalog.complain()
        return tuple(one for one in self.catalog.types if not self.providers or one.provider in self.providers)


def offered(words: Iterable[str]) -> Offered:
    """The catalogue that ``--catalog`` means: ``aws,gcp`` are providers, what looks like a file is one.

    Providers that only files have may be bought from, whichever others are named: the file is named, too.
    """
    named = [part for word in words for part in ([word] if _is_file(word) else _parts(word))]
    files = [word for word in named if _is_file(word)]
    names = [word for word in named if not _is_file(word)]
    opened_files = opened(files)
    known = list(dict.fromkeys(one.provider for one in opened_files.types))
    for name in names:
        if name not in known:
            hint = suggestion(name, known) or f"known: {', '.join(known)}; files must end in .csv"
            raise Mistake(f"--catalog: no provider {name!r}", hint)
    packaged = {one.provider for one in catalog()}
    own = [name for name in known if name not in packaged]
    return Offered(opened_files, tuple(dict.fromkeys([*names, *own])) if names else ())


def _parts(word: str) -> list[str]:
    return [part.strip() for part in word.split(",") if part.strip()]


def _is_file(word: str) -> bool:
    if Path(word).is_file():
        return True
    return "," not in word and ("/" in word or word.lower().endswith(".csv"))
