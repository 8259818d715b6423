"""What kube-scheduler 1.36.3 is known to decide wrongly: told from everything else by an allocator with these defects.

It has two of the five that :mod:`tests.vectors.reference` knows of 1.36.2; the other three are repaired or, as lists,
never come into play: it knows lists in selectors, and its allocator has not been told of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from allotment.engine import Allocated, Inventory
from allotment.model.core import Node, Pod
from allotment.model.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from allotment.model.trees import Tree
from allotment.tools.doctor.reading import read_objects
from allotment.tools.explain.input import sort_objects
from allotment.tools.explain.pod_claims import PodClaims, pod_claims
from tests.kube.differing.outcome import Outcome, share
from tests.kube.flows import FEATURES
from tests.vectors.reference import COUNTER_POOL_KEY, DISTINCT, LISTS_UNTOLD, TooLong, allocate

DEFECTS: Final = frozenset({COUNTER_POOL_KEY, DISTINCT, LISTS_UNTOLD})
_STEPS: Final = 30_000


def known(pod: Tree, before: Sequence[Tree], theirs: Outcome, ours: Outcome) -> bool:
    """Whether kube-scheduler's outcome is what a search with the defects finds there, and ours that of one without."""
    node = theirs.node or ours.node
    if not node:
        return False
    inventory, claims = _asked(pod, before)
    try:
        with_, without = (_given(inventory, node, claims, defects) for defects in (DEFECTS, frozenset[str]()))
    except TooLong:
        return False
    if with_ == without or with_ != (theirs.given if theirs.node else None):
        return False
    return ours.node not in ("", node) or without == (ours.given if ours.node else None)


def _asked(pod: Tree, before: Sequence[Tree]) -> tuple[Inventory, Sequence[ResourceClaim]]:
    """What there is, and the pod's claims that have no devices yet."""
    tree = {**pod, "metadata": {**pod["metadata"], "uid": "asked"}}
    values = read_objects([*before, tree]).values
    inventory = Inventory.of(
        FEATURES, nodes=[(one.metadata.name, one.metadata.labels) for one in values if isinstance(one, Node)],
        slices=[one for one in values if isinstance(one, ResourceSlice)],
        classes=[one for one in values if isinstance(one, DeviceClass)],
        claims=[one for one in values if isinstance(one, ResourceClaim)],
        taint_rules=[one for one in values if isinstance(one, DeviceTaintRule)],
    )  # fmt: skip
    given = sort_objects(values, FEATURES)
    found = pod_claims(next(one for one in values if isinstance(one, Pod)), ("", ""), given, given.claims, frozenset())
    return inventory, found.pending if isinstance(found, PodClaims) else []


def _given(
    inventory: Inventory, node: str, claims: Sequence[ResourceClaim], defects: frozenset[str]
) -> tuple[tuple[str, ...], ...] | None:
    """As :class:`Outcome` has it; None if the claims do not fit."""
    outcome = allocate(inventory, node, claims, defects, _STEPS).outcome
    if not isinstance(outcome, Allocated):
        return None
    return tuple(
        tuple(
            f"{one.request}={one.driver}/{one.pool}/{one.device}"
            f"{share({name: str(amount) for name, amount in one.consumed_capacity.items()})}"
            for one in result.devices.results
        )
        for result in outcome.results
    )
