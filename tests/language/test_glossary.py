"""The glossary is generated from the word list, and pages can link to each term."""

from __future__ import annotations

from tests.docs import screens
from tests.language import glossary
from tests.language.word_list import read


def test_the_page_is_up_to_date() -> None:
    hint = "run `python -m tests.packaging.made_files`"
    assert glossary.PAGE.read_text(encoding="utf-8") == glossary.page(), f"{glossary.PAGE}: {hint}"


def test_each_term_has_a_heading_of_its_own() -> None:
    headings = screens.headings(glossary.page())
    assert {"resourceclaim", "lower-bound", "prepare-unprepare", "words-to-avoid"} <= headings
    titles = [line for line in glossary.page().splitlines() if line.startswith("#")]
    assert len(titles) == len(headings), "two headings with the same anchor"
    assert len(titles) == len(read().term) + 6


def test_the_readme_links_to_the_page() -> None:
    assert "docs/reference/glossary.md" in screens.links((screens.ROOT / "README.md").read_text(encoding="utf-8"))
