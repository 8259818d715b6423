"""The permissions of each component, from which roles, charts, checks and documentation are generated.

Every verb is required: without it, something fails or is not done. Objects that are read once need ``list``; objects
that are watched also need ``watch`` (``allot explain --watch``). Permissions that every identity has are not listed:
``/version``, discovery, and reviews of its own permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.fleet.amd import DRIVER as AMD_DRIVER
from allotment.fleet.nvidia import DRIVER as NVIDIA_DRIVER
from allotment.permissions.rule import ComponentPermissions, PermissionRule

_DRA: Final = ("resource.k8s.io",)
_CORE: Final = ("",)
_LIST: Final = ("list",)
_WATCH: Final = ("list", "watch")
_GROUPS: Final = PermissionRule(
    ("scheduling.k8s.io",), ("podgroups",), _WATCH, "pods that are scheduled together (gate GenericWorkload)",
)  # fmt: skip


def lease_of(component: str) -> str:
    """The name of the Lease for leader election of a component.

    >>> lease_of("scheduler")
    'allotment-scheduler'
    """
    return f"allotment-{component}"


def _leading(component: str) -> tuple[PermissionRule, ...]:
    groups, resources = ("coordination.k8s.io",), ("leases",)
    return (
        PermissionRule(groups, resources, ("create",), "creation of the Lease (resourceNames cannot restrict create)"),
        PermissionRule(groups, resources, ("get", "update"), "leader election", names=(lease_of(component),)),
    )


#: Authentication and authorization of clients that read metrics.
_SERVING: Final = (
    PermissionRule(
        ("authentication.k8s.io",), ("tokenreviews",), ("create",),
        "authentication of clients that read metrics over TLS",
    ),
    PermissionRule(
        ("authorization.k8s.io",), ("subjectaccessreviews",), ("create",),
        "authorization of these clients for /metrics",
    ),
)  # fmt: skip


def _events(group: str, why: str) -> PermissionRule:
    return PermissionRule((group,), ("events",), ("create", "patch"), f"{why}; repeated events are counted")


_OLD_EVENTS, _NEW_EVENTS = "", "events.k8s.io"

_GATES: Final = PermissionRule((), (), ("get",), "feature gates of the API server", paths=("/metrics",))

#: The objects that explain devices and pods: for the read-only tools, and for the page.
_EXPLAINING: Final = (
    PermissionRule(_CORE, ("nodes",), _WATCH, "nodes with devices, and the nodes that a pod may use"),
    PermissionRule(
        _DRA, ("deviceclasses", "resourceslices", "resourceclaims"), _WATCH, "published devices and their allocations",
    ),
    PermissionRule(_DRA, ("devicetaintrules",), _WATCH, "devices tainted by an administrator"),
    PermissionRule(_DRA, ("resourceclaimtemplates",), _WATCH, "device requests of claims that will be generated"),
    PermissionRule(_CORE, ("pods",), _WATCH, "pods that request devices"),
    PermissionRule(_CORE, ("namespaces",), _WATCH, "whether admin access is allowed; namespace selectors"),
    PermissionRule(
        ("apps",), ("deployments", "replicasets", "statefulsets", "daemonsets"), _WATCH, "workloads that own the pods",
    ),
    PermissionRule(("batch",), ("jobs", "cronjobs"), _WATCH, "workloads that own the pods"),
    PermissionRule(_CORE, ("replicationcontrollers",), _WATCH, "workloads that own the pods"),
    _GROUPS,
)  # fmt: skip

_READER: Final = ComponentPermissions(
    "reader",
    "read-only tools such as explain, free and doctor",
    (
        *_EXPLAINING,
        PermissionRule(
            _CORE, ("persistentvolumes", "persistentvolumeclaims"), _LIST,
            "volumes that restrict a pod to a zone, for plans and snapshots",
        ),
        PermissionRule(
            ("storage.k8s.io",), ("storageclasses",), _LIST, "zones of volumes that are not provisioned yet",
        ),
        PermissionRule(_CORE, ("events",), _LIST, "events about pods, for snapshots and allot doctor"),
        PermissionRule(_CORE, ("resourcequotas",), _LIST, "quotas for claims, for allot doctor"),
        PermissionRule(("coordination.k8s.io",), ("leases",), _LIST, "running schedulers and controllers, for allot "
            "doctor"),
        _GATES,
    ),
)  # fmt: skip

_SCHEDULER: Final = ComponentPermissions(
    "scheduler",
    "schedules pods and allocates their devices",
    (
        PermissionRule(_CORE, ("pods",), _WATCH, "pending pods, and pods that are already scheduled"),
        PermissionRule(
            _CORE, ("pods",), ("get",),
            "whether a binding succeeded if its response was lost, and whether a pod has started",
        ),
        PermissionRule(
            _CORE, ("pods",), ("delete",),
            "preemption of pods with lower priority; pods whose devices were also allocated by another scheduler",
        ),
        PermissionRule(_CORE, ("pods/binding",), ("create",), "binding of pods to nodes"),
        PermissionRule(_CORE, ("pods/status",), ("patch",), "conditions and claim names in the status of pods"),
        PermissionRule(_CORE, ("nodes", "namespaces"), _WATCH, "eligible nodes; namespace selectors"),
        PermissionRule(
            _CORE, ("persistentvolumes", "persistentvolumeclaims"), _WATCH, "the nodes that can use the pods' volumes",
        ),
        PermissionRule(
            _CORE, ("persistentvolumes", "persistentvolumeclaims"), ("update",),
            "volumes and nodes for claims that are bound when their first pod is scheduled",
        ),
        PermissionRule(
            ("storage.k8s.io",), ("storageclasses", "csidrivers", "csinodes", "csistoragecapacities"), _WATCH,
            "classes, limits and capacities of volumes",
        ),
        PermissionRule(
            _DRA, ("resourceslices", "deviceclasses", "devicetaintrules", "resourceclaimtemplates"), _WATCH,
            "published devices, and device requests of claims that will be generated",
        ),
        PermissionRule(_DRA, ("resourceclaims",), _WATCH, "requests of pods, and current allocations"),
        PermissionRule(_DRA, ("resourceclaims",), ("get",), "the current claim, after a conflict or before a rollback"),
        PermissionRule(
            _DRA, ("resourceclaims",), ("update",),
            "the finalizer and annotation on allocated claims, and the label on claims that were set aside",
        ),
        PermissionRule(
            _DRA, ("resourceclaims",), ("create", "delete"),
            "claims for extended resources, and replacements of claims that were set aside",
        ),
        PermissionRule(
            _DRA, ("resourceclaims/status",), ("update",), "allocation, reservation and deallocation of claims",
        ),
        PermissionRule(
            _DRA, ("resourceclaims/binding",), ("update",),
            "the same, if allocations require a separate permission (since Kubernetes 1.36)",
        ),
        PermissionRule(("policy",), ("poddisruptionbudgets",), _WATCH, "pods protected from preemption"),
        PermissionRule(
            ("scheduling.k8s.io",), ("podgroups", "compositepodgroups"), _WATCH,
            "pods that are scheduled together (gates GenericWorkload, CompositePodGroup)",
        ),
        PermissionRule(
            ("scheduling.k8s.io",), ("podgroups/status",), ("patch",),
            "whether all pods of a group were scheduled",
        ),
        _events(_NEW_EVENTS, "scheduling results"),
        *_SERVING,
    ),
    _leading("scheduler"),
)  # fmt: skip

_CLAIMS: Final = ComponentPermissions(
    "claims",
    "generates claims from templates, and releases them",
    (
        PermissionRule(_CORE, ("pods",), _WATCH, "pods that need claims, and pods that have finished"),
        PermissionRule(
            _CORE, ("pods",), ("get",),
            "whether a pod that is missing from the cache was really deleted, before its claim is deallocated",
        ),
        PermissionRule(_CORE, ("pods/status",), ("patch",), "names of generated claims in the status of pods"),
        PermissionRule(_DRA, ("resourceclaimtemplates",), _WATCH, "claim templates"),
        PermissionRule(_DRA, ("resourceclaimtemplates",), ("get",), "a new template that is not in the cache yet"),
        PermissionRule(_DRA, ("resourceclaims",), _WATCH, "existing claims"),
        PermissionRule(_DRA, ("resourceclaims",), ("get",), "whether a claim that a pod references was deleted"),
        PermissionRule(
            _DRA, ("resourceclaims",), ("create", "delete"), "claims are created for pods, and deleted with them",
        ),
        PermissionRule(_DRA, ("resourceclaims",), ("update",), "removal of the finalizer from unused claims"),
        PermissionRule(
            _DRA, ("resourceclaims/status",), ("update",),
            "deallocation of claims, and reservation for pods that have a node",
        ),
        PermissionRule(
            _DRA, ("resourceclaims/binding",), ("update",),
            "the same, if allocations require a separate permission (since Kubernetes 1.36)",
        ),
        PermissionRule(
            ("scheduling.k8s.io",), ("podgroups",), (*_WATCH, "get"),
            "claims of PodGroups (gate DRAWorkloadResourceClaims)",
        ),
        PermissionRule(
            ("scheduling.k8s.io",), ("podgroups/status",), ("patch",),
            "names of generated claims in the status of PodGroups",
        ),
        _events(_OLD_EVENTS, "reasons why a claim could not be created"),
        *_SERVING,
    ),
    _leading("claims"),
)  # fmt: skip

_TAINTS: Final = ComponentPermissions(
    "taints",
    "evicts pods that use devices with NoExecute taints",
    (
        PermissionRule(_CORE, ("pods",), _WATCH, "pods with devices"),
        PermissionRule(_CORE, ("pods",), ("delete",), "eviction of pods"),
        PermissionRule(_CORE, ("pods/status",), ("update",), "the DisruptionTarget condition of evicted pods"),
        PermissionRule(_DRA, ("resourceslices", "devicetaintrules"), _WATCH, "tainted devices"),
        PermissionRule(_DRA, ("resourceclaims",), _WATCH, "allocations of tainted devices"),
        PermissionRule(_DRA, ("devicetaintrules/status",), ("patch",), "eviction progress in the status of rules"),
        _events(_OLD_EVENTS, "evictions of pods"),
        *_SERVING,
    ),
    _leading("taints"),
)

#: Provisioning of machines with Karpenter.
_MACHINES: Final = (
    PermissionRule(
        ("karpenter.sh",), ("nodeclaims",), ("create", "delete", "get", "list"),
        "machines are provisioned, monitored and released",
    ),
    PermissionRule(_CORE, ("events",), _LIST, "reasons why NodeClaims failed"),
    PermissionRule(
        _CORE, ("configmaps",), ("create", "get", "patch"),
        "layouts of MIG devices on new machines; not needed with --mig-config none",
        names=("allotment-mig-parted-config",),
    ),
)  # fmt: skip

_AUTOSCALER: Final = ComponentPermissions(
    "autoscaler",
    "provisions and releases machines with Karpenter",
    (
        PermissionRule(_CORE, ("pods", "nodes", "namespaces"), _WATCH, "pending pods, and existing nodes"),
        PermissionRule(
            _CORE, ("persistentvolumes", "persistentvolumeclaims"), _WATCH, "volumes that restrict a pod to a zone",
        ),
        PermissionRule(
            ("storage.k8s.io",), ("storageclasses",), _WATCH, "zones of volumes that are not provisioned yet",
        ),
        PermissionRule(("apps",), ("daemonsets",), _WATCH, "pods that will run on every new node"),
        PermissionRule(("policy",), ("poddisruptionbudgets",), _WATCH, "which pods may be evicted"),
        PermissionRule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _WATCH, "device requests, and published devices",
        ),
        _GROUPS,
        PermissionRule(
            _CORE, ("pods",), ("patch",), "the toleration that a pod needs for the taint on the node reserved for it",
        ),
        PermissionRule(
            _CORE, ("pods/status",), ("patch",),
            "nominatedNodeName of a pod, set to the node that was provisioned for it",
        ),
        PermissionRule(
            _CORE, ("nodes",), ("patch",),
            "taints on nodes that are not ready, and cordoning of nodes before their removal",
        ),
        PermissionRule(_CORE, ("pods/eviction",), ("create",), "eviction of pods from a machine that is released"),
        _events(_NEW_EVENTS, "events about pods and nodes"),
        *_MACHINES,
        *_SERVING,
    ),
    (
        PermissionRule(
            _CORE, ("configmaps",), ("create", "delete", "list", "patch"), "orders, and the report on the last plan",
        ),
        *_leading("autoscaler"),
    ),
)  # fmt: skip


_CLUSTER_AUTOSCALER: Final = ComponentPermissions(
    "cluster-autoscaler",
    "cloud provider and expander for cluster-autoscaler",
    (
        PermissionRule(_CORE, ("nodes",), _WATCH, "the machine that each node runs on"),
        PermissionRule(_CORE, ("pods", "namespaces"), _WATCH, "pending pods, and pods with anti-affinity"),
        PermissionRule(
            _CORE, ("persistentvolumes", "persistentvolumeclaims"), _WATCH, "volumes that restrict a pod to a zone",
        ),
        PermissionRule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _WATCH, "claims that a new node could satisfy",
        ),
        *_MACHINES,
    ),
)  # fmt: skip


def driver_permissions(*drivers: str) -> ComponentPermissions:
    """The permissions of the component ``driver``, for drivers with these names (``gpu.nvidia.com``)."""
    return ComponentPermissions(
        "driver",
        "publishes and prepares the devices of its node",
        (
            PermissionRule(_CORE, ("nodes",), _WATCH, "the driver's own node, which owns its slices"),
            PermissionRule(_DRA, ("resourceslices",), _WATCH, "slices that are published for the driver's node"),
            PermissionRule(_DRA, ("resourceslices",), ("create", "delete", "update"), "publication of the driver's "
                "devices"),
            PermissionRule(_DRA, ("resourceclaims",), ("get",), "the allocation of a claim that is to be prepared"),
            PermissionRule(_DRA, ("resourceclaims/status",), ("patch",), "prepared devices in the status of claims"),
            PermissionRule(
                _DRA, ("resourceclaims/driver",), ("associated-node:patch",),
                "the same, if the device status requires a separate permission (since Kubernetes 1.36); only for "
                "this driver on its own node",
                names=drivers,
            ),
            *_SERVING,
        ),
    )  # fmt: skip


_EXPORTER: Final = ComponentPermissions(
    "exporter",
    "exports metrics of devices, claims and pods",
    (
        PermissionRule(
            _CORE, ("nodes", "pods", "namespaces"), _WATCH, "nodes with devices, and pods that request them",
        ),
        PermissionRule(
            _DRA,
            ("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates", "devicetaintrules"),
            _WATCH, "published devices, allocations, and reasons why pods are pending",
        ),
        _GROUPS,
        *_SERVING,
    ),
)  # fmt: skip

_ANNOTATOR: Final = ComponentPermissions(
    "annotator",
    "records events that explain why pods are pending",
    (
        PermissionRule(_CORE, ("pods", "nodes", "namespaces"), _WATCH, "pending pods, and eligible nodes"),
        PermissionRule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _WATCH, "device requests, and published devices",
        ),
        _GROUPS,
        _events(_NEW_EVENTS, "reasons why pods are pending"),
        PermissionRule(_CORE, ("events",), _LIST, "events from before a restart"),
        *_SERVING,
    ),
    _leading("annotator"),
)  # fmt: skip

_WEB: Final = ComponentPermissions(
    "web",
    "serves the page, filtered by what each visitor may read",
    (
        *_EXPLAINING,
        PermissionRule(
            _CORE, ("persistentvolumes", "persistentvolumeclaims"), _WATCH,
            "volumes that restrict a pod to a zone, for plans",
        ),
        PermissionRule(
            ("storage.k8s.io",), ("storageclasses",), _WATCH, "zones of volumes that are not provisioned yet",
        ),
        PermissionRule(_CORE, ("events",), _WATCH, "the history of pods"),
        _GATES,
        *_SERVING,
    ),
)  # fmt: skip

#: Components by name, in the order of the documentation.
COMPONENTS: Final[Mapping[str, ComponentPermissions]] = {
    component.name: component
    for component in (
        _READER,
        _SCHEDULER,
        _CLAIMS,
        _TAINTS,
        _AUTOSCALER,
        _CLUSTER_AUTOSCALER,
        driver_permissions(AMD_DRIVER, NVIDIA_DRIVER),
        _EXPORTER,
        _ANNOTATOR,
        _WEB,
    )
}
