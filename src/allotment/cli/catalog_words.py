"""``--catalog aws,gcp,prices.csv``: providers of the packaged catalogue, and files of a user's own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from allotment.cli.catalog_choosing import Opened
from allotment.cli.mistakes import Mistake
from allotment.fleet.catalog import CatalogProblem, InstanceType, catalog, merged, read_catalog
from allotment.fleet.errors import nearest


def sold(options: Iterable[str]) -> Opened:
    """What is meant by such options; without any all that is packaged.

    A file changes the providers' types that it names, and adds others; alone it is the whole catalogue, on top of
    what is packaged about its types.
    """
    words = [word for option in options for word in option.split(",") if word]
    packaged = catalog()
    known = list(dict.fromkeys(one.provider for one in packaged))
    providers = [word for word in words if word in known]
    types = tuple(one for one in packaged if not words or one.provider in providers)
    rows: list[InstanceType] = []
    problems: list[CatalogProblem] = []
    texts: list[tuple[str, str]] = []
    for file in (word for word in words if word not in known):
        text = _text(file, known)
        found, wrong = read_catalog(text, file)
        rows += found
        problems += wrong
        texts.append((file, text))
    if rows:
        named = {one.key for one in rows}
        types = merged((*types, *(one for one in packaged if one.key in named and one not in types)), rows)
    return Opened(types, tuple(problems), tuple(texts))


def _text(file: str, providers: list[str]) -> str:
    path = Path(file)
    if not path.is_file():
        hint = nearest(file, providers) or f"providers are {', '.join(providers)}"
        raise Mistake(f"--catalog: {file!r} is neither a provider nor a file", hint)
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Mistake(f"{file}: wanted text (CSV in UTF-8)", "`allot catalog list -o csv` shows the form") from None
