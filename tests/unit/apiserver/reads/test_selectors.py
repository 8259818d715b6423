"""Label and field selectors."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.reads.selectors import parse_labels, parse_selection
from allotment.cluster.errors import StatusError
from tests.unit.apiserver.shelf import KINDS

LABELS = {"app": "web", "n": "4", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True), ("app=web", True), ("app==web", True), ("app!=web", False), ("other!=web", True),
        ("app in (web, db)", True), ("app in (db)", False), ("app notin (db)", True), ("other notin (db)", True),
        ("app", True), ("!app", False), ("! other", True), ("n>3", True), ("n<4", False), ("app>3", False),
        ("empty=", True), ("empty in ()", True), ("app=web,n=4", True), ("app=web,n=5", False), ("app=web , n", True),
        ("in in (a)", False), ("example.com/x!=y", True),
    ],
)  # fmt: skip
def test_labels(text: str, matches: bool) -> None:
    assert all(requirement.matches(LABELS) for requirement in parse_labels(text)) is matches


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app===a", "unable to parse requirement: found '=', expected: identifier"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
    ],
)
def test_invalid_label_selectors(text: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_labels(text)
    assert (refused.value.code, str(refused.value)) == (400, message)


@given(st.text(alphabet="ab,=!()<> in", max_size=20))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    with suppress(StatusError):
        parse_labels(text)


_POD = {"metadata": {"name": "p", "namespace": "shop"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("metadata.name=p", True), ("metadata.name!=p", False), ("metadata.namespace==shop", True),
        ("spec.nodeName=n1,status.phase!=Failed", True), ("spec.nodeName=", False), ("status.phase=Running,", True),
    ],
)  # fmt: skip
def test_fields(text: str, matches: bool) -> None:
    assert parse_selection(KINDS["pods"], "v1", "", text).matches(_POD) is matches


def test_values_can_contain_escaped_separators() -> None:
    wanted = parse_selection(KINDS["pods"], "v1", "", r"metadata.name=a\,b\=c")
    assert wanted.name == "a,b=c"


@pytest.mark.parametrize(
    ("bucket", "text", "message"),
    [
        ("configmaps", "data.a=1",
         '"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        ("pods", "spec.foo=1", "field label not supported: spec.foo"),
        ("pods", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        ("pods", r"metadata.name=a\b", r"invalid field selector: invalid escape sequence: \b"),
    ],
)  # fmt: skip
def test_unsupported_field_selectors(bucket: str, text: str, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_selection(KINDS[bucket], "v1", "", text)
    assert (refused.value.code, str(refused.value)) == (400, message)
