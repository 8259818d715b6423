"""Rules of custom resources select fields that are named like reserved words of CEL."""

from __future__ import annotations

import asyncio

import pytest

from allotment.model.trees import Tree
from tests.unit.apiserver.served import Served

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
REFERENCES = "/apis/example.com/v1/namespaces/shop/references"


def definition(rule: str) -> Tree:
    """A kind whose objects name another object, with a rule for that."""
    target = {
        "type": "object", "properties": {"namespace": {"type": "string"}, "name": {"type": "string"}},
        "x-kubernetes-validations": [{"rule": rule, "message": "wrong target"}],
    }  # fmt: skip
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"target": target}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "references", "kind": "Reference"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": "references.example.com"}, "spec": spec}


@pytest.mark.parametrize(
    "rule",
    [
        "!has(self.namespace) || self.namespace == 'a'",
        "!has(self.__namespace__) || self.__namespace__ == 'a'",
        "self.?namespace.orValue('a') == 'a'",
    ],
)
def test_a_field_named_like_a_reserved_word_has_two_names(rule: str) -> None:
    async def scenario() -> None:
        served = await Served().started()
        response = await served.post(DEFINITIONS, definition(rule))
        assert response.code == 201, response.body
        for number, (target, code) in enumerate([({"namespace": "a"}, 201), ({}, 201), ({"namespace": "b"}, 422)]):
            tree = {
                "apiVersion": "example.com/v1", "kind": "Reference", "metadata": {"name": f"r{number}"},
                "spec": {"target": target},
            }  # fmt: skip
            response = await served.post(REFERENCES, tree)
            assert response.code == code, response.body

    asyncio.run(scenario())


def test_a_field_that_is_not_declared_is_an_error_with_the_name_as_written() -> None:
    async def scenario() -> None:
        served = await Served().started()
        response = await served.post(DEFINITIONS, definition("self.package == 'a'"))
        assert response.code == 422
        assert "undefined field 'package'" in response.body["message"]

    asyncio.run(scenario())
