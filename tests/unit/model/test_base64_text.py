"""Base64 as Go decodes it, and the offset of its errors."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
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


@given(st.binary(max_size=20), st.integers(0, 30))
def test_encoded_data_is_valid(data: bytes, position: int) -> None:
    text = base64.b64encode(data).decode()
    assert is_base64(text)
    assert base64_error_offset((text[:position] + "\n" + text[position:]).encode()) is None
