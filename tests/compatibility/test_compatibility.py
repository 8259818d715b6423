"""Everything public in the last release still exists, with the same meaning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.compatibility.__main__ import RELEASED, file_of, schemas, text
from tests.compatibility.json_output import outputs, schema_of
from tests.compatibility.public import description, removals


@pytest.fixture(scope="module")
def released() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RELEASED.read_text())
    return found


@pytest.fixture(scope="module")
def printed() -> dict[str, list[Any]]:
    return outputs()


def test_nothing_public_is_removed(released: dict[str, Any]) -> None:
    assert list(removals({name: value for name, value in released.items() if name != "json"}, description())) == []


def test_the_json_output_fits_the_released_schemas(released: dict[str, Any], printed: dict[str, list[Any]]) -> None:
    from jsonschema import Draft202012Validator  # takes seconds, which every test process would spend

    for command, schema in released["json"].items():
        validator = Draft202012Validator(schema)
        for value in printed[command]:
            errors = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)]
            assert errors == [], f"allot {command}"


def test_the_schemas_of_the_reference_are_up_to_date(printed: dict[str, list[Any]]) -> None:
    for command, schema in schemas(printed).items():
        assert file_of(command).read_text() == text(schema), "run `python -m tests.compatibility`"


def test_a_schema_is_the_narrowest_of_its_samples() -> None:
    schema = schema_of([{"a": 1, "labels": {"x": "y"}}, {"a": None, "b": [True], "labels": {}}])
    assert schema == {
        "type": "object",
        "properties": {
            "a": {"type": ["integer", "null"]},
            "b": {"type": "array", "items": {"type": "boolean"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["a", "labels"],
    }


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": {}}, {"a": {}, "b": {}}, []),
        ({"a": {}, "b": {}}, {"a": {}}, ["b is missing"]),
        ({"a": {"choices": ["x"]}}, {"a": {"choices": []}}, []),
        ({"a": {"choices": []}}, {"a": {"choices": ["x"]}}, ["a: choices: only x"]),
        ({"a": {"labels": ["x", "y"]}}, {"a": {"labels": ["x"]}}, ["a: labels: y is missing"]),
        ({"f": {"function": {}}}, {"f": {"function": {"x": {"required": True}}}}, ["f: function: x is required"]),
        ({"a": {"value": True}}, {"a": {"value": False}}, ["a: value: True is now False"]),
    ],
)
def test_removals_are_found(old: Any, new: Any, expected: list[str]) -> None:
    assert list(removals(old, new)) == expected
