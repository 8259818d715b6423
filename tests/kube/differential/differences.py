"""The differences between two outcomes and ``explain``, and which of them are acceptable."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from allotment.engine import Inventory
from allotment.engine.cluster.layout import available
from allotment.explanation import Answer, explain
from allotment.model.core import Node
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree
from allotment.tools.doctor.reading import read_objects
from tests.kube.differential.outcome import Outcome, share
from tests.kube.flows import FEATURES


class Difference(NamedTuple):
    """A difference of one pod. ``kind`` stays the same while a scenario is minimized."""

    kind: str
    pod: str
    detail: str


def explain_pod(pod: Tree, before: Sequence[Tree], node: str = "") -> Answer:
    """The result of ``explain`` for a pod in a cluster, on one node only if ``node`` is set."""
    tree = copy.deepcopy(pod)
    tree["metadata"]["uid"] = "explained"
    if node:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        tree["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        }
    values = read_objects([*before, tree]).values
    return next(answer for answer in explain(values, FEATURES, tries=0).answers if answer.kind == "Pod")


def overallocations(values: Sequence[Object]) -> Iterator[str]:
    """Devices with two owners, and counters and capacities of which more is consumed than exists."""
    nodes = [value for value in values if isinstance(value, Node)]
    inventory = Inventory.of(
        FEATURES, nodes=[(node.metadata.name, node.metadata.labels) for node in nodes],
        slices=[value for value in values if isinstance(value, ResourceSlice)],
        classes=[value for value in values if isinstance(value, DeviceClass)],
        claims=[value for value in values if isinstance(value, ResourceClaim)],
        taint_rules=[value for value in values if isinstance(value, DeviceTaintRule)],
    )  # fmt: skip
    usage = inventory.usage
    for device, holders in usage.exclusive.items():
        if len(holders) > 1 or device in usage.shares:
            yield f"{device} belongs to {holders}"
    for node in nodes:
        view = inventory.view(node.metadata.name)
        if any(remaining < 0 for remaining in available(view.layout, view.state(usage))):
            yield f"counters of {node.metadata.name} are overdrawn"
        for record in view.records:
            if any(remaining < 0 for remaining in usage.remaining(record.id, record.traits.limits).values()):
                yield f"capacity of {record.id} is overdrawn"


def outcomes_differ(kube: Outcome, allotment: Outcome) -> bool:
    """Whether only one of them binds, or their messages differ."""
    return (bool(kube.node), kube.reason, kube.sentence) != (bool(allotment.node), allotment.reason, allotment.sentence)


def cause_of(answer: Answer) -> str:
    """The first cause that is reported."""
    assert answer.reasons is not None
    headline = answer.reasons.headline
    return f"{headline.code}: {headline.summary}"


def has_other_reasons(sentence: str) -> bool:
    """Whether a node may be rejected for reasons that explain does not consider."""
    return any(
        word in sentence
        for word in (
            "Insufficient",
            "Too many pods",
            "topology spread",
            "pod affinity",
            "anti-affinity",
            "device binding failed",
        )
    )


#: Phrases of kube-scheduler that name a cause, and the codes that stand for the same cause.
_CAUSE_PHRASES: Final = (
    ("does not exist", {"class-missing"}),
    ("resourceclaim not available on the node", {"claim-on-other-node", "node-not-eligible", "mapped-claim-in-use"}),
    ("cannot be shared across pods", {"claim-on-other-node", "node-not-eligible", "mapped-claim-in-use"}),
    ("exceeds the claim limit", {"too-many-devices"}),
)


def same_cause(code: str, kube: Outcome) -> bool:
    """Whether a cause is the one that kube-scheduler names, if it names one."""
    word = code.partition(":")[0]
    if kube.reason == "SchedulerError":
        return True
    if any(arguments in kube.sentence for arguments in ("cannot allocate all claims", "invalid resource pools")):
        # kube-scheduler may not reach a selector that fails, and an invalid pool may block a claim that fits nowhere.
        return word not in {"class-missing", "claim-missing", "template-missing", "too-many-devices"}
    if has_other_reasons(kube.sentence):
        return True
    return all(word in codes for arguments, codes in _CAUSE_PHRASES if arguments in kube.sentence)


def devices_of(answer: Answer) -> tuple[tuple[str, ...], ...]:
    """The devices that explain would allocate, in the form of :class:`Outcome`."""
    return tuple(
        tuple(
            f"{device.request}={device.driver}/{device.pool}/{device.device}{share(device.share)}"
            for device in claim.devices
        )
        for claim in answer.claims
        if not claim.before
    )
