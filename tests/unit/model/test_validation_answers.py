from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allotment.model.meta import ObjectMeta
from allotment.model.resource import DeviceClass, ResourceClaim, ResourcePoolStatusRequest
from allotment.model.validation.answers import Answer, Request, World, answer, merged
from allotment.model.wire import wire_tree
from tests.unit.model.validating import CONTEXT, NOW, value

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/n/resourceclaims"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "k"}}]}}
BODY = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}, "spec": SPEC}
CLASS = value(DeviceClass, {"metadata": {"name": "k", "uid": "u", "resourceVersion": "7", "generation": 1}})


WORDS = st.sampled_from(
    ("apis", "api", "v1", "resource.k8s.io", "namespaces", "n", "deviceclasses", "pods", "k", "status", "", "kind",
     "apiVersion", "metadata", "name", "spec", "devices", "requests", "exactly", "selectors", "config", "labels")
)  # fmt: skip


def ask(method: str, path: str, body: Any, content_type: str = "application/json", **world: Any) -> Answer:
    return answer(Request(method, path, body, content_type), World(CONTEXT, NOW, **world))


def said(answered: Answer) -> tuple[int, str]:
    return answered.code, answered.body.get("message", "")


def test_a_claim_comes_back_with_its_defaults() -> None:
    answered = ask("POST", CLAIMS, BODY)
    assert answered.code == 201
    assert answered.body == {
        "kind": "ResourceClaim",
        "apiVersion": "resource.k8s.io/v1",
        "metadata": {
            "name": "c",
            "namespace": "n",
            "uid": "00000000-0000-4000-8000-000000000000",
            "creationTimestamp": NOW,
        },
        "spec": {
            "devices": {
                "requests": [
                    {"name": "r", "exactly": {"deviceClassName": "k", "allocationMode": "ExactCount", "count": 1}}
                ]
            }
        },
        "status": {},
    }
    assert isinstance(answered.value, ResourceClaim)


def test_a_client_of_v1beta1_gets_v1beta1() -> None:
    body = BODY | {
        "apiVersion": "resource.k8s.io/v1beta1",
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "k"}]}},
    }
    answered = ask("POST", CLAIMS.replace("v1", "v1beta1"), body)
    assert answered.body["spec"]["devices"]["requests"] == [
        {"name": "r", "deviceClassName": "k", "allocationMode": "ExactCount", "count": 1}
    ]


def test_a_flat_request_without_a_class_gets_no_defaults() -> None:
    """Otherwise a v1beta1 request for alternatives would become both forms at once."""
    tree: dict[str, Any] = {"devices": {"requests": [{"name": "r", "count": 2}]}}
    body = BODY | {"apiVersion": "resource.k8s.io/v1beta1", "spec": tree}
    answered = ask("POST", CLAIMS.replace("v1", "v1beta1"), body)
    assert [cause["field"] for cause in answered.body["details"]["causes"]] == [
        "spec.devices.requests[0].exactly.deviceClassName",
        "spec.devices.requests[0].exactly.allocationMode",
    ]


def test_names_are_generated() -> None:
    answered = ask("POST", CLAIMS, BODY | {"metadata": {"generateName": "c" * 60}}, suffix="abcde")
    assert answered.body["metadata"]["name"] == "c" * 58 + "abcde"
    nameless = ask("POST", CLAIMS, BODY | {"metadata": {}})
    assert said(nameless) == (
        422,
        'ResourceClaim.resource.k8s.io "" is invalid: metadata.name: Required value: name or generateName is required',
    )


@pytest.mark.parametrize(
    ("path", "change", "expected"),
    [
        (CLAIMS.replace("v1", "v1alpha3"), {}, (404, "the server could not find the requested resource")),
        (CLASSES, {}, (400, None)),
        ("/apis/resource.k8s.io/v1/resourceclaims", {}, (404, "the server could not find the requested resource")),
        (CLAIMS + "/c/scale", {}, (404, "the server could not find the requested resource")),
        (CLAIMS + "/c", {}, (405, "the server does not allow this method on the requested resource")),
        (
            CLAIMS,
            {"metadata": {"name": "c", "namespace": "other"}},
            (400, "the namespace of the provided object does not match the namespace sent on the request"),
        ),
        (
            CLAIMS,
            {"apiVersion": "resource.k8s.io/v1beta1"},
            (
                400,
                (
                    "the API version in the data (resource.k8s.io/v1beta1) does not match the expected API version "
                    "(resource.k8s.io/v1)"
                ),
            ),
        ),
        (
            CLAIMS,
            {"spec": {"devices": {"requests": {}}}},
            (
                400,
                (
                    'ResourceClaim in version "v1" cannot be handled as a ResourceClaim: json: cannot unmarshal object '
                    "into Go struct field DeviceClaim.spec.devices.requests of type []v1.DeviceRequest"
                ),
            ),
        ),
        (
            CLAIMS + "?fieldValidation=Strict",
            {"spec": SPEC | {"controller": "x"}},
            (
                400,
                (
                    'ResourceClaim in version "v1" cannot be handled as a ResourceClaim: strict decoding error: '
                    'unknown field "spec.controller"'
                ),
            ),
        ),
        (
            CLAIMS,
            {"metadata": {"name": "c", "resourceVersion": "1"}},
            (500, "resourceVersion should not be set on objects to be created"),
        ),
    ],
)
def test_what_is_refused_before_validation(path: str, change: Any, expected: tuple[int, str | None]) -> None:
    code, message = said(ask("POST", path, BODY | change))
    assert code == expected[0]
    assert expected[1] is None or message == expected[1]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=12,
)


@given(st.sampled_from(("POST", "PUT", "PATCH", "DELETE")), st.lists(WORDS, max_size=4), JSON, JSON)
def test_any_request_gets_an_answer(method: str, steps: list[str], body: Any, spec: Any) -> None:
    stored = {("deviceclasses", "", "k"): CLASS}
    for path in ("/api", "/" + "/".join(steps), CLAIMS, f"{CLASSES}/k", f"{CLAIMS}/{'/'.join(steps)}"):
        for sent in (body, BODY | {"spec": spec}, {"spec": spec}):
            for content_type in ("application/json", "application/merge-patch+json"):
                answered = ask(method, path, sent, content_type, objects=stored)
                assert answered.code in (200, 201) or answered.body["kind"] == "Status"


@pytest.mark.parametrize("body", [None, [], "text", 1])
def test_what_is_no_object(body: Any) -> None:
    assert ask("POST", CLAIMS, body).code == 400


def test_unknown_fields_are_warned_about() -> None:
    answered = ask("POST", CLAIMS, BODY | {"bogus": 1})
    assert (answered.code, answered.warnings) == (201, ('unknown field "bogus"',))


def test_a_missing_namespace() -> None:
    answered = ask("POST", CLAIMS, BODY, namespaces={"other": {}})
    assert said(answered) == (404, 'namespaces "n" not found')
    assert answered.body["details"] == {"name": "n", "kind": "namespaces"}


def test_an_object_that_exists() -> None:
    stored = {("deviceclasses", "", "k"): CLASS}
    answered = ask("POST", CLASSES, {"metadata": {"name": "k"}}, objects=stored)
    assert said(answered) == (409, 'deviceclasses.resource.k8s.io "k" already exists')
    assert answered.body["reason"] == "AlreadyExists"


@pytest.mark.parametrize(
    ("name", "meta", "expected"),
    [
        ("k", {"name": "k"}, (200, "")),
        ("k", {}, (200, "")),
        ("k", {"name": "k", "resourceVersion": "7"}, (200, "")),
        ("gone", {"name": "gone"}, (404, 'deviceclasses.resource.k8s.io "gone" not found')),
        ("k", {"name": "x"}, (400, "the name of the object (x) does not match the name on the URL (k)")),
        (
            "k",
            {"name": "k", "resourceVersion": "6"},
            (
                409,
                (
                    'Operation cannot be fulfilled on deviceclasses.resource.k8s.io "k": the object has been modified; '
                    "please apply your changes to the latest version and try again"
                ),
            ),
        ),
    ],
)
def test_replacing(name: str, meta: dict[str, Any], expected: tuple[int, str]) -> None:
    body = {"metadata": meta, "spec": {"extendedResourceName": "example.com/gpu"}}
    answered = ask("PUT", f"{CLASSES}/{name}", body, objects={("deviceclasses", "", "k"): CLASS})
    assert said(answered) == expected
    if answered.code == 200:
        assert answered.body["metadata"] == {"name": "k", "uid": "u", "resourceVersion": "7", "generation": 2}


def test_a_merge_patch() -> None:
    patch = {"spec": {"extendedResourceName": "example.com/gpu"}, "metadata": {"labels": {"a": "b"}}}
    stored = {("deviceclasses", "", "k"): CLASS}
    answered = ask("PATCH", f"{CLASSES}/k", patch, "application/merge-patch+json", objects=stored)
    assert answered.code == 200
    assert answered.body["metadata"]["labels"] == {"a": "b"}
    assert ask("PATCH", f"{CLASSES}/k", patch, "application/apply-patch+yaml", objects=stored).code == 415


def test_the_status_of_a_claim() -> None:
    claim = ask("POST", CLAIMS, BODY).value
    assert claim is not None
    body = BODY | {"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}}
    stored = {("resourceclaims", "n", "c"): claim}
    assert said(ask("PUT", f"{CLAIMS}/c/status", body, objects=stored)) == (
        422,
        (
            'ResourceClaim.resource.k8s.io "c" is invalid: [metadata.resourceVersion: Invalid value: "": must be '
            "specified for an update, status.reservedFor: Forbidden: may not be specified when `allocated` is not set]"
        ),
    )


def test_a_request_for_pools_is_never_replaced_blindly() -> None:
    stored = ResourcePoolStatusRequest(metadata=ObjectMeta(name="r", resource_version="1"))
    path = "/apis/resource.k8s.io/v1alpha3/resourcepoolstatusrequests"
    answered = ask("PUT", f"{path}/r", {}, objects={("resourcepoolstatusrequests", "", "r"): stored})
    assert said(answered) == (
        422,
        (
            'ResourcePoolStatusRequest.resource.k8s.io "r" is invalid: metadata.resourceVersion: Invalid value: 0: '
            "must be specified for an update"
        ),
    )


def test_a_server_of_v1_only() -> None:
    only = frozenset({"v1"})
    assert ask("POST", CLAIMS, BODY, versions=only).code == 201
    assert ask("POST", CLAIMS.replace("v1", "v1beta1"), BODY, versions=only).code == 404


def test_pods_and_workloads_are_decoded_strictly() -> None:
    path = "/api/v1/namespaces/n/pods?fieldValidation=Strict"
    pod = {"metadata": {"name": "p"}, "spec": {"resourceClaims": [{"name": "g", "source": {}}]}}
    assert said(ask("POST", path, pod)) == (
        400,
        (
            'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
            '"spec.resourceClaims[0].source"'
        ),
    )
    assert ask("POST", path.partition("?")[0], pod).code == 422
    assert ask("POST", "/apis/batch/v1/namespaces/n/jobs", {"spec": {"template": {}}}).code == 201


@pytest.mark.parametrize(
    ("tree", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        (["a"], {"a": "b"}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": 1}, ["c"], ["c"]),
    ],
)
def test_merging(tree: Any, patch: Any, expected: Any) -> None:
    """The examples of RFC 7386."""
    assert merged(tree, patch) == expected


def test_what_is_always_written() -> None:
    claim = wire_tree(value(ResourceClaim, {"metadata": {"name": "c"}}), "resource.k8s.io/v1")
    assert claim["spec"] == {"devices": {"requests": None}}
    assert claim["status"] == {}
