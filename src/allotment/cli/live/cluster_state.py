"""Reads a live cluster's objects as the values that ``explain`` and ``free`` work on."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from allotment.api.inputs import ClusterState, Inputs, queued
from allotment.api.releases import features_among
from allotment.api.validation import validate
from allotment.cli.inputs.objects import queried_objects
from allotment.cli.live.connection import on_cluster, refusal
from allotment.cli.output.errors import Failure
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery, discover
from allotment.cluster.inspection.server_facts import facts_of, with_unread
from allotment.cluster.inspection.snapshot import DEVICES, PODS, WORKLOADS, Snapshot, SnapshotResource, take_snapshot
from allotment.cluster.remote.kubeconfig import ClusterTarget
from allotment.errors import InvalidManifests
from allotment.explanation.node_eligibility import eligibility_nodes, unschedulable_nodes
from allotment.model.features import Features
from allotment.model.loading import Document, LoadResult
from allotment.model.loading.documents import Origin
from allotment.model.loading.marks import ValueMark
from allotment.model.meta import Object
from allotment.model.releases import RELEASES
from allotment.model.server_facts import ServerFacts, release_note, serves_devices
from allotment.model.trees import Tree
from allotment.tools.free import NodeReport, free
from allotment.tools.unread import unread_notes, unread_resources

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


_NO_CLAIMS = (
    "the cluster does not serve resource.k8s.io: dynamic resource allocation is not available"
    " (allot doctor --select D101)"
)


class Live(NamedTuple):
    """Objects of a cluster and notes about reading them; the facts about its server are one of the values."""

    features: Features
    values: tuple[Object, ...]
    notes: tuple[str, ...] = ()
    facts: ServerFacts = ServerFacts()

    def inputs(self, queried: Sequence[Object] = ()) -> Inputs:
        """Return the cluster's objects as inputs, as if they were read from files."""
        return Inputs(self.features, self.values, tuple(queried))


def values_of(trees: Iterable[Tree], source: str) -> tuple[Object, ...]:
    """Return objects of a cluster as values, queued; errors name the ``source``."""
    origin = Origin(source, 1, lambda _: ValueMark(0, 0, False, None, None))
    documents = [Document(tree, origin, number) for number, tree in enumerate(trees)]
    values, problems = validate(LoadResult(documents, []), None)
    if problems:
        raise InvalidManifests(problems, lambda file: None)
    return queued(values)


def read_live(arguments: Namespace, wanted: Sequence[SnapshotResource]) -> Live:
    """Read a cluster. Raises InputError or Failure."""
    return on_cluster(arguments, lambda client, way: live(arguments, client, way, wanted))


async def live(
    arguments: Namespace, client: HttpClient, way: ClusterTarget, wanted: Sequence[SnapshotResource]
) -> Live:
    """Read objects of some kinds from a cluster."""
    discovery = await discover(client)
    now = datetime.now(UTC).isoformat()
    facts, taken = await asyncio.gather(facts_of(client, discovery, now), read(client, discovery, wanted))
    return seen_by(arguments, way, with_unread(facts, taken.refused), taken.objects)


async def read(
    client: HttpClient, discovery: Discovery, wanted: Sequence[SnapshotResource], namespace: str = ""
) -> Snapshot:
    """Read objects of some kinds. Raises Failure if none of them is readable."""
    try:
        return await take_snapshot(client, discovery, wanted, namespace)
    except StatusError as error:
        if error.code != 403:
            raise
        raise Failure(refusal(error), "allot rbac reader prints the required permissions") from None


def seen_by(arguments: Namespace, way: ClusterTarget, facts: ServerFacts, trees: Iterable[Tree]) -> Live:
    """Return the objects of a cluster with the facts about its server."""
    known = features_among(arguments.kube_version, arguments.feature_gates, (facts,))
    values = (*values_of(trees, source_of(way)), facts)
    notes = ["" if arguments.kube_version else release_note(facts), "" if serves_devices(facts) else _NO_CLAIMS]
    notes += unread_notes(unread_resources(values))
    return Live(known, values, tuple(filter(None, notes)), facts)


def source_of(way: ClusterTarget) -> str:
    """Return the name to show instead of a file name."""
    return f"context {way.context}" if way.context else way.server


def what_to_read(subject: str | None) -> tuple[SnapshotResource, ...]:
    """Return the kinds that an explanation needs; workloads only if one of them is named."""
    kind = (subject or "").partition("/")[0].lower() if "/" in (subject or "") else "pod"
    known = ("pod", "pods", "po", "claim", "claims", "resourceclaim", "resourceclaims")
    return (*DEVICES, *PODS, *(() if kind in known else WORKLOADS))


def live_inputs(arguments: Namespace, wanted: Sequence[SnapshotResource]) -> tuple[Inputs, tuple[str, ...]]:
    """Return the cluster of ``--context`` with the objects of ``-f``."""
    found = read_live(arguments, wanted)
    return found.inputs(queried_objects(arguments, found.features, found.values)), found.notes


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
