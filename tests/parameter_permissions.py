"""Policies and bindings of a user who cannot read their parameters, for the lab and for Kubernetes."""

from __future__ import annotations

from typing import Final

from allotment.model.trees import Tree
from tests.admission_policies import BINDINGS, CONFIG_MAPS, MUTATING, MUTATING_BINDINGS, POLICIES
from tests.mutating_policies import apply

#: The headers with which the administrator acts as the user.
AUTHOR: Final = {"impersonate-user": "author", "impersonate-group": "developers", "impersonate-uid": "7"}
_NAME: Final = "author"
_API: Final = "/apis/rbac.authorization.k8s.io/v1"
_PARAMS: Final = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}
_VALIDATING: Final = {**CONFIG_MAPS, "validations": [{"expression": "true"}]}
_MUTATING: Final = {
    "matchConstraints": {
        "resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
        ]
    },
    "mutations": [apply("Object{}")], "reinvocationPolicy": "Never",
}  # fmt: skip
_REFERENCE: Final = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}


def _binding(policy: str, **reference: object) -> Tree:
    return {"policyName": policy, "paramRef": {**_REFERENCE, **reference}}


#: Objects that the administrator creates first, as path and body.
SETUP: Final[tuple[tuple[str, Tree], ...]] = (
    (f"{_API}/clusterroles", {
        "metadata": {"name": _NAME},
        "rules": [{"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]},
                  {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}],
    }),
    (f"{_API}/clusterrolebindings", {
        "metadata": {"name": _NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _NAME},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": _NAME}],
    }),
    (POLICIES, {"metadata": {"name": "existing"}, "spec": {**_VALIDATING, **_PARAMS}}),
    (MUTATING, {"metadata": {"name": "existing"}, "spec": {**_MUTATING, **_PARAMS}}),
    (POLICIES, {"metadata": {"name": "unserved"}, "spec": {
        **_VALIDATING, "paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"},
    }}),
)  # fmt: skip
#: Paths and specs that the user sends.
REQUESTS: Final[tuple[tuple[str, Tree], ...]] = (
    (POLICIES, {**_VALIDATING, **_PARAMS}),
    (POLICIES, {**_VALIDATING, "paramKind": {"apiVersion": "example.com/v1", "kind": "Limit"}}),
    (POLICIES, {**_VALIDATING, "paramKind": {"apiVersion": "v1", "kind": "Secret"}}),
    (POLICIES, _VALIDATING),
    (MUTATING, {**_MUTATING, **_PARAMS}),
    (BINDINGS, {**_binding("existing"), "validationActions": ["Deny"]}),
    (BINDINGS, {**_binding("existing", name="", selector={}), "validationActions": ["Deny"]}),
    (BINDINGS, {**_binding("missing"), "validationActions": ["Deny"]}),
    (BINDINGS, {**_binding("unserved"), "validationActions": ["Deny"]}),
    (MUTATING_BINDINGS, _binding("existing")),
)
