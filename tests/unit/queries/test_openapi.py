"""The description of the HTTP API is valid, and describes what the queries answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from allotment import Cluster
from allotment.queries.openapi import PREFIX, openapi
from allotment.queries.problems import problem
from allotment.queries.table import QUERIES, query_named
from allotment.watched.cluster import view_of
from tests.unit.queries.manifests import APP, BROKEN, CLASS

ROOT = Path(__file__).parents[3]
CORPUS = ROOT / "tests" / "corpus"
FLEET = Cluster.fleet("dgx-a100-40gb", "t4-4x-pcie")


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(openapi()))
    return found


def check_valid(description: dict[str, Any], schema: dict[str, Any], value: object) -> None:
    """The value is valid against a schema of the description, and has no property that the schema does not have."""
    from jsonschema import Draft202012Validator  # takes seconds, which every test process would spend

    closed = {
        name: {**found, "additionalProperties": False} if "properties" in found else found
        for name, found in description["components"]["schemas"].items()
    }
    validator = Draft202012Validator({**schema, "components": {"schemas": closed}})
    assert [f"{error.json_path}: {error.message}" for error in validator.iter_errors(value)] == []


def test_it_is_valid_openapi(description: dict[str, Any]) -> None:
    from openapi_spec_validator import OpenAPIV31SpecValidator, validate

    validate(description, cls=OpenAPIV31SpecValidator)


def test_it_has_every_query(description: dict[str, Any]) -> None:
    assert list(description["paths"]) == [f"{PREFIX}{query.name}" for query in QUERIES]
    for query in QUERIES:
        operations = description["paths"][f"{PREFIX}{query.name}"]
        assert set(operations) == ({"get", "post"} if query.is_get else {"post"})
        assert operations["post"]["summary"] == query.title


def test_parameters_are_the_fields_of_the_request_without_manifests(description: dict[str, Any]) -> None:
    parameters = description["paths"][f"{PREFIX}why"]["get"]["parameters"]
    assert [parameter["name"] for parameter in parameters] == ["name", "namespace"]
    (code,) = description["paths"][f"{PREFIX}explain-code"]["get"]["parameters"]
    assert (code["name"], code["required"]) == ("code", True)


def test_every_schema_has_a_description_in_markdown(description: dict[str, Any]) -> None:
    for name, schema in description["components"]["schemas"].items():
        assert schema["description"], name
        assert "``" not in json.dumps(schema), name


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("why", {"manifests": APP}),
    ("why", {"manifests": CLASS}),
    ("why", {"manifests": CLASS.replace("gpu.nvidia.com", "gpu.example.com")}),
    ("would-fit", {"gpus": 4, "copies": 4}),
    ("would-fit", {"manifests": APP}),
    ("free", {}),
    ("free", {"tolerations": ["a=b:NoSchedule"], "manifests": APP}),
    ("check", {"manifests": APP, "files": {"broken.yaml": BROKEN}}),
    ("fix", {"manifests": APP, "unsafe": True}),
    ("what-if", {"changes": [{"action": "drain", "target": "t4-4x-pcie-1"}]}),
    ("what-if", {}),
    ("plan", {"manifests": APP, "catalog": ["aws"], "maxMachines": 1, "compare": True}),
    ("plan", {"manifests": APP.replace("9", "2"), "catalog": ["aws"], "types": ["aws/g4dn.*"]}),
    ("explain-code", {"code": "devices-in-use"}),
    ("explain-code", {"code": "M401"}),
    ("explain-code", {"code": "D301"}),
]


@pytest.mark.parametrize(("name", "fields"), REQUESTS)
def test_requests_and_answers_fit_their_schemas(name: str, fields: dict[str, Any], description: dict[str, Any]) -> None:
    query = query_named(name)
    operation = description["paths"][f"{PREFIX}{name}"]["post"]
    check_valid(description, operation["requestBody"]["content"]["application/json"]["schema"], fields)
    request = query.converted(fields)
    answer = query.answer(view_of(FLEET), request)
    check_valid(description, operation["responses"]["200"]["content"]["application/json"]["schema"], answer)


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.yaml"))[::12], ids=lambda path: path.stem)
@pytest.mark.parametrize("name", ["why", "free"])
@pytest.mark.usefixtures("short_searches")
def test_answers_about_clusters_fit_their_schemas(file: Path, name: str, description: dict[str, Any]) -> None:
    query = query_named(name)
    answer = query.answer(view_of(Cluster.snapshot(file)), query.converted({}))
    responses = description["paths"][f"{PREFIX}{name}"]["post"]["responses"]
    check_valid(description, responses["200"]["content"]["application/json"]["schema"], answer)


def test_a_problem_fits_its_schema(description: dict[str, Any]) -> None:
    found = problem("bad-input", "The request cannot be answered", 400, "name: unknown", "did you mean gpu?").to_dict()
    schema = description["components"]["responses"]["problem-400"]["content"]["application/problem+json"]["schema"]
    check_valid(description, schema, found)
