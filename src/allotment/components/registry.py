"""The components of ``allot run``, by name.

Each is imported on use: a driver does not need the planner, and the planner does not need gRPC.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from allotment.cluster import resources
from allotment.cluster.client import Resource
from allotment.components.component import Component
from allotment.components.http_server import AddressUnavailable
from allotment.exporter.cardinality_limits import MAX_SERIES
from allotment.permissions.components import COMPONENTS, lease_of

if TYPE_CHECKING:
    from allotment.autoscaler.options import AutoscalerOptions as Scaling
    from allotment.cluster.program import Program
    from allotment.drivers.driver import Driver
    from allotment.drivers.program import DriverOptions
    from allotment.exporter.metric import Family
    from allotment.fleet.catalog import InstanceType
    from allotment.model.features import Features

#: The ``schedulerName`` of pods for Allotment's scheduler.
SCHEDULER_NAME: Final = "allotment-scheduler"


def watched_resources(component: str) -> tuple[Resource, ...]:
    """The resources that a component watches, according to its role.

    Used for components that pods wait for. Standby copies of the autoscaler and the annotator watch nothing: their work
    takes long anyway, and so they need little memory.

    >>> [resource.plural for resource in watched_resources("taints")]
    ['pods', 'resourceclaims', 'resourceslices', 'devicetaintrules']
    """
    rules = [rule for rule in COMPONENTS[component].cluster_wide if "watch" in rule.verbs]
    known = (value for value in vars(resources).values() if isinstance(value, Resource))
    return tuple(
        resource
        for resource in known
        if any(resource.group in r.groups and resource.plural in r.resources for r in rules)
    )


def scheduler(name: str = SCHEDULER_NAME, settle: float | None = None) -> Component:
    """Schedules pods with ``schedulerName: NAME``, devices included.

    ``settle``: seconds to wait for decisions of other schedulers; None: adapted to their observed latency.
    """
    from allotment.scheduler.program import SchedulerOptions, scheduler

    return Component(
        "scheduler", lambda features: scheduler(SchedulerOptions(features, name, settle=settle)), "allotment-scheduler",
        lease_of("scheduler"), watched_resources("scheduler"), stops_itself=True,
    )  # fmt: skip


def claims() -> Component:
    """Creates the claims of pods from templates, and releases them."""
    from allotment.components.claim_metrics import claim_families
    from allotment.controllers.claim_counts import ClaimCounts
    from allotment.controllers.resource_claims import resource_claims

    counts = ClaimCounts()
    started: list[Features] = []

    def program(features: Features) -> Program:
        started[:] = [features]
        return resource_claims(features, counts)

    return Component(
        "claims", program, "allotment-claims", lease_of("claims"), watched_resources("claims"),
        families=lambda: claim_families(counts, started[0]) if started else (), stops_itself=True,
    )  # fmt: skip


def taints() -> Component:
    """Evicts pods whose devices have a NoExecute taint."""
    from allotment.controllers.device_taints import device_taints

    return Component(
        "taints", device_taints, "allotment-taints", lease_of("taints"), watched_resources("taints"), stops_itself=True
    )


def autoscaler(options: Callable[[Features], Scaling]) -> Component:
    """Provisions machines for pending pods and releases idle ones."""
    from allotment.autoscaler.options import NAME
    from allotment.autoscaler.program import autoscaler

    return Component("autoscaler", lambda features: autoscaler(options(features)), NAME, lease_of("autoscaler"))


def annotator() -> Component:
    """Explains in events why pods wait for devices, for any scheduler."""
    from allotment.annotator.program import NAME, Options, annotator

    return Component("annotator", lambda features: annotator(Options(features)), NAME, lease_of("annotator"))


def exporter(
    catalog: Sequence[InstanceType] = (), *, per_claim: bool = False, most_series: int = MAX_SERIES
) -> Component:
    """Exports metrics of devices, claims and pods. All copies return the same, so there is no leader election."""
    from allotment.exporter.program import Exporter, ExporterOptions, exporter

    made: list[Exporter] = []

    def program(features: Features) -> Program:
        made[:] = [exporter(ExporterOptions(features, catalog, per_claim=per_claim, max_series=most_series))]
        return made[0].program

    def families() -> Sequence[Family]:
        return made[0].families() if made else ()

    return Component("exporter", program, "allotment-exporter", families=families)


def web(program: Callable[[Features], Program], unready: Callable[[], str]) -> Component:
    """Serves the page of ``allot web`` to visitors with a bearer token. Copies only read: there is no leader election.

    ``program`` is the server, which is in a layer above. ``unready``: why it cannot answer yet, or empty.
    """
    return Component("web", program, "allotment-web", unready=unready, fatal_errors=(AddressUnavailable,))


def driver(driver: Driver, place: DriverOptions) -> Component:
    """Runs the driver of one node."""
    from allotment.drivers.host import CheckpointLocked
    from allotment.drivers.program import node_program
    from allotment.kubelet_plugin.sockets import SocketError

    state = ["the kubelet has not registered the driver yet"]

    def set_state(error: str) -> None:
        state[0] = error

    return Component(
        "driver", lambda features: node_program(driver, place, features, set_state), driver.name,
        unready=lambda: state[0],
        stops_itself=True,
        fatal_errors=(SocketError, CheckpointLocked, PermissionError, FileNotFoundError, NotADirectoryError),
    )  # fmt: skip
