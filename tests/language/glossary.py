"""``docs/reference/glossary.md``, generated from the word list: a heading for each term, to which pages link, and the
words to avoid.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from textwrap import fill
from typing import Final

from tests.language.word_list import ROOT, Avoid, Term, WordList, read

_DOCS: Final = ROOT / "docs"
PAGE: Final = _DOCS / "reference" / "glossary.md"
_KUBERNETES: Final = "https://kubernetes.io/docs/"
_WIDTH: Final = 100
_GROUPS: Final = {
    "Kubernetes": "Terms of Kubernetes and of the projects around it, as their documentation uses them.",
    "Devices": "Terms of accelerators and of the machines that contain them.",
    "Planning": "Terms of `allot plan`, `allot replay` and the autoscaler; most come from operations research.",
    "Allotment": "Terms of this project.",
}


def page() -> str:
    """The text of the page."""
    words = read()
    parts = [
        "# Glossary",
        _filled(
            "The terms of this project, and the words that it avoids. Made from [language.toml](../language.toml) by "
            "`python -m tests.packaging.made_files`."
        ),
        *_terms(words),
        "## Words to avoid",
        _filled(
            "Identifiers, messages, comments and pages use the terms above and plain technical English. "
            "`python -m tests.language [PATH…]` finds the words in the first column."
        ),
        "\n".join(_table(words.avoid)),
    ]
    return "\n\n".join(parts) + "\n"


def _terms(words: WordList) -> Iterator[str]:
    for group, summary in _GROUPS.items():
        yield f"## {group}"
        yield summary
        for term in words.term:
            if term.group == group:
                yield f"### {term.term}"
                yield _filled(f"{term.meaning}{_links(term)}")


def _links(term: Term) -> str:
    links = []
    if term.link:
        absolute = term.link.startswith("https://")
        links.append(f"[{'Reference' if absolute else 'Kubernetes'}]({'' if absolute else _KUBERNETES}{term.link})")
    if term.page:
        target = os.path.relpath(_DOCS / term.page, PAGE.parent)
        links.append(f"[{PurePosixPath(term.page.removesuffix('/index.md')).stem}]({target})")
    return f" ({', '.join(links)})" if links else ""


def _table(entries: tuple[Avoid, ...]) -> Iterator[str]:
    yield "| avoid | use |"
    yield "|---|---|"
    for entry in entries:
        yield f"| {entry.word} | {entry.use}{f' ({entry.note})' if entry.note else ''} |"


def _filled(text: str) -> str:
    return fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)
