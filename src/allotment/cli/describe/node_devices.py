"""The devices of one node, for ``allot describe node``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from allotment.api.clusters.live import values_of
from allotment.api.objects.inputs import ClusterState, Inputs
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery, discover
from allotment.cluster.inspection.snapshot import SnapshotResource, take_snapshot
from allotment.errors import InvalidManifests
from allotment.explanation.node_eligibility import eligibility_nodes, unschedulable_nodes
from allotment.model.features import Features
from allotment.model.releases import RELEASES
from allotment.model.trees import Tree
from allotment.tools.free import NodeReport, free

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


async def devices_of(client: HttpClient, node: Tree) -> NodeReport | None:
    """Return the devices of one node, or None if they are not readable."""
    name = node["metadata"]["name"]
    discovery = await discover(client)
    chosen = [
        SnapshotResource("", "nodes", f"metadata.name={name}"),
        SnapshotResource("resource.k8s.io", "resourceslices", f"spec.nodeName={name}"),
        SnapshotResource("resource.k8s.io", "devicetaintrules"),
        SnapshotResource("resource.k8s.io", "resourceclaims"),
    ]
    try:
        return await _report(client, discovery, chosen, name)
    except (StatusError, InvalidManifests):
        return None


async def _report(
    client: HttpClient, discovery: Discovery, chosen: Sequence[SnapshotResource], name: str
) -> NodeReport | None:
    taken = await take_snapshot(client, discovery, chosen)
    values = values_of(taken.objects, f"node {name}")
    state = ClusterState.of(Inputs(Features(kube=RELEASES[-1]), values, ()))
    # Claims with devices of other nodes do not matter here.
    closed = unschedulable_nodes(eligibility_nodes(state.nodes, state.slices))
    report = free(state.inventory(), state.claims, closed)
    return next((node for node in report.nodes if node.node == name), None)
