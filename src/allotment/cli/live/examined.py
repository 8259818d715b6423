"""What ``allot doctor`` looks at: a cluster that runs, with what its server says of itself, or a snapshot of one."""

from __future__ import annotations

from argparse import Namespace
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from allotment.cli.live.connection import on_cluster
from allotment.cli.live.state import release_of
from allotment.cluster import permitted
from allotment.cluster.discovery import Discovery, discover
from allotment.cluster.errors import StatusError
from allotment.cluster.gates import gates_of
from allotment.cluster.kubeconfig import Target
from allotment.cluster.snapshot import DEVICES, EVENTS, PODS, Wanted, take
from allotment.model.features import GATES, Features
from allotment.tools.doctor.found import Found
from allotment.tools.doctor.reading import read
from allotment.tools.permissions.asking import Ask, asks
from allotment.tools.permissions.parts import PARTS

if TYPE_CHECKING:
    from allotment.cluster.http import HttpClient

#: What limits claims, and who is there to serve them. Nodes have Leases, too, which say nothing here.
_MORE: Final = (
    Wanted("", "resourcequotas"),
    Wanted("coordination.k8s.io", "leases", "metadata.namespace!=kube-node-lease"),
)


def examined_live(arguments: Namespace) -> tuple[Found, tuple[str, ...]]:
    """A cluster that runs, and what to know of the reading. Raises Mistake or Failure."""
    return on_cluster(arguments, lambda client, way: _examined(arguments, client, way))


async def _examined(arguments: Namespace, client: HttpClient, way: Target) -> tuple[Found, tuple[str, ...]]:
    discovery = await discover(client)
    features, notes = await release_of(arguments, client, discovery)
    taken = await take(client, discovery, (*DEVICES, *PODS, *EVENTS, *_MORE))
    unread = {text.partition(":")[0]: text.partition(":")[2].strip() for text in taken.refused}
    seen = read(taken.objects)
    gates = await _gates(client, unread)
    version = await _version(client)
    found = Found(
        features=_with(features, gates),
        values=seen.values,
        now=datetime.now(UTC),
        version=version,
        served=_served(discovery),
        gates=gates,
        denied=await _denied(client, discovery, unread),
        unread=unread,
    )
    return found, (*notes, *(f"left out: {one}" for one in seen.failed))


async def _version(client: HttpClient) -> str:
    try:
        return str((await client.read("/version")).get("gitVersion", ""))
    except StatusError:
        return ""


async def _gates(client: HttpClient, unread: dict[str, str]) -> Mapping[str, bool] | None:
    try:
        gates = await gates_of(client)
    except StatusError as error:
        unread["gates"] = str(error)
        return None
    if not gates:
        unread["gates"] = "the server's metrics do not tell them"
    return gates or None


async def _denied(client: HttpClient, discovery: Discovery, unread: dict[str, str]) -> Sequence[Ask] | None:
    try:
        return await permitted.missing(client, permitted.served(discovery, asks(PARTS["reader"])))
    except StatusError as error:
        unread["permissions"] = str(error)
        return None


def _with(features: Features, gates: Mapping[str, bool] | None) -> Features:
    known = {name: on for name, on in (gates or {}).items() if name in GATES}
    return Features(features.kube, {**features.gates, **known})


def _served(discovery: Discovery) -> Mapping[str, Sequence[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for one in discovery.served:
        if one.resource.group == "resource.k8s.io":
            found[one.resource.plural].append(one.resource.version)
    return found
