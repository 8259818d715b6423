"""The page of queries and the description of the HTTP API are those of the table."""

from __future__ import annotations

from allotment.queries.table import QUERIES
from tests.docs import query_page
from tests.docs.screens import headings

HINT = "out of date; `python -m tests.packaging.made_files` updates it (then review the difference)"


def test_the_page_and_the_description_are_generated_from_the_table() -> None:
    for path, text in query_page.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is {HINT}"


def test_every_query_has_a_section() -> None:
    assert {query.name for query in QUERIES} <= headings(query_page.PAGE.read_text(encoding="utf-8"))
