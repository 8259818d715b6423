"""The parts of Allotment and what each must be allowed to do: roles, charts, checks and pages are made of this table.

Without any verb of any resource here something fails, or is not done. Reading needs ``list`` where objects are read
once, and ``watch`` with it where they are followed (``allot explain --watch``); nobody has ``get`` for good measure.
What every identity may do anyway stands nowhere: ``/version``, discovery, reviews of one's own permissions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from allotment.fleet.amd import DRIVER as AMD_DRIVER
from allotment.fleet.nvidia import DRIVER as NVIDIA_DRIVER
from allotment.tools.permissions.rule import ComponentPermissions, PermissionRule

_DRA: Final = ("resource.k8s.io",)
_CORE: Final = ("",)
_LIST: Final = ("list",)
_WATCH: Final = ("list", "watch")


def lease_of(part: str) -> str:
    """The Lease by which one of several copies of a part leads.

    >>> lease_of("scheduler")
    'allotment-scheduler'
    """
    return f"allotment-{part}"


def _leading(part: str) -> tuple[PermissionRule, ...]:
    groups, resources = ("coordination.k8s.io",), ("leases",)
    return (
        PermissionRule(groups, resources, ("create",), "the first copy makes the Lease; a name cannot limit who creates"),
        PermissionRule(groups, resources, ("get", "update"), "one of several copies leads", names=(lease_of(part),)),
    )


#: Who asks for metrics is looked up and asked for what they may: the cluster answers both.
_SERVING: Final = (
    PermissionRule(
        ("authentication.k8s.io",), ("tokenreviews",), ("create",),
        "whose token it is, of those who ask for metrics over TLS",
    ),
    PermissionRule(
        ("authorization.k8s.io",), ("subjectaccessreviews",), ("create",),
        "whether they may get /metrics",
    ),
)  # fmt: skip


def _events(group: str, why: str) -> PermissionRule:
    return PermissionRule((group,), ("events",), ("create", "patch"), f"{why}; repeated ones are counted")


_OLD_EVENTS, _NEW_EVENTS = "", "events.k8s.io"

_READER: Final = ComponentPermissions(
    "reader",
    "the tools that only read: explain, free, doctor …",
    (
        PermissionRule(_CORE, ("nodes",), _WATCH, "where devices are, and which nodes a pod may use"),
        PermissionRule(
            _DRA, ("deviceclasses", "resourceslices", "resourceclaims"), _WATCH,
            "which devices there are, and who has them",
        ),
        PermissionRule(_DRA, ("devicetaintrules",), _WATCH, "devices that an administrator has tainted"),
        PermissionRule(_DRA, ("resourceclaimtemplates",), _WATCH, "what the claims of pods will ask"),
        PermissionRule(_CORE, ("pods",), _WATCH, "what asks for devices"),
        PermissionRule(_CORE, ("namespaces",), _WATCH, "whether admin access is allowed there, and which match a selector"),
        PermissionRule(
            ("apps",), ("deployments", "replicasets", "statefulsets", "daemonsets"), _WATCH,
            "the workloads that make pods",
        ),
        PermissionRule(("batch",), ("jobs", "cronjobs"), _WATCH, "the workloads that make pods"),
        PermissionRule(_CORE, ("replicationcontrollers",), _WATCH, "the workloads that make pods"),
        PermissionRule(("scheduling.k8s.io",), ("podgroups",), _WATCH, "pods that are placed together (gate GenericWorkload)"),
        PermissionRule(
            _CORE, ("persistentvolumes", "persistentvolumeclaims"), _LIST,
            "volumes that keep a pod in a zone, for plans and snapshots",
        ),
        PermissionRule(("storage.k8s.io",), ("storageclasses",), _LIST, "where volumes that are not there yet can be"),
        PermissionRule(_CORE, ("events",), _LIST, "what was said about pods, for snapshots and doctor"),
        PermissionRule(_CORE, ("resourcequotas",), _LIST, "what limits claims, for doctor"),
        PermissionRule(("coordination.k8s.io",), ("leases",), _LIST, "which schedulers and controllers are there, for doctor"),
        PermissionRule((), (), ("get",), "which feature gates the API server has on", paths=("/metrics",)),
    ),
)  # fmt: skip

_SCHEDULER: Final = ComponentPermissions(
    "scheduler",
    "gives pods that name it their nodes and devices",
    (
        PermissionRule(_CORE, ("pods",), _WATCH, "pods that wait, and what is placed already"),
        PermissionRule(
            _CORE, ("pods",), ("get",),
            "whether a binding came through whose answer was lost, and whether a pod has started",
        ),
        PermissionRule(
            _CORE, ("pods",), ("delete",),
            "pods of lower priority make room; its own give way if their devices were given away twice",
        ),
        PermissionRule(_CORE, ("pods/binding",), ("create",), "a pod is given its node"),
        PermissionRule(_CORE, ("pods/status",), ("patch",), "a pod is told why it waits or goes, and which claims it has"),
        PermissionRule(_CORE, ("nodes", "namespaces"), _WATCH, "where pods can go, and what selectors of namespaces match"),
        PermissionRule(
            _DRA, ("resourceslices", "deviceclasses", "devicetaintrules", "resourceclaimtemplates"), _WATCH,
            "which devices there are, and what pods will ask",
        ),
        PermissionRule(_DRA, ("resourceclaims",), _WATCH, "what pods ask, and who has which devices"),
        PermissionRule(_DRA, ("resourceclaims",), ("get",), "the claim as it is now, after a conflict or before it is undone"),
        PermissionRule(
            _DRA, ("resourceclaims",), ("update",),
            "the finalizer that keeps an allocated claim, and the label of one that is set aside",
        ),
        PermissionRule(
            _DRA, ("resourceclaims",), ("create", "delete"),
            "claims for extended resources that devices stand for, and in place of those that were set aside",
        ),
        PermissionRule(_DRA, ("resourceclaims/status",), ("update",), "a claim is allocated and reserved, or freed"),
        PermissionRule(
            _DRA, ("resourceclaims/binding",), ("update",),
            "the same, where allocations need a permission of their own (since Kubernetes 1.36)",
        ),
        PermissionRule(("policy",), ("poddisruptionbudgets",), _WATCH, "whom preemption spares"),
        PermissionRule(
            ("scheduling.k8s.io",), ("podgroups",), _WATCH,
            "pods that are placed together (gate GenericWorkload)",
        ),
        _events(_NEW_EVENTS, "pods hear where they go, or why they wait"),
        *_SERVING,
    ),
    _leading("scheduler"),
)  # fmt: skip

_CLAIMS: Final = ComponentPermissions(
    "claims",
    "makes pods' claims from templates, and frees them",
    (
        PermissionRule(_CORE, ("pods",), _WATCH, "pods that need claims, and pods that are done with theirs"),
        PermissionRule(_CORE, ("pods",), ("get",), "whether a pod that is not known is gone, before its claim is freed"),
        PermissionRule(_CORE, ("pods/status",), ("patch",), "a pod's status names its claims"),
        PermissionRule(_DRA, ("resourceclaimtemplates",), _WATCH, "what claims are made from"),
        PermissionRule(_DRA, ("resourceclaimtemplates",), ("get",), "a template so new that it is not known yet"),
        PermissionRule(_DRA, ("resourceclaims",), _WATCH, "claims that are there"),
        PermissionRule(_DRA, ("resourceclaims",), ("get",), "whether a claim that a pod names is really gone"),
        PermissionRule(_DRA, ("resourceclaims",), ("create", "delete"), "claims are made for pods, and go with them"),
        PermissionRule(_DRA, ("resourceclaims",), ("update",), "the finalizer goes when nobody uses the claim"),
        PermissionRule(_DRA, ("resourceclaims/status",), ("update",), "a claim is freed, or reserved for a pod that has a node"),
        PermissionRule(
            _DRA, ("resourceclaims/binding",), ("update",),
            "the same, where allocations need a permission of their own (since Kubernetes 1.36)",
        ),
        PermissionRule(
            ("scheduling.k8s.io",), ("podgroups",), (*_WATCH, "get"),
            "groups of pods that have claims (gate DRAWorkloadResourceClaims)",
        ),
        PermissionRule(("scheduling.k8s.io",), ("podgroups/status",), ("patch",), "a group's status names its claims"),
        _events(_OLD_EVENTS, "pods hear why a claim could not be made"),
        *_SERVING,
    ),
    _leading("claims"),
)  # fmt: skip

_TAINTS: Final = ComponentPermissions(
    "taints",
    "evicts pods from devices with NoExecute taints",
    (
        PermissionRule(_CORE, ("pods",), _WATCH, "pods whose devices may be tainted"),
        PermissionRule(_CORE, ("pods",), ("delete",), "they are evicted"),
        PermissionRule(_CORE, ("pods/status",), ("update",), "they are told why, before they go"),
        PermissionRule(_DRA, ("resourceslices", "devicetaintrules"), _WATCH, "which devices are tainted"),
        PermissionRule(_DRA, ("resourceclaims",), _WATCH, "who uses them"),
        PermissionRule(_DRA, ("devicetaintrules/status",), ("patch",), "a rule tells how far its eviction is"),
        _events(_OLD_EVENTS, "pods hear that they are evicted"),
        *_SERVING,
    ),
    _leading("taints"),
)

#: Through Karpenter.
_MACHINES: Final = (
    PermissionRule(
        ("karpenter.sh",), ("nodeclaims",), ("create", "delete", "get", "list"),
        "machines are ordered, looked after and given back",
    ),
    PermissionRule(_CORE, ("events",), _LIST, "why Karpenter gave a machine up"),
    PermissionRule(
        _CORE, ("configmaps",), ("create", "get", "patch"),
        "layouts for new machines that are cut by MIG; without, say --mig-config none",
        names=("allotment-mig-parted-config",),
    ),
)  # fmt: skip

_AUTOSCALER: Final = ComponentPermissions(
    "autoscaler",
    "buys machines through Karpenter, gives them back",
    (
        PermissionRule(_CORE, ("pods", "nodes", "namespaces"), _WATCH, "what waits, and what there is"),
        PermissionRule(_CORE, ("persistentvolumes", "persistentvolumeclaims"), _WATCH, "volumes that keep a pod in a zone"),
        PermissionRule(("storage.k8s.io",), ("storageclasses",), _WATCH, "where volumes that are not there yet can be"),
        PermissionRule(("apps",), ("daemonsets",), _WATCH, "what will run on every new node"),
        PermissionRule(("policy",), ("poddisruptionbudgets",), _WATCH, "which pods may be moved"),
        PermissionRule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _WATCH, "what is asked of devices, and which there are",
        ),
        PermissionRule(
            ("scheduling.k8s.io",), ("podgroups",), _WATCH,
            "pods that are placed together (gate GenericWorkload)",
        ),
        PermissionRule(_CORE, ("pods",), ("patch",), "a pod tolerates the taint that keeps a node for it"),
        PermissionRule(_CORE, ("pods/status",), ("patch",), "a pod is nominated to the node that was bought for it"),
        PermissionRule(_CORE, ("nodes",), ("patch",), "nodes are closed until they are complete, and cordoned before they go"),
        PermissionRule(_CORE, ("pods/eviction",), ("create",), "pods leave a machine that is given back"),
        _events(_NEW_EVENTS, "pods and nodes hear what is done for them"),
        *_MACHINES,
        *_SERVING,
    ),
    (
        PermissionRule(_CORE, ("configmaps",), ("create", "delete", "list", "patch"), "orders, and the report of the last plan"),
        *_leading("autoscaler"),
    ),
)  # fmt: skip


_CLUSTER_AUTOSCALER: Final = ComponentPermissions(
    "cluster-autoscaler",
    "cluster-autoscaler's machines, and which to buy",
    (
        PermissionRule(_CORE, ("nodes",), _WATCH, "which machine a node is"),
        PermissionRule(_CORE, ("pods", "namespaces"), _WATCH, "what waits, and who keeps others away from a node"),
        PermissionRule(_CORE, ("persistentvolumes", "persistentvolumeclaims"), _WATCH, "volumes that keep a pod in a zone"),
        PermissionRule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _WATCH, "which of the nodes to come would serve its claims",
        ),
        *_MACHINES,
    ),
)  # fmt: skip


def driver_permissions(*drivers: str) -> ComponentPermissions:
    """The part ``driver``, for drivers of these names (``gpu.nvidia.com``)."""
    return ComponentPermissions(
        "driver",
        "publishes and prepares the devices of its node",
        (
            PermissionRule(_CORE, ("nodes",), _WATCH, "its own node, which owns the slices"),
            PermissionRule(_DRA, ("resourceslices",), _WATCH, "what is published of its node"),
            PermissionRule(_DRA, ("resourceslices",), ("create", "delete", "update"), "its devices are published"),
            PermissionRule(_DRA, ("resourceclaims",), ("get",), "what a pod was given, when the kubelet asks to prepare it"),
            PermissionRule(_DRA, ("resourceclaims/status",), ("patch",), "a claim's status tells of prepared devices"),
            PermissionRule(
                _DRA, ("resourceclaims/driver",), ("associated-node:patch",),
                "the same, where devices' status needs a permission of its own (since Kubernetes 1.36): of this "
                "driver, on the node of the pod whose token it is",
                names=drivers,
            ),
            *_SERVING,
        ),
    )  # fmt: skip


_EXPORTER: Final = ComponentPermissions(
    "exporter",
    "metrics of devices, claims and pods",
    (
        PermissionRule(_CORE, ("nodes", "pods", "namespaces"), _WATCH, "where devices are, and what waits for them"),
        PermissionRule(
            _DRA,
            ("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates", "devicetaintrules"),
            _WATCH, "which devices there are, who has them, and why pods wait",
        ),
        *_SERVING,
    ),
)  # fmt: skip

_ANNOTATOR: Final = ComponentPermissions(
    "annotator",
    "explains in events why kube-scheduler's pods wait",
    (
        PermissionRule(_CORE, ("pods", "nodes", "namespaces"), _WATCH, "pods that wait, and where they could go"),
        PermissionRule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _WATCH, "what they ask of devices, and which there are",
        ),
        _events(_NEW_EVENTS, "pods hear why they wait"),
        PermissionRule(_CORE, ("events",), _LIST, "what they were told before it was started again"),
        *_SERVING,
    ),
    _leading("annotator"),
)  # fmt: skip

#: By name, in the order of use.
COMPONENTS: Final[Mapping[str, ComponentPermissions]] = {
    part.name: part
    for part in (
        _READER,
        _SCHEDULER,
        _CLAIMS,
        _TAINTS,
        _AUTOSCALER,
        _CLUSTER_AUTOSCALER,
        driver_permissions(AMD_DRIVER, NVIDIA_DRIVER),
        _EXPORTER,
        _ANNOTATOR,
    )
}
