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
from allotment.tools.permissions.rule import Part, Rule

_DRA: Final = ("resource.k8s.io",)
_CORE: Final = ("",)
_LIST: Final = ("list",)
_FOLLOW: Final = ("list", "watch")


def lease_of(part: str) -> str:
    """The Lease by which one of several copies of a part leads.

    >>> lease_of("scheduler")
    'allotment-scheduler'
    """
    return f"allotment-{part}"


def _leading(part: str) -> tuple[Rule, ...]:
    groups, resources = ("coordination.k8s.io",), ("leases",)
    return (
        Rule(groups, resources, ("create",), "the first copy makes the Lease; a name cannot limit who creates"),
        Rule(groups, resources, ("get", "update"), "one of several copies leads", names=(lease_of(part),)),
    )


#: Who asks for metrics is looked up and asked for what they may: the cluster answers both.
_SERVING: Final = (
    Rule(
        ("authentication.k8s.io",), ("tokenreviews",), ("create",),
        "whose token it is, of those who ask for metrics over TLS",
    ),
    Rule(
        ("authorization.k8s.io",), ("subjectaccessreviews",), ("create",),
        "whether they may get /metrics",
    ),
)  # fmt: skip


def _events(group: str, why: str) -> Rule:
    return Rule((group,), ("events",), ("create", "patch"), f"{why}; repeated ones are counted")


_OLD_EVENTS, _NEW_EVENTS = "", "events.k8s.io"

_READER: Final = Part(
    "reader",
    "the tools that only read: explain, free, doctor …",
    (
        Rule(_CORE, ("nodes",), _FOLLOW, "where devices are, and which nodes a pod may use"),
        Rule(
            _DRA, ("deviceclasses", "resourceslices", "resourceclaims"), _FOLLOW,
            "which devices there are, and who has them",
        ),
        Rule(_DRA, ("devicetaintrules",), _FOLLOW, "devices that an administrator has tainted"),
        Rule(_DRA, ("resourceclaimtemplates",), _FOLLOW, "what the claims of pods will ask"),
        Rule(_CORE, ("pods",), _FOLLOW, "what asks for devices"),
        Rule(_CORE, ("namespaces",), _FOLLOW, "whether admin access is allowed there, and which match a selector"),
        Rule(
            ("apps",), ("deployments", "replicasets", "statefulsets", "daemonsets"), _FOLLOW,
            "the workloads that make pods",
        ),
        Rule(("batch",), ("jobs", "cronjobs"), _FOLLOW, "the workloads that make pods"),
        Rule(_CORE, ("replicationcontrollers",), _FOLLOW, "the workloads that make pods"),
        Rule(("scheduling.k8s.io",), ("podgroups",), _FOLLOW, "pods that are placed together (gate GenericWorkload)"),
        Rule(
            _CORE, ("persistentvolumes", "persistentvolumeclaims"), _LIST,
            "volumes that keep a pod in a zone, for plans and snapshots",
        ),
        Rule(("storage.k8s.io",), ("storageclasses",), _LIST, "where volumes that are not there yet can be"),
        Rule(_CORE, ("events",), _LIST, "what was said about pods, for snapshots and doctor"),
        Rule(_CORE, ("resourcequotas",), _LIST, "what limits claims, for doctor"),
        Rule(("coordination.k8s.io",), ("leases",), _LIST, "which schedulers and controllers are there, for doctor"),
        Rule((), (), ("get",), "which feature gates the API server has on", paths=("/metrics",)),
    ),
)  # fmt: skip

_SCHEDULER: Final = Part(
    "scheduler",
    "gives pods that name it their nodes and devices",
    (
        Rule(_CORE, ("pods",), _FOLLOW, "pods that wait, and what is placed already"),
        Rule(
            _CORE, ("pods",), ("get",),
            "whether a binding came through whose answer was lost, and whether a pod has started",
        ),
        Rule(
            _CORE, ("pods",), ("delete",),
            "pods of lower priority make room; its own give way if their devices were given away twice",
        ),
        Rule(_CORE, ("pods/binding",), ("create",), "a pod is given its node"),
        Rule(_CORE, ("pods/status",), ("patch",), "a pod is told why it waits or goes, and which claims it has"),
        Rule(_CORE, ("nodes", "namespaces"), _FOLLOW, "where pods can go, and what selectors of namespaces match"),
        Rule(
            _DRA, ("resourceslices", "deviceclasses", "devicetaintrules", "resourceclaimtemplates"), _FOLLOW,
            "which devices there are, and what pods will ask",
        ),
        Rule(_DRA, ("resourceclaims",), _FOLLOW, "what pods ask, and who has which devices"),
        Rule(_DRA, ("resourceclaims",), ("get",), "the claim as it is now, after a conflict or before it is undone"),
        Rule(
            _DRA, ("resourceclaims",), ("update",),
            "the finalizer that keeps an allocated claim, and the label of one that is set aside",
        ),
        Rule(
            _DRA, ("resourceclaims",), ("create", "delete"),
            "claims for extended resources that devices stand for, and in place of those that were set aside",
        ),
        Rule(_DRA, ("resourceclaims/status",), ("update",), "a claim is allocated and reserved, or freed"),
        Rule(
            _DRA, ("resourceclaims/binding",), ("update",),
            "the same, where allocations need a permission of their own (since Kubernetes 1.36)",
        ),
        Rule(("policy",), ("poddisruptionbudgets",), _FOLLOW, "whom preemption spares"),
        Rule(
            ("scheduling.k8s.io",), ("podgroups",), _FOLLOW,
            "pods that are placed together (gate GenericWorkload)",
        ),
        _events(_NEW_EVENTS, "pods hear where they go, or why they wait"),
        *_SERVING,
    ),
    _leading("scheduler"),
)  # fmt: skip

_CLAIMS: Final = Part(
    "claims",
    "makes pods' claims from templates, and frees them",
    (
        Rule(_CORE, ("pods",), _FOLLOW, "pods that need claims, and pods that are done with theirs"),
        Rule(_CORE, ("pods",), ("get",), "whether a pod that is not known is gone, before its claim is freed"),
        Rule(_CORE, ("pods/status",), ("patch",), "a pod's status names its claims"),
        Rule(_DRA, ("resourceclaimtemplates",), _FOLLOW, "what claims are made from"),
        Rule(_DRA, ("resourceclaimtemplates",), ("get",), "a template so new that it is not known yet"),
        Rule(_DRA, ("resourceclaims",), _FOLLOW, "claims that are there"),
        Rule(_DRA, ("resourceclaims",), ("get",), "whether a claim that a pod names is really gone"),
        Rule(_DRA, ("resourceclaims",), ("create", "delete"), "claims are made for pods, and go with them"),
        Rule(_DRA, ("resourceclaims",), ("update",), "the finalizer goes when nobody uses the claim"),
        Rule(_DRA, ("resourceclaims/status",), ("update",), "a claim is freed, or reserved for a pod that has a node"),
        Rule(
            _DRA, ("resourceclaims/binding",), ("update",),
            "the same, where allocations need a permission of their own (since Kubernetes 1.36)",
        ),
        Rule(
            ("scheduling.k8s.io",), ("podgroups",), (*_FOLLOW, "get"),
            "groups of pods that have claims (gate DRAWorkloadResourceClaims)",
        ),
        Rule(("scheduling.k8s.io",), ("podgroups/status",), ("patch",), "a group's status names its claims"),
        _events(_OLD_EVENTS, "pods hear why a claim could not be made"),
        *_SERVING,
    ),
    _leading("claims"),
)  # fmt: skip

_TAINTS: Final = Part(
    "taints",
    "evicts pods from devices with NoExecute taints",
    (
        Rule(_CORE, ("pods",), _FOLLOW, "pods whose devices may be tainted"),
        Rule(_CORE, ("pods",), ("delete",), "they are evicted"),
        Rule(_CORE, ("pods/status",), ("update",), "they are told why, before they go"),
        Rule(_DRA, ("resourceslices", "devicetaintrules"), _FOLLOW, "which devices are tainted"),
        Rule(_DRA, ("resourceclaims",), _FOLLOW, "who uses them"),
        Rule(_DRA, ("devicetaintrules/status",), ("patch",), "a rule tells how far its eviction is"),
        _events(_OLD_EVENTS, "pods hear that they are evicted"),
        *_SERVING,
    ),
    _leading("taints"),
)

#: Through Karpenter.
_MACHINES: Final = (
    Rule(
        ("karpenter.sh",), ("nodeclaims",), ("create", "delete", "get", "list"),
        "machines are ordered, looked after and given back",
    ),
    Rule(_CORE, ("events",), _LIST, "why Karpenter gave a machine up"),
    Rule(
        _CORE, ("configmaps",), ("create", "get", "patch"),
        "layouts for new machines that are cut by MIG; without, say --mig-config none",
        names=("allotment-mig-parted-config",),
    ),
)  # fmt: skip

_AUTOSCALER: Final = Part(
    "autoscaler",
    "buys machines through Karpenter, gives them back",
    (
        Rule(_CORE, ("pods", "nodes", "namespaces"), _FOLLOW, "what waits, and what there is"),
        Rule(_CORE, ("persistentvolumes", "persistentvolumeclaims"), _FOLLOW, "volumes that keep a pod in a zone"),
        Rule(("storage.k8s.io",), ("storageclasses",), _FOLLOW, "where volumes that are not there yet can be"),
        Rule(("apps",), ("daemonsets",), _FOLLOW, "what will run on every new node"),
        Rule(("policy",), ("poddisruptionbudgets",), _FOLLOW, "which pods may be moved"),
        Rule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _FOLLOW, "what is asked of devices, and which there are",
        ),
        Rule(
            ("scheduling.k8s.io",), ("podgroups",), _FOLLOW,
            "pods that are placed together (gate GenericWorkload)",
        ),
        Rule(_CORE, ("pods",), ("patch",), "a pod tolerates the taint that keeps a node for it"),
        Rule(_CORE, ("pods/status",), ("patch",), "a pod is nominated to the node that was bought for it"),
        Rule(_CORE, ("nodes",), ("patch",), "nodes are closed until they are complete, and cordoned before they go"),
        Rule(_CORE, ("pods/eviction",), ("create",), "pods leave a machine that is given back"),
        _events(_NEW_EVENTS, "pods and nodes hear what is done for them"),
        *_MACHINES,
        *_SERVING,
    ),
    (
        Rule(_CORE, ("configmaps",), ("create", "delete", "list", "patch"), "orders, and the report of the last plan"),
        *_leading("autoscaler"),
    ),
)  # fmt: skip


_CLUSTER_AUTOSCALER: Final = Part(
    "cluster-autoscaler",
    "cluster-autoscaler's machines, and which to buy",
    (
        Rule(_CORE, ("nodes",), _FOLLOW, "which machine a node is"),
        Rule(_CORE, ("pods", "namespaces"), _FOLLOW, "what waits, and who keeps others away from a node"),
        Rule(_CORE, ("persistentvolumes", "persistentvolumeclaims"), _FOLLOW, "volumes that keep a pod in a zone"),
        Rule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _FOLLOW, "which of the nodes to come would serve its claims",
        ),
        *_MACHINES,
    ),
)  # fmt: skip


def driver_part(*drivers: str) -> Part:
    """The part ``driver``, for drivers of these names (``gpu.nvidia.com``)."""
    return Part(
        "driver",
        "publishes and prepares the devices of its node",
        (
            Rule(_CORE, ("nodes",), _FOLLOW, "its own node, which owns the slices"),
            Rule(_DRA, ("resourceslices",), _FOLLOW, "what is published of its node"),
            Rule(_DRA, ("resourceslices",), ("create", "delete", "update"), "its devices are published"),
            Rule(_DRA, ("resourceclaims",), ("get",), "what a pod was given, when the kubelet asks to prepare it"),
            Rule(_DRA, ("resourceclaims/status",), ("patch",), "a claim's status tells of prepared devices"),
            Rule(
                _DRA, ("resourceclaims/driver",), ("associated-node:patch",),
                "the same, where devices' status needs a permission of its own (since Kubernetes 1.36): of this "
                "driver, on the node of the pod whose token it is",
                names=drivers,
            ),
            *_SERVING,
        ),
    )  # fmt: skip


_EXPORTER: Final = Part(
    "exporter",
    "metrics of devices, claims and pods",
    (
        Rule(_CORE, ("nodes", "pods", "namespaces"), _FOLLOW, "where devices are, and what waits for them"),
        Rule(
            _DRA,
            ("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates", "devicetaintrules"),
            _FOLLOW, "which devices there are, who has them, and why pods wait",
        ),
        *_SERVING,
    ),
)  # fmt: skip

_ANNOTATOR: Final = Part(
    "annotator",
    "explains in events why kube-scheduler's pods wait",
    (
        Rule(_CORE, ("pods", "nodes", "namespaces"), _FOLLOW, "pods that wait, and where they could go"),
        Rule(
            _DRA,
            ("resourceclaims", "resourceclaimtemplates", "resourceslices", "deviceclasses", "devicetaintrules"),
            _FOLLOW, "what they ask of devices, and which there are",
        ),
        _events(_NEW_EVENTS, "pods hear why they wait"),
        Rule(_CORE, ("events",), _LIST, "what they were told before it was started again"),
        *_SERVING,
    ),
    _leading("annotator"),
)  # fmt: skip

#: By name, in the order of use.
PARTS: Final[Mapping[str, Part]] = {
    part.name: part
    for part in (
        _READER,
        _SCHEDULER,
        _CLAIMS,
        _TAINTS,
        _AUTOSCALER,
        _CLUSTER_AUTOSCALER,
        driver_part(AMD_DRIVER, NVIDIA_DRIVER),
        _EXPORTER,
        _ANNOTATOR,
    )
}
