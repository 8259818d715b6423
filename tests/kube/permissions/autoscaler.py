"""The autoscaler provisions machines for pending pods, also when stock is short or answers are lost, and consolidates
nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from math import inf
from typing import Any, Final

from allotment.autoscaler.options import NAME, AutoscalerOptions
from allotment.autoscaler.program import autoscaler
from allotment.autoscaler.providers.karpenter import NODE_CLAIMS, Karpenter, MigManager
from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, CUSTOM_KINDS, NAMESPACES, NEW_EVENTS, NODES, PODS, SLICES
from allotment.fleet.catalog import catalog, template_of
from allotment.lab.fleet import registered
from allotment.model.trees import Tree, to_tree
from allotment.planning.limits import PlanLimits
from allotment.planning.provisioning.nodeclaims import FORM
from allotment.scheduler.program import SchedulerOptions as Scheduling
from allotment.scheduler.program import scheduler
from tests.definitions import KARPENTER, definitions
from tests.kube.permissions.environment import NODE, Account, ScenarioCluster, force_delete, temporary_objects
from tests.kube.permissions.runner import (
    InterferingClient,
    running_component,
    scrape,
    wait_for_lease,
    wait_for_repeat,
    wait_until,
)
from tests.kube.permissions.scheduler import claim, pod
from tests.lab import karpenter

TYPES: Final = ("aws/g4dn.xlarge", "aws/g5.xlarge", "aws/g4dn.12xlarge", "aws/p4d.24xlarge")


async def prepare(cluster: ScenarioCluster) -> None:
    """Install Karpenter's kinds, and the namespace of the MIG manager."""
    async with cluster.client() as admin:
        for tree in definitions(KARPENTER).values():
            await admin.create(CUSTOM_KINDS, tree)
        await admin.create(NAMESPACES, {"metadata": {"name": MigManager().namespace}})

        async def served() -> bool:
            await admin.list(NODE_CLAIMS)
            return True

        await wait_until(served)


def pending_pod(name: str, count: int = 1, **exactly: Any) -> tuple[tuple[Resource, Tree], ...]:
    """A pod with a controller that would create it again, and its claim."""
    created_claim = claim(name, count)
    created_claim["spec"]["devices"]["requests"][0]["exactly"] |= exactly
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none", "uid": name, "controller": True}
    waits = pod(name, name)
    waits["metadata"]["ownerReferences"] = [owner]
    return (CLAIMS, created_claim), (PODS, waits)


async def run(cluster: ScenarioCluster, account: Account) -> None:
    """Run the whole scenario."""
    mark = cluster.unique_name()
    options = AutoscalerOptions(
        provider=lambda context: Karpenter(context.client_for(NAME), mig=MigManager()),
        catalog=tuple(t for t in catalog() if t.key in TYPES), features=cluster.features, batch_idle=5.0,
        plan_seconds=inf,
        consolidation="cheaper", consolidate_after=10.0, budget="100%", opening_window=1.0, shortage_backoff=2.0,
        max_shortage_backoff=2.0, limits=PlanLimits(zones=("us-east-1a",)),
    )  # fmt: skip
    async with cluster.client() as admin:
        await admin.patch(NODES, NODE, {"spec": {"unschedulable": True}})
        fake = karpenter.Karpenter(admin)
        fake.unavailable |= {type_.partition("/")[2] for type_ in TYPES}
        known: list[str] = []

        async def before(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            if (verb, resource) == ("create", NODE_CLAIMS) and not known:
                # As after an order whose answer was lost: the object exists already.
                known.append((await admin.create(NODE_CLAIMS, tree))["metadata"]["name"])

        async def is_on(name: str) -> str:
            return str((await admin.get(PODS, name, "default"))["spec"].get("nodeName", ""))

        async def is_gone(name: str) -> bool:
            return all(pod["metadata"]["name"] != name for pod in (await admin.list(PODS, "default")).items)

        async def are_left(machines: int) -> bool:
            return len((await admin.list(NODE_CLAIMS)).items) == machines

        async def times() -> int:
            events = (await admin.list(NEW_EVENTS, fields=f"regarding.name=small-{mark}")).items
            return max(((event.get("series") or {}).get("count", 1) for event in events), default=0)

        async with (
            wait_until_empty(admin),
            InterferingClient(account.target, before) as client,
            _run_other_controllers(admin, fake),
            running_component(
                admin, "scheduler", scheduler(Scheduling(cluster.features, name="allotment")), leads=False
            ),
            running_component(client, "autoscaler", autoscaler(options)),
        ):
            await scrape(client, account.target.token)
            async with temporary_objects(admin, *pending_pod(f"small-{mark}")):
                await wait_for_repeat(times)
                fake.unavailable.clear()
                await wait_until(partial(is_on, f"small-{mark}"))
            await wait_until(partial(are_left, 0))
            # Two pods share a machine; the one that it was ordered for ends, and a cheaper machine is enough for the
            # other.
            async with contextlib.AsyncExitStack() as last:
                async with temporary_objects(admin, *pending_pod(f"big-{mark}", 3)):
                    await wait_until(partial(is_on, f"big-{mark}"))
                    await last.enter_async_context(temporary_objects(admin, *pending_pod(f"moves-{mark}")))
                    await wait_until(partial(is_on, f"moves-{mark}"))
                await wait_until(partial(is_gone, f"moves-{mark}"))
            async with temporary_objects(admin, *pending_pod(f"mig-{mark}", deviceClassName="mig.nvidia.com")):
                await wait_until(partial(is_on, f"mig-{mark}"))
            await wait_for_lease(admin, "autoscaler")


@contextlib.asynccontextmanager
async def _run_other_controllers(admin: Client, fake: karpenter.Karpenter) -> AsyncIterator[None]:
    """Run Karpenter's controller, and simulate kubelets and drivers of its nodes."""
    tasks = [asyncio.create_task(fake.run()), asyncio.create_task(_kubelets(admin))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _kubelets(admin: Client) -> None:
    while True:
        for node in (await admin.list(NODES, labels="karpenter.sh/registered")).items:
            # Drivers take longer than the autoscaler takes to cordon a node.
            if node["spec"].get("unschedulable") and not (node.get("status") or {}).get("conditions"):
                await _make_ready(admin, node)
        for pod_tree in (await admin.list(PODS, "default")).items:
            if "deletionTimestamp" in pod_tree["metadata"]:
                await force_delete(admin, PODS, pod_tree["metadata"]["name"])
        await asyncio.sleep(0.05)


async def _make_ready(admin: Client, node: Tree) -> None:
    name, labels = node["metadata"]["name"], node["metadata"]["labels"]
    kind = next(instance for instance in catalog() if instance.name == labels["node.kubernetes.io/instance-type"])
    mode = node["metadata"]["annotations"].get(FORM, "").partition("/")[2]
    for slice_ in template_of(kind, mode, name).slices:
        await admin.create(SLICES, to_tree(slice_, SLICES.api_version, SLICES.kind))
    status = registered(name, "172.18.9.9", kube="1.36", version="test", now="2026-01-01T00:00:00Z")
    await admin.patch(NODES, name, {"status": status}, subresource="status")


@contextlib.asynccontextmanager
async def wait_until_empty(admin: Client) -> AsyncIterator[None]:
    """No object of the autoscaler is left."""
    try:
        yield
    finally:
        await admin.patch(NODES, NODE, {"spec": {"unschedulable": None}})
        for resource in (NODE_CLAIMS, NODES, SLICES):
            for item in (await admin.list(resource)).items:
                name = item["metadata"]["name"]
                if NODE not in (name, (item.get("spec") or {}).get("nodeName")):
                    await force_delete(admin, resource, name)
        for namespace in ("kube-system", MigManager().namespace):
            for config_map in (await admin.list(CONFIG_MAPS, namespace)).items:
                with contextlib.suppress(StatusError):
                    await admin.delete(CONFIG_MAPS, config_map["metadata"]["name"], namespace)
