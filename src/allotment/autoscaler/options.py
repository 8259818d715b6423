"""What an autoscaler is started with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias

from allotment.autoscaler.provider import Provider
from allotment.cluster.program import Context
from allotment.fleet.catalog.instance_type import InstanceType
from allotment.model.features import Features
from allotment.model.meta import Object
from allotment.packing.problem import KeepGoing
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.report import ProvisioningPlan

#: As whom it speaks to the cluster and in events.
NAME: Final = "allotment-autoscaler"
#: never: machines stay. empty: those that nobody uses go. cheaper: pods move, too, where that costs less.
Consolidation: TypeAlias = Literal["never", "empty", "cheaper"]


class Planner(Protocol):
    """From objects to a plan; runs on a thread of its own."""

    def __call__(self, values: Sequence[Object], limits: PlanLimits, keep_going: KeepGoing, /) -> ProvisioningPlan:
        """Ends soon after ``keep_going`` says no."""
        ...


class AutoscalerOptions(NamedTuple):
    """Times are seconds of the cluster's clock, but ``plan_seconds``, which a machine computes.

    ``provider`` is asked for one when the program starts. ``idle``, ``longest``: pods that wait are planned for when no
    more have come for so long, at most so long after the first. ``registration``: a machine that has no ready node with
    all its slices by then is given back. ``shortage``: how long a type that was out of stock is not asked for, doubling
    up to ``longest_shortage``. ``vain``: how long nothing is bought for pods for which three plans came to nothing,
    doubling up to ``longest_vain``. ``together``: how long a machine that is complete waits for others under way, so
    that their pods do not take its devices. ``retry``: what could not be served is planned for again after that, if
    nothing that could help has happened before. ``budget``: how many of its machines may be on their way out at once,
    a number or a share (``10%``, rounded up).
    """

    provider: Callable[[Context], Provider]
    catalog: tuple[InstanceType, ...]
    features: Features
    limits: PlanLimits = PlanLimits()
    planner: Planner | None = None
    """None: `allotment.tools.plan.planning`."""
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
