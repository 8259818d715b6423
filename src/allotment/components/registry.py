"""The components: which program each word of ``allot run`` is.

Each is imported when it is asked for: a driver on a node does without the planner, and a planner without gRPC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from allotment.cluster import resources
from allotment.cluster.client import Resource
from allotment.components.component import Component
from allotment.exporter.cardinality_limits import MAX_SERIES
from allotment.tools.permissions.components import COMPONENTS, lease_of

if TYPE_CHECKING:
    from allotment.autoscaler.options import AutoscalerOptions as Scaling
    from allotment.cluster.program import Program
    from allotment.drivers.driver import Driver
    from allotment.drivers.program import DriverOptions
    from allotment.exporter.metric import Family
    from allotment.fleet.catalog import InstanceType
    from allotment.model.features import Features

#: As pods name it that are not to be kube-scheduler's.
SCHEDULER_NAME: Final = "allotment-scheduler"


def watched_resources(part: str) -> tuple[Resource, ...]:
    """What a part follows, as its role has it.

    Pods wait for these parts. The autoscaler and the annotator take long over what they do, and need much for it: a
    copy of theirs that stands by costs next to nothing.

    >>> [resource.plural for resource in watched_resources("taints")]
    ['pods', 'resourceclaims', 'resourceslices', 'devicetaintrules']
    """
    rules = [rule for rule in COMPONENTS[part].cluster_wide if "watch" in rule.verbs]
    known = (value for value in vars(resources).values() if isinstance(value, Resource))
    return tuple(one for one in known if any(one.group in r.groups and one.plural in r.resources for r in rules))


def scheduler(name: str = SCHEDULER_NAME, settle: float | None = None) -> Component:
    """Gives pods with ``schedulerName: NAME`` their nodes and devices.

    ``settle``: seconds that decisions settle for the sake of other schedulers; None: as long as these seem to need.
    """
    from allotment.scheduler.program import SchedulerOptions, scheduler

    return Component(
        "scheduler", lambda features: scheduler(SchedulerOptions(features, name, settle=settle)), "allotment-scheduler",
        lease_of("scheduler"), watched_resources("scheduler"), stops_itself=True,
    )  # fmt: skip


def claims() -> Component:
    """Makes pods' claims from templates, and frees them."""
    from allotment.controllers.resource_claims import resource_claims

    return Component(
        "claims", resource_claims, "allotment-claims", lease_of("claims"), watched_resources("claims"), stops_itself=True
    )


def taints() -> Component:
    """Evicts pods from devices that are tainted NoExecute."""
    from allotment.controllers.device_taints import device_taints

    return Component("taints", device_taints, "allotment-taints", lease_of("taints"), watched_resources("taints"), stops_itself=True)


def autoscaler(options: Callable[[Features], Scaling]) -> Component:
    """Machines for what waits, and back again."""
    from allotment.autoscaler.options import NAME
    from allotment.autoscaler.program import autoscaler

    return Component("autoscaler", lambda features: autoscaler(options(features)), NAME, lease_of("autoscaler"))


def annotator() -> Component:
    """Tells pods that wait for devices why, whoever schedules them."""
    from allotment.annotator.program import NAME, Options, annotator

    return Component("annotator", lambda features: annotator(Options(features)), NAME, lease_of("annotator"))


def exporter(
    catalog: Sequence[InstanceType] = (), *, per_claim: bool = False, most_series: int = MAX_SERIES
) -> Component:
    """Metrics of devices, claims and pods. Each copy says the same, so none leads."""
    from allotment.exporter.program import Exporter, ExporterOptions, exporter

    made: list[Exporter] = []

    def program(features: Features) -> Program:
        made[:] = [exporter(ExporterOptions(features, catalog, per_claim=per_claim, max_series=most_series))]
        return made[0].program

    def families() -> Sequence[Family]:
        return made[0].families() if made else ()

    return Component("exporter", program, "allotment-exporter", families=families)


def driver(driver: Driver, place: DriverOptions) -> Component:
    """A driver of one node: each copy does its own part."""
    from allotment.drivers.host import CheckpointLocked
    from allotment.drivers.program import node_program
    from allotment.kubelet_plugin.sockets import SocketError

    said = ["the kubelet has not registered the driver yet"]

    def heard(error: str) -> None:
        said[0] = error

    return Component(
        "driver", lambda features: node_program(driver, place, features, heard), driver.name, unready=lambda: said[0],
        stops_itself=True,        fatal_errors=(SocketError, CheckpointLocked, PermissionError, FileNotFoundError, NotADirectoryError),
    )  # fmt: skip
