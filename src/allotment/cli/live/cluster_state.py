"""A live cluster's objects as the values that ``explain`` and ``free`` work on."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from allotment.cli.inputs.objects import ClusterState, Inputs, queried_objects, validate, queued
from allotment.cli.inputs.release import features_among
from allotment.cli.live.connection import on_cluster, refusal
from allotment.cli.output.errors import BadInput, Failure
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery, discover
from allotment.cluster.inspection.server_facts import facts_of, without
from allotment.cluster.inspection.snapshot import DEVICES, PODS, WORKLOADS, Snapshot, Wanted, take
from allotment.cluster.remote.kubeconfig import Target
from allotment.model.features import RELEASES, Features
from allotment.model.loading import Document, LoadResult
from allotment.model.loading.documents import Origin
from allotment.model.loading.marks import ValueMark
from allotment.model.meta import Object
from allotment.model.trees import Tree
from allotment.phrases import listed
from allotment.tools.doctor.server_facts import ServerFacts, release_note, serves_devices
from allotment.tools.free import NodeReport, free

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


_NO_CLAIMS = (
    "the cluster does not serve resource.k8s.io: dynamic resource allocation is not available"
    " (allot doctor --select D101)"
)


class Live(NamedTuple):
    """What a cluster holds, and what to know about the reading of it. What its server says of itself is a value."""

    features: Features
    values: tuple[Object, ...]
    notes: tuple[str, ...] = ()
    facts: ServerFacts = ServerFacts()

    def inputs(self, asked: Sequence[Object] = ()) -> Inputs:
        """The same as what files would have brought."""
        return Inputs(self.features, self.values, tuple(asked))


def values_of(trees: Iterable[Tree], source: str) -> tuple[Object, ...]:
    """Objects of a cluster as values, queued; what cannot be read is told by the name of the ``source``."""
    origin = Origin(source, 1, lambda _: ValueMark(0, 0, False, None, None))
    documents = [Document(tree, origin, number) for number, tree in enumerate(trees)]
    values, problems = validate(LoadResult(documents, []), None)
    if problems:
        raise BadInput(problems, lambda file: None)
    return queued(values)


def read_live(arguments: Namespace, wanted: Sequence[Wanted]) -> Live:
    """Read a cluster. Raises Mistake or Failure."""
    return on_cluster(arguments, lambda client, way: live(arguments, client, way, wanted))


async def live(arguments: Namespace, client: HttpClient, way: Target, wanted: Sequence[Wanted]) -> Live:
    """What a cluster holds of some kinds."""
    discovery = await discover(client)
    now = datetime.now(UTC).isoformat()
    facts, taken = await asyncio.gather(facts_of(client, discovery, now), read(client, discovery, wanted))
    return seen_by(arguments, way, without(facts, taken.refused), taken.objects)


async def read(client: HttpClient, discovery: Discovery, wanted: Sequence[Wanted], namespace: str = "") -> Snapshot:
    """Objects of some kinds. Raises Failure where none of them may be read."""
    try:
        return await take(client, discovery, wanted, namespace)
    except StatusError as error:
        if error.code != 403:
            raise
        raise Failure(refusal(error), "allot rbac reader prints the required permissions") from None


def seen_by(arguments: Namespace, way: Target, facts: ServerFacts, trees: Iterable[Tree]) -> Live:
    """What a cluster holds, with what its server says of itself."""
    notes = ["" if arguments.kube_version else release_note(facts), "" if serves_devices(facts) else _NO_CLAIMS]
    alike: dict[str, list[str]] = {}
    for resource, reason in facts.unread.items():
        if resource != "gates":
            alike.setdefault(reason, []).append(resource)
    notes += (f"not readable, not considered: {listed(names)} ({why})" for why, names in alike.items())
    known = features_among(arguments.kube_version, arguments.feature_gates, (facts,))
    values = (*values_of(trees, source_of(way)), facts)
    return Live(known, values, tuple(filter(None, notes)), facts)


def source_of(way: Target) -> str:
    """What stands for a file's name."""
    return f"context {way.context}" if way.context else way.server


def what_to_read(subject: str | None) -> tuple[Wanted, ...]:
    """What an explanation needs: the objects that make pods only if somebody asks about one of them."""
    kind = (subject or "").partition("/")[0].lower() if "/" in (subject or "") else "pod"
    known = ("pod", "pods", "po", "claim", "claims", "resourceclaim", "resourceclaims")
    return (*DEVICES, *PODS, *(() if kind in known else WORKLOADS))


def live_inputs(arguments: Namespace, wanted: Sequence[Wanted]) -> tuple[Inputs, tuple[str, ...]]:
    """The cluster of ``--context`` and the objects of ``-f``."""
    found = read_live(arguments, wanted)
    return found.inputs(queried_objects(arguments, found.features, found.values)), found.notes


async def devices_of(client: HttpClient, node: Tree) -> NodeReport | None:
    """The devices of one node; None where they cannot be read."""
    name = node["metadata"]["name"]
    discovery = await discover(client)
    chosen = [
        Wanted("", "nodes", f"metadata.name={name}"),
        Wanted("resource.k8s.io", "resourceslices", f"spec.nodeName={name}"),
        Wanted("resource.k8s.io", "devicetaintrules"),
        Wanted("resource.k8s.io", "resourceclaims"),
    ]
    try:
        return await _report(client, discovery, chosen, name)
    except (StatusError, BadInput):
        return None


async def _report(client: HttpClient, discovery: Discovery, chosen: Sequence[Wanted], name: str) -> NodeReport | None:
    taken = await take(client, discovery, chosen)
    values = values_of(taken.objects, f"node {name}")
    state = ClusterState.of(Inputs(Features(kube=RELEASES[-1]), values, ()))
    # Claims on other nodes' devices are none of this node's.
    report = free(state.inventory(), state.claims)
    return next((one for one in report.nodes if one.node == name), None)
