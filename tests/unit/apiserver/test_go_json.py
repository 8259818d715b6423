"""Error messages for invalid JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.go_json import decode, syntax_error


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "unexpected end of JSON input"),
        (b'{"apiVersion":"v1",', "unexpected end of JSON input"),
        (b"\xcf<", "invalid character 'Ï' looking for beginning of value"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b"[1,]", "invalid character ']' looking for beginning of value"),
        (b'{"a":1]', "invalid character ']' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"nulx", "invalid character 'x' in literal null (expecting 'l')"),
        (b'"\\x"', "invalid character 'x' in string escape code"),
        (b'"\\u12g4"', "invalid character 'g' in \\u hexadecimal character escape"),
        (b'"a\nb"', "invalid character '\\n' in string literal"),
        (b"-a", "invalid character 'a' in numeric literal"),
        (b"1.x", "invalid character 'x' after decimal point in numeric literal"),
        (b"1ex", "invalid character 'x' in exponent of numeric literal"),
        (b'{"a":1}x', "invalid character 'x' after top-level value"),
        (b"{a:1}", "invalid character 'a' looking for beginning of object key string"),
        (b"[" * 10_001, "exceeded max depth"),
    ],
)
def test_the_first_unexpected_byte_is_reported(body: bytes, problem: str) -> None:
    assert syntax_error(body) == problem


def test_invalid_utf8_is_replaced() -> None:
    assert decode(b'{"a":"\xff"}') == {"a": "�"}
    assert decode(b'{"a":"\\ud800"}') == {"a": "�"}


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(_JSON)
def test_valid_json_has_no_error(value: object) -> None:
    body = json.dumps(value).encode()
    assert syntax_error(body) == ""
    assert decode(body) == value


@given(_JSON, st.data())
def test_truncated_containers_have_an_error(value: object, data: st.DataObject) -> None:
    body = json.dumps([value]).encode()
    assert syntax_error(body[: data.draw(st.integers(0, len(body) - 1))])


@given(st.binary(max_size=40))
def test_bytes_either_have_an_error_or_a_value(body: bytes) -> None:
    if syntax_error(body):
        with pytest.raises(ValueError, match=r"invalid character|unexpected end"):
            decode(body)
    else:
        decode(body)
