"""The table of built-in kinds: names, versions, subresources and selectable fields.

The names match the discovery documents of Kubernetes 1.36. Rules and table columns are defined in the modules of each
family and assigned here. Custom resources are registered at run time and are not in this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from allotment.apiserver.access import certificate_approval, rbac_validation
from allotment.apiserver.custom_resources import definitions
from allotment.apiserver.kinds import (
    autoscalers,
    cluster,
    config_maps_and_secrets,
    cron_jobs,
    endpoints,
    events,
    ingresses,
    jobs,
    namespace_limits,
    network_policies,
    pod_groups,
    pods,
    services,
    storage,
    volume_claims,
    workloads,
)
from allotment.apiserver.kinds.defaults import defaults_for
from allotment.apiserver.kinds.dra import dra_kinds
from allotment.apiserver.kinds.kind import Errors, KindRules, ServedKind, TableConverter, Write
from allotment.apiserver.kinds.quota_admission import check_quotas
from allotment.apiserver.reads import cluster_rows, device_rows, workload_rows
from allotment.apiserver.reads.pod_rows import PODS
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.model.validation.errors import FieldError

TABLES: Final[Mapping[str, TableConverter]] = {
    "pods": PODS,
    **workload_rows.TABLES,
    **cluster_rows.TABLES,
    **device_rows.TABLES,
}

_CREATE_ONLY: Final = ("create",)
#: Namespaces have no deletecollection, because deleting one deletes everything in it.
_NAMESPACE_VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
_ALL: Final = ("all",)
_EXTENSIONS: Final = ("api-extensions",)


def _field(*steps: str) -> Callable[[Tree], str]:
    """A reader for a selectable field: its value as text, or "" if unset."""

    def read(tree: Tree) -> str:
        value: Any = tree
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read


def _fields(*paths: str) -> Mapping[str, Callable[[Tree], str]]:
    return {path: _field(*path.split(".")) for path in paths}


def _with_default(read: Callable[[Tree], str], default: str) -> Callable[[Tree], str]:
    """Booleans and counts have a value even if the field is unset."""

    def reading(tree: Tree) -> str:
        return read(tree) or default

    return reading


_REGARDING: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")


def _event_source(tree: Tree) -> str:
    return str((tree.get("source") or {}).get("component") or tree.get("reportingComponent") or "")


_POD_FIELDS: Final = {
    **_fields(
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
        "status.podIP", "status.nominatedNodeName",
    ),
    "spec.hostNetwork": _with_default(_field("spec", "hostNetwork"), "false"),
}  # fmt: skip
_EVENT_FIELDS: Final = {
    **_fields(*(f"involvedObject.{name}" for name in _REGARDING), "reason", "reportingComponent", "type"),
    "source": _event_source,
}
#: The same events with the field names of events.k8s.io; selectors read the stored (core) shape.
_NEW_EVENT_FIELDS: Final = {
    **{f"regarding.{name}": _field("involvedObject", name) for name in _REGARDING},
    **_fields("reason", "type"),
    "reportingController": _field("reportingComponent"),
}
_REPLICAS_FIELD: Final = {"status.replicas": _with_default(_field("status", "replicas"), "0")}


_ENDPOINTS_DEPRECATED: Final = {"v1": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"}


def _core() -> tuple[ServedKind, ...]:
    def kind(name: str, plural: str, *short: str, namespaced: bool = True, **options: Any) -> ServedKind:
        return ServedKind("", ("v1",), name, plural, namespaced, name.lower(), short, **options)

    return (
        kind("Binding", "bindings", verbs=_CREATE_ONLY),
        kind("ConfigMap", "configmaps", "cm"),
        kind("Endpoints", "endpoints", "ep", deprecated=_ENDPOINTS_DEPRECATED),
        kind("Event", "events", "ev", fields=_EVENT_FIELDS),
        kind("LimitRange", "limitranges", "limits"),
        kind(
            "Namespace", "namespaces", "ns", namespaced=False, verbs=_NAMESPACE_VERBS,
            subresources=("finalize", "status"), fields=_fields("status.phase"), delete_returns_object=True,
        ),
        kind(
            "Node", "nodes", "no", namespaced=False, subresources=("status",),
            fields={"spec.unschedulable": _with_default(_field("spec", "unschedulable"), "false")},
        ),
        kind("PersistentVolumeClaim", "persistentvolumeclaims", "pvc", subresources=("status",)),
        kind("PersistentVolume", "persistentvolumes", "pv", namespaced=False, subresources=("status",)),
        kind(
            "Pod", "pods", "po", categories=_ALL, fields=_POD_FIELDS, delete_returns_object=True,
            subresources=(
                "attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "resize",
                "status",
            ),
        ),
        kind("PodTemplate", "podtemplates"),
        kind(
            "ReplicationController", "replicationcontrollers", "rc", categories=_ALL, subresources=("scale", "status"),
            fields=_REPLICAS_FIELD,
        ),
        kind("ResourceQuota", "resourcequotas", "quota", subresources=("status",)),
        kind("Secret", "secrets", fields=_fields("type")),
        kind("ServiceAccount", "serviceaccounts", "sa", subresources=("token",)),
        kind(
            "Service", "services", "svc", categories=_ALL, subresources=("status",),
            fields=_fields("spec.clusterIP", "spec.type"),
        ),
    )  # fmt: skip


def _grouped(
    group: str, name: str, plural: str, *short: str, namespaced: bool = True, versions: tuple[str, ...] = ("v1",),
    **options: Any,
) -> ServedKind:  # fmt: skip
    return ServedKind(group, versions, name, plural, namespaced, name.lower(), short, **options)


def _workloads() -> tuple[ServedKind, ...]:
    scaled: Any = {"categories": _ALL, "subresources": ("scale", "status")}
    watched: Any = {"categories": _ALL, "subresources": ("status",)}
    return (
        _grouped("apps", "ControllerRevision", "controllerrevisions"),
        _grouped("apps", "DaemonSet", "daemonsets", "ds", **watched),
        _grouped("apps", "Deployment", "deployments", "deploy", **scaled),
        _grouped("apps", "ReplicaSet", "replicasets", "rs", fields=_REPLICAS_FIELD, **scaled),
        _grouped("apps", "StatefulSet", "statefulsets", "sts", **scaled),
        _grouped(
            "autoscaling",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            "hpa",
            versions=("v2", "v1"),
            to_version=autoscalers.autoscaler_to_version,
            from_version=autoscalers.autoscaler_from_version,
            **watched,
        ),
        _grouped("batch", "CronJob", "cronjobs", "cj", **watched),
        _grouped(
            "batch",
            "Job",
            "jobs",
            fields={"status.successful": _with_default(_field("status", "succeeded"), "0")},
            **watched,
        ),
    )


def _reviews() -> tuple[ServedKind, ...]:
    authentication, authorization = "authentication.k8s.io", "authorization.k8s.io"
    cluster_scoped: Any = {"namespaced": False, "verbs": _CREATE_ONLY}
    return (
        _grouped(authentication, "SelfSubjectReview", "selfsubjectreviews", **cluster_scoped),
        _grouped(authentication, "TokenReview", "tokenreviews", **cluster_scoped),
        _grouped(authorization, "LocalSubjectAccessReview", "localsubjectaccessreviews", verbs=_CREATE_ONLY),
        _grouped(authorization, "SelfSubjectAccessReview", "selfsubjectaccessreviews", **cluster_scoped),
        _grouped(authorization, "SelfSubjectRulesReview", "selfsubjectrulesreviews", **cluster_scoped),
        _grouped(authorization, "SubjectAccessReview", "subjectaccessreviews", **cluster_scoped),
    )


def _cluster() -> tuple[ServedKind, ...]:
    admission, storage = "admissionregistration.k8s.io", "storage.k8s.io"
    rbac, networking = "rbac.authorization.k8s.io", "networking.k8s.io"
    cluster_scoped: Any = {"namespaced": False}
    extension: Any = {"namespaced": False, "categories": _EXTENSIONS, "rules": KindRules(has_generation=True)}
    status: Any = {"subresources": ("status",)}
    return (
        _grouped(
            "certificates.k8s.io", "CertificateSigningRequest", "certificatesigningrequests", "csr", **cluster_scoped,
            subresources=("approval", "status"), fields=_fields("spec.signerName"),
        ),
        _grouped(networking, "IngressClass", "ingressclasses", **cluster_scoped),
        _grouped(networking, "Ingress", "ingresses", "ing", **status),
        _grouped(networking, "IPAddress", "ipaddresses", "ip", **cluster_scoped),
        _grouped(networking, "NetworkPolicy", "networkpolicies", "netpol"),
        _grouped(networking, "ServiceCIDR", "servicecidrs", **cluster_scoped, **status),
        _grouped("policy", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", **status),
        _grouped(rbac, "ClusterRoleBinding", "clusterrolebindings", **cluster_scoped),
        _grouped(rbac, "ClusterRole", "clusterroles", **cluster_scoped),
        _grouped(rbac, "RoleBinding", "rolebindings"),
        _grouped(rbac, "Role", "roles"),
        _grouped(storage, "CSIDriver", "csidrivers", rules=KindRules(has_generation=True), **cluster_scoped),
        _grouped(storage, "CSINode", "csinodes", **cluster_scoped),
        _grouped(storage, "CSIStorageCapacity", "csistoragecapacities"),
        _grouped(storage, "StorageClass", "storageclasses", "sc", **cluster_scoped),
        _grouped(storage, "VolumeAttachment", "volumeattachments", **cluster_scoped, **status),
        _grouped(storage, "VolumeAttributesClass", "volumeattributesclasses", "vac", **cluster_scoped),
        _grouped(admission, "MutatingAdmissionPolicy", "mutatingadmissionpolicies", **extension),
        _grouped(admission, "MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", **extension),
        _grouped(admission, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", **extension),
        _grouped(admission, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", **extension, **status),
        _grouped(admission, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", **extension),
        _grouped(admission, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", **extension),
        _grouped(
            "apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions", "crd", "crds",
            **extension, **status,
        ),
        _grouped("scheduling.k8s.io", "PriorityClass", "priorityclasses", "pc", **cluster_scoped),
        _grouped("coordination.k8s.io", "Lease", "leases"),
        _grouped("node.k8s.io", "RuntimeClass", "runtimeclasses", **cluster_scoped),
        _grouped("discovery.k8s.io", "EndpointSlice", "endpointslices"),
    )  # fmt: skip


def _gang_scheduling() -> tuple[ServedKind, ...]:
    # KEP-4671: pods that are scheduled together or not at all; alpha, with claims for the whole group.
    alpha: Any = {"versions": ("v1alpha2",)}
    return (
        _grouped("scheduling.k8s.io", "PodGroup", "podgroups", subresources=("status",), **alpha),
        _grouped("scheduling.k8s.io", "Workload", "workloads", **alpha),
    )


_RULES: Final[Mapping[str, KindRules]] = {
    "pods": pods.RULES, **autoscalers.RULES, **namespace_limits.RULES, **cluster.RULES, **config_maps_and_secrets.RULES,
    **cron_jobs.RULES, **endpoints.RULES, **events.RULES, **ingresses.RULES, **jobs.RULES, **network_policies.RULES,
    **pod_groups.RULES,
    **rbac_validation.RULES, **certificate_approval.RULES, **services.RULES, **storage.RULES,
    **volume_claims.RULES, **workloads.RULES,
}  # fmt: skip
#: Kinds that a PUT can create, and kinds whose updates require a resourceVersion.
_CREATED_BY_UPDATE: Final = frozenset(
    {"endpoints", "events", "limitranges", "services", "leases.coordination.k8s.io", "events.events.k8s.io",
     "roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io",
     "rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io"}
)  # fmt: skip
_CONDITIONAL: Final = frozenset(
    {"leases.coordination.k8s.io", "poddisruptionbudgets.policy", "customresourcedefinitions.apiextensions.k8s.io",
     "volumeattachments.storage.k8s.io", "csinodes.storage.k8s.io", "runtimeclasses.node.k8s.io",
     "csidrivers.storage.k8s.io", "csistoragecapacities.storage.k8s.io"}
)  # fmt: skip


def _with_quota(kind: ServedKind) -> ServedKind:
    """Check the namespace's quotas for each new object that is otherwise valid."""
    if not kind.namespaced or "create" not in kind.verbs or kind.verbs == _CREATE_ONLY:
        return kind
    validate_create, create, bucket = kind.rules.validate_create, kind.rules.create, kind.store_bucket

    def validate_within_quota(tree: Tree, write: Write) -> Errors:
        errors = list(validate_create(tree, write))
        if not errors:
            check_quotas(bucket, tree, write)
        return errors

    def create_within_quota(tree: Tree, write: Write) -> tuple[Tree, Sequence[FieldError]]:
        assert create is not None
        tree, errors = create(tree, write)
        if not errors:
            check_quotas(bucket, tree, write)
        return tree, errors

    rules = (
        kind.rules._replace(validate_create=validate_within_quota)
        if create is None
        else kind.rules._replace(create=create_within_quota)
    )
    return kind._replace(rules=rules)


def _with_rules(kind: ServedKind) -> ServedKind:
    bucket = kind.bucket
    core = kind.stored_as or not kind.group  # events are stored in the core version
    stored = "v1" if core else f"{kind.group}/{kind.versions[0]}"
    rules = _RULES.get(bucket, kind.rules)._replace(default=defaults_for(stored, kind.kind))
    return kind._replace(
        rules=definitions.DEFINITION_RULES if bucket == definitions.DEFINITIONS else rules,
        create_on_update=bucket in _CREATED_BY_UPDATE,
        unconditional_update=bucket not in _CONDITIONAL,
        orphans_dependents=bucket in ("jobs.batch", "replicationcontrollers"),
    )


def built_in_kinds(features: Features) -> tuple[ServedKind, ...]:
    """All built-in kinds, in the order of Kubernetes' API groups."""
    new_events = _grouped(
        "events.k8s.io", "Event", "events", "ev", fields=_NEW_EVENT_FIELDS, stored_as="events",
        to_version=events.to_events_v1, from_version=events.from_events_v1,
    )  # fmt: skip
    gang = _gang_scheduling() if features.enabled("DRAWorkloadResourceClaims") else ()
    kinds = (*_core(), new_events, *_workloads(), *_reviews(), *_cluster(), *gang)
    with_rules = (*map(_with_rules, kinds), *dra_kinds(features))
    return tuple(_with_quota(kind._replace(table=kind.table or TABLES.get(kind.bucket))) for kind in with_rules)
