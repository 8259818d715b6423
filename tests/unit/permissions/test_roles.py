"""RBAC objects of components, their access requests, and the admission policy for drivers."""

from __future__ import annotations

import pytest

from allotment.permissions.access_reviews import AccessRequest, access_requests, review_attributes
from allotment.permissions.admission_policy import own_node_policy
from allotment.permissions.components import COMPONENTS
from allotment.permissions.roles import manifests
from allotment.permissions.rule import ComponentPermissions, PermissionRule

PART = ComponentPermissions(
    "clerk",
    "keeps books",
    (
        PermissionRule(("", "events.k8s.io"), ("events",), ("create", "patch"), "says what it does"),
        PermissionRule((), (), ("get",), "counts", paths=("/metrics",)),
    ),
    (PermissionRule(("",), ("configmaps",), ("get",), "its own book", names=("book",)),),
)


def test_a_component_has_an_account_roles_and_bindings() -> None:
    found = manifests(PART, namespace="shop", account="till")
    assert [(tree["kind"], tree["metadata"]["name"], tree["metadata"].get("namespace")) for tree in found] == [
        ("ServiceAccount", "till", "shop"),
        ("ClusterRole", "allotment-clerk", None),
        ("ClusterRoleBinding", "allotment-clerk", None),
        ("Role", "allotment-clerk", "shop"),
        ("RoleBinding", "allotment-clerk", "shop"),
    ]
    assert found[1]["rules"] == [
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
    ]
    assert found[3]["rules"] == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["book"], "verbs": ["get"]}
    ]
    for binding in (found[2], found[4]):
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "till", "namespace": "shop"}]


def test_a_component_without_namespaced_rules_has_no_role() -> None:
    assert [tree["kind"] for tree in manifests(COMPONENTS["reader"])] == [
        "ServiceAccount", "ClusterRole", "ClusterRoleBinding"
    ]  # fmt: skip


def test_every_permission_is_a_separate_access_request() -> None:
    assert [
        (request.verb, str(request), request.name, request.namespace) for request in access_requests(PART, "shop")
    ] == [
        ("create", "events", "", ""),
        ("patch", "events", "", ""),
        ("create", "events.events.k8s.io", "", ""),
        ("patch", "events.events.k8s.io", "", ""),
        ("get", "/metrics", "", ""),
        ("get", "configmaps", "book", "shop"),
    ]


@pytest.mark.parametrize(
    ("access", "spec"),
    [
        (
            AccessRequest("update", "resource.k8s.io", "resourceclaims", "binding", "", "", "", ""),
            {"resourceAttributes": {
                "verb": "update", "group": "resource.k8s.io", "resource": "resourceclaims", "subresource": "binding",
            }},
        ),
        (
            AccessRequest("get", "", "configmaps", "", "book", "shop", "", ""),
            {"resourceAttributes": {"verb": "get", "resource": "configmaps", "name": "book", "namespace": "shop"}},
        ),
        (
            AccessRequest("get", "", "", "", "", "", "/metrics", ""),
            {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
        ),
    ],
)  # fmt: skip
def test_an_access_request_becomes_review_attributes(access: AccessRequest, spec: dict[str, object]) -> None:
    assert review_attributes(access) == spec


def test_the_policy_applies_to_one_account() -> None:
    policy, binding = own_node_policy(COMPONENTS["driver"], namespace="gpu", account="nvidia")
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"] == "request.userInfo.username == 'system:serviceaccount:gpu:nvidia'"
    assert binding["spec"] == {"policyName": policy["metadata"]["name"], "validationActions": ["Deny"]}
