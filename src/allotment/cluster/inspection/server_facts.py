"""Facts about a server: its release, served versions and feature gates."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from allotment.cluster.client import Reader
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection.discovery import Discovery
from allotment.cluster.inspection.snapshot import failure_reason
from allotment.model.features import GATES
from allotment.model.fields import GROUP
from allotment.model.known_versions import KNOWN_VERSIONS
from allotment.model.server_facts import ServerFacts

_PATH: Final = "/metrics"
_SERIES: Final = "kubernetes_feature_enabled"
_SAMPLE: Final = re.compile(rf'{_SERIES}{{name="([A-Za-z0-9]+)"[^}}]*}} ([01])')


class Streamer(Protocol):
    """A client that can stream any path."""

    def stream(self, path: str, query: Sequence[tuple[str, str]] = (), accept: str = ...) -> AsyncIterator[bytes]:
        """Yield the bytes at a path."""
        ...


async def gates_of(client: Streamer) -> dict[str, bool]:
    """The feature gates in the server's metrics; empty if there are none. Raises StatusError and Unreachable.

    Metrics are long and sorted by name: reading stops after the gates.
    """
    found: dict[str, bool] = {}
    rest = ""
    async for piece in client.stream(_PATH):
        *lines, rest = (rest + piece.decode("utf-8", "replace")).split("\n")
        for line in lines:
            if sample := _SAMPLE.match(line):
                found[sample[1]] = sample[2] == "1"
        if found and lines and _SERIES not in lines[-1]:
            break
    if sample := _SAMPLE.match(rest):
        found[sample[1]] = sample[2] == "1"
    return found


class Source(Reader, Streamer, Protocol):
    """A client that can read and stream any path."""


async def facts_of(client: Source, discovery: Discovery, now: str) -> ServerFacts:
    """Collect the facts at the time ``now``."""
    unread: dict[str, str] = {}
    gates: dict[str, bool] = {}
    try:
        gates = await gates_of(client)
        if not gates:
            unread["gates"] = "the API server's metrics do not contain feature gates"
    except StatusError as error:
        unread["gates"] = failure_reason(error)
    served: defaultdict[str, tuple[str, ...]] = defaultdict(tuple)
    for served_resource in discovery.served:
        if (
            served_resource.resource.group == GROUP
            or (served_resource.resource.group, served_resource.resource.plural) in KNOWN_VERSIONS
        ):
            served[served_resource.resource.plural] += (served_resource.resource.version,)
    try:
        version = str((await client.read("/version")).get("gitVersion", ""))
    except StatusError:
        version = ""
    known = {name: on for name, on in sorted(gates.items()) if name in GATES}
    return ServerFacts(taken=now, version=version, served=dict(served), gates=known, unread=unread)


def with_unread(facts: ServerFacts, refused: Mapping[str, str]) -> ServerFacts:
    """The facts with the resources that could not be read, and the reasons."""
    return replace(facts, unread={**refused, **facts.unread})
