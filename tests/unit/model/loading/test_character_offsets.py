"""Offsets of the characters of strings, in every YAML style and in JSON."""

from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.loading import Document, load_text
from allotment.model.loading.character_offsets import character_offsets


def document(text: str) -> Document:
    (loaded_document,) = load_text(text, "a.yaml").documents
    return loaded_document


def text_of_part(text: str, part: tuple[int, int], path: str = "a") -> str:
    """The text of a part of the string at ``path``."""
    start, end = document(text).extent(path, part=part)
    lines = text.split("\n")
    if start.line == end.line:
        return lines[start.line - 1][start.column - 1 : end.column - 1]
    between = lines[start.line : end.line - 1]
    return "\n".join([lines[start.line - 1][start.column - 1 :], *between, lines[end.line - 1][: end.column - 1]])


@pytest.mark.parametrize(
    ("text", "part", "expected"),
    [
        ("a: one two\n", (4, 7), "two"),
        ("a: one\n  two\n", (2, 5), "e\n  t"),
        ("a: 'it''s it'\n", (2, 4), "''s"),
        ('a: "\\u00e9\\tb"\n', (0, 2), "\\u00e9\\t"),
        ('a: "one \\\n   two"\n', (4, 7), "two"),
        ("a: |\n  one\n  two\n", (4, 7), "two"),
        ("a: |2-\n    one\n", (2, 5), "one"),
        ("a: >-\n  one\n  two\n\n  three\n", (8, 13), "three"),
        ("b:\n- a: |\n    one\n    two\n", (4, 5), "t"),
        ('{"a": "\\ud83d\\ude00 x\\/y"}', (0, 1), "\\ud83d\\ude00"),
        ('{"a": "\\ud83d\\ude00 x\\/y"}', (3, 5), "\\/y"),
        ("a: &x !!str one\nb: *x\n", (1, 3), "ne"),
    ],
)
def test_part_of_a_string_maps_to_its_text(text: str, part: tuple[int, int], expected: str) -> None:
    path = "b[0].a" if text.startswith("b") else "a"
    assert text_of_part(text, part, path) == expected


def test_part_beyond_the_string_returns_the_whole_value() -> None:
    assert text_of_part("a: one\n", (2, 9)) == "one"


_LINE = st.text(alphabet="ab '\"#:\\é😀-", max_size=6)
_TEXT = st.lists(_LINE, max_size=4).map("\n".join)


@given(_TEXT, st.sampled_from("'\""), st.integers(1, 8))
def test_quoted_scalars_match_libyaml(value: str, style: str, width: int) -> None:
    check_scalars(yaml.safe_dump({"a": value}, default_style=style, width=width, allow_unicode=True))


@given(_TEXT, st.sampled_from("|>"), st.integers(1, 8))
def test_block_scalars_from_pyyaml_match_libyaml(value: str, style: str, width: int) -> None:
    check_scalars(yaml.safe_dump({"a": {"b": value}}, default_style=style, width=width, allow_unicode=True))


@given(
    st.sampled_from(["|", ">"]),
    st.sampled_from(["", "-", "+", "2", "1-", "+2", "3+"]),
    st.lists(st.text(alphabet="a  \t#", max_size=7), max_size=7),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_hand_written_block_scalars_match_libyaml(
    kind: str, header: str, lines: list[str], end: str, ended: bool
) -> None:
    text = end.join(["a:", f"  b: {kind}{header}", *lines]) + (end if ended else "")
    check_scalars(text)


@given(st.text(alphabet="a '\"\\n\n\r\t#:x", max_size=14), st.sampled_from(["'{}'", '"{}"', "{}"]))
def test_hand_written_flow_scalars_match_libyaml(inner: str, form: str) -> None:
    check_scalars("a:\n  b: " + form.format(inner) + "\n")


@given(st.text(max_size=8))
def test_json_strings(value: str) -> None:
    text = json.dumps(value)
    assert character_offsets(text, 0, len(text), -1).value == value


def check_scalars(text: str) -> None:
    """Check that every scalar of a text, if it can be parsed, has the value that libyaml returns."""
    try:
        events = [event for event in yaml.parse(text, yaml.CSafeLoader) if isinstance(event, yaml.ScalarEvent)]
    except yaml.YAMLError:
        return
    depth = -1
    for event in events:
        assert event.start_mark is not None
        assert event.end_mark is not None
        found = character_offsets(text, event.start_mark.index, event.end_mark.index, max(depth, 0))
        assert found.value == event.value, text
        assert all(start <= stop for start, stop in zip(found.starts, found.stops, strict=True))
        assert all(stop <= start for stop, start in zip(found.stops, found.starts[1:], strict=False))
        depth = event.start_mark.column
