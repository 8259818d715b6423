"""What runs in a lab beside the API server: each program is a line.

They meet in the API's objects only: a lab without one of them is a cluster in which nobody does its work, until another
program does, such as Kubernetes' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from allotment import __version__
from allotment.cluster.program import Context, Program
from allotment.controllers.cron_jobs import cron_jobs
from allotment.controllers.daemon_sets import daemon_sets
from allotment.controllers.deployments import deployments
from allotment.controllers.device_taints import device_taints
from allotment.controllers.disruption import disruption
from allotment.controllers.endpoints import endpoints
from allotment.controllers.garbage_collector import garbage
from allotment.controllers.jobs import jobs
from allotment.controllers.namespaces import namespaces
from allotment.controllers.node_lifecycle import node_lifecycle
from allotment.controllers.node_ttl import node_ttl
from allotment.controllers.pod_garbage_collector import pod_garbage
from allotment.controllers.pod_group_protection import pod_group_protection
from allotment.controllers.pool_status import pool_status
from allotment.controllers.quotas import quotas
from allotment.controllers.replica_sets import replica_sets, replication_controllers
from allotment.controllers.resource_claims import resource_claims
from allotment.controllers.stateful_sets import stateful_sets
from allotment.lab.compute_domains import ComputeDomains
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.drivers import Drivers
from allotment.lab.node_registration import register_nodes
from allotment.model.features import Features
from allotment.model.pod_groups import GATE
from allotment.scheduler.program import SchedulerOptions, scheduler

if TYPE_CHECKING:
    from allotment.lab.autoscaling import Autoscale

#: The word for all that Kubernetes' own kube-controller-manager does.
CONTROLLERS: Final = "controllers"
#: The vendors' drivers on the simulated nodes.
DRIVERS: Final = "drivers"
_COMPUTE_DOMAINS, _JOINING, _KUBELETS, _SCHEDULER = "compute-domains", "joining", "kubelets", "scheduler"
#: Runs only where something can be bought.
_AUTOSCALER: Final = "autoscaler"

_ALWAYS: Final[Mapping[str, Program]] = {
    "cron-jobs": cron_jobs,
    "daemon-sets": daemon_sets,
    "deployments": deployments,
    "disruption": disruption,
    "endpoints": endpoints,
    "garbage": garbage,
    "jobs": jobs,
    "namespaces": namespaces,
    "node-lifecycle": node_lifecycle,
    "node-ttl": node_ttl,
    "pod-garbage": pod_garbage,
    "pool-status": pool_status,
    "quotas": quotas,
    "replica-sets": replica_sets,
    "replication-controllers": replication_controllers,
    "stateful-sets": stateful_sets,
}
#: Those that feature gates change.
_GATED: Final[Mapping[str, Callable[[Features], Program]]] = {
    "device-taints": device_taints,
    "resource-claims": resource_claims,
}
#: Runs only where PodGroups have claims.
_POD_GROUPS: Final = "pod-group-protection"
_CONTROLLERS: Final = frozenset({*_ALWAYS, *_GATED, _POD_GROUPS})

#: What can be left out.
NAMES: Final = (CONTROLLERS, *sorted((*_CONTROLLERS, _COMPUTE_DOMAINS, DRIVERS, _JOINING, _KUBELETS, _SCHEDULER)))


class UnknownProgram(ValueError):
    """Nothing of that name runs in a lab. ``name`` is it."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no program {name!r} in a lab; there are {', '.join(NAMES)}")
        self.name = name


def excluded_programs(words: Iterable[str]) -> frozenset[str]:
    """Programs as a user names those that should not run. Raises UnknownProgram.

    >>> sorted(left_out(["scheduler", "garbage"]))
    ['garbage', 'scheduler']
    """
    found: set[str] = set()
    for word in words:
        if word not in NAMES:
            raise UnknownProgram(word)
        # Only kubelets register nodes.
        found |= {CONTROLLERS: set(_CONTROLLERS), _KUBELETS: {_KUBELETS, _JOINING}}.get(word, {word})
    return frozenset(found)


def programs(
    ground: DriverEnvironment, drivers: Drivers, without: frozenset[str] = frozenset(), autoscale: Autoscale | None = None
) -> Mapping[str, Program]:
    """The programs that run, by name."""

    async def kubelets(context: Context) -> None:
        # Existing pods would only report a missing driver until then; their nodes report from the start.
        await ground.kubelets.run(context, drivers.registered if DRIVERS not in without else None)

    features = ground.features
    mine: dict[str, Program] = {
        **_ALWAYS,
        **{name: made(features) for name, made in _GATED.items()},
        _COMPUTE_DOMAINS: ComputeDomains(ground).run,
        DRIVERS: drivers.run,
        _JOINING: register_nodes(features.kube, __version__),
        _KUBELETS: kubelets,
        _SCHEDULER: scheduler(SchedulerOptions(features)),
    }
    if features.enabled(GATE):
        mine[_POD_GROUPS] = pod_group_protection
    if autoscale is not None:
        from allotment.autoscaler.program import autoscaler  # with the planner: most labs do without

        mine[_AUTOSCALER] = autoscaler(autoscale.options(features))
    return {name: mine[name] for name in sorted(mine) if name not in without}
