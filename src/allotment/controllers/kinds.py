"""The built-in and custom resources to which garbage collection, namespace deletion and quotas apply.

Garbage collection and namespace deletion apply to all kinds. Events are excluded: they are numerous, own nothing, and
expire by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from allotment.cluster import resources as known
from allotment.cluster.cached_item import CachedItem
from allotment.cluster.client import Resource

BUILT_IN: Final[tuple[Resource, ...]] = (
    known.PODS, known.SERVICES, known.ENDPOINTS, known.CONFIG_MAPS, known.SECRETS, known.SERVICE_ACCOUNTS,
    known.RESOURCE_QUOTAS, known.LIMIT_RANGES, known.VOLUME_CLAIMS, known.VOLUMES, known.REPLICATION_CONTROLLERS,
    known.NODES, known.NAMESPACES,
    Resource("", "v1", "podtemplates", "PodTemplate", True),
    known.DEPLOYMENTS, known.REPLICA_SETS, known.STATEFUL_SETS, known.DAEMON_SETS, known.CONTROLLER_REVISIONS,
    known.JOBS, known.CRON_JOBS, known.LEASES, known.ENDPOINT_SLICES, known.DISRUPTION_BUDGETS,
    known.PRIORITY_CLASSES, known.POD_GROUPS, known.COMPOSITE_POD_GROUPS, known.WORKLOADS, known.CUSTOM_KINDS,
    known.CLAIMS, known.CLAIM_TEMPLATES, known.DEVICE_CLASSES, known.SLICES, known.TAINT_RULES,
    known.POOL_STATUS_REQUESTS,
    known.HORIZONTAL_AUTOSCALERS,
    Resource("networking.k8s.io", "v1", "ingresses", "Ingress", True),
    Resource("networking.k8s.io", "v1", "ingressclasses", "IngressClass", False),
    Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", True),
    Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", True),
    Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", True),
    known.CLUSTER_ROLES,
    Resource("rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", False),
    Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False),
    Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False),
    Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False),
    Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False),
    Resource("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
             False),
    Resource("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
             "ValidatingWebhookConfiguration", False),
)  # fmt: skip


def defined(definition: CachedItem[Any]) -> Iterator[Resource]:
    """The resource that a CustomResourceDefinition defines, at its storage version, once it is served."""
    conditions = definition.status.get("conditions") or ()
    if not any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
        return
    spec = definition.spec
    for version in spec["versions"]:
        if version.get("storage") and version.get("served"):
            names = spec["names"]
            yield Resource(
                spec["group"], version["name"], names["plural"], names["kind"], spec["scope"] == "Namespaced"
            )
