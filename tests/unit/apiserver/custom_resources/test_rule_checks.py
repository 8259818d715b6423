"""Rules are checked when a definition is written; ``tests/kube`` writes the same definitions to kube-apiserver."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.features import Features
from tests.admission_requests.definitions import DEFINITIONS, RULE_CASES, definition
from tests.unit.apiserver.served import Served

SPEC = "spec.validation.openAPIV3Schema.properties[spec]"
RULE = "x-kubernetes-validations[0]"
COST = "estimated rule cost exceeds budget by factor of"
HINT = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are"
TOTAL = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by factor of"
CONTRIBUTED = "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"


def _answer(plural: str, release: str = "1.37") -> tuple[int, str]:
    async def scenario() -> tuple[int, str]:
        served = Served(features=Features(release))
        response = await served.post(DEFINITIONS, definition(plural, RULE_CASES[plural]))
        return response.code, response.body.get("message", "")

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    ("plural", "problem"),
    [
        ("pairs", f"{SPEC}.{RULE}.rule: Forbidden: {COST} more than 100x {HINT}"),
        ("limiteditems", f"{SPEC}.properties[a].items.{RULE}.rule: Forbidden: {COST}"),
        ("messages", f"{SPEC}.{RULE}.messageExpression: Forbidden: estimated messageExpression cost exceeds budget by"),
        ("olditems", f"the uncorrelatable portion of the schema within {SPEC}.properties[a]"),
        ("optional", f"{RULE}.optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule"),
        ("emptyfields", f"{RULE}.messageExpression: Required value: messageExpression must be non-empty if specified"),
        ("paths", f"{SPEC}.x-kubernetes-validations[2].fieldPath: Invalid value: \".d\": must be a valid path"),
        ("many", f"{SPEC}.properties[a0].items.{RULE}.rule: {CONTRIBUTED}"),
        ("many", f"spec.validation.openAPIV3Schema: Forbidden: {TOTAL} 1.1"),
        ("bindings", "undeclared reference to 'cel'"),
    ],
)  # fmt: skip
def test_a_definition_is_refused(plural: str, problem: str) -> None:
    code, message = _answer(plural)
    assert code == 422
    assert problem in message


@pytest.mark.parametrize("plural", ["limitedpairs", "scalars", "values", "oldatomic", "optionalold", "pathsofmaps"])
def test_a_definition_with_limits_is_accepted(plural: str) -> None:
    assert _answer(plural)[0] == 201


def test_names_are_limited_from_1_37_on() -> None:
    assert _answer("manyembedded", "1.36") != _answer("manyembedded", "1.37")


def test_a_schema_without_rules_costs_nothing() -> None:
    async def scenario() -> None:
        served = Served()
        spec = {"properties": {"a": {"type": "array", "items": {"type": "string"}}}}
        assert (await served.post(DEFINITIONS, definition("free", spec))).code == 201

    asyncio.run(scenario())
