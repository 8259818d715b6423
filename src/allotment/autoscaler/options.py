"""The options of the autoscaler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from allotment.autoscaler.provider import Provider
from allotment.cluster.program import ProgramContext
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.packing.problem import KeepGoing
from allotment.planning.limits import PlanLimits
from allotment.planning.report import ProvisioningPlan

#: The name of its client and of the events' source.
NAME: Final = "allotment-autoscaler"
#: never: nodes are kept. empty: idle nodes are removed. cheaper: pods are also moved where that costs less.
Consolidation: TypeAlias = Literal["never", "empty", "cheaper"]


class Planner(Protocol):
    """Computes a plan from objects; runs in a thread."""

    def __call__(self, values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
        """Return a plan soon after ``keep_going`` returns False."""
        ...


class AutoscalerOptions(NamedTuple):
    """Times are seconds of the cluster's clock, except ``plan_seconds``, which is computing time.

    ``provider``: creates the provider when the program starts. ``batch_idle``, ``batch_max``: pending pods are planned
    after this long without new ones, at most this long after the first. ``registration``: a machine without a ready
    node and all slices by then is released. ``shortage_backoff``: how long an unavailable type is not ordered, doubling
    up to ``max_shortage_backoff``. ``purchase_backoff``: how long nothing is ordered for pods for which three plans
    failed, doubling up to ``max_purchase_backoff``. ``opening_window``: how long a complete machine waits for others in
    flight, so that their pods do not take its devices. ``retry``: unserved pods are planned again after that if nothing
    relevant has changed. ``budget``: how many of its machines may be disrupted at the same time, a number or a share
    (``10%``, rounded up).
    """

    provider: Callable[[ProgramContext], Provider]
    catalog: tuple[InstanceType, ...]
    features: Features
    limits: PlanLimits = PlanLimits()
    planner: Planner | None = None
    """Default: `allotment.planning.planner`."""
    namespace: str = "kube-system"
    batch_idle: float = 1.0
    batch_max: float = 10.0
    plan_seconds: float = 5.0
    registration: float = 900.0
    shortage_backoff: float = 60.0
    max_shortage_backoff: float = 1800.0
    purchase_backoff: float = 60.0
    max_purchase_backoff: float = 1800.0
    opening_window: float = 60.0
    retry: float = 300.0
    consolidation: Consolidation = "empty"
    consolidate_after: float = 60.0
    budget: str = "10%"
    dry_run: bool = False
