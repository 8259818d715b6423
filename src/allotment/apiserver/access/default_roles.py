"""The ClusterRoles, Roles and bindings that a cluster starts with, as data of each release and rules of feature gates.

``data/bootstrap_policy.json`` has what kube-apiserver creates with default gates; ``since`` marks what only later
releases have. ``view``, ``edit`` and ``admin`` have no rules of their own: a controller aggregates them from other
roles.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Final

import msgspec

from allotment.apiserver.access.rbac import PolicyRule
from allotment.decoding import decodable
from allotment.model.features import Features
from allotment.model.pod_groups import GENERIC, are_groups_enabled
from allotment.model.pod_groups import GROUP as GROUPS
from allotment.model.trees import Tree

_GROUP: Final = "rbac.authorization.k8s.io"
_LABEL: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_DEVICES: Final = "resource.k8s.io"
_SCHEDULER: Final = "system:kube-scheduler"
_JOBS: Final = "system:controller:job-controller"
_CLAIMS: Final = "system:controller:resource-claim-controller"
_EVICTIONS: Final = "system:controller:device-taint-eviction-controller"

#: Rules that depend on a gate: role, gate, verbs, group and resources.
_GATED: Final[Sequence[tuple[str, str, Sequence[str], str, Sequence[str]]]] = (
    (_SCHEDULER, "DRAExtendedResource", ("create", "delete"), _DEVICES, ("resourceclaims",)),
    (_SCHEDULER, "DRADeviceTaintRules", _READ, _DEVICES, ("devicetaintrules",)),
    (_SCHEDULER, "DRAResourceClaimGranularStatusAuthorization", ("patch", "update"), _DEVICES,
     ("resourceclaims/binding",)),
    (_EVICTIONS, "DRADeviceTaintRules", ("patch", "update"), _DEVICES, ("devicetaintrules/status",)),
    (_EVICTIONS, "DRADeviceTaintRules", _READ, _DEVICES, ("devicetaintrules",)),
    (_SCHEDULER, GENERIC, _READ, GROUPS, ("podgroups",)),
    (_SCHEDULER, GENERIC, ("patch", "update"), GROUPS, ("podgroups/status",)),
    (_SCHEDULER, "CompositePodGroup", _READ, GROUPS, ("compositepodgroups",)),
    (_SCHEDULER, "CompositePodGroup", ("patch", "update"), GROUPS, ("compositepodgroups/status",)),
    (_JOBS, "WorkloadWithJob", ("create", *_READ[:2], "patch", "update", "watch"), GROUPS, ("podgroups", "workloads")),
    (_CLAIMS, "DRAWorkloadResourceClaims", _READ, GROUPS, ("podgroups",)),
    (_CLAIMS, "DRAWorkloadResourceClaims", ("patch", "update"), GROUPS, ("podgroups/status",)),
    ("system:aggregate-to-edit", "CompositePodGroup", _WRITE, GROUPS, ("compositepodgroups",)),
    ("system:aggregate-to-view", "CompositePodGroup", _READ, GROUPS,
     ("compositepodgroups", "compositepodgroups/status")),
)  # fmt: skip


class _Policy(msgspec.Struct, frozen=True):
    """The packaged policy: roles and bindings of all releases."""

    roles: tuple[Tree, ...]
    bindings: tuple[Tree, ...]


@functools.cache
def _policy() -> _Policy:
    file = resources.files("allotment.apiserver.access").joinpath("data/bootstrap_policy.json")
    return msgspec.json.decode(file.read_bytes(), type=decodable(_Policy))


def _of_release(items: Sequence[Tree], features: Features) -> Iterator[Tree]:
    """The items that the release has, without the mark of their first release."""
    for item in items:
        if features.since(item.get("since", "1.0")):
            yield {name: value for name, value in item.items() if name != "since"}


def rule(verbs: Sequence[str], group: str, resources: Sequence[str]) -> Tree:
    """A PolicyRule for resources of one group."""
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


def _gated_rules(name: str, features: Features) -> Iterator[Tree]:
    """The rules of a role that depend on feature gates."""
    if are_groups_enabled(features):
        if name == "system:aggregate-to-edit":
            yield rule(_WRITE, GROUPS, ("podgroups", "workloads"))
        elif name == "system:aggregate-to-view":
            yield rule(_READ, GROUPS, ("podgroups", "podgroups/status", "workloads"))
    for role, gate, verbs, group, named in _GATED:
        if role == name and features.enabled(gate):
            yield rule(verbs, group, named)
    if name == _SCHEDULER:
        if features.enabled("DRADeviceTaints") and not features.since("1.35"):  # the rules have no gate of their own
            yield rule(_READ, _DEVICES, ("devicetaintrules",))
        if features.enabled(GENERIC) and not features.since("1.36"):  # groups are a part of workloads
            yield rule(_READ, GROUPS, ("workloads",))


def _metadata(item: Tree) -> Tree:
    metadata: Tree = {"name": item["name"], "labels": {**_LABEL, **item.get("labels", {})}}
    metadata["annotations"] = dict(_AUTOUPDATE)
    return metadata | ({"namespace": item["namespace"]} if "namespace" in item else {})


def default_roles(features: Features) -> Iterator[Tree]:
    """The ClusterRoles, then the Roles of namespaces."""
    for item in _of_release(_policy().roles, features):
        kind = "Role" if "namespace" in item else "ClusterRole"
        role: Tree = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": _metadata(item)}
        if "aggregationRule" in item:
            yield {**role, "aggregationRule": item["aggregationRule"]}
        else:
            yield {**role, "rules": [*_of_release(item["rules"], features), *_gated_rules(item["name"], features)]}


def node_rules(features: Features) -> Sequence[PolicyRule]:
    """The rules of the role ``system:node``, which the Node authorizer applies and no binding grants."""
    role = next(item for item in _of_release(_policy().roles, features) if item["name"] == "system:node")
    return [PolicyRule.from_tree(tree) for tree in _of_release(role["rules"], features)]


def default_bindings(features: Features) -> Iterator[Tree]:
    """The ClusterRoleBindings, then the RoleBindings of namespaces."""
    for item in _of_release(_policy().bindings, features):
        kind = "Role" if "namespace" in item else "ClusterRole"
        reference: Mapping[str, str] = {"apiGroup": _GROUP, "kind": kind, "name": item["name"]}
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": f"{kind}Binding",
            "metadata": _metadata(item),
            "subjects": item["subjects"],
            "roleRef": item.get("roleRef", reference),
        }
