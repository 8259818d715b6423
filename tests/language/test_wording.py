"""No text that users read contains a word to avoid; ``python -m tests.language`` prints the hits in other text, too."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.language.files import READ_BY_PEOPLE, Hit, files_below, hits_in_file
from tests.language.help_pages import hits_in_help
from tests.language.word_list import ROOT, Category, searcher


@pytest.fixture(scope="module")
def hits() -> list[Hit]:
    """The words to avoid in all files that users and contributors read."""
    files = (file for name in READ_BY_PEOPLE for file in files_below(ROOT / name))
    return [hit for file in files for hit in hits_in_file(file, searcher())]


@pytest.mark.parametrize("category", ["message", "deploy", "docs"])
def test_files_are_in_plain_english(category: Category, hits: list[Hit]) -> None:
    _assert_none(hit for hit in hits if hit.category == category)


def test_help_is_in_plain_english() -> None:
    _assert_none(hits_in_help(searcher()))


def _assert_none(hits: Iterable[Hit]) -> None:
    found = [str(hit) for hit in hits]
    assert not found, "\n".join([f"{len(found)} words to avoid:", *found])
