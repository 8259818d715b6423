"""Reasons why claims are not allocated: codes, funnel of devices, nearest miss and suggested changes.

Kubernetes reports ``cannot allocate all claims`` for nearly all of these causes. Here each one has a stable code, so
that users, events and planners can distinguish them. `allotment.engine.diagnosis` creates the values; CLI output,
events and JSON print them unchanged.

``CODES`` is ordered from nearest to farthest from fitting: of the causes of several nodes, the first one represents the
cluster. A code never changes its meaning and is never reused.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any, NamedTuple

from allotment.model.meta import Value

_PAGE_WIDTH = 100

CANNOT_ALLOCATE = "cannot allocate all claims"
NO_NODES = "no nodes available to schedule pods"
#: The code of an undecided node: whether the claims fit there is unknown.
SEARCH_GIVEN_UP = "search-given-up"


class ReasonCode(NamedTuple):
    """The meaning of a code, the advice to the user, and the message of Kubernetes."""

    summary: str
    advice: str
    kubernetes: str = CANNOT_ALLOCATE


CODES: Mapping[str, ReasonCode] = {
    # It would fit on an idle cluster: waiting or freeing helps.
    "devices-in-use": ReasonCode(
        "Matching devices exist, but too few of them are free.",
        "Wait until other pods have released such devices, or add nodes with them.",
    ),
    "capacity-in-use": ReasonCode(
        "The matching devices can be shared, but their remaining capacity is smaller than the request.",
        "Request less capacity, wait until other pods have released some, or add devices.",
    ),
    "counters-exhausted": ReasonCode(
        "The device is free, but other partitions of the same hardware consume the counters that it needs.",
        "Wait until other pods have released partitions, request a smaller partition, or use another GPU.",
    ),
    "compatibility-groups-in-use": ReasonCode(
        "The device is free, but it has no compatibility group in common with the devices that are allocated from the "
        "same hardware.",
        "Wait until other pods have released those devices, or request a device of a compatible kind.",
    ),
    "claim-on-other-node": ReasonCode(
        "The claim is already allocated, but its devices cannot be used on this node.",
        "Run the pod on the node where the claim is allocated, or use a ResourceClaimTemplate, which creates a claim "
        "per pod.",
        "resourceclaim not available on the node",
    ),
    "node-resources-short": ReasonCode(
        "The devices are free, but they use cpu, memory or huge pages of their node, which has too little left for "
        "them and the pod.",
        "Request less in the containers, wait until other pods of the node end, or use a node with more of the "
        "resource.",
        "Insufficient cpu",
    ),
    "mapped-claim-in-use": ReasonCode(
        "Another pod uses the claim, and its device stands for cpu, memory or huge pages of the node, which pods "
        "cannot share.",
        "Use a ResourceClaimTemplate, which creates a claim per pod.",
        "node allocatable resource claim NAME has a mapped device and cannot be shared across pods",
    ),
    "device-use-unknown": ReasonCode(
        "Devices use cpu, memory or huge pages of their node, and it is unknown how much: an allocated device is in no "
        "ResourceSlice, or the allocation consumes no capacity although the amount depends on one.",
        "Make the driver publish the device, or delete the claim so that other devices are allocated. A device whose "
        "amount depends on a capacity must allow multiple allocations.",
        "claim NAMESPACE/NAME, device D, driver N: device D not found in pool P for driver N",
    ),
    # Unknown whether it fits.
    SEARCH_GIVEN_UP: ReasonCode(
        "The search for devices reached its step limit on this node, so it is unknown whether the claims fit there.",
        "Use narrower selectors or request fewer devices per claim to reduce the number of combinations. The search "
        "is repeated when the node's devices or their claims change.",
        "node N: timed out trying to allocate devices (if its own search takes longer than 10 seconds)",
    ),
    # Matching devices exist, but something else prevents the allocation.
    "all-pool-updating": ReasonCode(
        "allocationMode All requires complete information about the node's devices, but a pool of the node is "
        "incomplete.",
        "Wait until the driver has published all slices of the pool. If it does not, or if it publishes more slices "
        "than it announces, check its log.",
        "asks for all devices, but resource pool D/P is currently being updated",
    ),
    "all-pool-invalid": ReasonCode(
        "allocationMode All requires complete information about the node's devices, but a pool of the node is invalid.",
        "Report the pool to the driver's author: its slices define a name twice or refer to a counter that does not "
        "exist.",
        "asks for all devices, but resource pool D/P is currently invalid",
    ),
    "pool-incomplete": ReasonCode(
        "The pool has fewer or more slices than it announces; Kubernetes ignores the pool until the numbers match.",
        "If slices are missing, wait until the driver has published all of them, or check its log. If there are too "
        "many, delete those of an earlier driver instance, or report the bug to the driver's author.",
    ),
    "devices-tainted": ReasonCode(
        "Matching devices exist, but they have taints that the request does not tolerate.",
        "Find out why the devices are tainted; to use them anyway, add the suggested toleration.",
    ),
    "node-feature-missing": ReasonCode(
        "The driver skips operations on the node for its devices, which the node or the scheduler does not support.",
        "Turn on the feature gate DRAOptionalNodeOperations in the scheduler and in the node's kubelet, or use a node "
        "that lists it in status.declaredFeatures.",
    ),
    "admin-access-not-allowed": ReasonCode(
        "The request uses admin access, but its namespace does not have the label that allows it.",
        'Label the namespace with resource.kubernetes.io/admin-access: "true", or remove adminAccess.',
        "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing "
        "namespace",
    ),
    "constraint-values-differ": ReasonCode(
        "Enough devices match, but no set of them satisfies the constraint of the claim.",
        "Request fewer devices, drop the constraint, or use nodes whose devices satisfy it.",
    ),
    "derived-values-differ": ReasonCode(
        "Enough devices match, but no set of them satisfies a constraint on a derived attribute of the claim.",
        "Correct the expression of the derived attribute, request fewer devices, or drop the constraint.",
    ),
    "compatibility-groups-differ": ReasonCode(
        "Enough devices match, but the matching devices of the same hardware have no compatibility group in common.",
        "Request fewer devices, select devices of compatible kinds, or use a node with more cards.",
    ),
    "gang-incomplete": ReasonCode(
        "The pod belongs to a PodGroup with a gang policy, and fewer than minCount of its pods exist or fit at the "
        "same time. Kubernetes then binds none of them.",
        "Resolve the reason of the named pod, create the missing pods, or lower minCount of the PodGroup.",
        "pod group is unschedulable, minCount (4) cannot be satisfied: 2 scheduled, 0 remaining",
    ),
    "too-few-devices": ReasonCode(
        "Some devices match, but no single node has as many as the pod requests.",
        "Request fewer devices per pod, or add nodes with more of them.",
    ),
    "no-alternative-fits": ReasonCode(
        "No alternative of firstAvailable fits; each alternative has its own reason.",
        "Fix the alternative that is closest to fitting, or add one that the cluster can satisfy.",
    ),
    # The request names something that does not exist.
    "not-enough-capacity": ReasonCode(
        "Devices of the right kind exist, but none has enough of a requested capacity.",
        "Request an amount that devices publish (slightly less than the nominal size), or request other devices.",
    ),
    "constraint-attribute-unpublished": ReasonCode(
        "The constraint names an attribute that the devices do not publish; such devices never satisfy it.",
        "Use an attribute that the driver publishes, with its full name (domain/name).",
    ),
    "type-mismatch": ReasonCode(
        "The selector compares an attribute with a literal of a different type, which is never true.",
        'Use a literal of the attribute\'s type: 1 for an int, "x" for a string, semver("1.2.3") for a version.',
        "cannot allocate all claims (a version compared with a string: CEL runtime error: no such overload)",
    ),
    "unknown-attribute": ReasonCode(
        "The selector reads an attribute or capacity that no device of that driver publishes.",
        "Correct the name. `allot free -o yaml` lists what devices publish.",
        "CEL runtime error: no such key",
    ),
    "capacity-read-as-attribute": ReasonCode(
        "The selector reads a capacity as an attribute.",
        'Write device.capacity["domain"].name, and compare amounts with isGreaterThan, isLessThan or compareTo.',
        "CEL runtime error: no such key",
    ),
    "attribute-read-as-capacity": ReasonCode(
        "The selector reads an attribute as a capacity.",
        'Write device.attributes["domain"].name.',
        "CEL runtime error: no such key",
    ),
    "unknown-driver": ReasonCode(
        "The selector names a driver, or the domain of a driver, that publishes no devices in this cluster.",
        "Use the driver's full name as in spec.driver of its ResourceSlices (gpu.nvidia.com, not nvidia.com).",
        "cannot allocate all claims (or, for a domain of attributes, CEL runtime error: no such key)",
    ),
    "selector-matches-nothing": ReasonCode(
        "No device satisfies all selectors of the request.",
        "Relax the named condition, or add nodes with such devices.",
    ),
    "class-matches-nothing": ReasonCode(
        "No device satisfies the selectors of the DeviceClass.",
        "Use a class whose devices exist in this cluster, or correct the selectors of the class.",
    ),
    # No device of this node can be used.
    "pool-superseded": ReasonCode(
        "The slices for this node are of an older generation of their pool; Kubernetes ignores them.",
        "Restart the driver on the node, or delete its old slices. A pool name must not be shared by several nodes.",
    ),
    "pool-invalid": ReasonCode(
        "The slices of the pool are inconsistent; Kubernetes ignores the whole pool.",
        "Report this to the driver's author: a device or counter set is published twice, or a counter is missing.",
        "invalid resource pools were encountered",
    ),
    "driver-missing": ReasonCode(
        "No ResourceSlice offers a device to this node.",
        "Install the DRA driver on the node, or check its log if it is installed.",
    ),
    "node-not-eligible": ReasonCode(
        "The pod cannot run on the node: nodeName, nodeSelector, node affinity or a taint of the node excludes it.",
        "Change the pod's node constraints, or label, untaint or uncordon a node that has the devices.",
        "node(s) didn't match Pod's node affinity/selector, or had untolerated taint",
    ),
    # The claim cannot be allocated on any node.
    "selector-fails": ReasonCode(
        "The evaluation of a selector fails with an error; the scheduler then rejects all nodes.",
        "Use has(…) to guard attributes that a device may lack, or test device.driver == … first.",
        "CEL runtime error",
    ),
    "derived-attribute-fails": ReasonCode(
        "The expression of a derived attribute is invalid, or its evaluation fails on a device; the scheduler then "
        "rejects all nodes.",
        "Use .?name.orValue(…) for attributes that a device may lack; the result must be a bool, int, string or "
        "version, or a list of one of them.",
        "evaluate derived attribute N on device D failed",
    ),
    "capacity-not-representable": ReasonCode(
        "A requested or published capacity is negative, or too large or too fine for the request policy of the device; "
        "the scheduler then rejects all nodes.",
        "Request an amount in whole units, or in thousandths if the range of the device's policy has fractions.",
        "capacity request cannot be represented in the device's range arithmetic",
    ),
    "node-selector-unusable": ReasonCode(
        "The node selector of a slice or device is invalid; the scheduler then rejects all nodes.",
        "Correct or delete the named slice, and report it to the driver's author.",
        "failed to perform node selection",
    ),
    "too-many-devices": ReasonCode(
        "The claim requests more than 32 devices, which is the limit per claim.",
        "Split the claim into several claims.",
        "number of requested devices 33 exceeds the claim limit of 32",
    ),
    "feature-off": ReasonCode(
        "The claim uses a feature that is disabled or does not exist in this release of Kubernetes.",
        "Enable the feature gate, or set --kube-version to the release of the cluster.",
        "the … feature is disabled",
    ),
    "claim-in-use": ReasonCode(
        "The claim is already reserved for 256 consumers, which is the maximum.",
        "Use a ResourceClaimTemplate, or create a second claim.",
        "resourceclaim in use",
    ),
    "class-missing": ReasonCode(
        "The request references a DeviceClass that does not exist.",
        "Use an existing class or create this one; a driver's Helm chart installs the driver's classes.",
        "request R: device class C does not exist",
    ),
    "claim-missing": ReasonCode(
        "The pod references a ResourceClaim that does not exist in its namespace.",
        "If the API server rejected the claim's manifest, correct it with allot check FILE --fix, and apply it again. "
        "Otherwise correct resourceClaimName, or write the claim with allot claim.",
        'could not find ResourceClaim "ns/name" (the pod stays Pending without an event)',
    ),
    "claim-not-owned": ReasonCode(
        "The pod's status names a claim that was generated from the template for another pod.",
        "Delete the claim if it is unused; the claim controller then creates one for this pod.",
        "ResourceClaim ns/name was not created for Pod ns/pod (Pod is not owner)",
    ),
    "group-missing": ReasonCode(
        "The pod belongs to a PodGroup that does not exist in its namespace, so its claims and its scheduling "
        "policy are unknown.",
        "Create the PodGroup, or correct schedulingGroup.podGroupName.",
        '0/N nodes are available: podgroup.scheduling.k8s.io "g" not found.',
    ),
    "group-topology-missing": ReasonCode(
        "The nodes of all pods of the PodGroup must share the value of a label, and no node has the label, or pods of "
        "the group are already on nodes with different values.",
        "Correct the key in schedulingConstraints.topology of the PodGroup, or label the nodes.",
        "no feasible placements found",
    ),
    "template-missing": ReasonCode(
        "The pod references a ResourceClaimTemplate that does not exist in its namespace, so no claim is generated.",
        "If the API server rejected the template's manifest, correct it with allot check FILE --fix, and apply it "
        "again. Otherwise correct resourceClaimTemplateName, or write the template with allot claim.",
        "ResourceClaim not created yet (the pod stays Pending without an event)",
    ),
    "extended-resource-missing": ReasonCode(
        "The pod requests an extended resource that neither a device plugin nor a DeviceClass provides.",
        "Install the device plugin, set extendedResourceName in a DeviceClass, or use a ResourceClaim instead.",
        "Insufficient nvidia.com/gpu",
    ),
    "wrong-namespace": ReasonCode(
        "The claim or template exists, but not in the pod's namespace.",
        "Create the claim or template in the pod's namespace; a claim cannot be used across namespaces.",
        "ResourceClaim not created yet (the pod stays Pending without an event)",
    ),
    "selector-invalid": ReasonCode(
        "A selector is not a valid CEL expression for devices; the API server rejects the object.",
        "Correct the expression at the indicated position.",
        "Invalid value: compilation failed",
    ),
    "invalid-manifest": ReasonCode(
        "The API server rejects an object that the pod needs.", "Correct the named fields.", "422 Unprocessable Entity"
    ),
    "not-explained": ReasonCode(
        "The allocation fails, but no cause could be confirmed.",
        ("Report this as a bug in Allotment, and attach the manifests."),
    ),
}

#: Codes of a full cluster, where waiting helps.
BUSY: frozenset[str] = frozenset(
    {"devices-in-use", "capacity-in-use", "counters-exhausted", "compatibility-groups-in-use", "claim-on-other-node"}
)
#: Codes of mistakes in what the claim says, wherever it is placed.
MISWRITTEN: frozenset[str] = frozenset(
    {
        "constraint-attribute-unpublished", "type-mismatch", "unknown-attribute", "capacity-read-as-attribute",
        "attribute-read-as-capacity", "unknown-driver",
    }
)  # fmt: skip
#: code -> distance from fitting, smaller is nearer.
RANK: Mapping[str, int] = {code: rank for rank, code in enumerate(CODES)}


class FunnelStep(Value, frozen=True, omit_defaults=False):
    """One step of a funnel: the number of devices left after it, and the names of the devices lost in it.

    ``step`` is one of ``class selector capacity node-operations taints groups counters in-use constraint``; ``text``
    is the condition as written in the manifest. ``by`` describes the claims that hold the lost devices, capacity or
    counters; ``claims`` are the names of those that the reader may see. A constraint is a step only if it is the cause;
    ``left`` then counts the largest set of devices that is nearest to satisfying it.
    """

    step: str
    text: str
    left: int
    lost: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    claims: tuple[str, ...] = ()


class Funnel(Value, frozen=True, omit_defaults=False):
    """The filtering of a node's devices by one request (``main`` or ``main/sub``). ``wanted`` 0 means all devices."""

    claim: str
    request: str
    device_class: str
    wanted: int
    visible: int
    steps: tuple[FunnelStep, ...] = ()

    def left(self) -> int:
        """The number of devices that pass every step."""
        return self.steps[-1].left if self.steps else self.visible


class NearestMiss(Value, frozen=True):
    """The device that is nearest to matching, with the actual and the requested value.

    ``qualifier`` follows the actual value in text: ``left in gpu-0-counter-set``.
    """

    device: str
    what: str
    actual: str
    wanted: str
    kind: str = ""
    qualifier: str = ""

    def __str__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        verb = "have" if ", " in self.device else "has"
        actual = f"{self.actual} {self.qualifier}".rstrip()
        return f"{self.device}{kind} {verb} {self.what} {actual}; {self.wanted} requested"


class SuggestedChange(Value, frozen=True):
    """A change after which the claims fit, verified by running the engine on the changed objects.

    ``object`` (kind and name) and ``path`` name the field to change, ``becomes`` its new value: a mapping is merged
    into the field, any other value replaces it, ``None`` removes it. Several changes are applied in order. ``node`` is
    the node where the claims fit then. A change that no user can make in an object (of a driver, for example) has only
    a ``text``. ``remedy`` is a key of `remedies.REMEDIES`.
    """

    text: str
    object: str = ""
    path: str = ""
    becomes: Any = None
    node: str = ""
    remedy: str = ""

    @property
    def command(self) -> str:
        """The kubectl command that makes the change in the cluster, for changes that no manifest contains."""
        if self.remedy == "delete-pod":
            namespace, _, name = self.object.removeprefix("Pod ").partition("/")
            return f"kubectl delete pod {name} -n {namespace}"
        return f"kubectl uncordon {self.object.removeprefix('Node ')}" if self.remedy == "uncordon" else ""


class AllocationRefusal(Value, frozen=True):
    """The reason why claims are not allocated on ``node``, or on any node if it is empty.

    ``changes`` must be made together; ``otherwise`` are the changes of an alternative remedy with another scope.
    """

    code: str
    summary: str
    node: str = ""
    claim: str = ""
    request: str = ""
    funnels: tuple[Funnel, ...] = ()
    nearest: NearestMiss | None = None
    changes: tuple[SuggestedChange, ...] = ()
    otherwise: tuple[SuggestedChange, ...] = ()
    notes: tuple[str, ...] = ()
    alternatives: tuple[AllocationRefusal, ...] = ()
    kubernetes: str = ""


class NodeReason(Value, frozen=True, omit_defaults=False):
    """A reason and the nodes to which it applies; nodes with equal hardware in an equal state are diagnosed once."""

    nodes: tuple[str, ...]
    refused: AllocationRefusal


class Diagnosis(Value, frozen=True, omit_defaults=False):
    """The reasons why claims fit no node. ``headline`` is the reason of the node that is nearest to fitting.

    ``fitting`` are nodes on which the claims fit, if Kubernetes gives up because of an error on another node.
    """

    headline: AllocationRefusal
    nodes: tuple[NodeReason, ...] = ()
    fitting: tuple[str, ...] = ()


def page() -> str:
    """The text of the reference page, ``docs/reference/reasons.md``, wrapped like the other pages."""
    introduction = (
        "This page lists the reasons why a pod or claim does not get its devices. `allot explain` prints the code in "
        "the first line of its output, and as `code` in JSON. Codes are sorted by how close the claims are to "
        "fitting, closest first; if nodes have different reasons, the first code in this order is reported for the "
        "cluster. Codes "
        "are stable. This page is generated from `allotment.engine.refusal.CODES`."
    )
    lines = ["# Reasons", "", *_wrap(introduction)]
    for name, code in CODES.items():
        lines += ["", f"## {name}", "", *_wrap(code.summary), ""]
        lines += _wrap(f"- What to do: {code.advice}", indent="  ")
        lines += _wrap(f"- Kubernetes says: {code.kubernetes}", indent="  ")
    return "\n".join(lines) + "\n"


def _wrap(text: str, *, indent: str = "") -> list[str]:
    return textwrap.wrap(text, _PAGE_WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
