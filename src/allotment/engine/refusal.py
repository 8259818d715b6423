"""A refusal as a value: which cause, where the devices were lost, how close it came, and what would make it fit.

Kubernetes says ``cannot allocate all claims`` for nearly all of these causes. Here each has a stable code, so that a
person, an event and a planner can tell them apart. The value is found by `allotment.engine.diagnosis`; screens, events
and JSON print it, none of them words a cause anew.

``CODES`` is ordered from nearest to farthest from fitting: of several nodes' causes the one that comes first speaks
for the cluster. A code never changes its meaning and is never reused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from allotment.model.meta import Value

CANNOT_ALLOCATE = "cannot allocate all claims"
NO_NODES = "no nodes available to schedule pods"
#: The code of a node that is not refused: it is only not known whether the claims fit there.
SEARCH_GIVEN_UP = "search-given-up"


class Code(NamedTuple):
    """What a code means, what to do about it, and what Kubernetes itself says."""

    summary: str
    advice: str
    kubernetes: str = CANNOT_ALLOCATE


CODES: Mapping[str, Code] = {
    # It would fit on an idle cluster: waiting or freeing helps.
    "devices-in-use": Code(
        "Devices that match exist, but claims hold so many of them that too few are left.",
        "Wait for, or free, one of the claims that are named; or add nodes with such devices.",
    ),
    "capacity-in-use": Code(
        "The matching devices can be shared, but the capacity that is left on them is smaller than the request.",
        "Ask for less capacity, wait for one of the claims that are named, or add devices.",
    ),
    "counters-exhausted": Code(
        "The device itself is free, but another partition of the same hardware holds the counters that it needs.",
        "Free the partitions that are named, ask for a smaller partition, or use another card.",
    ),
    "claim-on-other-node": Code(
        "The claim is already allocated, to devices that this node cannot reach.",
        "Let the pod run where the claim is, or use a ResourceClaimTemplate, which gives each pod a claim of its own.",
        "resourceclaim not available on the node",
    ),
    # It may fit; whether it does is unknown.
    SEARCH_GIVEN_UP: Code(
        "The search for devices reached its step limit on this node, so whether the claims fit there is undecided.",
        "Select devices more narrowly, or ask for fewer in one claim, so that fewer combinations are to be tried; the "
        "node is searched again when its devices or the claims on them change.",
        "node N: timed out trying to allocate devices (if its own search takes longer than 10 seconds)",
    ),
    # The devices are there and match; something else stands in the way.
    "all-pool-updating": Code(
        "allocationMode All needs to know every device of the node, and a pool that the node sees is incomplete.",
        "Wait until the driver has published all slices of the pool; if it stays so, or if there are more slices than "
        "announced, look at the driver's log.",
        "asks for all devices, but resource pool D/P is currently being updated",
    ),
    "all-pool-invalid": Code(
        "allocationMode All needs to know every device of the node, and a pool that the node sees contradicts itself.",
        "Report it to the driver's author: the slices of the pool publish the same name twice or name a counter that "
        "is not there.",
        "asks for all devices, but resource pool D/P is currently invalid",
    ),
    "pool-incomplete": Code(
        "The pool that holds the devices has fewer slices than it announces, or more; Kubernetes ignores it until the "
        "numbers agree.",
        "Fewer: wait until the driver has published all slices; if it stays so, look at the driver's log. More: delete "
        "slices that an earlier driver left behind, or report it to the driver's author.",
    ),
    "devices-tainted": Code(
        "Devices that match exist, but carry taints that the request does not tolerate.",
        "Find out why the devices are tainted; to use them all the same, add the toleration that is shown.",
    ),
    "admin-access-not-allowed": Code(
        "The request asks for admin access and its namespace does not carry the label that allows it.",
        'Label the namespace resource.kubernetes.io/admin-access: "true", or leave adminAccess out.',
        "admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the containing "
        "namespace",
    ),
    "constraint-values-differ": Code(
        "Enough devices match, but no set of them satisfies the constraint of the claim.",
        "Ask for fewer devices, drop the constraint, or use nodes whose devices agree in the attribute.",
    ),
    "too-few-devices": Code(
        "Some devices match, but fewer than the claims of the pod ask for on one node.",
        "Ask for fewer devices in one pod, or add nodes with more of them.",
    ),
    "no-alternative-fits": Code(
        "Every alternative of firstAvailable fails, each for the reason that is told.",
        "Mend the alternative that comes nearest, or add one that the cluster has.",
    ),
    # The request asks for what is not there.
    "not-enough-capacity": Code(
        "Devices of the right kind exist, but none has the amount that is asked for.",
        "Ask for what the devices publish (they publish a little less than the label on the box), or for other ones.",
    ),
    "constraint-attribute-unpublished": Code(
        "The constraint names an attribute that the devices do not publish; such devices never satisfy it.",
        "Use an attribute that the driver publishes, by its full name (domain/name).",
    ),
    "type-mismatch": Code(
        "The selector compares an attribute with a literal of another type; that is never true.",
        'Write the literal in the attribute\'s type: 1 for an int, "x" for a string, semver("1.2.3") for a version.',
        "cannot allocate all claims (a version compared with a string: CEL runtime error: no such overload)",
    ),
    "unknown-attribute": Code(
        "The selector reads an attribute or capacity that no device of that driver publishes.",
        "Correct the name; what devices publish is listed by `allot free -o yaml`.",
        "CEL runtime error: no such key",
    ),
    "capacity-read-as-attribute": Code(
        "The selector looks among the attributes for something that the driver publishes as capacity.",
        'Write device.capacity["domain"].name; amounts are compared with isGreaterThan, isLessThan or compareTo.',
        "CEL runtime error: no such key",
    ),
    "attribute-read-as-capacity": Code(
        "The selector looks among the capacities for something that the driver publishes as attribute.",
        'Write device.attributes["domain"].name.',
        "CEL runtime error: no such key",
    ),
    "unknown-driver": Code(
        "The selector names a driver, or a driver's domain, that publishes nothing here.",
        "Use the driver's full name, as ResourceSlices carry it in spec.driver (gpu.nvidia.com, not nvidia.com).",
        "cannot allocate all claims (or, for a domain of attributes, CEL runtime error: no such key)",
    ),
    "selector-matches-nothing": Code(
        "No device satisfies all selectors of the request.",
        "Relax the condition that is named, or add nodes with such devices.",
    ),
    "class-matches-nothing": Code(
        "No device satisfies the selectors of the DeviceClass.",
        "Use a class whose devices this cluster has, or correct the class.",
    ),
    # Nothing of this node can be used.
    "pool-superseded": Code(
        "The slices for this node are of an older generation of their pool; Kubernetes ignores them.",
        "Restart the driver on the node, or delete its old slices; a pool name must not be shared by nodes by chance.",
    ),
    "pool-invalid": Code(
        "The slices of the pool contradict each other; Kubernetes ignores the whole pool.",
        "Report it to the driver's author: a device or counter set is published twice, or a counter is missing.",
        "invalid resource pools were encountered",
    ),
    "driver-missing": Code(
        "No ResourceSlice offers a device to this node.",
        "Install the DRA driver on the node, or look at its log if it is installed.",
    ),
    "node-not-eligible": Code(
        "The pod itself excludes the node: nodeName, nodeSelector, node affinity or a taint of the node.",
        "Change what the pod says of nodes; or label, untaint or uncordon a node that has the devices.",
        "node(s) didn't match Pod's node affinity/selector, or had untolerated taint",
    ),
    # The claim cannot be tried at all; the same on every node.
    "selector-fails": Code(
        "A selector stops with an error while it is evaluated; Kubernetes then gives up on every node.",
        "Guard what a device may lack: has(…), or device.driver == … && in front.",
        "CEL runtime error",
    ),
    "node-selector-unusable": Code(
        "A slice or device selects its nodes in a way that Kubernetes cannot use; it then gives up on every node.",
        "Correct or delete the slice that is named, and report it to the driver's author.",
        "failed to perform node selection",
    ),
    "too-many-devices": Code(
        "The claim asks for more devices than one claim may have (32), whatever the cluster offers.",
        "Split the claim.",
        "number of requested devices 33 exceeds the claim limit of 32",
    ),
    "feature-off": Code(
        "The claim uses a feature that is off, or does not exist, in this release of Kubernetes.",
        "Turn the feature gate on, or say --kube-version with the release that the cluster runs.",
        "the … feature is disabled",
    ),
    "claim-in-use": Code(
        "The claim is reserved for as many consumers as it may have (256).",
        "Use a ResourceClaimTemplate, or a second claim.",
        "resourceclaim in use",
    ),
    "class-missing": Code(
        "The request names a DeviceClass that does not exist.",
        "Use one of the classes that exist, or create it: a driver's Helm chart brings its own.",
        "request R: device class C does not exist",
    ),
    "claim-missing": Code(
        "The pod names a ResourceClaim that does not exist in its namespace.",
        "Create the claim, or correct resourceClaimName.",
        'could not find ResourceClaim "ns/name" (the pod stays Pending without an event)',
    ),
    "claim-not-owned": Code(
        "The claim that the pod's status names for a template was made for another pod.",
        "Delete the claim if nobody uses it; the claim controller then makes one for this pod.",
        "ResourceClaim ns/name was not created for Pod ns/pod (Pod is not owner)",
    ),
    "group-missing": Code(
        "The pod belongs to a PodGroup that its namespace does not have, so nobody knows which claims are the group's.",
        "Create the PodGroup, or correct schedulingGroup.podGroupName.",
        '0/N nodes are available: podgroup.scheduling.k8s.io "g" not found.',
    ),
    "template-missing": Code(
        "The pod names a ResourceClaimTemplate that does not exist in its namespace, so no claim is ever generated.",
        "Create the template, or correct resourceClaimTemplateName.",
        "ResourceClaim not created yet (the pod stays Pending without an event)",
    ),
    "extended-resource-missing": Code(
        "The pod asks for an extended resource that neither a device plugin nor a DeviceClass provides.",
        "Install the device plugin, give a class that extendedResourceName, or use a ResourceClaim instead.",
        "Insufficient nvidia.com/gpu",
    ),
    "wrong-namespace": Code(
        "The claim or template exists, but in another namespace than the pod.",
        "Put both in one namespace; a claim cannot be used across namespaces.",
        "ResourceClaim not created yet (the pod stays Pending without an event)",
    ),
    "selector-invalid": Code(
        "A selector is not a valid CEL expression for devices; the API server refuses the object.",
        "Correct the expression at the place that is shown.",
        "Invalid value: compilation failed",
    ),
    "invalid-manifest": Code(
        "The API server refuses an object that the pod needs.",
        "Correct the fields that are named.",
        "422 Unprocessable Entity",
    ),
    "not-explained": Code(
        "The allocation fails and none of the causes above could be shown to be the one.",
        "Please report it with the manifests; the funnel shows how far the devices came.",
    ),
}

#: A cluster that is full is no fault of anybody: here waiting helps.
BUSY: frozenset[str] = frozenset({"devices-in-use", "capacity-in-use", "counters-exhausted", "claim-on-other-node"})
#: code -> how far from fitting, smaller is nearer.
RANK: Mapping[str, int] = {code: rank for rank, code in enumerate(CODES)}


class Step(Value, frozen=True, omit_defaults=False):
    """One step of a funnel: how many devices are left after it, which were lost in it, and to whom.

    ``step`` is one of ``class selector capacity taints counters in-use constraint``; ``text`` is the condition in the
    manifest's words. ``by`` names, for counters, capacity in use and devices in use, the claims that hold them. A
    constraint stands there when it decides; left are the devices of the set that comes nearest to satisfying it.
    """

    step: str
    text: str
    left: int
    lost: tuple[str, ...] = ()
    by: tuple[str, ...] = ()


class Funnel(Value, frozen=True, omit_defaults=False):
    """What one request (``main`` or ``main/sub``) left of the devices that a node sees. ``wanted`` 0 means all."""

    claim: str
    request: str
    device_class: str
    wanted: int
    visible: int
    steps: tuple[Step, ...] = ()

    def left(self) -> int:
        """Devices that pass every step."""
        return self.steps[-1].left if self.steps else self.visible


class Miss(Value, frozen=True):
    """The device that came furthest: what it has, and what was wanted of it."""

    device: str
    what: str
    actual: str
    wanted: str
    kind: str = ""

    def __str__(self) -> str:
        kind = f" ({self.kind})" if self.kind else ""
        verb = "have" if ", " in self.device else "has"
        return f"{self.device}{kind} {verb} {self.what} {self.actual}, {self.wanted} asked"


class Change(Value, frozen=True):
    """A change after which the engine does allocate (it was run on the changed objects before this was said).

    ``object`` (kind and name) and ``path`` are what to change and ``becomes`` the new value: a mapping is merged into
    what stands there, anything else replaces it, and without it what stands there is removed. Of several changes each
    is made on what the one before it left. ``node`` is where it fits then. A change that is nobody's to write (the
    driver's, say) has a ``text`` only. ``remedy`` is its name in `remedies.REMEDIES`.
    """

    text: str
    object: str = ""
    path: str = ""
    becomes: Any = None
    node: str = ""
    remedy: str = ""


class Refused(Value, frozen=True):
    """Why there is no allocation: on one node, or, when ``node`` is empty, on any.

    ``changes`` are to be made together; ``otherwise`` are those of the next remedy, if one of another kind helps, too.
    """

    code: str
    summary: str
    node: str = ""
    claim: str = ""
    request: str = ""
    funnels: tuple[Funnel, ...] = ()
    nearest: Miss | None = None
    changes: tuple[Change, ...] = ()
    otherwise: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()
    alternatives: tuple[Refused, ...] = ()
    kubernetes: str = ""


class NodeReason(Value, frozen=True, omit_defaults=False):
    """One reason, and the nodes it holds for: equal hardware in an equal state is examined once."""

    nodes: tuple[str, ...]
    refused: Refused


class Diagnosis(Value, frozen=True, omit_defaults=False):
    """Why claims fit no node. ``headline`` is the reason of the node that came nearest to fitting.

    ``fitting`` are nodes that would do, had Kubernetes not given up because of an error on another one.
    """

    headline: Refused
    nodes: tuple[NodeReason, ...] = ()
    fitting: tuple[str, ...] = ()


def page() -> str:
    """The reference page of the codes, ``docs/reasons.md``."""
    lines = [
        "# Reasons",
        "",
        "Why a pod or claim does not get its devices: every code that `allot explain` prints, in the first line of its",
        "answer and as `code` in JSON. The order is from nearest to farthest from fitting; of several nodes' reasons,",
        "the one that comes first here speaks for the cluster. Codes are stable. This page is generated from",
        "`allotment.engine.refusal.CODES`.",
    ]
    for name, code in CODES.items():
        lines += ["", f"## {name}", "", code.summary, "", f"- What to do: {code.advice}"]
        lines += [f"- Kubernetes says: {code.kubernetes}"]
    return "\n".join(lines) + "\n"
