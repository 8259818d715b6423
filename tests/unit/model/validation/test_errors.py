from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.meta import Condition, ObjectMeta
from allotment.model.quantity import Quantity
from allotment.model.resource import (
    CELDeviceSelector,
    DeviceAttribute,
    DeviceClaim,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    OpaqueDeviceConfiguration,
    ResourceClaimConsumerReference,
    ResourceClaimTemplateSpec,
)
from allotment.model.trees import Tree
from allotment.model.validation import errors
from allotment.model.validation.gotext import GoNamedString, GoValue, json_text
from allotment.model.validation.lists import check_map, check_set, shortened


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (errors.required("a.b"), "a.b: Required value"),
        (errors.required("a", "why"), "a: Required value: why"),
        (errors.invalid("a", -1, "no"), "a: Invalid value: -1: no"),
        (errors.invalid("a", False, "no"), "a: Invalid value: false: no"),
        (errors.invalid("a", None, "no"), "a: Invalid value: null: no"),
        (errors.invalid("a", 'x"<\u200b', "no"), 'a: Invalid value: "x\\"<\\u200b": no'),
        (errors.invalid("a", GoNamedString("x<"), "no"), 'a: Invalid value: "x\\u003c": no'),
        (
            errors.not_supported("a", GoNamedString("x"), ("B", "C")),
            'a: Unsupported value: "x": supported values: "B", "C"',
        ),
        (errors.duplicate("a[1]", "x"), 'a[1]: Duplicate value: "x"'),
        (errors.not_found("a", "x"), 'a: Not found: "x"'),
        (errors.forbidden("a", "no"), "a: Forbidden: no"),
        (errors.too_long("a", 63), "a: Too long: may not be more than 63 bytes"),
        (errors.too_many("a", 33, 32), "a: Too many: 33: must have at most 32 items"),
        (errors.internal("a", "no"), "a: Internal error: no"),
        (errors.immutable("a", ()), "a: Invalid value: []: field is immutable"),
    ],
)
def test_error_text(error: errors.FieldError, line: str) -> None:
    assert str(error) == line


def test_status_message_has_distinct_errors_and_details_have_every_cause() -> None:
    twice = [errors.required("a"), errors.required("a"), errors.required("b")]
    status = errors.invalid_status("resource.k8s.io", "ResourceClaim", "c", twice)
    assert status["message"] == ('ResourceClaim.resource.k8s.io "c" is invalid: [a: Required value, b: Required value]')
    assert [cause["field"] for cause in status["details"]["causes"]] == ["a", "a", "b"]
    assert status["details"]["causes"][0] == {
        "reason": "FieldValueRequired", "message": "Required value", "field": "a",
    }  # fmt: skip
    core = errors.invalid_status("", "Pod", "p", twice[:1])
    assert core["message"] == 'Pod "p" is invalid: a: Required value'
    assert "group" not in core["details"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (
            DeviceAttribute(int_=1, string="x"),
            (
                '{"IntValue":1,"BoolValue":null,"StringValue":"x","VersionValue":null,"IntValues":null,'
                '"BoolValues":null,"StringValues":null,"VersionValues":null}'
            ),
        ),
        (DeviceSelector(cel=CELDeviceSelector(expression="a && b")), '{"CEL":{"Expression":"a \\u0026\\u0026 b"}}'),
        (OpaqueDeviceConfiguration(driver="d"), '{"Driver":"d","Parameters":null}'),
        (
            OpaqueDeviceConfiguration(driver="d", parameters={"b": [1, "ü"], "a": {}}),
            '{"Driver":"d","Parameters":{"b":[1,"ü"],"a":{}}}',
        ),
        (
            ResourceClaimConsumerReference(resource="pods", name="p", uid="u"),
            '{"APIGroup":"","Resource":"pods","Name":"p","UID":"u"}',
        ),
        (
            ResourceClaimTemplateSpec(metadata=ObjectMeta(labels={"b": "1", "a": "2"})),
            '{"labels":{"a":"2","b":"1"},"Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}',
        ),
        (
            Condition(type="T", status="True"),
            '{"type":"T","status":"True","lastTransitionTime":null,"reason":"","message":""}',
        ),
        (Quantity.parse("1024Mi"), '"1Gi"'),
        ((1, "a"), '[1,"a"]'),
    ],
)
def test_go_json_of_values(value: object, text: str) -> None:
    assert json_text(value) == text


def test_lists_and_maps_that_a_client_sent_empty_are_not_null() -> None:
    spec = DeviceClaim(requests=(DeviceRequest(name="r", exactly=ExactDeviceRequest(device_class_name="c")),))
    written: Tree = {"requests": [{"exactly": {"selectors": [], "tolerations": None}}], "constraints": []}
    text = json_text(GoValue(spec, "1.36", written))
    assert '"Selectors":[]' in text
    assert '"Tolerations":null' in text
    assert text.endswith('"Constraints":[],"Config":null}')


@given(st.text())
def test_json_text_round_trips(text: str) -> None:
    assert json.loads(json_text(text)) == text


def test_items_of_a_list_over_its_limit_are_not_validated() -> None:
    def check(item: str, path: str) -> errors.Errors:
        yield errors.required(path, item)

    found = list(check_set(["a", "a", "b"], 2, check, str, "x"))
    assert list(map(str, found)) == ["x: Too many: 3: must have at most 2 items"]
    found = list(check_set(["a", "a", "b"], None, check, str, "x"))
    assert [error.path for error in found] == ["x[0]", "x[1]", "x[2]", "x[1]"]
    assert str(found[-1]) == 'x[1]: Duplicate value: "a"'


def test_key_errors_are_reported_at_the_map_and_long_keys_shortened() -> None:
    def key(text: str, path: str) -> errors.Errors:
        yield errors.invalid(path, text, "key")

    def item(value: int, path: str) -> errors.Errors:
        yield errors.invalid(path, value, "item")

    found = [error.path for error in check_map({"b" * 40: 1, "a": 2}, 2, 16, key, item, "m")]
    assert found == ["m", "m[a]", "m", "m[bbbbbbb...bbbbbb]"]
    assert len(shortened("x" * 100, 96)) == 96
