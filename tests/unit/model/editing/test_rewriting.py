"""Edits of files: formatting and comments stay, and text outside the edited values keeps its bytes."""

from __future__ import annotations

import pytest

from allotment.model.editing.edits import (
    AddDocument,
    Edit,
    EditError,
    InsertItem,
    Lift,
    Nest,
    Remove,
    RenameKey,
    ReplaceText,
    SetValue,
)
from allotment.model.editing.rewriting import rewrite
from allotment.model.loading import load_text

CLAIM = """\
# the head
kind: ResourceClaim   # as ever
spec:
  requests:
  # the first
  - name: gpu
    # which
    class: gpu.nvidia.com   # NVIDIA's
    count: 1

    # what it must have
    selectors:
    - cel: {expression: "a"}
    # count: 2
  - class: 'b'   # late
    name: mig
  # the end
"""


def rewritten(text: str, *edits: Edit, index: int = 0, file: str = "f.yaml") -> str:
    document = load_text(text, file).documents[index]
    return rewrite(text, file, [(document, edit) for edit in edits])


def changed_lines(before: str, *edits: Edit) -> dict[str, str]:
    """The changed lines, for an edit that keeps the number of lines."""
    new = rewritten(before, *edits).splitlines()
    old = before.splitlines()
    assert len(new) == len(old)
    return {
        old_line.strip(): new_line.strip() for old_line, new_line in zip(old, new, strict=True) if old_line != new_line
    }


REQUEST = ("spec", "requests", 0)


# --- documents -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_added_document_has_the_style_of_the_file(newline: str) -> None:
    text = CLAIM.replace("\n", newline)
    added = AddDocument({"kind": "Pod", "spec": {"containers": [{"name": 'a "b"'}]}})
    assert rewritten(text, added, Remove((*REQUEST, "count"))) == rewritten(text, Remove((*REQUEST, "count"))) + (
        newline.join(("---", "kind: Pod", "spec:", "  containers:", "  - name: 'a \"b\"'", ""))
    ).replace("'a \"b\"'", 'a "b"')
    assert rewritten("kind: A", added).startswith("kind: A\n---\nkind: Pod\n")


def test_json_has_only_one_document() -> None:
    with pytest.raises(EditError, match="JSON"):
        rewritten('{"kind": "A"}', AddDocument({"kind": "B"}), file="f.json")


# --- nest and lift ---------------------------------------------------------------------------------------------------


def test_nest_moves_fields_with_their_comments() -> None:
    assert (
        rewritten(CLAIM, Nest(REQUEST, ("class", "count", "selectors"), "exactly"))
        == """\
# the head
kind: ResourceClaim   # as ever
spec:
  requests:
  # the first
  - name: gpu
    exactly:
      # which
      class: gpu.nvidia.com   # NVIDIA's
      count: 1

      # what it must have
      selectors:
      - cel: {expression: "a"}
      # count: 2
  - class: 'b'   # late
    name: mig
  # the end
"""
    )


def test_nest_joins_separate_fields() -> None:
    assert rewritten("a: 1\nb: 2 # b\n\n# about c\nc:\n  - 3\nd: 4\n", Nest((), ("a", "c"), "m")) == (
        "m:\n  a: 1\n  # about c\n  c:\n    - 3\nb: 2 # b\n\nd: 4\n"
    )


def test_nest_of_the_field_after_a_dash() -> None:
    assert "  - exactly:\n      class: 'b'   # late\n    name: mig\n  # the end\n" in rewritten(
        CLAIM, Nest(("spec", "requests", 1), ("class",), "exactly")
    )


def test_nest_keeps_multiline_strings() -> None:
    before = "a:\n  b: |2-\n      one\n\n    two\n  c: >\n    x\n    y\n  d: 'q\n    r'\n"
    assert rewritten(before, Nest(("a",), ("b", "c", "d"), "m")) == (
        "a:\n  m:\n    b: |2-\n        one\n\n      two\n    c: >\n      x\n      y\n    d: 'q\n      r'\n"
    )


def test_lift_moves_fields_with_their_comments() -> None:
    before = "c:\n  - name: x\n    source:   # why\n      # which\n      template: t # T\n\n      z: 1\n  - name: y\n"
    assert rewritten(before, Lift(("c", 0, "source"))) == (
        "c:\n  - name: x\n    # why\n    # which\n    template: t # T\n\n    z: 1\n  - name: y\n"
    )


def test_lift_of_a_flow_mapping_writes_lines() -> None:
    assert rewritten("- a\n".join(["c:\n", 'd: {name: x, "e":1, f: [1, 2]} # g\n']), Lift(("d",))) == (
        'c:\n- a\nname: x\n"e": 1\nf: [1, 2] # g\n'
    )


@pytest.mark.parametrize(
    ("before", "edit", "result"),
    [
        (
            "r: [{name: a, class: b, count: 1}]\n",
            Nest(("r", 0), ("class", "count"), "x"),
            "r: [{name: a, x: {class: b, count: 1}}]\n",
        ),
        (
            "r: {a: 1,  # one\n    # about b\n    b: 2,  # two\n    c: 3,  # three\n   }\n",
            Nest(("r",), ("b", "c"), "x"),
            "r: {a: 1,  # one\n    # about b\n    x: {b: 2,  # two\n      c: 3},  # three\n   }\n",
        ),
        (
            "r: {\n  a: 1,  # one\n  # about b\n  b: 2,  # two\n  c: 3,  # three\n}\n",
            Nest(("r",), ("b", "c"), "x"),
            "r: {\n  a: 1,  # one\n  # about b\n  x: {\n    b: 2,  # two\n    c: 3\n  },  # three\n}\n",
        ),
        ("r: {a: 1, b: 2, c: 3} # r\n", Nest(("r",), ("c", "a"), "x"), "r: {x: {a: 1, c: 3}, b: 2} # r\n"),
        ("r: {a: {b: 1, c: 2}, d: 3}\n", Lift(("r", "a")), "r: {b: 1, c: 2, d: 3}\n"),
        ("r:\n- s: {a: 1}\n  t: 2\n", Lift(("r", 0, "s")), "r:\n- a: 1\n  t: 2\n"),
        ("r:\n- s:\n    # one\n    a: 1\n  t: 2\n", Lift(("r", 0, "s")), "r:\n- # one\n  a: 1\n  t: 2\n"),
        ("r:\n  s: {}\n  t: 2\n", Lift(("r", "s")), "r:\n  t: 2\n"),
    ],
)
def test_nest_and_lift_in_flow_style(before: str, edit: Edit, result: str) -> None:
    assert rewritten(before, edit) == result


# --- removing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "path", "result"),
    [
        ("a: 1\n# about b\nb: 2 # b\nc: 3\n", ("b",), "a: 1\n# about b\n# b\nc: 3\n"),
        ("a: 1\nb:\n  # in b\n  c: 1 # c\n\n  d: 2\n# end\n", ("b",), "a: 1\n# in b\n# c\n# end\n"),
        ("a:\n  b: 1\n", ("a", "b"), "a: {}\n"),
        ("a: # a\n  # about b\n  b: 1 # b\nc: 2\n", ("a", "b"), "# a\n# about b\n# b\na: {}\nc: 2\n"),
        ("a:   # a\n  b: 1\nc: 2\n", ("a", "b"), "a: {}   # a\nc: 2\n"),
        ("a:\n- 1 # one\n", ("a", 0), "a: [] # one\n"),
        ("a:\n- x: 1 # one\n  y: 2\n- z\n", ("a", 0, "x"), "a:\n- # one\n  y: 2\n- z\n"),
        ("a:\n- x: 1\n  # about y\n  y: 2\n", ("a", 0, "x"), "a:\n- # about y\n  y: 2\n"),
        ("a:\n- x: 1\n  y: 2\n- z\n", ("a", 0), "a:\n- z\n"),
        ("a:\n- - 1\n  - 2\n", ("a", 0, 0), "a:\n- - 2\n"),
        ("a:\n- - 1\n", ("a", 0, 0), "a:\n- []\n"),
        ("a: |\n  one\n\n  two\n\nb: 1\n", ("a",), "\nb: 1\n"),
        ("a: {b: 1, c: 2}\n", ("a", "b"), "a: {c: 2}\n"),
        ("a: {b: 1, c: 2} # a\n", ("a", "c"), "a: {b: 1} # a\n"),
        ("a: [1]\n", ("a", 0), "a: []\n"),
        ("a: [\n  1, # one\n  2\n]\n", ("a", 0), "a: [\n  # one\n  2\n]\n"),
        ("a: [\n  1, # one\n  2 # two\n]\n", ("a", 1), "a: [\n  1 # one\n  # two\n]\n"),
        ("a: [1, # one\n    2, 3]\n", ("a", 0), "a: [ # one\n    2, 3]\n"),
        ("a: [1, # one\n    2, 3]\n", ("a", 1), "a: [1, # one\n    3]\n"),
        ("a: [\n  # one\n  1 # 1\n]\n", ("a", 0), "a: [\n  # one\n  # 1\n  ]\n"),
        ("b: 1\n", ("b",), "{}\n"),
        ("a: 1\nb: 2", ("b",), "a: 1"),
    ],
)  # fmt: skip
def test_remove(before: str, path: tuple[str | int, ...], result: str) -> None:
    assert rewritten(before, Remove(path)) == result


# --- values ----------------------------------------------------------------------------------------------------------


def test_set_value_keeps_quotes_comments_and_position() -> None:
    assert changed_lines(CLAIM, SetValue(("kind",), "Pod"), SetValue((*REQUEST, "count"), 2)) == {
        "kind: ResourceClaim   # as ever": "kind: Pod   # as ever",
        "count: 1": "count: 2",
    }


def test_set_value_keeps_quotes() -> None:
    assert rewritten("a: 'x'\nb: [\"y\"]\n", SetValue(("a",), "z"), SetValue(("b", 0), "z")) == "a: 'z'\nb: [\"z\"]\n"
    assert rewritten("a: 'x'\n", SetValue(("a",), "it's")) == 'a: "it\'s"\n'
    assert rewritten("a: 'x'\n", SetValue(("a",), 1)) == "a: 1\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("gpu", "gpu"), ("gpu.nvidia.com/type", "gpu.nvidia.com/type"), ("a b", "a b"), ("10Gi", "10Gi"), ("-c", "-c"),
        ("v1.2.3", "v1.2.3"), ("device.driver == \"x\" && true", 'device.driver == "x" && true'), ("é😀", "é😀"),
        ("on", '"on"'), ("y", '"y"'), ("No", '"No"'), ("null", '"null"'), ("~", '"~"'), ("", '""'), ("8.0", '"8.0"'),
        ("0123", '"0123"'), ("1e3", '"1e3"'), ("0x1F", '"0x1F"'), ("1_000", '"1_000"'), ("2024-01-01", '"2024-01-01"'),
        ("12:30", '"12:30"'), (".inf", '".inf"'), ("=", '"="'), ("<<", '"<<"'), ("8.0.0", '"8.0.0"'), ("- x", '"- x"'),
        ("a: b", '"a: b"'), ("a #b", '"a #b"'), ("a:", '"a:"'), (" a", '" a"'), ("a ", '"a "'), ("*a", '"*a"'),
        ('"a" in b', "'\"a\" in b'"), ("a ? b : c", '"a ? b : c"'), ("it's: \"x\"", "'it''s: \"x\"'"),
        ("tab\t", '"tab\\t"'), ("\x01\u2028", '"\\x01\\u2028"'), ("one\ntwo", "|-\n  one\n  two"),
        ("one\ntwo\n", "|\n  one\n  two"), (" one\ntwo\n", "|2\n   one\n  two"), ("a\n \nb", '"a\\n \\nb"'),
        (None, "null"), (True, "true"), (3, "3"), (1.5, "1.5"), ({}, "{}"), ([], "[]"), ([1, "on"], '\n- 1\n- "on"'),
        ({"a": {"b": ["c", {"d": "e"}]}, "on": []}, '\n  a:\n    b:\n    - c\n    - d: e\n  "on": []'),
    ],
)  # fmt: skip
def test_new_values_are_quoted_if_required(value: object, written: str) -> None:
    space = "" if written.startswith("\n") else " "
    assert rewritten("a: 1\nb: x\n", SetValue(("a",), value)) == f"a:{space}{written}\nb: x\n"
    assert rewritten("a: 1\n", SetValue(("b",), value)) == f"a: 1\nb:{space}{written}\n"


def test_new_text_has_the_style_of_the_file() -> None:
    before = "a:\n    b:\n      - c: 'x'\n"
    value = {"m": [{"o": "on", "p": [1]}]}
    assert rewritten(before, SetValue(("a", "d"), value)) == (
        before + "    d:\n        m:\n          - o: 'on'\n            p:\n              - 1\n"
    )


def test_replacing_a_scalar_by_a_tree_keeps_its_comment() -> None:
    assert rewritten("a: 1   # one\nb: 2\n", SetValue(("a",), {"c": 1})) == "a:   # one\n  c: 1\nb: 2\n"
    assert (
        rewritten("a:\n- 1   # one\n- 2\n", SetValue(("a", 0), {"c": 1, "d": 2})) == "a:\n# one\n- c: 1\n  d: 2\n- 2\n"
    )
    assert rewritten("a: 1   # one\n", SetValue(("a",), "x\ny")) == "a: |-   # one\n  x\n  y\n"


def test_replacing_a_tree_keeps_its_comments() -> None:
    before = "s:\n# best\n- key: m   # k\n  # more\n  op: Gt\n- x: 1\n"
    assert rewritten(before, SetValue(("s", 0), {"cel": {"expression": "m > 1"}})) == (
        "s:\n# best\n# k\n# more\n- cel:\n    expression: m > 1\n- x: 1\n"
    )
    assert rewritten("a:\n  # in a\n  b: 1\nc: 2\n", SetValue(("a",), None)) == "# in a\na: null\nc: 2\n"


def test_set_value_changes_only_the_difference() -> None:
    before = "a:\n  b: 'x' # x\n  c: [1,2]\n  d: 4\ne: 1\n"
    new = {"b": "x", "new": True, "c": [1, 2, 3]}
    assert rewritten(before, SetValue(("a",), new)) == "a:\n  b: 'x' # x\n  new: true\n  c: [1,2,3]\ne: 1\n"


def test_set_value_of_implicit_nulls() -> None:
    assert rewritten("a:\nb: 1\n", SetValue(("a",), 2)) == "a: 2\nb: 1\n"
    assert rewritten("a: # a\nb: 1\n", SetValue(("a", "c"), 2)) == "a: # a\n  c: 2\nb: 1\n"
    assert rewritten("a:\n-\n- 1\n", SetValue(("a", 0), "x")) == "a:\n- x\n- 1\n"
    assert rewritten("a: {b: , c: 1}\n", SetValue(("a", "b"), 2)) == "a: {b: 2, c: 1}\n"


# --- adding ----------------------------------------------------------------------------------------------------------


def test_fields_are_added_at_the_requested_position() -> None:
    assert (
        rewritten("# head\na: 1 # a\n# b\nb: 2\n", SetValue(("c",), 3, after="a"))
        == "# head\na: 1 # a\nc: 3\n# b\nb: 2\n"
    )
    assert rewritten("# head\na: 1\n", SetValue(("c",), 3, first=True)) == "# head\nc: 3\na: 1\n"
    assert rewritten("- x\n".join(["a:\n", "  # end\n"]), SetValue(("b",), 3)) == "a:\n- x\n  # end\nb: 3\n"
    assert rewritten("a:\n- b: 1\n", SetValue(("a", 0, "name"), "x", first=True)) == "a:\n- name: x\n  b: 1\n"
    assert rewritten("a: {b: 1}\n", SetValue(("a", "name"), "x", first=True)) == "a: {name: x, b: 1}\n"
    assert (
        rewritten("a: {b: 1}\n", SetValue(("a", "name"), ["x", {"w": "8.0"}])) == 'a: {b: 1, name: [x, {w: "8.0"}]}\n'
    )
    assert rewritten("a: {}\n", SetValue(("a", "b"), 1)) == "a:\n  b: 1\n"
    assert rewritten("a: 1", SetValue(("b",), 1)) == "a: 1\nb: 1"
    assert rewritten("a: |\n  x\n\nb: 1\n", SetValue(("c",), 1, after="a")) == "a: |\n  x\nc: 1\n\nb: 1\n"


def test_file_without_final_line_break_stays_without() -> None:
    assert rewritten("a: 1\nb: |\n  x", SetValue(("a",), 2)) == "a: 2\nb: |\n  x"
    assert rewritten("a: 1", SetValue(("a",), "x\ny")) == "a: |-\n  x\n  y"
    assert rewritten("a: 1", SetValue(("a",), "x\ny\n")) == "a: |\n  x\n  y\n"
    assert rewritten("a: |\n  x", SetValue(("b",), 1)) == "a: |-\n  x\nb: 1"


def test_items_are_inserted_at_the_requested_index() -> None:
    before = "a:\n# one\n- 1 # 1\n# two\n- 2\nb: 1\n"
    assert rewritten(before, InsertItem(("a",), 0, 0)) == "a:\n- 0\n# one\n- 1 # 1\n# two\n- 2\nb: 1\n"
    assert rewritten(before, InsertItem(("a",), 1, {"x": 1, "w": 2})) == (
        "a:\n# one\n- 1 # 1\n- x: 1\n  w: 2\n# two\n- 2\nb: 1\n"
    )
    assert (
        rewritten(before, InsertItem(("a",), 2, [[1], []])) == "a:\n# one\n- 1 # 1\n# two\n- 2\n- - - 1\n  - []\nb: 1\n"
    )
    assert rewritten("a: [1, 2]\n", InsertItem(("a",), 1, "x, y")) == 'a: [1, "x, y", 2]\n'
    assert rewritten("a: []\n", InsertItem(("a",), 0, {"b": 1})) == "a:\n- b: 1\n"
    assert rewritten("a: [\n  1, # 1\n  2 # 2\n]\n", InsertItem(("a",), 2, 3)) == "a: [\n  1, # 1\n  2, # 2\n  3\n]\n"
    assert rewritten("a: [\n  1,\n  2,\n]\n", InsertItem(("a",), 2, 3)) == "a: [\n  1,\n  2,\n  3,\n]\n"


# --- text and keys ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "change", "result"),
    [
        ("a: one two # c\n", (4, 7, "three"), "a: one three # c\n"),
        ("a: one\n  two\n", (4, 7, "three"), "a: one\n  three\n"),
        ("a: one\n", (3, 3, ": x"), 'a: "one: x"\n'),
        ("a: 'it''s' # c\n", (2, 3, "''"), "a: 'it''''s' # c\n"),
        ("a: 'one'\n", (1, 2, "\n"), 'a: "o\\ne"\n'),
        ('a: "\\u00e9 b"\n', (2, 3, 'x"y\t'), 'a: "\\u00e9 x\\"y\\t"\n'),
        ("a: |\n  one\n  two\nb: 1\n", (4, 7, "three\nfour"), "a: |\n  one\n  three\n  four\nb: 1\n"),
        ("a: |-  # c\n    one\n", (0, 3, "x"), "a: |-  # c\n    x\n"),
        ("a: >-\n  one\n  two\n", (0, 3, "three"), "a: >-\n  three\n  two\n"),
        ("a: >-\n  one\n  two\n", (0, 7, "x\ny"), "a: |-\n  x\n  y\n"),
        ("a: |\n  one\n", (0, 0, " "), 'a: " one\\n"\n'),
        ('{"a": "x\\ny"}\n', (1, 2, '"\t'), '{"a": "x\\"\\ty"}\n'),
        ('a: ""\n', (0, 0, "x"), 'a: "x"\n'),
        ("a: [one, two]\n", (0, 3, "x, y"), 'a: ["x, y", two]\n'),
    ],
)  # fmt: skip
def test_replace_text_keeps_the_string_style(before: str, change: tuple[int, int, str], result: str) -> None:
    path = ("a", 0) if "[" in before else ("a",)
    assert rewritten(before, ReplaceText(path, *change)) == result


def test_new_keys_are_quoted_like_the_others() -> None:
    assert (
        rewritten("'a': 1\n'b': 2\n\"c\": 3\nd: 4\n", Nest((), ("b",), "x"))
        == "'a': 1\n'x':\n  'b': 2\n\"c\": 3\nd: 4\n"
    )
    assert rewritten('{"a": 1, "b": c}  # yaml\n', SetValue(("x",), 1)) == '{"a": 1, "b": c, "x": 1}  # yaml\n'


def test_carriage_return_line_breaks_are_kept() -> None:
    assert rewritten("a: 1\r- x\r".replace("- x", "b: # b\r  c: 1"), Nest(("b",), ("c",), "d")) == (
        "a: 1\rb: # b\r  d:\r    c: 1\r"
    )


def test_renamed_keys_keep_their_style() -> None:
    assert rewritten("a: 1\n'b': 2 # b\n", RenameKey(("a",), "on"), RenameKey(("b",), "c")) == "\"on\": 1\n'c': 2 # b\n"
    assert rewritten('{"a": {"b": 1}}', RenameKey(("a", "b"), 'q"')) == '{"a": {"q\\"": 1}}'


# --- files -----------------------------------------------------------------------------------------------------------


def test_edits_of_several_documents_are_applied_together() -> None:
    text = '\ufeffa: 1\r\n---\r\n# two\r\nkind: List\r\nitems:\r\n- a: 2\r\n- b: {c: 3}\r\n---\r\n{"a": 4}\r\n{"b": 5}'
    documents = load_text(text, "f.yaml").documents
    edits: list[tuple[int, Edit]] = [
        (0, SetValue(("z",), "x\ny\n")), (2, Lift(("b",))), (1, Nest((), ("a",), "m")), (4, RenameKey(("b",), "c")),
        (3, SetValue(("b",), [1])), (1, SetValue(("a",), 20)),
    ]  # fmt: skip
    assert rewrite(text, "f.yaml", [(documents[index], edit) for index, edit in edits]) == (
        "\ufeffa: 1\r\nz: |\r\n  x\r\n  y\r\n---\r\n# two\r\nkind: List\r\nitems:\r\n- m:\r\n    a: 20\r\n- c: 3\r\n"
        '---\r\n{"a": 4, "b": [1]}\r\n{"c": 5}'
    )


PRETTY = """\
{
  "kind": "A",
  "spec": {
    "source": {
      "a": 1,
      "b": [
        1,
        2
      ]
    },
    "d": {}
  }
}
"""


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        (SetValue(("spec", "d", "e"), [1]), '"d": {}', '"d": {\n      "e": [\n        1\n      ]\n    }'),
        (SetValue(("z",), "x"), "  }\n}", '  },\n  "z": "x"\n}'),
        (Remove(("kind",)), '  "kind": "A",\n', ""),
        (Remove(("spec", "d")), ',\n    "d": {}', ""),
        (InsertItem(("spec", "source", "b"), 0, None), "        1,", "        null,\n        1,"),
        (Nest(("spec", "source"), ("a",), "n"), '"a": 1,', '"n": {\n        "a": 1\n      },'),
    ],
)
def test_multiline_json(edit: Edit, old: str, new: str) -> None:
    assert PRETTY.count(old) == 1
    assert rewritten(PRETTY, edit) == PRETTY.replace(old, new)


def test_one_line_json() -> None:
    assert rewritten('{"a":{"b":1,"c":"é"}}', SetValue(("a", "d"), {"e": "ü"})) == '{"a":{"b":1,"c":"é","d":{"e":"ü"}}}'
    assert rewritten('{"a": {"b": 1}, "c": 2}', Lift(("a",))) == '{"b": 1, "c": 2}'


# --- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "edit", "reason"),
    [
        ("a: &x {b: 1}\nc: *x\n", SetValue(("a", "b"), 2), "share values through anchors"),
        ("a: &x {b: 1}\nc: *x\n", Remove(("c", "b")), "c is an alias (*x): edit the value at its anchor"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n  d: 1\n", RenameKey(("c", "b"), "e"), "c.b is not set directly here"),
        ("a: 1\n", Remove(("b",)), "b not found"),
        ("? a\n: 1\n", Remove(("b",)), "b not found"),
    ],
)
def test_impossible_edit_is_an_error_with_a_reason(text: str, edit: Edit, reason: str) -> None:
    with pytest.raises(EditError) as error:
        rewritten(text, edit)
    assert reason in str(error.value)


def test_alias_can_be_replaced_and_merge_overridden() -> None:
    assert rewritten("a: &x {b: 1}\nc: *x # c\n", SetValue(("c",), 2)) == "a: &x {b: 1}\nc: 2 # c\n"
    assert rewritten("a: &x {b: 1}\nc:\n  <<: *x\n  d: 1\n", SetValue(("c", "e"), 2)) == (
        "a: &x {b: 1}\nc:\n  <<: *x\n  d: 1\n  e: 2\n"
    )


def test_changed_file_is_an_error() -> None:
    document = load_text("a: 1\n", "f.yaml").documents[0]
    with pytest.raises(EditError, match=r"f\.yaml has changed since it was read"):
        rewrite("a: 2\n", "f.yaml", [(document, SetValue(("a",), 3))])
