"""The components: which program each word of ``allot run`` is.

Each is imported when it is asked for: a driver on a node does without the planner, and a planner without gRPC.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from allotment.components.component import Component
from allotment.tools.permissions.parts import lease_of

if TYPE_CHECKING:
    from allotment.autoscaler.options import Options as Scaling
    from allotment.model.features import Features

#: As pods name it that are not to be kube-scheduler's.
SCHEDULER_NAME: Final = "allotment-scheduler"


def scheduler(name: str = SCHEDULER_NAME) -> Component:
    """Gives pods with ``schedulerName: NAME`` their nodes and devices."""
    from allotment.scheduler.program import Options, scheduler

    return Component(
        "scheduler", lambda features: scheduler(Options(features, name)), "allotment-scheduler", lease_of("scheduler")
    )


def claims() -> Component:
    """Makes pods' claims from templates, and frees them."""
    from allotment.control.resource_claims import resource_claims

    return Component("claims", resource_claims, "allotment-claims", lease_of("claims"))


def taints() -> Component:
    """Evicts pods from devices that are tainted NoExecute."""
    from allotment.control.device_taints import device_taints

    return Component("taints", device_taints, "allotment-taints", lease_of("taints"))


def autoscaler(options: Callable[[Features], Scaling]) -> Component:
    """Machines for what waits, and back again."""
    from allotment.autoscaler.options import NAME
    from allotment.autoscaler.program import autoscaler

    return Component("autoscaler", lambda features: autoscaler(options(features)), NAME, lease_of("autoscaler"))


def annotator() -> Component:
    """Tells pods that wait for devices why, whoever schedules them."""
    from allotment.annotator.program import NAME, Options, annotator

    return Component("annotator", lambda features: annotator(Options(features)), NAME, lease_of("annotator"))
