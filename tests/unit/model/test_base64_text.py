"""Base64 as Go decodes it, and the offset of its errors."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from allotment.model.base64_text import base64_error_offset, is_base64


# The offsets are those of Go 1.26.
@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("", None), ("AAAA", None), ("AA==", None), ("AA\n==\r\n", None), ("abc", 0), ("aGVsbG8", 4), ("AZAA=", 4),
        ("AA9\nA=", 5), ("A===", 1), ("AA=", 3), ("AA=A", 2), ("AAA=A", 4), ("%", 0), ("AA\u00fc", 2), ("=", 0),
    ],
)  # fmt: skip
def test_error_offset_is_that_of_go(text: str, offset: int | None) -> None:
    assert base64_error_offset(text.encode()) == offset
    assert not (is_base64(text) and offset is not None)


@pytest.mark.parametrize("end", ["", "%", "A", "=", "A==="])
@pytest.mark.parametrize("line", ["AAAA" * 19, "AAAA" * 19 + "\n"])
def test_large_data_is_checked_in_few_steps(line: str, end: str) -> None:
    """The number of executed lines does not depend on the size."""

    def check(lines: int) -> tuple[int | None, int]:
        steps = 0

        def count(frame: FrameType, event: str, argument: object) -> Callable[..., Any]:
            nonlocal steps
            steps += event == "line"
            return count

        data = (line * lines + end).encode()
        previous = sys.gettrace()
        sys.settrace(count)
        try:
            offset = base64_error_offset(data)
        finally:
            sys.settrace(previous)
        return offset, steps

    (small, few), (large, many) = check(1), check(20_000)
    assert few == many
    assert (small is None, large is None) == (not end, not end)
    if small is not None and large is not None:
        assert large - small == 19_999 * len(line)


@given(st.text("Aa0+/=\n\r%", max_size=12))
@example("AAAA====")
def test_texts_without_an_error_offset_are_base64_but_for_line_breaks(text: str) -> None:
    is_valid = is_base64(text.replace("\n", "").replace("\r", ""))
    assert (base64_error_offset(text.encode()) is None) == is_valid


@given(st.binary(max_size=20), st.integers(0, 30))
def test_encoded_data_is_valid(data: bytes, position: int) -> None:
    text = base64.b64encode(data).decode()
    assert is_base64(text)
    assert base64_error_offset((text[:position] + "\n" + text[position:]).encode()) is None
