"""Detects known defects of kube-scheduler 1.36.3 by means of an allocator that has the same defects.

It has two of the five defects of 1.36.2 in :mod:`tests.vectors.reference`. Three are fixed or do not occur: 1.36.3
supports lists in selectors, but its allocator does not get list attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.engine import Allocated, Inventory
from allotment.explanation.input import sort_objects
from allotment.explanation.pod_claims import PodClaims, pod_claims
from allotment.model.core import Node, Pod
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree
from allotment.tools.doctor.reading import read_objects
from tests.kube.differential.outcome import Outcome, share
from tests.kube.flows import FEATURES
from tests.vectors.reference import COUNTER_POOL_KEY, DISTINCT, LISTS_NOT_ENABLED, TooLong, allocate

#: 1.37 fixed them.
DEFECTS: Final = (
    frozenset[str]() if FEATURES.since("1.37") else frozenset({COUNTER_POOL_KEY, DISTINCT, LISTS_NOT_ENABLED})
)
_STEPS: Final = 30_000


def is_known_defect(pod: Tree, before: Sequence[Tree], kube: Outcome, allotment: Outcome) -> bool:
    """Whether kube-scheduler's outcome is that of a search with the defects, and Allotment's that of one without."""
    node = kube.node or allotment.node
    if not node:
        return False
    inventory, claims = _unallocated_claims(pod, before)
    try:
        with_, without = (_search(inventory, node, claims, defects) for defects in (DEFECTS, frozenset[str]()))
    except TooLong:
        return False
    if with_ == without or with_ != (kube.devices if kube.node else None):
        return False
    return allotment.node not in ("", node) or without == (allotment.devices if allotment.node else None)


def _unallocated_claims(pod: Tree, before: Sequence[Tree]) -> tuple[Inventory, Sequence[ResourceClaim]]:
    """The devices of the cluster, and the pod's claims without an allocation."""
    tree = {**pod, "metadata": {**pod["metadata"], "uid": "asked"}}
    values = read_objects([*before, tree]).values
    inventory = Inventory.of(
        FEATURES, nodes=[(value.metadata.name, value.metadata.labels) for value in values if isinstance(value, Node)],
        slices=[value for value in values if isinstance(value, ResourceSlice)],
        classes=[value for value in values if isinstance(value, DeviceClass)],
        claims=[value for value in values if isinstance(value, ResourceClaim)],
        taint_rules=[value for value in values if isinstance(value, DeviceTaintRule)],
    )  # fmt: skip
    given = sort_objects(values, FEATURES)
    found = pod_claims(
        next(value for value in values if isinstance(value, Pod)), ("", ""), given, given.claims, frozenset()
    )
    return inventory, found.pending if isinstance(found, PodClaims) else []


def _search(
    inventory: Inventory, node: str, claims: Sequence[ResourceClaim], defects: frozenset[str]
) -> tuple[tuple[str, ...], ...] | None:
    """The devices as in :class:`Outcome`; None if the claims do not fit."""
    outcome = allocate(inventory, node, claims, defects, _STEPS).outcome
    if not isinstance(outcome, Allocated):
        return None
    return tuple(
        tuple(
            f"{item.request}={item.driver}/{item.pool}/{item.device}"
            f"{share({name: str(amount) for name, amount in item.consumed_capacity.items()})}"
            for item in result.devices.results
        )
        for result in outcome.results
    )
