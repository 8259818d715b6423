"""The built-in kinds of a server: what its release, gates and flags serve, with selectable fields and rules.

Names, versions and subresources are those of the release's table (:mod:`allotment.model.releases`). Rules and table
columns are defined in the modules of each family and assigned here. A kind without an entry is only stored. Custom
resources are registered at run time and are not in these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from allotment.apiserver.access import certificate_approval, rbac_validation
from allotment.apiserver.admission import mutating_policy_rules, policy_rules, webhook_rules
from allotment.apiserver.custom_resources import definitions
from allotment.apiserver.kinds import (
    api_services,
    autoscalers,
    certificates,
    cluster,
    config_maps_and_secrets,
    cron_jobs,
    endpoints,
    events,
    ingresses,
    ip_addresses,
    jobs,
    namespace_limits,
    network_policies,
    pod_groups,
    pods,
    secret_restrictions,
    services,
    storage,
    volume_claims,
    workloads,
)
from allotment.apiserver.kinds.defaults import defaults_for
from allotment.apiserver.kinds.disabled_fields import drop_for
from allotment.apiserver.kinds.dra import dra_options
from allotment.apiserver.kinds.kind import Errors, KindRules, ServedKind, TableConverter, TypedWrite, Write
from allotment.apiserver.kinds.quota_admission import check_quotas
from allotment.apiserver.reads import cluster_rows, device_rows, workload_rows
from allotment.apiserver.reads.pod_rows import PODS
from allotment.apiserver.runtime_config import ServedResource, served_resources
from allotment.model.features import Features
from allotment.model.releases import VERBS
from allotment.model.trees import Tree

TABLES: Final[Mapping[str, TableConverter]] = {
    "pods": PODS,
    **workload_rows.TABLES,
    **cluster_rows.TABLES,
    **device_rows.TABLES,
}

_CREATE_ONLY: Final = ("create",)


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


#: Resources and subresources of Kubernetes that discovery does not list, with the reason.
NOT_SERVED: Final[Mapping[str, str]] = {
    "componentstatuses": "deprecated since 1.19; a lab is one process without components",
    "nodes/proxy": "kubelets of a lab have no HTTP server; only GET of their /metrics is answered",
    "pods/proxy": "requests are answered, but documents do not contain them",
    "services/proxy": "requests are answered, but documents do not contain them",
}
#: A version of workloads that only 1.35 has, without pod groups.
_NO_GROUPS: Final = ("workloads.scheduling.k8s.io", "v1alpha1")

_WITH_GENERATION: Final = {"rules": KindRules(has_generation=True)}
_RETURNS_OBJECT: Final = {"delete_returns_object": True}
#: Properties of kinds that the table does not have, by bucket.
_OPTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    "endpoints": {"deprecated": _ENDPOINTS_DEPRECATED},
    "events": {"fields": _EVENT_FIELDS},
    "namespaces": {"fields": _fields("status.phase"), **_RETURNS_OBJECT},
    "nodes": {"fields": {"spec.unschedulable": _with_default(_field("spec", "unschedulable"), "false")}},
    "pods": {"fields": _POD_FIELDS, **_RETURNS_OBJECT},
    "replicationcontrollers": {"fields": _REPLICAS_FIELD},
    "secrets": {"fields": _fields("type")},
    "services": {"fields": _fields("spec.clusterIP", "spec.type")},
    "events.events.k8s.io": {
        "fields": _NEW_EVENT_FIELDS, "stored_as": "events", "to_version": events.to_events_v1,
        "from_version": events.from_events_v1,
    },
    "replicasets.apps": {"fields": _REPLICAS_FIELD},
    "horizontalpodautoscalers.autoscaling": {
        "to_version": autoscalers.autoscaler_to_version, "from_version": autoscalers.autoscaler_from_version,
    },
    "jobs.batch": {"fields": {"status.successful": _with_default(_field("status", "succeeded"), "0")}},
    "certificatesigningrequests.certificates.k8s.io": {"fields": _fields("spec.signerName")},
    "clustertrustbundles.certificates.k8s.io": {"fields": _fields("spec.signerName")},
    "podcertificaterequests.certificates.k8s.io": {
        "fields": _fields("spec.signerName", "spec.podName", "spec.nodeName"),
    },
    "csidrivers.storage.k8s.io": _WITH_GENERATION,
    "flowschemas.flowcontrol.apiserver.k8s.io": _WITH_GENERATION,
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": _WITH_GENERATION,
    **{
        f"{plural}.admissionregistration.k8s.io": _WITH_GENERATION
        for plural in (
            "mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations",
            "validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations",
        )
    },
    "customresourcedefinitions.apiextensions.k8s.io": _WITH_GENERATION,
    **{
        f"{plural}.scheduling.k8s.io": {"conditional_update": frozenset({"v1beta1", "v1alpha3"})}
        for plural in ("podgroups", "workloads", "compositepodgroups")
    },
}  # fmt: skip


_RULES: Final[Mapping[str, KindRules]] = {
    "pods": pods.RULES, **api_services.RULES, **autoscalers.RULES,
    **namespace_limits.RULES, **cluster.RULES, **config_maps_and_secrets.RULES,
    **cron_jobs.RULES, **endpoints.RULES, **events.RULES, **ingresses.RULES, **ip_addresses.RULES, **jobs.RULES,
    **network_policies.RULES,
    **policy_rules.RULES, **mutating_policy_rules.RULES, **webhook_rules.RULES,
    **secret_restrictions.RULES,
    **rbac_validation.RULES, **certificate_approval.RULES, **services.RULES, **storage.RULES,
    **volume_claims.RULES, **workloads.RULES,
    "clustertrustbundles.certificates.k8s.io": KindRules(name=certificates.bundle_name_problems),
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

    def create_within_quota(tree: Tree, write: Write) -> TypedWrite:
        assert create is not None
        result = create(tree, write)
        if not result.errors:
            check_quotas(bucket, result.tree, write)
        return result

    rules = (
        kind.rules._replace(validate_create=validate_within_quota)
        if create is None
        else kind.rules._replace(create=create_within_quota)
    )
    return kind._replace(rules=rules)


def _with_rules(kind: ServedKind, features: Features) -> ServedKind:
    bucket = kind.bucket
    core = kind.stored_as or not kind.group  # events are stored in the core version
    stored = "v1" if core else f"{kind.group}/{kind.storage_version}"
    rules = pod_groups.group_rules(bucket, kind.storage_version, features) or _RULES.get(bucket, kind.rules)._replace(
        default=defaults_for(stored, kind.kind), drop_disabled=drop_for(bucket)
    )
    if bucket == "horizontalpodautoscalers.autoscaling":
        rules = rules._replace(has_generation=autoscalers.is_since_1_37(features))
    return kind._replace(
        rules=definitions.DEFINITION_RULES if bucket == definitions.DEFINITIONS else rules,
        create_on_update=bucket in _CREATED_BY_UPDATE,
        unconditional_update=bucket not in _CONDITIONAL,
        orphans_dependents=bucket in ("jobs.batch", "replicationcontrollers"),
    )


def _served_kind(resource: ServedResource, features: Features, typed: Mapping[str, Mapping[str, Any]]) -> ServedKind:
    """A kind with the names of the release's table; ``typed``: those that are validated as typed values."""
    api, bucket = resource.api, _bucket(resource)
    options: dict[str, Any] = {**_OPTIONS.get(bucket, {}), **typed.get(bucket, {})}
    options.setdefault("deprecated", resource.deprecated)
    subresources = tuple(name for name in resource.subresources if f"{resource.plural}/{name}" not in NOT_SERVED)
    kind = ServedKind(
        resource.group, resource.versions, api.kind, resource.plural, api.namespaced, api.singular, api.short,
        api.categories, subresources, api.verbs or VERBS, hub=resource.hub, stored_in=api.storage,
        release=features.kube, **options,
    )  # fmt: skip
    return kind if bucket in typed else _with_rules(kind, features)


def _bucket(resource: ServedResource) -> str:
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def built_in_kinds(features: Features, runtime_config: Iterable[str] = ()) -> tuple[ServedKind, ...]:
    """The built-in kinds that a server with these features and ``--runtime-config`` serves, by API group.

    Raises :class:`~allotment.apiserver.runtime_config.RuntimeConfigError` for values that kube-apiserver refuses.
    """
    typed = dra_options(features)
    kinds = (
        _served_kind(resource, features, typed)
        for resource in served_resources(features, runtime_config)
        if _bucket(resource) not in NOT_SERVED and (_bucket(resource), resource.hub) != _NO_GROUPS
    )
    return tuple(_with_quota(kind._replace(table=kind.table or TABLES.get(kind.bucket))) for kind in kinds)
