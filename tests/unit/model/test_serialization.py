"""Serialized data can be parsed again, and has kubectl's layout."""

from __future__ import annotations

import json

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from allotment.model.serialization import to_json, to_yaml

TEXT = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.text("01359.:eExob_-+GiMn \n#'\"[]{},&*!|>%@`?y", max_size=12),
    st.sampled_from(["true", "Yes", "null", "~", "1e3", "0x1F", "0o7", "2001-01-01", "0000:07:00.0", "=", "<<"]),
)
TREE = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=300)
@example("0\n")
@example(["a\nb\n\n", {"k": "x\n y"}])
@given(TREE)
def test_yaml_round_trips(tree: object) -> None:
    assert yaml.safe_load(to_yaml([tree])) == tree


@given(TREE)
def test_json_round_trips(tree: object) -> None:
    assert json.loads(to_json(tree)) == tree


def test_lists_are_not_indented_and_multiline_strings_are_blocks() -> None:
    assert to_yaml(
        [
            {
                "kind": "Pod",
                "spec": {"a": ["x", {"b": "40Gi", "c": "98"}], "empty": [], "cel": "one &&\ntwo\n"},
                "product": "NVIDIA A100-SXM4-40GB",
            },
            {"bus": "0000:07:00.0"},
        ]
    ) == (
        "kind: Pod\n"
        "spec:\n"
        "  a:\n"
        "  - x\n"
        "  - b: 40Gi\n"
        '    c: "98"\n'
        "  empty: []\n"
        "  cel: |\n"
        "    one &&\n"
        "    two\n"
        "product: NVIDIA A100-SXM4-40GB\n"
        "---\n"
        'bus: "0000:07:00.0"\n'
    )
