"""Splitting text into documents: separators, lists, positions, and problems of invalid text."""

from __future__ import annotations

import pytest

from allotment.model.loading import Document, load_text


def trees(text: str, file: str = "t.yaml") -> list[object]:
    loaded = load_text(text, file)
    assert loaded.problems == []
    return [document.tree for document in loaded.documents]


def only(text: str) -> Document:
    (document,) = load_text(text, "t.yaml").documents
    return document


def problems(text: str | bytes, file: str = "t.yaml") -> list[str]:
    loaded = load_text(text, file)
    return [f"{problem.code} {problem}" for problem in loaded.problems]


def test_separators_delimit_documents_and_empty_documents_are_skipped() -> None:
    text = "---\na: 1\n--- # comment\n---\n# nothing\n---\n{b: 2}\n...\n---\n"
    assert trees(text) == [{"a": 1}, {"b": 2}]


def test_directives_belong_to_the_next_document() -> None:
    assert trees("# first\n%YAML 1.1\n---\na: 1\n") == [{"a": 1}]


def test_indented_separator_in_a_block_scalar_is_text() -> None:
    assert trees("a: |\n  ---\n  b\n") == [{"a": "---\nb\n"}]


def test_json_values_can_follow_each_other_and_mix_with_yaml() -> None:
    assert trees('{"a":\t1}\n{"b": [true, null, 1.5]}\n---\nc: yes\n') == [
        {"a": 1},
        {"b": [True, None, 1.5]},
        {"c": True},
    ]


def test_flow_style_that_is_not_json_is_yaml() -> None:
    assert trees("{a: b, c: [d]}") == [{"a": "b", "c": ["d"]}]
    assert problems("{a: b}", "t.json") == [
        "bad-json t.json:1:2: invalid JSON: expecting property name enclosed in double quotes"
    ]


def test_lists_are_replaced_by_items_with_positions() -> None:
    loaded = load_text(
        "apiVersion: v1\nkind: List\nitems:\n- kind: Pod\n  metadata:\n    name: a\n- kind: Node\n", "t.yaml"
    )
    assert [document.kind for document in loaded.documents] == ["Pod", "Node"]
    assert [document.index for document in loaded.documents] == [0, 1]
    assert str(loaded.documents[0].position(("metadata", "name"))) == "t.yaml:6:11"
    assert str(loaded.documents[1].position()) == "t.yaml:7:3"


def test_items_of_typed_lists_inherit_version_and_kind() -> None:
    text = '{"kind":"ResourceClaimList","apiVersion":"resource.k8s.io/v1","items":[{"metadata":{"name":"a"}}]}'
    document = only(text)
    assert (document.api_version, document.kind, document.name) == ("resource.k8s.io/v1", "ResourceClaim", "a")


def test_empty_list_has_no_documents() -> None:
    assert trees("kind: List\napiVersion: v1\nitems:\n") == []


YAML = """\
# a claim
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: a, labels: {x: "1"}}
spec:
  devices:
    requests:
    - name: gpu
      deviceClassName: gpu.nvidia.com
      count:   2
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), "2:1"),
        (("metadata", "name"), "4:18"),
        (("metadata", "labels", "x"), "4:33"),
        (("spec",), "5:1"),
        (("spec", "devices", "requests", 0), "8:7"),
        (("spec", "devices", "requests", 0, "exactly", "count"), "10:16"),
        (("spec", "devices", "requests", 0, "exactly", "selectors", 3), "8:7"),
        (("spec", "devices", "requests", 7, "name"), "7:5"),
        ("spec.devices.requests[0].exactly.deviceClassName", "9:24"),
        ("metadata.labels[x]", "4:33"),
        (("nowhere", "at", "all"), "2:1"),
    ],
)
def test_position_is_that_of_the_nearest_ancestor(path: tuple[str | int, ...] | str, place: str) -> None:
    assert str(only(YAML).position(path)) == f"t.yaml:{place}"


def test_position_of_a_key() -> None:
    assert str(only(YAML).position(("spec", "devices", "requests", 0, "count"), at="key")) == "t.yaml:10:7"


def test_attributes_of_v1beta1_devices_are_under_basic() -> None:
    text = (
        "kind: ResourceSlice\nspec:\n  devices:\n  - name: a\n    basic:\n      attributes:\n        x: {string: y}\n"
    )
    document = only(text)
    assert str(document.position("spec.devices[0].attributes[x].string")) == "t.yaml:7:21"


def test_positions_in_json_after_other_documents() -> None:
    loaded = load_text('---\na: 1\n---\n{"x": {"y": [1,\n  {"z": "\\"q"}]}}\n{"b": 2}', "t.yaml")
    assert str(loaded.documents[1].position(("x", "y", 1, "z"))) == "t.yaml:5:9"
    assert str(loaded.documents[1].position(("x", "y", 1, "z"), at="key")) == "t.yaml:5:4"
    assert str(loaded.documents[2].position(("b",))) == "t.yaml:6:7"


def test_positions_with_aliases_and_merge_keys() -> None:
    document = only("kind: A\nbase: &b {x: 1, z: 3}\nmore:\n  <<: *b\n  x: 2\nsame: *b\n")
    assert document.tree["more"] == {"x": 2, "z": 3}
    assert str(document.position(("same", "x"))) == "t.yaml:2:14"
    assert str(document.position(("more", "z"))) == "t.yaml:3:1"


def test_syntax_error_does_not_hide_other_documents() -> None:
    loaded = load_text("a: 1\n---\nb: [\n---\nc: 3\n---\n- 1\n", "t.yaml")
    assert [document.tree for document in loaded.documents] == [{"a": 1}, {"c": 3}]
    assert [(problem.code, problem.position.line) for problem in loaded.problems] == [
        ("bad-yaml", 4),
        ("not-an-object", 7),
    ]


BAD_KEY = "bad-yaml t.yaml:1:{}: not valid in Kubernetes: a key must be a string, not a list or mapping"
BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 'b", "bad-yaml t.yaml:1:6: invalid YAML: while scanning a quoted scalar, found unexpected end of stream"),
        ("a: &x [*x]", "cyclic-anchor t.yaml:1:8: anchor &x contains itself"),
        ("a: &x {b: {c: *x}}", "cyclic-anchor t.yaml:1:15: anchor &x contains itself"),
        ("a: *y", "bad-yaml t.yaml:1:4: no anchor &y is defined before alias *y"),
        (BOMB, "alias-bomb t.yaml:6:29: aliases expand to more than 1,000,000 values"),
        ("[" * 100_000, "too-deep t.yaml:1:1: nested deeper than 200 levels"),
        ("a: " + "[ " * 5000, "too-deep t.yaml:1:402: nested deeper than 200 levels"),
        ("- " * 50_000, "too-deep t.yaml:1:401: nested deeper than 200 levels"),
        ('{"a":' * 100_000, "too-deep t.yaml:1:1: nested deeper than 200 levels"),
        ('{"a":' * 300 + "1" + "}" * 300, "too-deep t.yaml:1:1: nested deeper than 200 levels"),
        ("a: .inf", "bad-yaml t.yaml:1:4: not valid in Kubernetes: .inf cannot be represented in JSON"),
        ("a: !!int x", "bad-yaml t.yaml:1:4: not valid in Kubernetes: cannot decode `x` as a !!int"),
        ("? [a]\n: 2", BAD_KEY.format(3)),
        ("? {a: 1, a: 2}\n: 3", BAD_KEY.format(3)),
        ("~: 2", "bad-yaml t.yaml:1:1: not valid in Kubernetes: a key is null"),
        ("<<: 2", "bad-yaml t.yaml:1:5: map merge requires map or sequence of maps as the value"),
        ("a: \x01", "bad-text t.yaml:1:4: control character U+0001 in the text"),
        (b"ab\nc: \xc3\xa9\xff", "bad-text t.yaml:2:5: not UTF-8: byte 0xFF (save the file as UTF-8)"),
        (b"\xff\xfea\0", "bad-text t.yaml:1:1: not UTF-8: byte 0xFF (this looks like UTF-16) (save the file as UTF-8)"),
        ("a: b: c", "bad-yaml t.yaml:1:5: invalid YAML: mapping values are not allowed"),
        ("- a\n- b", "not-an-object t.yaml:1:1: expected an object, found a list"),
        ("just words", "not-an-object t.yaml:1:1: expected an object, found a single value"),
        ("kind: List\nitems:\n- 5", "not-an-object t.yaml:3:3: items[0]: expected an object, found a number"),
        ("kind: PodList\nitems: [null]", "not-an-object t.yaml:2:9: items[0]: expected an object, found null"),
    ],
)  # fmt: skip
def test_invalid_text_is_one_problem(text: str | bytes, problem: str) -> None:
    (found,) = problems(text)
    assert found.startswith(problem)  # the two YAML parsers end some sentences differently


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": NaN}', "bad-json t.json:1:1: not valid in Kubernetes: NaN is not a JSON value"),
        ('{"a": 1e999}', "bad-json t.json:1:1: not valid in Kubernetes: number 1e999 is out of range"),
        (
            '{"a":' + "9" * 5000 + "}",
            "bad-json t.json:1:1: not valid in Kubernetes: an integer has thousands of digits",
        ),
        ('{"a": 1,}', "bad-json t.json:1:8: invalid JSON: illegal trailing comma before end of object"),
    ],
)
def test_invalid_json_is_one_problem(text: str, problem: str) -> None:
    found = problems(text, "t.json")
    # The parser's messages differ between Python releases; the position does not.
    assert len(found) == 1
    assert found[0].partition(": ")[0].rpartition(":")[0] == problem.partition(": ")[0].rpartition(":")[0]


def test_hint_contains_the_start_of_the_construct() -> None:
    (problem,) = load_text("a: 1\nb: [1,2\n").problems
    assert (problem.position.line, problem.hint) == (3, "started on line 2")


def test_duplicate_keys_are_reported_with_both_lines() -> None:
    assert problems("kind: A\nspec: [{a: 1, a: 2}]\nkind: B\n") == [
        'duplicate-field t.yaml:2:15: duplicate field "spec[0].a" (first set on line 2)',
        'duplicate-field t.yaml:3:1: duplicate field "kind" (first set on line 1)',
    ]
    assert problems('---\n{"m": {"x": 1,\n "x": [{"y": 2, "y": 3}]}}') == [
        'duplicate-field t.yaml:3:2: duplicate field "m.x" (first set on line 2)',
        'duplicate-field t.yaml:3:17: duplicate field "m.x[0].y" (first set on line 3)',
    ]


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "text",
    ["# c\n" * 50_000, "---\n" * 50_000, "a: " + "x" * 2_000_000, 'a: "' + "\\n" * 500_000 + '"', "? " * 5000,
     "a: " + "!" * 50_000, '"a": ' * 10_000, "&a " * 10_000, "{" * 50_000, "a: [" + "{b: " * 5000, "\t" * 100_000,
     "{" + "a: 1, " * 20_000 + "}", "a: &a 1\n" + "b: *a\n" * 20_000, "'" * 99_999, "%a\n" * 10_000,
     "a:\n" + " " * 99_999],
)  # fmt: skip
def test_hostile_text_does_not_hang(text: str) -> None:
    load_text(text, "t.yaml")
