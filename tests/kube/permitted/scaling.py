"""The autoscaler buys for pending pods, where stock is short and answers are lost, and moves pods to give back."""

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
from allotment.cluster.client import Resource
from allotment.cluster.errors import StatusError
from allotment.cluster.remote.http_client import HttpClient
from allotment.cluster.resources import CLAIMS, CONFIG_MAPS, CUSTOM_KINDS, NAMESPACES, NEW_EVENTS, NODES, PODS, SLICES
from allotment.fleet.catalog import catalog, template_of
from allotment.lab.fleet import registered
from allotment.model.trees import Tree, to_tree
from allotment.scheduler.program import SchedulerOptions as Scheduling
from allotment.scheduler.program import scheduler
from allotment.tools.plan.limits import PlanLimits
from allotment.tools.plan.provisioning.nodeclaims import FORM
from tests.definitions import KARPENTER, definitions
from tests.kube.permitted.ground import FEATURES, NODE, Account, Ground, gone, there
from tests.kube.permitted.playing import Meddled, renewed, running, scraped, told_again, until
from tests.kube.permitted.scheduling import claim, pod
from tests.lab import karpenter

TYPES: Final = ("aws/g4dn.xlarge", "aws/g5.xlarge", "aws/g4dn.12xlarge", "aws/p4d.24xlarge")


async def prepare(ground: Ground) -> None:
    """Karpenter's kinds, and the namespace of the MIG manager."""
    async with ground.client() as admin:
        for tree in definitions(KARPENTER).values():
            await admin.create(CUSTOM_KINDS, tree)
        await admin.create(NAMESPACES, {"metadata": {"name": MigManager().namespace}})

        async def served() -> bool:
            await admin.list(NODE_CLAIMS)
            return True

        await until(served)


def wants(name: str, count: int = 1, **exactly: Any) -> tuple[tuple[Resource, Tree], ...]:
    """A pod that some controller would make again, and its claim."""
    asked = claim(name, count)
    asked["spec"]["devices"]["requests"][0]["exactly"] |= exactly
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "none", "uid": name, "controller": True}
    waits = pod(name, name)
    waits["metadata"]["ownerReferences"] = [owner]
    return (CLAIMS, asked), (PODS, waits)


async def play(ground: Ground, account: Account) -> None:
    """All of it."""
    mark = ground.mark()
    options = AutoscalerOptions(
        provider=lambda context: Karpenter(context.client_for(NAME), mig=MigManager()),
        catalog=tuple(t for t in catalog() if t.key in TYPES), features=FEATURES, batch_idle=5.0, plan_seconds=inf,
        consolidation="cheaper", consolidate_after=10.0, budget="100%", opening_window=1.0, shortage_backoff=2.0,
        max_shortage_backoff=2.0, limits=PlanLimits(zones=("us-east-1a",)),
    )  # fmt: skip
    async with ground.client() as admin:
        await admin.patch(NODES, NODE, {"spec": {"unschedulable": True}})
        fake = karpenter.Karpenter(admin)
        fake.none_of |= {one.partition("/")[2] for one in TYPES}
        known: list[str] = []

        async def before(verb: str, resource: Resource, tree: Tree, subresource: str) -> None:
            if (verb, resource) == ("create", NODE_CLAIMS) and not known:
                # As after an order whose answer was lost: it is there already.
                known.append((await admin.create(NODE_CLAIMS, tree))["metadata"]["name"])

        async def is_on(name: str) -> str:
            return str((await admin.get(PODS, name, "default"))["spec"].get("nodeName", ""))

        async def is_gone(name: str) -> bool:
            return all(one["metadata"]["name"] != name for one in (await admin.list(PODS, "default")).items)

        async def are_left(machines: int) -> bool:
            return len((await admin.list(NODE_CLAIMS)).items) == machines

        async def times() -> int:
            events = (await admin.list(NEW_EVENTS, fields=f"regarding.name=small-{mark}")).items
            return max(((one.get("series") or {}).get("count", 1) for one in events), default=0)

        async with (
            emptied(admin),
            Meddled(account.target, before) as client,
            _beside(admin, fake),
            running(admin, "scheduler", scheduler(Scheduling(FEATURES, name="allotment")), leads=False),
            running(client, "autoscaler", autoscaler(options)),
        ):
            await scraped(client, account.target.token)
            async with there(admin, *wants(f"small-{mark}")):
                await told_again(times)
                fake.none_of.clear()
                await until(partial(is_on, f"small-{mark}"))
            await until(partial(are_left, 0))
            # Two that share a machine; the one it was bought for goes, and what is left can be had for less.
            async with contextlib.AsyncExitStack() as last:
                async with there(admin, *wants(f"big-{mark}", 3)):
                    await until(partial(is_on, f"big-{mark}"))
                    await last.enter_async_context(there(admin, *wants(f"moves-{mark}")))
                    await until(partial(is_on, f"moves-{mark}"))
                await until(partial(is_gone, f"moves-{mark}"))
            async with there(admin, *wants(f"mig-{mark}", deviceClassName="mig.nvidia.com")):
                await until(partial(is_on, f"mig-{mark}"))
            await renewed(admin, "autoscaler")


@contextlib.asynccontextmanager
async def _beside(admin: HttpClient, fake: karpenter.Karpenter) -> AsyncIterator[None]:
    """Karpenter, and what kubelets and drivers do for its nodes."""
    tasks = [asyncio.create_task(fake.run()), asyncio.create_task(_kubelets(admin))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _kubelets(admin: HttpClient) -> None:
    while True:
        for node in (await admin.list(NODES, labels="karpenter.sh/registered")).items:
            # Drivers take longer than the autoscaler takes to close a node.
            if node["spec"].get("unschedulable") and not (node.get("status") or {}).get("conditions"):
                await _comes(admin, node)
        for one in (await admin.list(PODS, "default")).items:
            if "deletionTimestamp" in one["metadata"]:
                await gone(admin, PODS, one["metadata"]["name"])
        await asyncio.sleep(0.05)


async def _comes(admin: HttpClient, node: Tree) -> None:
    name, labels = node["metadata"]["name"], node["metadata"]["labels"]
    kind = next(one for one in catalog() if one.name == labels["node.kubernetes.io/instance-type"])
    mode = node["metadata"]["annotations"].get(FORM, "").partition("/")[2]
    for one in template_of(kind, mode, name).slices:
        await admin.create(SLICES, to_tree(one, SLICES.api_version, SLICES.kind))
    status = registered(name, "172.18.9.9", kube="1.36", version="test", now="2026-01-01T00:00:00Z")
    await admin.patch(NODES, name, {"status": status}, subresource="status")


@contextlib.asynccontextmanager
async def emptied(admin: HttpClient) -> AsyncIterator[None]:
    """Nothing of the autoscaler's is left behind."""
    try:
        yield
    finally:
        await admin.patch(NODES, NODE, {"spec": {"unschedulable": None}})
        for resource in (NODE_CLAIMS, NODES, SLICES):
            for one in (await admin.list(resource)).items:
                name = one["metadata"]["name"]
                if NODE not in (name, (one.get("spec") or {}).get("nodeName")):
                    await gone(admin, resource, name)
        for namespace in ("kube-system", MigManager().namespace):
            for one in (await admin.list(CONFIG_MAPS, namespace)).items:
                with contextlib.suppress(StatusError):
                    await admin.delete(CONFIG_MAPS, one["metadata"]["name"], namespace)
