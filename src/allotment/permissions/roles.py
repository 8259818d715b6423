"""RBAC objects of a component: ServiceAccount, roles and bindings."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.model.trees import Tree
from allotment.permissions.rule import ComponentPermissions, PermissionRule

GROUP: Final = "rbac.authorization.k8s.io"
#: The default namespace of components, with their ServiceAccount, Lease and records.
NAMESPACE: Final = "kube-system"


def name_of(component: ComponentPermissions) -> str:
    """The name of a component's objects, and the default name of its ServiceAccount."""
    return f"allotment-{component.name}"


def manifests(component: ComponentPermissions, *, namespace: str = NAMESPACE, account: str = "") -> list[Tree]:
    """The ServiceAccount, ClusterRole and ClusterRoleBinding of a component, and Role and RoleBinding if it needs them.

    The objects are in creation order. ``account`` is the name of the ServiceAccount, by default that of the component.
    """
    name, account = name_of(component), account or name_of(component)
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    found = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(component, account, namespace)},
        _role("ClusterRole", _metadata(component, name), component.cluster_wide),
        _binding("ClusterRole", _metadata(component, name), name, subject),
    ]
    if component.in_namespace:
        found += [
            _role("Role", _metadata(component, name, namespace), component.in_namespace),
            _binding("Role", _metadata(component, name, namespace), name, subject),
        ]
    return found


def rule_tree(rule: PermissionRule) -> Tree:
    """A rule as a PolicyRule of a role."""
    if rule.paths:
        return {"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}
    tree = {"apiGroups": list(rule.groups), "resources": list(rule.resources)}
    if rule.names:
        tree["resourceNames"] = list(rule.names)
    return {**tree, "verbs": list(rule.verbs)}


def labels_of(component: ComponentPermissions) -> dict[str, str]:
    """The labels of all objects of a component."""
    return {
        "app.kubernetes.io/name": "allotment",
        "app.kubernetes.io/component": component.name,
        "app.kubernetes.io/part-of": "allotment",
    }


def _metadata(component: ComponentPermissions, name: str, namespace: str = "") -> Tree:
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels_of(component)}


def _role(kind: str, metadata: Tree, rules: Iterable[PermissionRule]) -> Tree:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": metadata,
        "rules": [rule_tree(rule) for rule in rules],
    }


def _binding(kind: str, metadata: Tree, role: str, subject: Tree) -> Tree:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "subjects": [subject],
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
    }
