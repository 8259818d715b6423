"""Allocation of devices to claims, with the same results as Kubernetes' allocator, and the reasons for refusals.

``Inventory`` is the cluster's state; ``Allocator(inventory).allocate(node, claims)`` allocates on one node,
``.place(claims)`` finds the first node that fits. Outcomes are values: ``Allocated``, ``Unfit``, ``Aborted``.
"""

from allotment.engine.allocator import Allocator as Allocator
from allotment.engine.allocator import allocate as allocate
from allotment.engine.cluster.identity import DeviceID as DeviceID
from allotment.engine.cluster.identity import PoolID as PoolID
from allotment.engine.cluster.inventory import Inventory as Inventory
from allotment.engine.outcome import AbortCause as AbortCause
from allotment.engine.outcome import Aborted as Aborted
from allotment.engine.outcome import Allocated as Allocated
from allotment.engine.outcome import Outcome as Outcome
from allotment.engine.outcome import Unfit as Unfit
from allotment.engine.placement import NotPlaced as NotPlaced
from allotment.engine.placement import Placed as Placed
