"""Defaults of the groups networking, discovery, storage, rbac, apiextensions and others."""

from __future__ import annotations

from typing import Final

from allotment.apiserver.kinds.defaults.combinators import (
    Fill,
    fill_absent,
    fill_empty,
    fill_within,
    when_absent,
    when_empty,
)
from allotment.model.trees import Tree

_RBAC: Final = "rbac.authorization.k8s.io"


def network_policy(tree: Tree) -> Tree:
    """The default policyTypes are Ingress, and Egress if there are egress rules."""

    def spec(inner: Tree) -> Tree:
        types = ["Ingress", "Egress"] if inner.get("egress") else ["Ingress"]
        return fill_empty(inner, {"policyTypes": types})

    return fill_within(tree, "spec", spec)


def ingress_class(tree: Tree) -> Tree:
    """The default scope of parameters is Cluster."""
    spec = tree.get("spec") or {}
    if spec.get("parameters") is None:
        return tree
    return {**tree, "spec": fill_within(spec, "parameters", when_absent(scope="Cluster"))}


def _role_binding(tree: Tree) -> Tree:
    return fill_within(tree, "roleRef", when_empty(apiGroup=_RBAC))


def subject(tree: Tree) -> Tree:
    """The default group of users and groups is RBAC's; service accounts are in the core group."""
    return fill_empty(tree, {"apiGroup": _RBAC}) if tree.get("kind") in ("User", "Group") else tree


def csi_driver(tree: Tree) -> Tree:
    def spec(inner: Tree) -> Tree:
        inner = fill_absent(
            inner,
            {
                "attachRequired": True,
                "podInfoOnMount": False,
                "storageCapacity": False,
                "fsGroupPolicy": "ReadWriteOnceWithFSType",
                "requiresRepublish": False,
                "seLinuxMount": False,
            },
        )
        return fill_empty(inner, {"volumeLifecycleModes": ["Persistent"]})

    return fill_within(tree, "spec", spec)


def custom_resource_definition(tree: Tree) -> Tree:
    """Names from the kind, no conversion, and the stored version in the status."""

    def names(inner: Tree) -> Tree:
        kind = inner.get("kind") or ""
        inner = fill_empty(inner, {"singular": kind.lower()})
        return fill_empty(inner, {"listKind": f"{kind}List"}) if kind else inner

    def spec(inner: Tree) -> Tree:
        return fill_absent(fill_within(inner, "names", names), {"conversion": {"strategy": "None"}})

    tree = fill_within(tree, "spec", spec)
    stored = [version.get("name", "") for version in tree["spec"].get("versions") or () if version.get("storage")]
    return fill_within(tree, "status", when_empty(storedVersions=stored[:1])) if stored else tree


_ANY_SELECTOR: Final[Tree] = {}
_WEBHOOK: Final[Tree] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": _ANY_SELECTOR,
    "objectSelector": _ANY_SELECTOR,
    "timeoutSeconds": 10,
}

TYPES: Final[dict[str, Fill]] = {
    "networking/v1.NetworkPolicy": network_policy,
    "networking/v1.NetworkPolicyPort": when_absent(protocol="TCP"),
    "networking/v1.IngressClass": ingress_class,
    "discovery/v1.EndpointPort": when_absent(name="", protocol="TCP"),
    "rbac/v1.RoleBinding": _role_binding,
    "rbac/v1.ClusterRoleBinding": _role_binding,
    "rbac/v1.Subject": subject,
    "scheduling/v1.PriorityClass": when_absent(preemptionPolicy="PreemptLowerPriority"),
    "storage/v1.StorageClass": when_absent(reclaimPolicy="Delete", volumeBindingMode="Immediate"),
    "storage/v1.CSIDriver": csi_driver,
    "authentication/v1.TokenRequestSpec": when_absent(expirationSeconds=3600),
    "admissionregistration/v1.ValidatingWebhook": when_absent(**_WEBHOOK),
    "admissionregistration/v1.MutatingWebhook": when_absent(**_WEBHOOK, reinvocationPolicy="Never"),
    "admissionregistration/v1.RuleWithOperations": when_absent(scope="*"),
    "admissionregistration/v1.ServiceReference": when_absent(port=443),
    "admissionregistration/v1.ValidatingAdmissionPolicySpec": when_absent(failurePolicy="Fail"),
    "admissionregistration/v1.MutatingAdmissionPolicySpec": when_absent(failurePolicy="Fail"),
    "admissionregistration/v1.MatchResources": when_absent(
        matchPolicy="Equivalent", namespaceSelector=_ANY_SELECTOR, objectSelector=_ANY_SELECTOR
    ),
    "admissionregistration/v1.NamedRuleWithOperations": when_absent(scope="*"),
    "apiextensions/v1.CustomResourceDefinition": custom_resource_definition,
    "apiextensions/v1.ServiceReference": when_absent(port=443),
    "apiregistration/v1.ServiceReference": when_absent(port=443),
}
