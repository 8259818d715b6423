"""The expander: selects the options that serve their pods, claims included, at the least cost per pod.

The request contains neither claims nor devices, so they are read from caches. The response is computed in a thread
within the autoscaler's timeout. If that fails, the response is an error or all options, which
have the same effect in the autoscaler.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from allotment.autoscaler.cluster_autoscaler.node_groups import NodeGroup
from allotment.autoscaler.cluster_autoscaler.node_templates import GroupTemplates
from allotment.autoscaler.cluster_autoscaler.option_evaluation import EvaluatedOption, best, evaluate_all, uid_of
from allotment.cluster.cache import Cache
from allotment.cluster.caches import Caches, all_synced
from allotment.cluster.client import Resource
from allotment.cluster.resources import (
    CLAIM_TEMPLATES,
    CLAIMS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    SLICES,
    TAINT_RULES,
    VOLUME_CLAIMS,
    VOLUMES,
)
from allotment.externalgrpc import errors
from allotment.externalgrpc.expander import ExpansionOption
from allotment.fleet.catalog import InstanceType
from allotment.model.features import Features
from allotment.model.trees import Tree
from allotment.planning.consolidation.rescheduling import SimulatedCluster

log = logging.getLogger(__name__)

#: The resources that affect scheduling.
RESOURCES: Final[Sequence[Resource]] = (
    NODES, NAMESPACES, TAINT_RULES, DEVICE_CLASSES, SLICES, CLAIM_TEMPLATES, CLAIMS, VOLUMES, VOLUME_CLAIMS, PODS,
)  # fmt: skip
#: Below the autoscaler's timeout of five seconds.
_SECONDS: Final = 4.0


class CheapestExpander:
    """`externalgrpc.expander.Chooser`. ``groups``: Allotment's node groups, if the autoscaler uses them."""

    def __init__(
        self, caches: Caches, groups: Sequence[NodeGroup], catalog: Sequence[InstanceType], features: Features,
        seconds: float = _SECONDS,
    ) -> None:  # fmt: skip
        self._caches: dict[Resource, Cache[Tree]] = {resource: caches.trees(resource) for resource in RESOURCES}
        self._groups = groups
        self._catalog = catalog
        self._features = features
        self._seconds = seconds

    async def synced(self) -> None:
        """Wait until the cluster has been read once."""
        await all_synced(*self._caches.values())

    async def best_options(self, options: Sequence[ExpansionOption], nodes: Mapping[str, Tree]) -> Sequence[str]:
        """The ids of the best options."""
        end = time.monotonic() + self._seconds
        try:
            async with asyncio.timeout(self._seconds):
                await self.synced()
        except TimeoutError:
            raise errors.UnavailableError("the cluster state has not been loaded yet") from None
        trees = {resource: [item.tree for item in cache.items()] for resource, cache in self._caches.items()}
        found = await asyncio.to_thread(self._evaluate, options, nodes, trees, end)
        chosen = best(found)
        for option in found:
            log.info("%s%s", option, " - chosen" if option.group in chosen else "")
        return chosen

    def _evaluate(
        self,
        options: Sequence[ExpansionOption],
        nodes: Mapping[str, Tree],
        trees: Mapping[Resource, Sequence[Tree]],
        end: float,
    ) -> list[EvaluatedOption]:
        group_templates = GroupTemplates(self._groups, self._catalog, trees[NODES], trees[SLICES], self._features.kube)
        simulation = SimulatedCluster(
            (tree for found in with_pods(trees, options).values() for tree in found), self._features
        )
        templates = [
            (option, group_templates.of(option.group, nodes[option.group]))
            for option in options
            if option.group in nodes
        ]
        found = [
            EvaluatedOption(
                option.group, option.nodes, len(option.pods), None, None, "the request contains no node for it"
            )
            for option in options
            if option.group not in nodes
        ]
        return [*evaluate_all(simulation, templates, lambda: time.monotonic() < end), *found]


def with_pods(
    trees: Mapping[Resource, Sequence[Tree]], options: Sequence[ExpansionOption]
) -> dict[Resource, Sequence[Tree]]:
    """The cluster with the pods of the request, some of which the autoscaler has generated."""
    requested = {uid_of(pod): pod for option in options for pod in option.pods}
    others = [tree for tree in trees[PODS] if uid_of(tree) not in requested]
    return {**trees, PODS: [*others, *requested.values()]}
