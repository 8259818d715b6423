"""What differs between two outcomes and what ``explain`` says, and what may differ."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from allotment.engine import Inventory
from allotment.engine.cluster.layout import available
from allotment.model.core import Node
from allotment.model.meta import Object
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree
from allotment.tools.doctor.reading import read_objects
from allotment.tools.explain import Answer, explain
from tests.kube.differing.outcome import Outcome, share
from tests.kube.flows import FEATURES


class Difference(NamedTuple):
    """``kind`` stays the same while a world is made smaller."""

    kind: str
    pod: str
    told: str


def answered(pod: Tree, before: Sequence[Tree], node: str = "") -> Answer:
    """What ``explain`` says of a pod in a cluster; if it may go to one node only."""
    tree = copy.deepcopy(pod)
    tree["metadata"]["uid"] = "explained"
    if node:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        tree["spec"]["affinity"] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        }
    values = read_objects([*before, tree]).values
    return next(one for one in explain(values, FEATURES, tries=0).answers if one.kind == "Pod")


def overdrawn(values: Sequence[Object]) -> Iterator[str]:
    """Devices with two owners, counters and capacities of which more is taken than there is."""
    nodes = [one for one in values if isinstance(one, Node)]
    inventory = Inventory.of(
        FEATURES, nodes=[(one.metadata.name, one.metadata.labels) for one in nodes],
        slices=[one for one in values if isinstance(one, ResourceSlice)],
        classes=[one for one in values if isinstance(one, DeviceClass)],
        claims=[one for one in values if isinstance(one, ResourceClaim)],
        taint_rules=[one for one in values if isinstance(one, DeviceTaintRule)],
    )  # fmt: skip
    usage = inventory.usage
    for device, holders in usage.exclusive.items():
        if len(holders) > 1 or device in usage.shares:
            yield f"{device} belongs to {holders}"
    for node in nodes:
        view = inventory.view(node.metadata.name)
        if any(left < 0 for left in available(view.layout, view.state(usage))):
            yield f"counters of {node.metadata.name} are overdrawn"
        for record in view.records:
            if any(left < 0 for left in usage.remaining(record.id, record.traits.limits).values()):
                yield f"capacity of {record.id} is overdrawn"


def disagree(theirs: Outcome, ours: Outcome) -> bool:
    """Whether one binds and the other does not, or they say different things."""
    return (bool(theirs.node), theirs.reason, theirs.sentence) != (bool(ours.node), ours.reason, ours.sentence)


def code(answer: Answer) -> str:
    """The cause that is told first."""
    assert answer.reasons is not None
    headline = answer.reasons.headline
    return f"{headline.code}: {headline.summary}"


def of_other_things(sentence: str) -> bool:
    """Whether a node may be refused for what explain does not look at."""
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


#: Words of kube-scheduler that name a cause, and the codes that are this cause.
_NAMED: Final = (
    ("does not exist", {"class-missing"}),
    ("resourceclaim not available on the node", {"claim-on-other-node", "node-not-eligible"}),
    ("exceeds the claim limit", {"too-many-devices"}),
)


def same_cause(code: str, theirs: Outcome) -> bool:
    """Whether a cause is the one that kube-scheduler names, where it names one."""
    word = code.partition(":")[0]
    if theirs.reason == "SchedulerError":
        return True
    if any(words in theirs.sentence for words in ("cannot allocate all claims", "invalid resource pools")):
        # A selector may fail of which it never came to ask, and a pool may be in the way of a claim that fits nowhere.
        return word not in {"class-missing", "claim-missing", "template-missing", "too-many-devices"}
    if of_other_things(theirs.sentence):
        return True
    return all(word in codes for words, codes in _NAMED if words in theirs.sentence)


def given_by(answer: Answer) -> tuple[tuple[str, ...], ...]:
    """The same of what explain would give."""
    return tuple(
        tuple(f"{one.request}={one.driver}/{one.pool}/{one.device}{share(one.share)}" for one in claim.devices)
        for claim in answer.claims
        if not claim.before
    )
