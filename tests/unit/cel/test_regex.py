from __future__ import annotations

import pytest

from allotment.cel import regex


@pytest.mark.parametrize(
    ("pattern", "text"),
    # Recorded from Go's regexp.Compile.
    [
        ("[", "missing closing ]: `[`"),
        ("(", "missing closing ): `(`"),
        ("a)", "unexpected ): `a)`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        ("(?<=a)", "invalid named capture: `(?<=a)`"),
        ("\\", "trailing backslash at end of expression: ``"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        ("(x{10}){1000}", "invalid repeat count: `{1000}`"),
        (r"\pX", r"invalid character class range: `\pX`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
    ],
)
def test_errors_match_go(pattern: str, text: str) -> None:
    with pytest.raises(regex.RegexError) as failed:
        regex.compile(pattern)
    assert str(failed.value) == f"error parsing regexp: {text}"


@pytest.mark.parametrize("pattern", [r"\QC\E", r"\\C", "(?<n>a)", "{", "a{,2}", r"\pL", "^*", "(?P<n>x)(?P<n>y)"])
def test_patterns_that_go_accepts(pattern: str) -> None:
    assert regex.compile(pattern).pattern == pattern


def test_empty_matches_next_to_a_match_are_skipped() -> None:
    # Recorded from Go's FindAllString.
    assert regex.compile("a*").find_all("baaac", -1) == ["", "aaa", ""]
    assert regex.compile("").find_all("ab", -1) == ["", "", ""]
    assert regex.compile("[a-z]").find_all("abc", 2) == ["a", "b"]


def test_characters_are_code_points() -> None:
    assert regex.compile("b+").find("éabb") == "bb"
    assert regex.compile("^.$").matches("😀")


def test_matching_takes_linear_time() -> None:
    assert not regex.compile("(a*)*b").matches("a" * 100_000)
