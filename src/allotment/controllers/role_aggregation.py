"""ClusterRole aggregation: the rules of a ClusterRole with an aggregation rule are those of the roles it selects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from allotment.cluster.cached_item import CachedItem
from allotment.cluster.errors import StatusError
from allotment.cluster.program import ProgramContext, run_queues
from allotment.cluster.resources import CLUSTER_ROLES
from allotment.cluster.work_queue import WorkQueue
from allotment.controllers.label_selectors import selects
from allotment.model.trees import Tree

_MANAGER: Final = "clusterrole-aggregation-controller"


async def role_aggregation(context: ProgramContext) -> None:
    """Run the ClusterRole aggregation controller."""
    client = context.client_for(_MANAGER, _MANAGER)
    roles = context.caches.trees(CLUSTER_ROLES)

    async def aggregate(name: str) -> None:
        role = roles.item("", name)
        if role is None or not role.tree.get("aggregationRule"):
            return
        rules = aggregated_rules(role, roles.items())
        if rules == (role.tree.get("rules") or []):
            return
        applied = {"apiVersion": CLUSTER_ROLES.api_version, "kind": "ClusterRole", "metadata": {"name": name}}
        try:
            roles.record_write(
                await client.patch(CLUSTER_ROLES, name, {**applied, "rules": rules}, kind="apply", force=True)
            )
        except StatusError as error:
            if error.code != 404:
                raise

    queue: WorkQueue[str] = WorkQueue("role-aggregation", aggregate, clock=context.clock, random=context.random)
    aggregated: set[str] = set()

    def changed(old: CachedItem[Any] | None, new: CachedItem[Any] | None) -> None:
        if old is not None:
            aggregated.discard(old.name)
        if new is not None and new.tree.get("aggregationRule"):
            aggregated.add(new.name)
        for name in aggregated:  # any role may be selected, also an aggregated one
            queue.add(name)

    await run_queues([queue], [(roles, changed)])


def aggregated_rules(role: CachedItem[Any], roles: Iterable[CachedItem[Any]]) -> list[Tree]:
    """The distinct rules of the roles that each selector matches, in the order of the selectors and of the names."""
    others = sorted((other for other in roles if other.name != role.name), key=lambda other: other.name)
    rules: list[Tree] = []
    for selector in role.tree["aggregationRule"].get("clusterRoleSelectors") or ():
        for other in others:
            for rule in other.tree.get("rules") or () if selects(selector, other.labels) else ():
                if rule not in rules:
                    rules.append(rule)
    return rules
