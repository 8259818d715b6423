"""Kinds of ``resource.k8s.io`` served by the API: decoding, defaults, errors and responses, by version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.model.trees import Tree
from tests.unit.apiserver.served import CLAIMS, PODS, DecodedResponse, Served, pod

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
POOLS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
SPEC: Tree = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}}
CLAIM: Tree = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": SPEC}
NOT_SERVED = "the server could not find the requested resource"


def send(method: str, path: str, body: Any, *before: tuple[str, Tree]) -> DecodedResponse:
    """The response to one write; ``before`` are objects created first."""

    async def scenario() -> DecodedResponse:
        served = await Served().started()
        for collection, tree in before:
            assert (await served.post(collection, tree)).code == 201
        return await served.request(method, path, body, "application/json")

    return asyncio.run(scenario())


def post(path: str, body: Any) -> DecodedResponse:
    return send("POST", path, body)


def test_a_claim_is_returned_with_defaults() -> None:
    response = post(CLAIMS, CLAIM)
    assert response.code == 201
    assert response.body["spec"]["devices"]["requests"] == [
        {"name": "r", "exactly": {"deviceClassName": "k", "allocationMode": "ExactCount", "count": 1}}
    ]
    assert response.body["status"] == {}
    assert not response.warnings


def test_a_flat_request_without_a_class_gets_no_defaults() -> None:
    """Otherwise a v1beta1 request with alternatives would get both forms."""
    flat = {"apiVersion": "resource.k8s.io/v1beta1", "spec": {"devices": {"requests": [{"name": "r", "count": 2}]}}}
    response = post(CLAIMS.replace("v1", "v1beta1"), CLAIM | flat)
    assert [cause["field"] for cause in response.body["details"]["causes"]] == [
        "spec.devices.requests[0].exactly.deviceClassName",
        "spec.devices.requests[0].exactly.allocationMode",
    ]


def test_empty_fields_that_are_always_returned() -> None:
    response = post(CLAIMS, {"metadata": {"name": "c"}})
    assert response.body["spec"] == {"devices": {"requests": None}}
    assert response.body["status"] == {}


@pytest.mark.parametrize(
    ("path", "change", "code", "message"),
    [
        (CLAIMS.replace("v1", "v1alpha3"), {}, 404, NOT_SERVED),
        ("/apis/resource.k8s.io/v1/resourceclaims", {}, 405, None),
        (f"{CLAIMS}/c/scale", {}, 404, NOT_SERVED),
        (CLASSES, {}, 400, None),
        (
            CLAIMS, {"metadata": {}}, 422,
            ('ResourceClaim.resource.k8s.io "" is invalid: metadata.name: Required value: '
            "name or generateName is required"),
        ),
        (
            CLAIMS, {"apiVersion": "resource.k8s.io/v1beta1"}, 400,
            ("the API version in the data (resource.k8s.io/v1beta1) does not match the expected API version "
            "(resource.k8s.io/v1)"),
        ),
        (
            CLAIMS, {"spec": {"devices": {"requests": {}}}}, 400,
            ('ResourceClaim in version "v1" cannot be handled as a ResourceClaim: json: cannot unmarshal object into '
            "Go struct field DeviceClaim.spec.devices.requests of type []v1.DeviceRequest"),
        ),
        (
            f"{CLAIMS}?fieldValidation=Strict", {"spec": SPEC | {"controller": "x"}}, 400,
            ('ResourceClaim in version "v1" cannot be handled as a ResourceClaim: strict decoding error: unknown field '
            '"spec.controller"'),
        ),
        (
            CLAIMS, {"metadata": {"name": "c", "resourceVersion": "1"}}, 500,
            "resourceVersion should not be set on objects to be created",
        ),
        (CLAIMS.replace("shop", "nowhere"), {}, 404, 'namespaces "nowhere" not found'),
    ],
)  # fmt: skip
def test_requests_rejected_before_validation(path: str, change: Tree, code: int, message: str | None) -> None:
    response = post(path, CLAIM | change)
    assert response.code == code
    assert message is None or response.message == message


@pytest.mark.parametrize("body", [None, [], "text", 1])
def test_a_body_that_is_not_an_object_is_rejected(body: Any) -> None:
    assert post(CLAIMS, body).code == 400


@pytest.mark.parametrize(
    ("name", "meta", "code", "message"),
    [
        ("k", {"name": "k"}, 200, ""),
        ("gone", {"name": "gone"}, 404, 'deviceclasses.resource.k8s.io "gone" not found'),
        ("k", {"name": "x"}, 400, "the name of the object (x) does not match the name on the URL (k)"),
        (
            "k", {"name": "k", "resourceVersion": "999"}, 409,
            ('Operation cannot be fulfilled on deviceclasses.resource.k8s.io "k": the object has been modified; please '
            "apply your changes to the latest version and try again"),
        ),
    ],
)  # fmt: skip
def test_replacing_a_class(name: str, meta: Tree, code: int, message: str) -> None:
    body = {"metadata": meta, "spec": {"extendedResourceName": "example.com/gpu"}}
    response = send("PUT", f"{CLASSES}/{name}", body, (CLASSES, {"metadata": {"name": "k"}}))
    assert (response.code, response.body.get("message", "")) == (code, message)
    if code == 200:
        assert response.body["metadata"]["generation"] == 2


def test_creating_an_existing_class_is_a_conflict() -> None:
    device_class = {"metadata": {"name": "k"}}
    response = send("POST", CLASSES, device_class, (CLASSES, device_class))
    assert (response.code, response.body["reason"]) == (409, "AlreadyExists")
    assert response.message == 'deviceclasses.resource.k8s.io "k" already exists'


def test_a_claim_that_is_not_allocated_cannot_be_reserved() -> None:
    body = CLAIM | {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    response = send("PUT", f"{CLAIMS}/c/status", body, (CLAIMS, CLAIM))
    assert (response.code, response.message) == (
        422,
        (
            'ResourceClaim.resource.k8s.io "c" is invalid: status.reservedFor: Forbidden: may not be specified when '
            "`allocated` is not set"
        ),
    )


def test_a_message_prints_a_list_that_the_client_sent_empty_as_such() -> None:
    body = CLAIM | {"spec": {"devices": {"constraints": []}}}
    response = send("PUT", f"{CLAIMS}/c", body, (CLAIMS, CLAIM))
    assert response.message.endswith('{"Devices":{"Requests":null,"Constraints":[],"Config":null}}: field is immutable')


def test_pool_status_requests_require_a_resource_version_to_update() -> None:
    request: Tree = {"metadata": {"name": "r"}, "spec": {"driver": "d.io"}}
    response = send("PUT", f"{POOLS}/r", request, (POOLS, request))
    assert response.code == 422
    assert response.message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")


def test_the_claim_source_field_of_the_alpha_is_unknown() -> None:
    old = pod("p", resourceClaims=[{"name": "g", "source": {}}])
    response = post(f"{PODS}?fieldValidation=Strict", old)
    assert (response.code, response.message) == (
        400,
        (
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
            '"spec.resourceClaims[0].source"'
        ),
    )
    assert post(PODS, old).code == 422
