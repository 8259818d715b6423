from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.validation import names
from allotment.model.validation.qualified_names import fully_qualified_name, qualified_name
from tests.unit.model.validation.validating import texts

LABEL = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"  # noqa: E501


def test_label_errors_match_the_api_server() -> None:
    assert names.label_problems("gpu-0") == []
    assert names.label_problems("") == [LABEL]
    assert names.label_problems("a/b") == [LABEL]
    assert names.label_problems("a.b") == ["must not contain dots"]
    assert names.label_problems("a" * 64) == ["must be no more than 63 characters"]


def test_lengths_of_label_keys_and_values_are_in_bytes() -> None:
    assert names.label_key_problems("x/" + "a" * 64) == ["name part must be no more than 63 bytes"]
    assert names.label_key_problems("a" * 254 + "/x") == ["prefix part must be no more than 253 bytes"]
    assert names.label_value_problems("a" * 64) == ["must be no more than 63 bytes"]


@pytest.mark.parametrize(
    ("key", "starts"),
    [
        ("", ["name part must be non-empty", "name part must consist of"]),
        ("/x", ["prefix part must be non-empty"]),
        ("Bad/x", ["prefix part a lowercase RFC 1123 subdomain"]),
        ("a/b/c", ["a valid label key must consist of"]),
        ("a/", ["name part must be non-empty", "name part must consist of"]),
        ("example.com/ok_Name", []),
    ],
)
def test_label_keys(key: str, starts: list[str]) -> None:
    problems = names.label_key_problems(key)
    assert len(problems) == len(starts)
    assert all(problem.startswith(start) for problem, start in zip(problems, starts, strict=True))


def test_driver_names_can_have_upper_case() -> None:
    assert texts(names.driver_name("GPU.example.com", "d")) == []
    assert texts(names.driver_name("", "d")) == ["d: Required value"]
    assert [str(e).partition(":")[0] for e in names.driver_name("x_" * 40, "d")] == ["d", "d"]


def test_every_part_of_a_pool_name_is_checked() -> None:
    assert texts(names.pool_name("a/b.c/d", "p")) == []
    assert len(texts(names.pool_name("a//B", "p"))) == 2
    assert texts(names.pool_name("", "p")) == ["p: Required value"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("8d0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10", ""),
        ("8D0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10", "uid must be in RFC 4122 normalized form"),
        ("{8d0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10}", "uid must be in RFC 4122 normalized form"),
        ("urn:uuid:8d0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10", "uid must be in RFC 4122 normalized form"),
        ("8d0c4ddb1c6a4f3e9b396d7a3c0c1d10", "uid must be in RFC 4122 normalized form"),
        ("nope", "error validating uid: invalid UUID length: 4"),
        ("(8d0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10)", "error validating uid: invalid bracketed UUID format"),
        ("urn:uuix:8d0c4ddb-1c6a-4f3e-9b39-6d7a3c0c1d10", 'error validating uid: invalid urn prefix: "urn:uuix:"'),
        ("8d0c4ddb+1c6a-4f3e-9b39-6d7a3c0c1d10", "error validating uid: invalid UUID format"),
        ("zd0c4ddb1c6a4f3e9b396d7a3c0c1d10", "error validating uid: invalid UUID format"),
    ],
)
def test_share_ids(text: str, problem: str) -> None:
    found = [error.detail for error in names.share_id(text, "s")]
    assert len(found) == bool(problem)
    assert not found or found[0].startswith(problem)


def test_names_of_attributes() -> None:
    assert texts(qualified_name("memory", "a")) == []
    assert texts(qualified_name("gpu.nvidia.com/memory", "a")) == []
    assert texts(qualified_name("a/b/c", "a")) == [], "accepted upstream"
    assert texts(qualified_name("/x", "a")) == ['a: Invalid value: "": the domain must not be empty']
    assert texts(qualified_name("x/", "a")) == ['a: Invalid value: "": the name must not be empty']
    assert texts(qualified_name("x" * 33, "a")) == ["a: Too long: may not be more than 32 bytes"]
    assert texts(fully_qualified_name("model", "a")) == [
        'a: Invalid value: "model": a fully qualified name must be a domain and a name separated by a slash'
    ]


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("example.com/gpu", True),
        ("gpu", False),
        ("kubernetes.io/gpu", False),
        ("deviceclass.resource.kubernetes.io/gpu", False),
        ("requests.example.com/gpu", False),
        ("example.com/g p u", False),
        ("example.com/" + "g" * 64, False),
    ],
)
def test_extended_resource_names(name: str, *, valid: bool) -> None:
    assert names.is_extended_resource(name) is valid


@given(st.text())
def test_any_text_is_validated(text: str) -> None:
    for problems in (
        names.label_problems, names.subdomain_problems, names.prefix_problems, names.label_key_problems,
        names.label_value_problems, names.identifier_problems, names.caseless_subdomain_problems,
    ):  # fmt: skip
        assert all(problems(text))
    for check in (names.driver_name, names.pool_name, names.class_name, names.share_id, qualified_name):
        assert all(map(str, check(text, "p")))


@given(st.from_regex("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True))
def test_text_that_matches_the_pattern_is_a_label(text: str) -> None:
    assert names.label_problems(text) == []
    assert names.subdomain_problems(text) == []
    assert names.label_value_problems(text) == []
