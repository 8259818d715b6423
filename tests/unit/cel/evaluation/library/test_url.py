from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.cel.evaluation.library.url import OVERLOADS, request_uri_error, url


@pytest.mark.parametrize(
    ("text", "error"),
    # Recorded from Go's url.ParseRequestURI.
    [
        ("", "empty url"),
        ("http", "invalid URI for request"),
        ("http://a b/", 'invalid character " " in host name'),
        ("http://a/%zz", 'invalid URL escape "%zz"'),
        ("http://a:port/", 'invalid port ":port" after host'),
        ("http://[::1", "missing ']' in host"),
        ("http://a:80:90/", 'invalid port ":80:90" after host'),
        ("http://us er@b/", "net/url: invalid userinfo"),
        ("1http://a", "invalid URI for request"),
        (":a", "missing protocol scheme"),
        ("http://a%41b/", 'invalid URL escape "%41"'),
        ("/%", 'invalid URL escape "%"'),
        ("http://[a]/", 'invalid host: ParseAddr("a"): unable to parse IP'),
        ("http://a", None),
        ("/", None),
        ("//", None),
        ("*", None),
        ("mailto:a@b", None),
        ("http://a<b/", None),
        ("/a b", None),
        ("http://a@b@c/", None),
        ("http://é/", None),
        ("urn:x%20y", None),
    ],
)
def test_request_uri_errors_match_go(text: str, error: str | None) -> None:
    assert request_uri_error(text) == (None if error is None else f'parse "{text}": {error}')


@pytest.mark.parametrize(
    ("text", "scheme", "host", "hostname", "port", "path", "printed"),
    [
        ("http://[::1]:80", "http", "[::1]:80", "::1", "80", "", "http://[::1]:80"),
        ("http://a@b@c/", "http", "c", "c", "", "/", "http://a%40b@c/"),
        ("//h?x", "", "h", "h", "", "", "//h?x"),
        ("http://%E4%B8%96/", "http", "世", "世", "", "/", "http://%E4%B8%96/"),
        ("/[x]{y}", "", "", "", "", "/%5Bx%5D%7By%7D", "/%5Bx%5D%7By%7D"),
        ("http://a/a%2fb?x", "http", "a", "a", "", "/a%2fb", "http://a/a%2fb?x"),
        ("http://", "http", "", "", "", "", "http:"),
        ("x:/a:b", "x", "", "", "", "/a:b", "x:/a:b"),
        ("http://a/b#c d", "http", "a", "a", "", "/b", "http://a/b#c%20d"),
        ("http://[fe80::1%25eth0]/", "http", "[fe80::1%eth0]", "fe80::1%eth0", "", "/", "http://[fe80::1%25eth0]/"),
    ],
)
def test_parts_of_a_url(text: str, scheme: str, host: str, hostname: str, port: str, path: str, printed: str) -> None:
    parsed = url(text)
    names = ("scheme", "host", "hostname", "port", "escaped_path")
    assert [OVERLOADS[f"url_get_{name}"](parsed) for name in names] == [scheme, host, hostname, port, path]
    assert str(parsed) == printed


def test_query_parameters_are_parsed_as_in_go() -> None:
    query = OVERLOADS["url_get_query"](url("/?k=1&k=2&x=&a=%zz&b=1;c=2&d&p=a+b%2B"))
    assert {k: list(v) for k, v in query.entries.values()} == {"k": ["1", "2"], "x": [""], "d": [""], "p": ["a b+"]}


@given(st.text(max_size=40))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    if request_uri_error(text) is None and "#" not in text:
        assert request_uri_error(str(url(text))) is None or str(url(text)) == ""
