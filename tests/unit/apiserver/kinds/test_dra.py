"""Kinds of ``resource.k8s.io`` behind the API: what is read, defaulted, refused and written, version by version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from allotment.model.trees import Tree
from tests.unit.apiserver.served import CLAIMS, PODS, Said, Served, pod

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
POOLS = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
SPEC: Tree = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}}
CLAIM: Tree = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": SPEC}
NOT_SERVED = "the server could not find the requested resource"


def asked(method: str, path: str, body: Any, *before: tuple[str, Tree]) -> Said:
    """The answer to one write; ``before`` is created beforehand."""

    async def told() -> Said:
        served = await Served().started()
        for where, tree in before:
            assert (await served.post(where, tree)).code == 201
        return await served.say(method, path, body, "application/json")

    return asyncio.run(told())


def posted(path: str, body: Any) -> Said:
    return asked("POST", path, body)


def test_a_claim_comes_back_with_its_defaults() -> None:
    said = posted(CLAIMS, CLAIM)
    assert said.code == 201
    assert said.body["spec"]["devices"]["requests"] == [
        {"name": "r", "exactly": {"deviceClassName": "k", "allocationMode": "ExactCount", "count": 1}}
    ]
    assert said.body["status"] == {}
    assert not said.warnings


def test_a_flat_request_without_a_class_gets_no_defaults() -> None:
    """Otherwise a v1beta1 request for alternatives would become both forms at once."""
    flat = {"apiVersion": "resource.k8s.io/v1beta1", "spec": {"devices": {"requests": [{"name": "r", "count": 2}]}}}
    said = posted(CLAIMS.replace("v1", "v1beta1"), CLAIM | flat)
    assert [cause["field"] for cause in said.body["details"]["causes"]] == [
        "spec.devices.requests[0].exactly.deviceClassName",
        "spec.devices.requests[0].exactly.allocationMode",
    ]


def test_what_is_always_written() -> None:
    said = posted(CLAIMS, {"metadata": {"name": "c"}})
    assert said.body["spec"] == {"devices": {"requests": None}}
    assert said.body["status"] == {}


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
def test_what_is_refused_before_validation(path: str, change: Tree, code: int, message: str | None) -> None:
    said = posted(path, CLAIM | change)
    assert said.code == code
    assert message is None or said.message == message


@pytest.mark.parametrize("body", [None, [], "text", 1])
def test_what_is_no_object(body: Any) -> None:
    assert posted(CLAIMS, body).code == 400


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
def test_a_class_is_replaced(name: str, meta: Tree, code: int, message: str) -> None:
    body = {"metadata": meta, "spec": {"extendedResourceName": "example.com/gpu"}}
    said = asked("PUT", f"{CLASSES}/{name}", body, (CLASSES, {"metadata": {"name": "k"}}))
    assert (said.code, said.body.get("message", "")) == (code, message)
    if code == 200:
        assert said.body["metadata"]["generation"] == 2


def test_a_class_that_exists() -> None:
    one = {"metadata": {"name": "k"}}
    said = asked("POST", CLASSES, one, (CLASSES, one))
    assert (said.code, said.body["reason"]) == (409, "AlreadyExists")
    assert said.message == 'deviceclasses.resource.k8s.io "k" already exists'


def test_nobody_uses_a_claim_that_is_not_allocated() -> None:
    body = CLAIM | {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    said = asked("PUT", f"{CLAIMS}/c/status", body, (CLAIMS, CLAIM))
    assert (said.code, said.message) == (
        422,
        (
            'ResourceClaim.resource.k8s.io "c" is invalid: status.reservedFor: Forbidden: may not be specified when '
            "`allocated` is not set"
        ),
    )


def test_a_request_for_pools_is_never_replaced_blindly() -> None:
    request: Tree = {"metadata": {"name": "r"}, "spec": {"driver": "d.io"}}
    said = asked("PUT", f"{POOLS}/r", request, (POOLS, request))
    assert said.code == 422
    assert said.message.endswith("metadata.resourceVersion: Invalid value: 0: must be specified for an update")


def test_a_pod_of_the_first_alpha_names_no_claim() -> None:
    old = pod("p", resourceClaims=[{"name": "g", "source": {}}])
    said = posted(f"{PODS}?fieldValidation=Strict", old)
    assert (said.code, said.message) == (
        400,
        (
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
            '"spec.resourceClaims[0].source"'
        ),
    )
    assert posted(PODS, old).code == 422
