"""Versions: strict and lenient spellings, error messages, order."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.semver import Semver, SemverError


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1.2.3.4", 'Invalid character(s) found in patch number "3.4"'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a_b", 'Invalid character(s) found in build meta data "a_b"'),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-é", 'Invalid character(s) found in prerelease "é"'),
        ("1.2.x\n", 'Invalid character(s) found in patch number "x\\n"'),
        ("1..3", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("18446744073709551616.0.0", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
        ("١.2.3", 'Invalid character(s) found in major number "١"'),
    ],
)
def test_error_messages(text: str, error: str) -> None:
    with pytest.raises(SemverError, match=f"^{re.escape(error)}$"):
        Semver.parse(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [("v1", "1.0.0"), ("1.2", "1.2.0"), ("01.02.03", "1.2.3"), ("000", "0.0.0"), ("v1.2.007-rc+b", "1.2.7-rc+b")],
)
def test_lenient_spellings(text: str, version: str) -> None:
    assert str(Semver.parse(text, normalize=True)) == version
    with pytest.raises(SemverError):
        Semver.parse(text)


@pytest.mark.parametrize("text", ["1.2-alpha", "1+b"])
def test_short_versions_have_no_metadata(text: str) -> None:
    with pytest.raises(SemverError, match=r"^short version cannot contain PreRelease/Build meta data$"):
        Semver.parse(text, normalize=True)


def test_order_matches_semver_2() -> None:
    texts = ["0.9.9", "1.0.0-1", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11",
             "1.0.0-rc.1", "1.0.0", "1.9.0", "1.10.0"]  # fmt: skip
    versions = [Semver.parse(text) for text in texts]
    assert sorted([*versions[5:], *versions[:5]]) == versions
    assert [str(version) for version in versions] == texts


def test_build_metadata_is_ignored_and_values_are_immutable() -> None:
    first, second = Semver.parse("1.0.0+a"), Semver.parse("1.0.0+b")
    assert (first, hash(first)) == (second, hash(second))
    assert str(pickle.loads(pickle.dumps(first))) == "1.0.0+a"
    with pytest.raises(AttributeError):
        first.major = 2
    with pytest.raises(AttributeError):
        del first.major


@given(
    st.text(max_size=20) | st.from_regex(r"v?[0-9]{0,3}(\.[0-9]{0,3}){0,3}[-+]?[a-z0-9.+-]{0,6}", fullmatch=True),
    st.booleans(),
)
def test_any_text_is_a_version_or_an_error(text: str, normalize: bool) -> None:
    try:
        version = Semver.parse(text, normalize=normalize)
    except SemverError:
        return
    assert Semver.parse(str(version)) == version


CALL = re.compile(r'semver\("([^"\\]*)"(, true)?\)(?:\.(\w+)\((?:semver\("([^"]*)"\))?\))?')


def test_recorded_cel_results(shared: Callable[[str], Path]) -> None:
    methods: dict[str, Callable[[Semver, Semver], Any]] = {
        "isGreaterThan": lambda a, b: a > b,
        "isLessThan": lambda a, b: a < b,
        "compareTo": lambda a, b: (a > b) - (a < b),
        "major": lambda a, _: a.major - 2**64 if a.major >= 2**63 else a.major,
        "minor": lambda a, _: a.minor,
    }
    seen = 0
    with gzip.open(shared("vectors/cel/generated.jsonl.gz"), "rt") as lines:
        for case in map(json.loads, lines):
            chain = CALL.fullmatch(case["expression"])
            if not case["group"].startswith("semver") or not chain or "compileError" in case["expect"]:
                continue
            text, normalize, method, other = chain.groups()
            answer: Any
            try:
                answer = version = Semver.parse(text, normalize=bool(normalize))
                if method:
                    answer = methods[method](version, Semver.parse(other) if other else version)
            except SemverError as error:
                answer = str(error)
            expected = case["expect"].get("error") or case["expect"]["value"]["v"]
            assert (str(answer) if isinstance(answer, Semver) else answer) == expected, case["expression"]
            seen += 1
    assert seen > 80
