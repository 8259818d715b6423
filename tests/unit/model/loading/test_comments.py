"""What is a comment and what is text only looks like one."""

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


def test_comments_stand_outside_of_scalars() -> None:
    found = [(comment.line, comment.text.strip(), comment.alone) for comment in find_comments(BLOCK).comments]
    assert found == [
        (1, "head", True),
        (2, "of the block", False),
        (6, "below", True),
        (8, "after quotes", False),
        (10, "after a plain one", False),
        (11, "after a list", False),
        (13, "second head", True),
    ]


def test_scalars_of_several_lines_and_starts_of_documents_are_told() -> None:
    found = find_comments(BLOCK)
    assert found.scalars == ((2, 5), (7, 8), (9, 10), (14, 15))
    assert found.documents == (2, 14)


def test_columns_point_at_the_hash() -> None:
    (comment,) = find_comments("\ufeffa: 1   #x\n").comments
    assert (comment.line, comment.column, comment.text) == (1, 8, "x")


@pytest.mark.parametrize("text", ["", "# only", "{", "a: [", 'a: "#', "\t#", "%YAML 1.1\n---\na: 1 # x\n"])
def test_any_text_has_comments_or_none(text: str) -> None:
    assert all(comment.line >= 1 for comment in find_comments(text).comments)


@given(st.text(alphabet="ab:#'\"|>[]{}- \n\t&*!"))
def test_every_comment_begins_with_its_hash(text: str) -> None:
    lines = text.splitlines()
    for comment in find_comments(text).comments:
        assert lines[comment.line - 1][comment.column - 1] == "#"
