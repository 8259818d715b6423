"""The programs of a lab other than the API server, one line each.

They interact only through API objects: without one of them its work is not done, until another program does it, such as
a component of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from allotment import __version__
from allotment.cluster.program import Program, ProgramContext
from allotment.controllers.account_tokens import account_tokens
from allotment.controllers.cron_jobs import cron_jobs
from allotment.controllers.daemon_sets import daemon_sets
from allotment.controllers.deployments import deployments
from allotment.controllers.device_taints import device_taints
from allotment.controllers.disruption import disruption
from allotment.controllers.endpoint_mirroring import endpoint_mirroring
from allotment.controllers.endpoints import endpoints
from allotment.controllers.flow_schemas import flow_schemas
from allotment.controllers.garbage_collector import garbage
from allotment.controllers.horizontal_autoscaling.controller import horizontal_autoscaling
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
from allotment.controllers.role_aggregation import role_aggregation
from allotment.controllers.stateful_sets import stateful_sets
from allotment.controllers.volumes.binder import volume_binder
from allotment.controllers.volumes.ephemeral import ephemeral_volumes
from allotment.controllers.volumes.protection import claim_protection, volume_protection
from allotment.controllers.volumes.provisioner import volume_provisioner
from allotment.errors import InputError
from allotment.lab.certificate_signing import certificate_signing
from allotment.lab.compute_domains import compute_domains
from allotment.lab.driver_environment import DriverEnvironment
from allotment.lab.drivers import vendor_drivers
from allotment.lab.node_drivers import NodeDrivers
from allotment.lab.node_registration import register_nodes
from allotment.model.features import Features
from allotment.model.pod_groups import are_groups_enabled
from allotment.model.trees import Tree
from allotment.scheduler.program import SchedulerOptions, scheduler

if TYPE_CHECKING:
    from allotment.lab.autoscaling import Autoscale

#: The name for all controllers of kube-controller-manager.
CONTROLLERS: Final = "controllers"
#: The vendors' drivers on the simulated nodes.
DRIVERS: Final = "drivers"
_COMPUTE_DOMAINS, _JOINING, _KUBELETS, _SCHEDULER = "compute-domains", "joining", "kubelets", "scheduler"
#: Creates volumes, and their default class.
_PROVISIONER: Final = "volume-provisioner"
#: Runs only with instance types to provision.
_AUTOSCALER: Final = "autoscaler"

_ALWAYS: Final[Mapping[str, Program]] = {
    "cron-jobs": cron_jobs,
    "daemon-sets": daemon_sets,
    "deployments": deployments,
    "disruption": disruption,
    "endpoint-mirroring": endpoint_mirroring,
    "endpoints": endpoints,
    "ephemeral-volumes": ephemeral_volumes,
    "flow-schemas": flow_schemas,
    "garbage": garbage,
    "namespaces": namespaces,
    "node-lifecycle": node_lifecycle,
    "node-ttl": node_ttl,
    "pod-garbage": pod_garbage,
    "quotas": quotas,
    "replica-sets": replica_sets,
    "replication-controllers": replication_controllers,
    "role-aggregation": role_aggregation,
    "stateful-sets": stateful_sets,
    "volume-binder": volume_binder,
    "volume-protection": volume_protection,
}
#: Programs that depend on feature gates.
_GATED: Final[Mapping[str, Callable[[Features], Program]]] = {
    "device-taints": device_taints,
    "horizontal-autoscaling": horizontal_autoscaling,
    "jobs": jobs,
    "pool-status": pool_status,
    "resource-claims": resource_claims,
    "volume-claim-protection": claim_protection,
}
#: Runs only where pods can have groups.
_POD_GROUPS: Final = "pod-group-protection"
#: Run only where there are keys to sign with.
_ACCOUNT_TOKENS, _CERTIFICATE_SIGNING = "account-tokens", "certificate-signing"
_CONTROLLERS: Final = frozenset({*_ALWAYS, *_GATED, _POD_GROUPS, _ACCOUNT_TOKENS, _CERTIFICATE_SIGNING})

#: Names that can be excluded.
NAMES: Final = (
    CONTROLLERS,
    *sorted((*_CONTROLLERS, _COMPUTE_DOMAINS, DRIVERS, _JOINING, _KUBELETS, _PROVISIONER, _SCHEDULER)),
)


class UnknownProgram(InputError, ValueError):
    """Raised for an unknown program name, ``name``."""

    def __init__(self, name: str) -> None:
        super().__init__(f"unknown program {name!r}: expected one of {', '.join(NAMES)}")
        self.name = name


class Issuers(NamedTuple):
    """What controllers issue. ``token``: signs a token of an account for the Secret with a name.

    ``authority``: the authority of the API server in PEM, empty without TLS. ``folder``: that of the authority that
    signs certificates, which is created there if it is missing.
    """

    token: Callable[[Tree, str], str]
    authority: str
    folder: Path


def excluded_programs(words: Iterable[str]) -> frozenset[str]:
    """Parse the names of programs that should not run. Raises UnknownProgram.

    >>> sorted(excluded_programs(["scheduler", "garbage"]))
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
    environment: DriverEnvironment,
    drivers: NodeDrivers,
    without: frozenset[str] = frozenset(),
    autoscale: Autoscale | None = None,
    issuers: Issuers | None = None,
) -> Mapping[str, Program]:
    """The programs to run, by name."""

    async def kubelets(context: ProgramContext) -> None:
        # Until the drivers register, existing pods would only report a missing driver; their nodes report immediately.
        await environment.kubelets.run(context, drivers.registered if DRIVERS not in without else None)

    features = environment.features
    available: dict[str, Program] = {
        **_ALWAYS,
        **{name: made(features) for name, made in _GATED.items()},
        _COMPUTE_DOMAINS: compute_domains(environment),
        DRIVERS: vendor_drivers(drivers),
        _JOINING: register_nodes(features.kube, __version__),
        _KUBELETS: kubelets,
        _PROVISIONER: volume_provisioner(environment.volumes),
        # As kube-scheduler does: it does not wait for other schedulers, nor does it change claims because of them.
        _SCHEDULER: scheduler(SchedulerOptions(features, settle=0.0)),
    }
    if are_groups_enabled(features):
        available[_POD_GROUPS] = pod_group_protection
    if issuers is not None:
        available[_ACCOUNT_TOKENS] = account_tokens(issuers.token, issuers.authority)
        available[_CERTIFICATE_SIGNING] = certificate_signing(issuers.folder)
    if autoscale is not None:
        from allotment.autoscaler.program import autoscaler  # imports the planner, which most labs do not need

        available[_AUTOSCALER] = autoscaler(autoscale.options(features))
    return {name: available[name] for name in sorted(available) if name not in without}
