"""Default ClusterRoles and ClusterRoleBindings, as a table.

``view``, ``edit`` and ``admin`` are for users within a namespace; the ``system:`` ones are for components. As upstream,
viewers cannot read secrets and roles, and only cluster administrators can change the status of resource claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from allotment.model.features import Features
from allotment.model.pod_groups import GENERIC, are_groups_enabled
from allotment.model.pod_groups import GROUP as GROUPS
from allotment.model.trees import Tree

_GROUP: Final = "rbac.authorization.k8s.io"
_LABEL: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AUTOUPDATE: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_ALL: Final = ("*",)

#: Resources that ``view`` can read, by group.
_VIEW_RESOURCES: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("", (
        "bindings", "configmaps", "endpoints", "events", "limitranges", "namespaces", "namespaces/status",
        "persistentvolumeclaims", "persistentvolumeclaims/status", "pods", "pods/log", "pods/status",
        "replicationcontrollers", "replicationcontrollers/scale", "replicationcontrollers/status", "resourcequotas",
        "resourcequotas/status", "serviceaccounts", "services", "services/status",
    )),
    ("apps", (
        "controllerrevisions", "daemonsets", "daemonsets/status", "deployments", "deployments/scale",
        "deployments/status", "replicasets", "replicasets/scale", "replicasets/status", "statefulsets",
        "statefulsets/scale", "statefulsets/status",
    )),
    ("autoscaling", ("horizontalpodautoscalers", "horizontalpodautoscalers/status")),
    ("batch", ("cronjobs", "cronjobs/status", "jobs", "jobs/status")),
    ("discovery.k8s.io", ("endpointslices",)),
    ("events.k8s.io", ("events",)),
    ("networking.k8s.io", ("ingresses", "ingresses/status", "networkpolicies")),
    ("policy", ("poddisruptionbudgets", "poddisruptionbudgets/status")),
    ("resource.k8s.io", ("resourceclaims", "resourceclaims/status", "resourceclaimtemplates")),
)  # fmt: skip
#: Resources that ``edit`` can change, by group.
_EDIT_RESOURCES: Final[Sequence[tuple[str, Sequence[str]]]] = (
    ("", (
        "configmaps", "events", "persistentvolumeclaims", "pods", "pods/attach", "pods/ephemeralcontainers",
        "pods/eviction", "pods/exec", "pods/portforward", "pods/proxy", "replicationcontrollers",
        "replicationcontrollers/scale", "secrets", "serviceaccounts", "services", "services/proxy",
    )),
    ("apps", (
        "daemonsets", "deployments", "deployments/rollback", "deployments/scale", "replicasets", "replicasets/scale",
        "statefulsets", "statefulsets/scale",
    )),
    ("autoscaling", ("horizontalpodautoscalers",)),
    ("batch", ("cronjobs", "jobs")),
    ("coordination.k8s.io", ("leases",)),
    ("networking.k8s.io", ("ingresses", "networkpolicies")),
    ("policy", ("poddisruptionbudgets",)),
    ("resource.k8s.io", ("resourceclaims", "resourceclaimtemplates")),
)  # fmt: skip
_HEALTH: Final = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY: Final = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH)


def rule(verbs: Sequence[str], group: str, *resources: str) -> Tree:
    """A PolicyRule for resources of one group."""
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


def _path_rule(verbs: Sequence[str], paths: Sequence[str]) -> Tree:
    return {"verbs": list(verbs), "nonResourceURLs": list(paths)}


def _review_rule(*names: str) -> Tree:
    return rule(("create",), "authorization.k8s.io", *names)


_VIEW: Final = [rule(_READ, group, *resources) for group, resources in _VIEW_RESOURCES]
_EDIT: Final = [
    *_VIEW,
    *(rule(_WRITE, group, *resources) for group, resources in _EDIT_RESOURCES),
    rule(_READ, "", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"),
    rule(_READ, "coordination.k8s.io", "leases"),
    rule(("impersonate",), "", "serviceaccounts"),
    rule(("create",), "", "serviceaccounts/token"),
]
_ADMIN: Final = [
    *_EDIT, _review_rule("localsubjectaccessreviews"), rule((*_READ, *_WRITE), _GROUP, "roles", "rolebindings")
]  # fmt: skip
_EVENTS: Final = [rule(("create", "patch", "update"), group, "events") for group in ("", "events.k8s.io")]
_SCHEDULER: Final = [
    *_EVENTS,
    rule((*_READ, "create", "update", "patch"), "coordination.k8s.io", "leases"),
    rule(_READ, "", "nodes", "namespaces", "persistentvolumeclaims", "persistentvolumes", "pods",
         "replicationcontrollers", "services"),
    rule(("delete",), "", "pods"),
    rule(("create",), "", "bindings", "pods/binding"),
    rule(("patch", "update"), "", "pods/status"),
    rule(_READ, "apps", "replicasets", "statefulsets"),
    rule(_READ, "policy", "poddisruptionbudgets"),
    rule(_READ, "storage.k8s.io", "csidrivers", "csinodes", "csistoragecapacities", "storageclasses",
         "volumeattachments"),
    rule((*_READ, "patch", "update"), "resource.k8s.io", "resourceclaims"),
    rule(("patch", "update"), "resource.k8s.io", "resourceclaims/status"),
    rule(_READ, "resource.k8s.io", "deviceclasses", "resourceslices"),
]  # fmt: skip
#: What kube-scheduler needs for features: gate, verbs, group and resource.
_SCHEDULER_BY_GATE: Final[Sequence[tuple[str, Sequence[str], str, str]]] = (
    ("DRAExtendedResource", ("create", "delete"), "resource.k8s.io", "resourceclaims"),
    ("DRADeviceTaintRules", _READ, "resource.k8s.io", "devicetaintrules"),
    ("DRAResourceClaimGranularStatusAuthorization", ("patch", "update"), "resource.k8s.io", "resourceclaims/binding"),
    (GENERIC, _READ, GROUPS, "podgroups"),
    (GENERIC, ("patch", "update"), GROUPS, "podgroups/status"),
    ("CompositePodGroup", _READ, GROUPS, "compositepodgroups"),
    ("CompositePodGroup", ("patch", "update"), GROUPS, "compositepodgroups/status"),
)
_NODE: Final = [
    *_EVENTS,
    rule((*_READ, "create", "update", "patch", "delete"), "coordination.k8s.io", "leases"),
    rule((*_READ, "create", "delete", "patch", "update"), "", "nodes", "nodes/status"),
    rule((*_READ, "create", "delete"), "", "pods"),
    rule(("patch", "update"), "", "pods/status"),
    rule(_READ, "", "configmaps", "persistentvolumeclaims", "persistentvolumes", "secrets", "serviceaccounts",
         "services"),
    rule(("create",), "", "pods/eviction", "serviceaccounts/token"),
    rule(("get",), "resource.k8s.io", "resourceclaims"),
    rule((*_READ, *_WRITE), "resource.k8s.io", "resourceslices"),
    rule(_READ, "node.k8s.io", "runtimeclasses"),
]  # fmt: skip
_EVERYTHING: Final = [rule(_ALL, "*", "*"), _path_rule(_ALL, ("*",))]


def _aggregation_rule(part: str) -> Tree:
    selector = {"matchLabels": {f"{_GROUP}/aggregate-to-{part}": "true"}}
    return {"aggregationRule": {"clusterRoleSelectors": [selector]}}


def _role(name: str, rules: Iterable[Tree], labels: Tree | None = None, **fields: Any) -> Tree:
    metadata = {"name": name, "labels": {**_LABEL, **(labels or {})}, "annotations": dict(_AUTOUPDATE)}
    return {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRole", "metadata": metadata, **fields, "rules": list(rules)}


def _user_facing_role(name: str, rules: Sequence[Tree]) -> Iterator[Tree]:
    """Yield a role to aggregate from, and the aggregated role, which users can extend by labels."""
    labels = {f"{_GROUP}/aggregate-to-{name}": "true"}
    yield _role(f"system:aggregate-to-{name}", rules, labels)
    # Each role includes the rules of the weaker one, those that users add included.
    parent = {"view": "edit", "edit": "admin"}.get(name)
    yield _role(name, rules, {f"{_GROUP}/aggregate-to-{parent}": "true"} if parent else None, **_aggregation_rule(name))


def _groups(features: Features) -> list[str]:
    """The resources of pod groups that these features have."""
    groups = ["podgroups", "workloads"] if are_groups_enabled(features) else []
    return [*groups, *(["compositepodgroups"] if features.enabled("CompositePodGroup") else [])]


def _scheduler_rules(features: Features) -> Iterator[Tree]:
    yield from _SCHEDULER
    for gate, verbs, group, resource in _SCHEDULER_BY_GATE:
        if features.enabled(gate):
            yield rule(verbs, group, resource)
    if features.enabled("DRADeviceTaints") and not features.since("1.35"):  # the rules have no gate of their own yet
        yield rule(_READ, "resource.k8s.io", "devicetaintrules")
    if features.enabled(GENERIC) and not features.since("1.36"):  # groups are a part of workloads
        yield rule(_READ, GROUPS, "workloads")


def cluster_roles(features: Features) -> Iterator[Tree]:
    groups = _groups(features)
    statuses = [f"{name}/status" for name in groups if name != "workloads"]
    read = [rule(_READ, GROUPS, *groups, *statuses)] if groups else []
    change = [rule(_WRITE, GROUPS, *groups)] if groups else []
    yield _role("cluster-admin", _EVERYTHING)
    for name, rules in (
        ("admin", [*_ADMIN, *read, *change]), ("edit", [*_EDIT, *read, *change]), ("view", [*_VIEW, *read])
    ):  # fmt: skip
        yield from _user_facing_role(name, rules)
    yield _role("system:discovery", [_path_rule(("get",), _DISCOVERY)])
    yield _role(
        "system:monitoring",
        [_path_rule(("get",), ("/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*"))],
    )
    yield _role("system:public-info-viewer", [_path_rule(("get",), _HEALTH)])
    yield _role(
        "system:basic-user",
        [
            _review_rule("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
            rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
        ],
    )
    yield _role(
        "system:auth-delegator",
        [rule(("create",), "authentication.k8s.io", "tokenreviews"), _review_rule("subjectaccessreviews")],
    )
    yield _role("system:kube-scheduler", _scheduler_rules(features))
    yield _role("system:kube-controller-manager", _EVERYTHING[:1])
    yield _role("system:node", _NODE)


def cluster_role_bindings() -> Iterator[Tree]:
    groups = "system:authenticated", "system:unauthenticated"
    for role, subjects in (
        ("cluster-admin", [("Group", "system:masters")]),
        ("system:discovery", [("Group", groups[0])]),
        ("system:basic-user", [("Group", groups[0])]),
        ("system:public-info-viewer", [("Group", group) for group in groups]),
        ("system:monitoring", [("Group", "system:monitoring")]),
        ("system:kube-scheduler", [("User", "system:kube-scheduler")]),
        ("system:kube-controller-manager", [("User", "system:kube-controller-manager")]),
        ("system:node", [("Group", "system:nodes")]),
    ):
        yield {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role, "labels": dict(_LABEL), "annotations": dict(_AUTOUPDATE)},
            "subjects": [{"kind": kind, "apiGroup": _GROUP, "name": name} for kind, name in subjects],
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        }
