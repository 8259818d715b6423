"""A live cluster's objects as the values that ``explain`` and ``free`` work on."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from allotment.cli.inputs import ClusterState, Inputs, asked_about, judge, queued
from allotment.cli.live.connection import on_cluster
from allotment.cli.mistakes import BadInput
from allotment.cli.release import features
from allotment.cluster.discovery import Discovery, discover
from allotment.cluster.errors import StatusError
from allotment.cluster.kubeconfig import Target
from allotment.cluster.snapshot import DEVICES, PODS, WORKLOADS, Wanted, take
from allotment.model.features import RELEASES, Features
from allotment.model.loading import Document, Loaded
from allotment.model.loading.documents import Origin
from allotment.model.loading.marks import Mark
from allotment.model.meta import Object
from allotment.tools.free import NodeReport, free

if TYPE_CHECKING:
    from allotment.cluster.http import HttpClient

Tree = dict[str, Any]

_MINOR = re.compile(r"1\.([0-9]+)")


class Live(NamedTuple):
    """What a cluster holds, and what to know about the reading of it."""

    features: Features
    values: tuple[Object, ...]
    notes: tuple[str, ...] = ()

    def inputs(self, asked: Sequence[Object] = ()) -> Inputs:
        """The same as what files would have brought."""
        return Inputs(self.features, self.values, tuple(asked))


def values_of(trees: Iterable[Tree], source: str) -> tuple[Object, ...]:
    """Objects of a cluster as values, queued; what cannot be read is told by the name of the ``source``."""
    origin = Origin(source, 1, lambda _: Mark(0, 0, False, None, None))
    documents = [Document(tree, origin, number) for number, tree in enumerate(trees)]
    values, problems = judge(Loaded(documents, []), None)
    if problems:
        raise BadInput(problems, lambda file: None)
    return queued(values)


def read_live(arguments: Namespace, wanted: Sequence[Wanted]) -> Live:
    """Read a cluster. Raises Mistake or Failure."""
    return on_cluster(arguments, lambda client, way: live(arguments, client, way, wanted))


async def live(arguments: Namespace, client: HttpClient, way: Target, wanted: Sequence[Wanted]) -> Live:
    """What a cluster holds of some kinds."""
    discovery = await discover(client)
    known, notes = await release_of(arguments, client, discovery)
    taken = await take(client, discovery, wanted)
    notes += tuple(f"not read, so not considered: {one}" for one in taken.refused)
    return Live(known, values_of(taken.objects, source_of(way)), notes)


def source_of(way: Target) -> str:
    """What stands for a file's name."""
    return f"context {way.context}" if way.context else way.server


#: Gates that show: a cluster serves the kind if the gate is on.
_SHOWN_BY = {"devicetaintrules": "DRADeviceTaintRules", "resourcepoolstatusrequests": "DRAResourcePoolStatus"}


async def release_of(
    arguments: Namespace, client: HttpClient, discovery: Discovery
) -> tuple[Features, tuple[str, ...]]:
    """The cluster's release, unless the user says another; of one that is not modelled the nearest.

    Gates are the release's own, but for those that what is served shows to be on, and for what the user says.
    """
    shown = [f"{gate}=true" for plural, gate in _SHOWN_BY.items() if discovery.versions_of("resource.k8s.io", plural)]
    gates = [*shown, *arguments.feature_gates]
    if arguments.kube_version is not None:
        return features(arguments.kube_version, gates), ()
    try:
        version = str((await client.read("/version")).get("gitVersion", ""))
    except StatusError:
        version = ""
    found = _MINOR.search(version)
    release = f"1.{found[1]}" if found else RELEASES[-1]
    if release in RELEASES:
        return features(release, gates), ()
    nearest = min(RELEASES, key=lambda known: abs(int(known[2:]) - int(release[2:])))
    note = f"the cluster is Kubernetes {version}, which is answered as if it were {nearest}"
    return features(nearest, gates), (note,)


def what_to_read(subject: str | None) -> tuple[Wanted, ...]:
    """What an explanation needs: the objects that make pods only if somebody asks about one of them."""
    kind = (subject or "").partition("/")[0].lower() if "/" in (subject or "") else "pod"
    known = ("pod", "pods", "po", "claim", "claims", "resourceclaim", "resourceclaims")
    return (*DEVICES, *PODS, *(() if kind in known else WORKLOADS))


def live_inputs(arguments: Namespace, wanted: Sequence[Wanted]) -> tuple[Inputs, tuple[str, ...]]:
    """The cluster of ``--context`` and the objects of ``-f``."""
    found = read_live(arguments, wanted)
    return found.inputs(asked_about(arguments, found.features, found.values)), found.notes


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
