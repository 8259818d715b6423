"""Custom resources: defaults, pruning, shapes, printer columns, formats and validation rules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.apiserver.custom_resources import formats
from allotment.apiserver.custom_resources.defaulting import apply_defaults
from allotment.apiserver.custom_resources.list_types import list_problems
from allotment.apiserver.custom_resources.printer_columns import table_converter
from allotment.apiserver.custom_resources.schema_validation import value_problems
from allotment.apiserver.custom_resources.shapes import object_shape, shape_from
from allotment.apiserver.custom_resources.structural_schema import schema_problems
from allotment.apiserver.custom_resources.validation_rules import RuleValidator
from allotment.model.pruning import prune
from allotment.model.strict_decoding import strict_decode
from allotment.model.trees import Tree
from tests.unit.apiserver.shelf import Shelf

SPEC: Tree = {
    "type": "object",
    "properties": {
        "size": {"type": "integer", "default": 1, "minimum": 0},
        "name": {"type": "string"},
        "port": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "parts": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object", "required": ["id"],
                "properties": {"id": {"type": "string"}, "weight": {"type": "integer", "default": 5}},
            },
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}  # fmt: skip
SCHEMA: Tree = {"type": "object", "properties": {"spec": SPEC}}

names = st.sampled_from([*SPEC["properties"], "id", "weight", "other"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "5%"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(anything)
def test_defaulting_is_idempotent(value: Any) -> None:
    once = apply_defaults(value, SPEC)
    assert apply_defaults(once, SPEC) == once


@given(anything)
def test_pruned_values_have_no_unknown_fields(value: Any) -> None:
    unknown: list[Any] = []
    pruned = prune(value, shape_from(SPEC), (), unknown)
    assert (pruned is value) == (not unknown)
    again: list[Any] = []
    assert prune(pruned, shape_from(SPEC), (), again) is pruned
    assert again == []


@given(anything, anything)
def test_any_value_can_be_validated(value: Any, old: Any) -> None:
    found = value_problems(value, SPEC, path="spec")
    assert all(str(problem) for problem in found)
    # Unchanged values are not validated; changed ones are validated no more strictly than new ones.
    assert value_problems(value, SPEC, value, "spec") == []
    assert {str(problem) for problem in value_problems(value, SPEC, old, "spec")} <= {str(problem) for problem in found}
    list(list_problems(value, SPEC))


def test_a_schema_is_converted_to_a_type_shape() -> None:
    spec = object_shape(SCHEMA).fields["spec"].shape
    assert spec.fields["parts"].list_keys == ("id",)
    assert spec.fields["tags"].list_type == "set"
    assert spec.fields["labels"].shape.form == "map"
    assert spec.fields["free"].shape.rest is not None
    assert spec.fields["size"].default == 1
    assert spec.fields["port"].shape.form == "IntOrString"


def test_unknown_fields_are_reported_and_pruned() -> None:
    tree = {
        "apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "odd": 1},
        "spec": {"size": "x", "nope": 1, "free": {"nope": 1}, "parts": [{"id": "a", "nope": 2}]},
    }  # fmt: skip
    checked = strict_decode(tree, "example.com/v1", "Widget", object_shape(SCHEMA))
    assert [misfit.message for misfit in checked.violations] == [
        'unknown field "metadata.odd"', 'unknown field "spec.nope"', 'unknown field "spec.parts[0].nope"',
    ]  # fmt: skip
    # Schema validation reports wrong types, together with all other errors.
    assert checked.tree["spec"] == {"size": "x", "free": {"nope": 1}, "parts": [{"id": "a"}]}


@pytest.mark.parametrize(
    ("path", "form", "cell"),
    [
        (".spec.size", "integer", 3), (".spec.size", "string", "3"), (".spec.size", "boolean", None),
        (".spec.none", "string", "<no value>"), (".spec.none", "integer", None), (".spec.never", "string", None),
        (".spec.ratio", "string", "2.5000005e+06"), (".spec.ratio", "integer", 2500000),
        (".spec.parts[0]", "string", '{"id":"x","mark":"\\u003c\\u0026\\u003e"}'),
        (".spec.parts[0].mark", "string", "<&>"), (".spec.parts[*].id", "string", "x"),
        (".spec.parts[5].id", "string", None),
        ('.spec.parts[?(@.id=="x")].mark', "string", "<&>"), (".spec.parts[?(@.id==1)].mark", "string", None),
        (".spec.labels['a.b']", "string", None), (r".spec.labels.a\.b", "string", "dot"),
        (".spec.when", "date", "100s"), (".spec.size", "date", None),
    ],
)  # fmt: skip
def test_a_printer_column_shows_values_of_its_type(path: str, form: str, cell: Any) -> None:
    """Recorded from kube-apiserver 1.36.3, except for dates."""
    table = table_converter([{"name": "Column", "type": form, "jsonPath": path}])
    spec = {
        "size": 3, "none": None, "ratio": 2500000.5, "labels": {"a.b": "dot"}, "when": "2026-01-01T00:00:00Z",
        "parts": [{"mark": "<&>", "id": "x"}],
    }  # fmt: skip
    assert table.cells({"metadata": {"name": "w"}, "spec": spec}, "2026-01-01T00:01:40Z", Shelf()) == ["w", cell]


def test_columns_from_the_first_invalid_path_on_are_dropped() -> None:
    paths = (".spec.size", ".spec.[broken", ".spec.size")
    table = table_converter([{"name": f"C{at}", "type": "string", "jsonPath": path} for at, path in enumerate(paths)])
    assert [column.name for column in table.columns] == ["Name", "C0"]
    assert table.cells({"metadata": {"name": "w"}, "spec": {"size": 3}}, "", Shelf()) == ["w", "3"]
    assert [column.name for column in table_converter([]).columns] == ["Name", "Age"]


RULES: Tree = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.low <= self.high", "messageExpression": "'low is ' + string(self.low)"},
        {"rule": "!has(oldSelf.name) || has(self.name)", "message": "name stays", "reason": "FieldValueRequired"},
    ],
    "properties": {
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "name": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is fixed"}]},
        "ends": {"type": "string", "format": "date-time"},
        "namespace": {"type": "string"},
    },
}


def test_rules_validate_values_and_changes() -> None:
    validator = RuleValidator(RULES, "1.36")
    assert validator.problems({"low": 1, "high": 2}) == []
    assert [str(found) for found in validator.problems({"low": 3, "high": 2})] == ["<nil>: Invalid value: low is 3"]
    changed = validator.problems({"low": 1, "high": 2, "name": "b"}, {"low": 1, "high": 2, "name": "a"})
    assert [str(found) for found in changed] == ['name: Invalid value: "b": is fixed']
    dropped = validator.problems({"low": 1, "high": 2}, {"low": 1, "high": 2, "name": "a"})
    assert [str(found) for found in dropped] == ["<nil>: Required value: name stays"]


def test_rules_can_use_timestamps_and_escaped_names() -> None:
    schema = {
        **RULES,
        "x-kubernetes-validations": [
            {"rule": "self.ends > timestamp('2026-01-01T00:00:00Z')", "message": "too early"},
            {"rule": "self.__namespace__ == 'a'", "message": "elsewhere"},
        ],
    }
    validator = RuleValidator(schema, "1.36")
    assert validator.problems({"ends": "2026-02-01T00:00:00Z", "namespace": "a"}) == []
    details = [found.detail for found in validator.problems({"ends": "2025-02-01T00:00:00Z", "namespace": "b"})]
    assert details == ["too early", "elsewhere"]


def test_rules_are_limited_by_a_cost_budget() -> None:
    slow = {"rule": "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"}
    schema = {"type": "array", "items": {"type": "integer"}, "x-kubernetes-validations": [slow]}
    found = RuleValidator(schema, "1.36").problems(list(range(300)))
    assert len(found) == 1
    assert "cost" in found[0].detail


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("date-time", "2026-01-01T00:00:00.5Z", "2026-01-01"), ("date", "2026-01-01", "2026-13-01"),
        ("duration", "1h30m", "soon"), ("ipv4", "10.0.0.1", "10.0.0"), ("ipv6", "::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"), ("uuid", "0f8fad5b-d9cb-469f-a165-70867728950e", "x"),
        ("byte", "aGk=", "a"), ("email", "a@b.c", "a"), ("hostname", "a.b", "a_b"),
        ("mac", "00:11:22:33:44:55", "00:11"),
        ("uri", "https://a/b", "a b"), ("hexcolor", "#fff", "#ff"), ("k8s-short-name", "a-b", "a.b"),
    ],
)  # fmt: skip
def test_formats(form: str, good: str, bad: str) -> None:
    check_form = formats.format_check(form)
    assert check_form is not None
    assert check_form(good)
    assert not check_form(bad)


def test_unknown_formats_are_not_checked() -> None:
    assert formats.format_check("shoe-size") is None


def test_the_test_schema_is_structural() -> None:
    assert schema_problems(SCHEMA, "schema", has_status=True) == []
