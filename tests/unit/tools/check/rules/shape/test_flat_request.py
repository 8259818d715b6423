"""S102: request fields next to the request's name."""

from __future__ import annotations

from allotment.tools.check.rules.shape import flat_request, unknown_field
from tests.unit.tools.check.rules.shape.rule_results import (
    claim,
    devices_of,
    fixed_documents,
    levels_and_messages,
    matches_of,
)

RULE = flat_request.RULE


def test_fields_move_under_exactly() -> None:
    text = claim("- name: gpu\n  deviceClassName: gpu.example.com\n  count: 2")
    assert levels_and_messages(RULE, text) == [
        ("error", "deviceClassName and count must be under exactly, not next to the request's name")
    ]
    assert devices_of(fixed_documents(RULE, text)[0])["requests"] == [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
    ]
    assert levels_and_messages(unknown_field.RULE, text) == []


def test_v1beta2_has_exactly_but_v1beta1_does_not() -> None:
    flat = "- name: gpu\n  deviceClassName: gpu.example.com"
    assert len(matches_of(RULE, claim(flat, version="v1beta2"))) == 1
    assert matches_of(RULE, claim(flat, version="v1beta1")) == []


def test_alternatives_are_flat() -> None:
    text = claim("- name: gpu\n  firstAvailable:\n  - name: big\n    deviceClassName: gpu.example.com\n    count: 2")
    assert matches_of(RULE, text) == []


def test_unindented_exactly() -> None:
    text = claim("- name: gpu\n  exactly:\n  deviceClassName: gpu.example.com")
    assert devices_of(fixed_documents(RULE, text)[0])["requests"] == [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    ]


def test_fields_next_to_exactly_are_merged() -> None:
    text = claim("- name: gpu\n  count: 2\n  exactly:\n    deviceClassName: gpu.example.com")
    assert devices_of(fixed_documents(RULE, text)[0])["requests"] == [
        {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}
    ]


def test_conflicting_values_have_no_fix() -> None:
    text = claim("- name: gpu\n  count: 2\n  exactly:\n    deviceClassName: gpu.example.com\n    count: 1")
    (match,) = matches_of(RULE, text)
    assert match.fix is None
    assert match.help == "count is set twice with different values: keep the right one under exactly"


def test_fields_next_to_first_available_have_no_fix() -> None:
    text = claim("- name: gpu\n  count: 2\n  firstAvailable:\n  - name: a\n    deviceClassName: gpu.example.com")
    (match,) = matches_of(RULE, text)
    assert match.fix is None
    assert "firstAvailable" in match.help


def test_each_request_is_reported_once() -> None:
    text = claim("- name: a\n  deviceClassName: x.example.com\n  count: 2\n- name: b\n  deviceClassName: x.example.com")
    assert [match.path[-2:] for match in matches_of(RULE, text)] == [(0, "deviceClassName"), (1, "deviceClassName")]
