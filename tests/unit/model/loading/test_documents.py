"""Extents of values and keys in the text of a document."""

from __future__ import annotations

from typing import Literal

import pytest

from allotment.model.loading import load_text

CLAIM = """\
# what we want
kind: ResourceClaim
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: 'a b'  # class
        selectors:
        - cel: {expression: "x"}
    constraints: []
    config:
"""


def extent(
    text: str, path: str, at: Literal["value", "key"] = "value", part: tuple[int, int] | None = None, index: int = 0
) -> str:
    document = load_text(text, "f.yaml").documents[index]
    start, end = document.extent(path, at=at, part=part)
    assert start.file == end.file == "f.yaml"
    return f"{start.line}:{start.column}-{end.line}:{end.column}"


@pytest.mark.parametrize(
    ("path", "at", "expected"),
    [
        ("", "value", "2:1-2:20"),
        ("kind", "value", "2:7-2:20"),
        ("kind", "key", "2:1-2:5"),
        ("spec.devices", "value", "4:3-4:10"),
        ("spec.devices.requests", "value", "5:5-5:13"),
        ("spec.devices.requests[0]", "value", "6:7-6:16"),
        ("spec.devices.requests[0].exactly.deviceClassName", "value", "8:26-8:31"),
        ("spec.devices.requests[0].exactly.selectors[0]", "value", "10:11-10:14"),
        ("spec.devices.requests[0].exactly.selectors[0].cel", "value", "10:16-10:33"),
        ("spec.devices.constraints", "value", "11:18-11:20"),
        ("spec.devices.config", "value", "12:5-12:11"),
        ("spec.devices.requests[0].exactly.count", "value", "7:7-7:14"),
        ("status.allocation", "value", "2:1-2:20"),
    ],
)
def test_extents_of_values_and_keys(path: str, at: Literal["value", "key"], expected: str) -> None:
    assert extent(CLAIM, path, at) == expected


def test_exactly_is_skipped_and_basic_entered() -> None:
    flat = "devices:\n- name: a\n  count: 2\n"
    assert extent(flat, "devices[0].exactly.count") == "3:10-3:11"
    basic = "devices:\n- basic:\n    attributes: {a: {string: xy}}\n"
    assert extent(basic, "devices[0].attributes.a.string", part=(1, 2)) == "3:31-3:32"


def test_alias_has_the_extent_of_its_value() -> None:
    assert extent("a: &x {b: 1}\nc: *x\n", "c") == "1:4-1:13"


def test_extents_with_several_documents_lists_bom_and_crlf() -> None:
    text = "\ufeffa: 1\r\n---\r\nkind: List\r\nitems:\r\n- a: |\r\n    one\r\n    two\r\n"
    assert extent(text, "a") == "1:4-1:5"
    assert extent(text, "a", part=(4, 7), index=1) == "7:5-7:8"


def test_extents_in_json() -> None:
    text = '{"kind": "List",\n "items": [\n\t{"a": [1, {"b": "x\\ny"}]}\n]}'
    assert extent(text, "a[1]") == "3:12-3:25"
    assert extent(text, "a[1].b", part=(1, 2)) == "3:20-3:22"
    assert extent(text, "a[1].b", at="key") == "3:13-3:16"


def test_origin_has_the_text_of_the_whole_file() -> None:
    text = "\ufeffa: 1\r\n---\nb: 2"
    assert {d.origin.source for d in load_text(text.encode(), "f.yaml").documents} == {text}
