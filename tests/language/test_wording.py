"""The help of every command contains no word to avoid; ``python -m tests.language`` prints the hits elsewhere."""

from __future__ import annotations

from tests.language.help_pages import hits_in_help
from tests.language.word_list import searcher


def test_help_is_plain_english() -> None:
    found = [str(hit) for hit in hits_in_help(searcher())]
    assert not found, "\n".join([f"{len(found)} words to avoid:", *found])
