"""What a server says of itself: its release, the versions that it serves, its gates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec.structs import replace

from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery
from allotment.cluster.inspection.gates import gates_of
from allotment.cluster.inspection.snapshot import why
from allotment.model.features import GATES
from allotment.tools.doctor.server_facts import ServerFacts

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


async def facts_of(client: HttpClient, discovery: Discovery, now: str) -> ServerFacts:
    """The facts as they are ``now``."""
    unread: dict[str, str] = {}
    gates: dict[str, bool] = {}
    try:
        gates = await gates_of(client)
        if not gates:
            unread["gates"] = "the server's metrics do not tell them"
    except StatusError as error:
        unread["gates"] = why(error)
    served: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for one in discovery.served:
        if one.resource.group == "resource.k8s.io":
            served[one.resource.plural] += (one.resource.version,)
    try:
        version = str((await client.read("/version")).get("gitVersion", ""))
    except StatusError:
        version = ""
    known = {name: on for name, on in sorted(gates.items()) if name in GATES}
    return ServerFacts(taken=now, version=version, served=dict(served), gates=known, unread=unread)


def without(facts: ServerFacts, refused: Mapping[str, str]) -> ServerFacts:
    """The facts beside objects of which some could not be read, by resource."""
    return replace(facts, unread={**refused, **facts.unread})
