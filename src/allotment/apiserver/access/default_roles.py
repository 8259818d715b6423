"""The cluster roles that every cluster starts with, as a table.

``view``, ``edit`` and ``admin`` are for people, inside a namespace; the ``system:`` ones are for programs. As upstream,
secrets and roles are not for viewers, and nobody but an administrator of the cluster changes claims' statuses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from allotment.model.trees import Tree

_GROUP: Final = "rbac.authorization.k8s.io"
_LABEL: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_DEFAULTED: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_READ: Final = ("get", "list", "watch")
_WRITE: Final = ("create", "delete", "deletecollection", "patch", "update")
_ALL: Final = ("*",)

#: What may be looked at in a namespace, by group.
_VISIBLE: Final[Sequence[tuple[str, Sequence[str]]]] = (
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
#: What may be changed there.
_CHANGEABLE: Final[Sequence[tuple[str, Sequence[str]]]] = (
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
    """A rule about objects of one group."""
    return {"verbs": list(verbs), "apiGroups": [group], "resources": list(resources)}


def _paths(verbs: Sequence[str], paths: Sequence[str]) -> Tree:
    return {"verbs": list(verbs), "nonResourceURLs": list(paths)}


def _reviews(*names: str) -> Tree:
    return rule(("create",), "authorization.k8s.io", *names)


_VIEW: Final = [rule(_READ, group, *resources) for group, resources in _VISIBLE]
_EDIT: Final = [
    *_VIEW,
    *(rule(_WRITE, group, *resources) for group, resources in _CHANGEABLE),
    rule(_READ, "", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"),
    rule(_READ, "coordination.k8s.io", "leases"),
    rule(("impersonate",), "", "serviceaccounts"),
    rule(("create",), "", "serviceaccounts/token"),
]
_ADMIN: Final = [
    *_EDIT, _reviews("localsubjectaccessreviews"), rule((*_READ, *_WRITE), _GROUP, "roles", "rolebindings")
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
    rule(_READ, "scheduling.k8s.io", "podgroups", "priorityclasses", "workloads"),
    rule((*_READ, "create", "delete", "patch", "update"), "resource.k8s.io", "resourceclaims"),
    rule(("patch", "update"), "resource.k8s.io", "resourceclaims/status", "resourceclaims/binding"),
    rule(_READ, "resource.k8s.io", "deviceclasses", "devicetaintrules", "resourceslices"),
]  # fmt: skip
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
_EVERYTHING: Final = [rule(_ALL, "*", "*"), _paths(_ALL, ("*",))]


def _aggregated(part: str) -> Tree:
    selector = {"matchLabels": {f"{_GROUP}/aggregate-to-{part}": "true"}}
    return {"aggregationRule": {"clusterRoleSelectors": [selector]}}


def _role(name: str, rules: Sequence[Tree], labels: Tree | None = None, **more: Any) -> Tree:
    metadata = {"name": name, "labels": {**_LABEL, **(labels or {})}, "annotations": dict(_DEFAULTED)}
    return {"apiVersion": f"{_GROUP}/v1", "kind": "ClusterRole", "metadata": metadata, **more, "rules": list(rules)}


def _part(name: str, rules: Sequence[Tree]) -> Iterator[Tree]:
    """A role for people: what is to be gathered, and the role that gathers it and what users add."""
    into = {f"{_GROUP}/aggregate-to-{name}": "true"}
    yield _role(f"system:aggregate-to-{name}", rules, into)
    # Who may more may all that those may who may less, what users add to their roles included.
    upwards = {"view": "edit", "edit": "admin"}.get(name)
    yield _role(name, rules, {f"{_GROUP}/aggregate-to-{upwards}": "true"} if upwards else None, **_aggregated(name))


def cluster_roles() -> Iterator[Tree]:
    """All of them."""
    yield _role("cluster-admin", _EVERYTHING)
    for name, rules in (("admin", _ADMIN), ("edit", _EDIT), ("view", _VIEW)):
        yield from _part(name, rules)
    yield _role("system:discovery", [_paths(("get",), _DISCOVERY)])
    yield _role(
        "system:monitoring",
        [_paths(("get",), ("/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/readyz", "/readyz/*"))],
    )
    yield _role("system:public-info-viewer", [_paths(("get",), _HEALTH)])
    yield _role(
        "system:basic-user",
        [
            _reviews("selfsubjectaccessreviews", "selfsubjectrulesreviews"),
            rule(("create",), "authentication.k8s.io", "selfsubjectreviews"),
        ],
    )
    yield _role(
        "system:auth-delegator",
        [rule(("create",), "authentication.k8s.io", "tokenreviews"), _reviews("subjectaccessreviews")],
    )
    yield _role("system:kube-scheduler", _SCHEDULER)
    yield _role("system:kube-controller-manager", _EVERYTHING[:1])
    yield _role("system:node", _NODE)


def cluster_role_bindings() -> Iterator[Tree]:
    """Who has them."""
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
            "metadata": {"name": role, "labels": dict(_LABEL), "annotations": dict(_DEFAULTED)},
            "subjects": [{"kind": kind, "apiGroup": _GROUP, "name": name} for kind, name in subjects],
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        }
