"""Derived attributes of requests (1.37): a constraint must use them, and their expressions are limited."""

from __future__ import annotations

from typing import Any

import pytest

from allotment.model.resource import ResourceClaim, ResourceClaimTemplate
from allotment.model.trees import Tree
from allotment.model.validation import admission
from allotment.model.validation.context import ValidationContext
from tests.unit.model.validation.validating import CONTEXT, CONTEXT_1_37, NOW, PLAIN_1_37, texts, value

PATH = "spec.devices.requests[0].exactly.derivedAttributes"
UNUSED = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"


def derived(name: str = "derived/x", expression: str = "1") -> Tree:
    return {"name": name, "expression": expression}


def request(*attributes: Tree, name: str = "r") -> Tree:
    return {"name": name, "exactly": {"deviceClassName": "c", "derivedAttributes": list(attributes)}}


def claim(*requests: Tree, constraints: Any = ({"matchAttribute": "derived/x"},)) -> ResourceClaim:
    tree = {"devices": {"requests": list(requests), "constraints": list(constraints)}}
    return value(ResourceClaim, {"metadata": {"name": "c", "namespace": "n", "resourceVersion": "1"}, "spec": tree})


def problems(new: Any, context: ValidationContext = CONTEXT_1_37, version: str = "v1") -> list[str]:
    return texts(admission.create(new, context, version=version, now=NOW).errors)


def test_an_attribute_that_a_constraint_uses_is_valid() -> None:
    assert problems(claim(request(derived()))) == []


@pytest.mark.parametrize(
    ("constraint", "is_used"),
    [
        ({"matchAttribute": "derived/x"}, True),
        ({"distinctAttribute": "derived/x"}, True),
        ({"matchAttribute": "derived/x", "requests": ["r"]}, True),
        ({"matchAttribute": "derived/y"}, False),
        ({"matchAttribute": "derived/x", "requests": ["other"]}, False),
        # If both are set, the first one counts.
        ({"matchAttribute": "derived/y", "distinctAttribute": "derived/x"}, False),
    ],
)
def test_a_constraint_on_the_request_must_use_each_attribute(constraint: Tree, is_used: bool) -> None:
    found = problems(claim(request(derived()), request(name="other"), constraints=[constraint]))
    assert found == ([] if is_used else [f'{PATH}[0].name: Invalid value: "derived/x": {UNUSED}'])


@pytest.mark.parametrize(
    ("target", "unused"), [([], ()), (["r"], ()), (["r/a"], (1,)), (["r/a", "r/b"], ()), (["other"], (0, 1))]
)
def test_a_constraint_on_a_request_counts_for_all_its_alternatives(target: list[str], unused: tuple[int, ...]) -> None:
    alternatives = [{"name": name, "deviceClassName": "c", "derivedAttributes": [derived()]} for name in ("a", "b")]
    new = claim(
        {"name": "r", "firstAvailable": alternatives},
        request(name="other"),
        constraints=[{"matchAttribute": "derived/x", "requests": target}],
    )
    path = "spec.devices.requests[0].firstAvailable"
    assert problems(new) == [
        f'{path}[{index}].derivedAttributes[0].name: Invalid value: "derived/x": {UNUSED}' for index in unused
    ]


def test_names_are_fully_qualified_unique_and_limited_in_number() -> None:
    constraints = [{"matchAttribute": "x"}]
    bare = problems(claim(request(derived("x")), constraints=constraints))
    text = 'Invalid value: "x": a fully qualified name must be a domain and a name separated by a slash'
    assert bare == [f"{PATH}[0].name: {text}", f"spec.devices.constraints[0].matchAttribute: {text}"]
    assert problems(claim(request(derived(), derived()))) == [f'{PATH}[1]: Duplicate value: "derived/x"']
    many = [derived(f"derived/x{index}") for index in range(33)]
    constraints = [{"matchAttribute": attribute["name"]} for attribute in many[:32]]
    assert problems(claim(request(*many[:32]), constraints=constraints)) == []
    assert problems(claim(request(*many), constraints=constraints)) == [
        f'{PATH}[32].name: Invalid value: "derived/x32": {UNUSED}',
        f"{PATH}: Too many: 33: must have at most 32 items",
    ]


def test_name_and_expression_are_required() -> None:
    new = claim(request({}), constraints=[])
    assert problems(new) == [f"{PATH}[0].name: Required value", f"{PATH}[0].expression: Required value"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("broken", [f'{PATH}[0].expression: Invalid value: "broken": compilation failed']),
        ("x" * 10241, [f"{PATH}[0].expression: Too long: may not be more than 10240 bytes"]),
        (
            "dear",
            [
                f"{PATH}[0].expression: Forbidden: too complex, exceeds cost limit",
                (
                    "spec.devices: Forbidden: too complex, total cost of derived attribute CEL expressions in the "
                    "claim exceeds cost limit"
                ),
            ],
        ),
    ],
)
def test_expressions_are_compiled_and_cost_little(expression: str, expected: list[str]) -> None:
    assert problems(claim(request(derived(expression=expression)))) == expected


def test_the_costs_of_all_requests_are_added_up() -> None:
    half = derived(expression="cost 500000")
    assert problems(claim(request(half), request(half, name="s"))) == []
    found = problems(claim(request(half), request(half, name="s"), request(derived(expression="cost 1"), name="t")))
    assert [text.partition(":")[0] for text in found] == ["spec.devices"]


def test_errors_name_the_fields_of_the_version_that_was_written() -> None:
    new = claim(request(derived("x")), constraints=[])
    # Rules of the code have the paths of v1 in all versions; declared rules have those of the version.
    coded, declared = problems(new, version="v1beta1")
    assert coded == f'{PATH}[0].name: Invalid value: "x": {UNUSED}'
    assert declared.startswith("spec.devices.requests[0].derivedAttributes[0].name: ")
    assert problems(new, version="v1beta2") == problems(new, version="v1")


def test_the_spec_of_a_template_has_the_same_rules() -> None:
    spec = {"devices": {"requests": [request(derived("derived/x", "broken"))]}}
    new = value(ResourceClaimTemplate, {"metadata": {"name": "t", "namespace": "n"}, "spec": {"spec": spec}})
    assert problems(new) == [
        f'spec.{PATH}[0].name: Invalid value: "derived/x": {UNUSED}',
        f'spec.{PATH}[0].expression: Invalid value: "broken": compilation failed',
    ]


@pytest.mark.parametrize("context", [CONTEXT, PLAIN_1_37])
def test_attributes_are_dropped_while_the_gate_is_off(context: ValidationContext) -> None:
    alternatives = {
        "name": "s",
        "firstAvailable": [{"name": "a", "deviceClassName": "c", "derivedAttributes": [derived("", "broken")]}],
    }
    result = admission.create(claim(request(derived("", "broken")), alternatives), context, version="v1", now=NOW)
    assert result.errors == []
    exact, other = result.value.spec.devices.requests
    assert exact.exactly.derived_attributes == other.first_available[0].derived_attributes == ()


def test_stored_attributes_stay_when_the_gate_is_turned_off() -> None:
    stored = admission.create(claim(request(derived())), CONTEXT_1_37, version="v1", now=NOW).value
    result = admission.update(claim(request(derived())), stored, PLAIN_1_37, version="v1", now=NOW)
    assert result.errors == []
    assert result.value.spec == stored.spec
