"""Base64 as Go reads it, and the byte at which it stops."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.base64_text import base64_error_offset, is_base64


# What Go 1.26 says of these.
@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", None), ("AAAA", None), ("AA==", None), ("AA\n==\r\n", None), ("abc", 0), ("aGVsbG8", 4), ("AZAA=", 4),
        ("AA9\nA=", 5), ("A===", 1), ("AA=", 3), ("AA=A", 2), ("AAA=A", 4), ("%", 0), ("AA\u00fc", 2), ("=", 0),
    ],
)  # fmt: skip
def test_faults_are_where_go_finds_them(text: str, fault: int | None) -> None:
    assert base64_error_offset(text.encode()) == fault
    assert not (is_base64(text) and fault is not None)


@given(st.binary(max_size=20), st.integers(0, 30))
def test_what_was_encoded_has_no_fault(data: bytes, place: int) -> None:
    text = base64.b64encode(data).decode()
    assert is_base64(text)
    assert base64_error_offset((text[:place] + "\n" + text[place:]).encode()) is None
