"""Parts as the objects that Kubernetes grants permissions with: an account, its roles, and what binds them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from allotment.model.trees import Tree
from allotment.tools.permissions.rule import ComponentPermissions, PermissionRule

GROUP: Final = "rbac.authorization.k8s.io"
#: Where a part's account, Lease and records are, unless somebody says otherwise: a namespace that every cluster has.
NAMESPACE: Final = "kube-system"


def name_of(part: ComponentPermissions) -> str:
    """What a part's objects are called, and its account unless somebody says otherwise."""
    return f"allotment-{part.name}"


def manifests(part: ComponentPermissions, *, namespace: str = NAMESPACE, account: str = "") -> list[Tree]:
    """A part's ServiceAccount, ClusterRole and ClusterRoleBinding, and Role and RoleBinding where it has a home.

    ``account``: its name; of the part by default. In an order in which they can be created.
    """
    name, account = name_of(part), account or name_of(part)
    who = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    found = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _metadata(part, account, namespace)},
        _role("ClusterRole", _metadata(part, name), part.cluster_wide),
        _binding("ClusterRole", _metadata(part, name), name, who),
    ]
    if part.in_namespace:
        found += [
            _role("Role", _metadata(part, name, namespace), part.in_namespace),
            _binding("Role", _metadata(part, name, namespace), name, who),
        ]
    return found


def rule_tree(rule: PermissionRule) -> Tree:
    """A rule as roles hold it: a PolicyRule."""
    if rule.paths:
        return {"nonResourceURLs": list(rule.paths), "verbs": list(rule.verbs)}
    tree = {"apiGroups": list(rule.groups), "resources": list(rule.resources)}
    if rule.names:
        tree["resourceNames"] = list(rule.names)
    return {**tree, "verbs": list(rule.verbs)}


def labels_of(part: ComponentPermissions) -> dict[str, str]:
    """The labels of all that belongs to a part."""
    return {
        "app.kubernetes.io/name": "allotment",
        "app.kubernetes.io/component": part.name,
        "app.kubernetes.io/part-of": "allotment",
    }


def _metadata(part: ComponentPermissions, name: str, namespace: str = "") -> Tree:
    return {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels_of(part)}


def _role(kind: str, metadata: Tree, rules: Iterable[PermissionRule]) -> Tree:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "rules": [rule_tree(one) for one in rules]}


def _binding(kind: str, metadata: Tree, role: str, who: Tree) -> Tree:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "subjects": [who],
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
    }
