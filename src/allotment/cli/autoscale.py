"""``allot autoscale``: runs the autoscaler on a cluster and logs its actions."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from allotment.api.objects.releases import features
from allotment.api.plans.catalog import Catalog, select_catalog
from allotment.api.plans.limits import require_known_types
from allotment.autoscaler.options import NAME, AutoscalerOptions
from allotment.autoscaler.provider import Provider, ProviderUnavailable
from allotment.autoscaler.providers.faults import InvalidFault, SimulatedFault, parse_faults
from allotment.cli.inputs.catalogs import limits_of, report_problems
from allotment.cli.inputs.durations import duration
from allotment.cli.live.connection import cluster_errors, way_to
from allotment.cli.output.errors import Failure
from allotment.errors import InputError
from allotment.fleet.catalog import InstanceType
from allotment.model import DEFAULT_RELEASE
from allotment.model.features import Features
from allotment.planning.consolidation.disruption import DisruptionBudget

if TYPE_CHECKING:
    from allotment.cluster.program import ProgramContext
    from allotment.cluster.remote.http_client import HttpClient
    from allotment.cluster.remote.kubeconfig import ClusterTarget
    from allotment.components.settings import ComponentSettings
    from allotment.planning.report import ProvisioningPlan

log = logging.getLogger(__name__)


def run(arguments: Namespace) -> int:
    """Run the autoscaler until SIGTERM or SIGINT, or once; return 1 if a pod is not placed."""
    found = select_catalog(arguments.catalog)
    options_of(
        arguments, found, features(DEFAULT_RELEASE, ())
    )  # report invalid options before connecting to the cluster
    way = way_to(arguments)
    code = report_problems(found)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stdout)
    with cluster_errors(way):
        return max(code, asyncio.run(_scale(arguments, found, way)))


async def _scale(arguments: Namespace, found: Catalog, way: ClusterTarget) -> int:
    from allotment.cli.live.program_context import features_of
    from allotment.cluster.leader_election import LeaseLost
    from allotment.cluster.remote.http_client import HttpClient
    from allotment.components.lifecycle import ClusterUnavailable, run_component
    from allotment.components.registry import autoscaler

    async with HttpClient(way, NAME) as client:
        options = options_of(arguments, found, await features_of(arguments, client))
        if arguments.once:
            return await _once(client, options)
    _print_start(arguments, options, way)
    settings = settings_of(arguments)
    while True:
        try:
            await run_component(autoscaler(lambda _: options), settings, way)
        except LeaseLost as error:  # a process started by hand is not restarted automatically
            log.info("%s", error)
        except ClusterUnavailable as error:
            raise Failure(f"error: {error}") from None
        else:
            break
    sys.stdout.write("\nStopped. Ordered machines remain, and the next run continues with them.\n")
    return 0


async def _once(client: HttpClient, options: AutoscalerOptions) -> int:
    from allotment.autoscaler.program import once
    from allotment.cli.live.program_context import context_of
    from allotment.cluster import program

    context = context_of(client)
    caches = asyncio.create_task(program.run({}, context), name="caches")
    try:
        plan = await once(context, options)
        _print_plan(plan, dry_run=options.dry_run)
        await context.events.flush()
        return int(bool(plan.unserved))
    except ProviderUnavailable as error:
        raise Failure(f"error: {error}") from None
    finally:
        caches.cancel()
        await asyncio.wait((caches,))


def settings_of(arguments: Namespace) -> ComponentSettings:
    """Return the settings of ``allot run autoscaler`` without its servers."""
    from allotment.cluster.leader_election import identity
    from allotment.components.settings import ComponentSettings, LeaderElectionSettings

    return ComponentSettings(
        leading=LeaderElectionSettings(identity(), arguments.namespace) if arguments.leader_elect else None
    )


def options_of(arguments: Namespace, found: Catalog, known: Features) -> AutoscalerOptions:
    """Return the autoscaler's options from the command line. Raises InputError."""
    try:
        DisruptionBudget(nodes=arguments.disruption_budget).max_nodes(10)
    except ValueError:
        raise InputError(
            f"--disruption-budget: expected a number or a percentage, found {arguments.disruption_budget!r}",
            "for example 2 or 10%",
        ) from None
    if not arguments.time_limit > 0:
        raise InputError(f"--time-limit: expected a positive number, found {arguments.time_limit:g}")
    return AutoscalerOptions(
        provider=provider_of(arguments, found, known, closed=True),
        catalog=found.types,
        features=known,
        limits=limits_of(arguments, found),
        namespace=arguments.namespace,
        batch_idle=duration("--batch-idle-duration", arguments.batch_idle_duration),
        batch_max=duration("--batch-max-duration", arguments.batch_max_duration),
        plan_seconds=arguments.time_limit,
        registration=duration("--registration-timeout", arguments.registration_timeout),
        consolidation=arguments.consolidate,
        consolidate_after=duration("--consolidate-after", arguments.consolidate_after),
        budget=arguments.disruption_budget,
        dry_run=arguments.dry_run,
    )


def faults_of(groups: Iterable[Iterable[str]], catalog: Sequence[InstanceType]) -> tuple[SimulatedFault, ...]:
    """Return the faults of ``--cloud-fault`` for the types of a catalog. Raises InputError."""
    words = [word for group in groups for text in group for word in text.split(",") if word]
    try:
        found = parse_faults(words)
    except InvalidFault as error:
        raise InputError(f"--cloud-fault: {error.problem}", error.hint) from None
    require_known_types([fault.pattern for fault in found], catalog, argument="cloud_fault")
    return found


def provider_of(
    arguments: Namespace, found: Catalog, known: Features, *, closed: bool = False
) -> Callable[[ProgramContext], Provider]:
    """Return the provider of machines. ``closed``: simulated nodes are uncordoned by another component."""
    if arguments.provider == "simulated":
        from allotment.autoscaler.providers.simulated import simulated_cloud

        delay = duration("--provisioning-delay", arguments.provisioning_delay)
        types = found.types
        return simulated_cloud(
            types, faults_of(arguments.cloud_fault, types), seconds=delay, kube=known.kube,
            namespace=arguments.namespace, closed=closed,
        )  # fmt: skip
    if arguments.cloud_fault:
        raise InputError("--cloud-fault: requires --provider simulated", "it injects faults into the simulated cloud")
    from allotment.autoscaler.providers.karpenter import Karpenter
    from allotment.cli.inputs.node_classes import mig_manager, node_classes
    from allotment.planning.provisioning.nodeclaims import NodeClaimSettings

    sold = list(dict.fromkeys(instance_type.provider for instance_type in found.types))
    settings = NodeClaimSettings(node_classes=node_classes(arguments.node_class, found.providers or sold))
    mig = mig_manager(arguments.mig_config)
    return lambda context: Karpenter(context.client_for(NAME, NAME), settings, mig)


def _print_start(arguments: Namespace, options: AutoscalerOptions, way: ClusterTarget) -> None:
    sold = options.limits.providers
    usable = sum(
        not instance_type.unusable and (not sold or instance_type.provider in sold) for instance_type in options.catalog
    )
    where = f"context {way.context!r}" if way.context else way.server
    does = "proposing machines for" if arguments.dry_run else "scaling"
    sys.stdout.write(
        f"{does.capitalize()} {where}: {usable} instance types, provider {arguments.provider}. Press Ctrl-C to stop.\n"
    )
    sys.stdout.flush()


def _print_plan(plan: ProvisioningPlan, *, dry_run: bool) -> None:
    from allotment.autoscaler.events import describe_machine
    from allotment.planning.reasons.wording import plan_summary

    action = "would order" if dry_run else "ordered"
    lines = [
        f"{action} {describe_machine(entry)} for {', '.join(str(placement.pod) for placement in entry.placements)}"
        for entry in plan.machines
    ]
    lines += [f"not placed: {entry.pod}: {entry.text}" for entry in plan.unserved]
    if plan.machines:
        lines.append(f"in total: {plan_summary(plan)}")
    sys.stdout.write("".join(f"{line}\n" for line in lines or ["no pending pods need machines"]))
