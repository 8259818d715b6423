"""Comments, and text that only looks like a comment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.loading import find_comments

BLOCK = """\
# head
a: |  # of the block
  # text

  more # text
# below
b: 'it # is
  still'  # after quotes
c: plain
  and more # after a plain one
d: [x, "#"] # after a list
---
# second head
e: >-
  folded # text
"""


def test_comments_are_outside_of_scalars() -> None:
    found = [(comment.line, comment.text.strip(), comment.own_line) for comment in find_comments(BLOCK).comments]
    assert found == [
        (1, "head", True),
        (2, "of the block", False),
        (6, "below", True),
        (8, "after quotes", False),
        (10, "after a plain one", False),
        (11, "after a list", False),
        (13, "second head", True),
    ]


def test_multiline_scalars_and_document_starts_are_reported() -> None:
    found = find_comments(BLOCK)
    assert found.multiline_scalars == ((2, 5), (7, 8), (9, 10), (14, 15))
    assert found.document_starts == (2, 14)


def test_column_is_that_of_the_hash() -> None:
    (comment,) = find_comments("\ufeffa: 1   #x\n").comments
    assert (comment.line, comment.column, comment.text) == (1, 8, "x")


@pytest.mark.parametrize("text", ["", "# only", "{", "a: [", 'a: "#', "\t#", "%YAML 1.1\n---\na: 1 # x\n"])
def test_any_text_is_accepted(text: str) -> None:
    assert all(comment.line >= 1 for comment in find_comments(text).comments)


@given(st.text(alphabet="ab:#'\"|>[]{}- \n\t&*!"))
def test_every_comment_starts_with_a_hash(text: str) -> None:
    lines = text.splitlines()
    for comment in find_comments(text).comments:
        assert lines[comment.line - 1][comment.column - 1] == "#"
