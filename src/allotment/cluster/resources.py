"""The built-in resources that programs use, in the version they use."""

from __future__ import annotations

from typing import Final

from allotment.cluster.client import Resource

PODS: Final = Resource("", "v1", "pods", "Pod", True)
NODES: Final = Resource("", "v1", "nodes", "Node", False)
NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", False)
SERVICES: Final = Resource("", "v1", "services", "Service", True)
ENDPOINTS: Final = Resource("", "v1", "endpoints", "Endpoints", True)
CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap", True)
SECRETS: Final = Resource("", "v1", "secrets", "Secret", True)
CLUSTER_TRUST_BUNDLES: Final = Resource("certificates.k8s.io", "v1", "clustertrustbundles", "ClusterTrustBundle", False)
SERVICE_ACCOUNTS: Final = Resource("", "v1", "serviceaccounts", "ServiceAccount", True)
EVENTS: Final = Resource("", "v1", "events", "Event", True)
RESOURCE_QUOTAS: Final = Resource("", "v1", "resourcequotas", "ResourceQuota", True)
LIMIT_RANGES: Final = Resource("", "v1", "limitranges", "LimitRange", True)
VOLUME_CLAIMS: Final = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True)
VOLUMES: Final = Resource("", "v1", "persistentvolumes", "PersistentVolume", False)
REPLICATION_CONTROLLERS: Final = Resource("", "v1", "replicationcontrollers", "ReplicationController", True)

DEPLOYMENTS: Final = Resource("apps", "v1", "deployments", "Deployment", True)
REPLICA_SETS: Final = Resource("apps", "v1", "replicasets", "ReplicaSet", True)
STATEFUL_SETS: Final = Resource("apps", "v1", "statefulsets", "StatefulSet", True)
DAEMON_SETS: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", True)
CONTROLLER_REVISIONS: Final = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True)

JOBS: Final = Resource("batch", "v1", "jobs", "Job", True)
CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob", True)

LEASES: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", True)
ENDPOINT_SLICES: Final = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True)
NEW_EVENTS: Final = Resource("events.k8s.io", "v1", "events", "Event", True)
CLUSTER_ROLES: Final = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", False)
FLOW_SCHEMAS: Final = Resource("flowcontrol.apiserver.k8s.io", "v1", "flowschemas", "FlowSchema", False)
PRIORITY_LEVELS: Final = Resource(
    "flowcontrol.apiserver.k8s.io", "v1", "prioritylevelconfigurations", "PriorityLevelConfiguration", False
)
HORIZONTAL_AUTOSCALERS: Final = Resource(
    "autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", True
)
DISRUPTION_BUDGETS: Final = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True)
STORAGE_CLASSES: Final = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False)
CSI_DRIVERS: Final = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", False)
CSI_NODES: Final = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False)
CSI_CAPACITIES: Final = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", True)
PRIORITY_CLASSES: Final = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False)
WORKLOADS: Final = Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload", True)
POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", True)
COMPOSITE_POD_GROUPS: Final = Resource("scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup", True)
CUSTOM_KINDS: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)

CLAIMS: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", True)
CLAIM_TEMPLATES: Final = Resource("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", True)
DEVICE_CLASSES: Final = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", False)
SLICES: Final = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", False)
TAINT_RULES: Final = Resource("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", False)
POOL_STATUS_REQUESTS: Final = Resource(
    "resource.k8s.io", "v1alpha3", "resourcepoolstatusrequests", "ResourcePoolStatusRequest", False
)
