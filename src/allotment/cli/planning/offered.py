"""``--catalog``: providers of the packaged catalogue, and files of one's own on top of it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from allotment.cli.catalog_choosing import Opened, opened
from allotment.cli.mistakes import Mistake
from allotment.fleet.errors import nearest


class Offered(NamedTuple):
    """What can be bought, and of whom; no providers: of all."""

    catalog: Opened
    providers: tuple[str, ...]


def offered(words: Iterable[str]) -> Offered:
    """The catalogue that ``--catalog`` means: ``aws,gcp`` are providers, what looks like a file is one."""
    files = [word for word in words if _is_file(word)]
    names = [name.strip() for word in words if not _is_file(word) for name in word.split(",") if name.strip()]
    catalog = opened(files)
    known = list(dict.fromkeys(one.provider for one in catalog.types))
    for name in names:
        if name not in known:
            hint = nearest(name, known) or f"there are {', '.join(known)}; a file of your own ends in .csv"
            raise Mistake(f"--catalog: no provider {name!r}", hint)
    return Offered(catalog, tuple(names))


def _is_file(word: str) -> bool:
    return "/" in word or word.lower().endswith(".csv") or Path(word).is_file()
