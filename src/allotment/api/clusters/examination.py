"""Reads what the checks of a running cluster need: its objects, the facts about its server, and permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from allotment.api.clusters.live import LiveSource
from allotment.cluster.errors import StatusError
from allotment.cluster.inspection import permissions
from allotment.cluster.inspection.discovery import Discovery, discover
from allotment.cluster.inspection.server_facts import facts_of, with_unread
from allotment.cluster.inspection.snapshot import (
    DEVICES,
    EVENTS,
    KEEPING_PODS,
    LIMITS,
    PODS,
    Snapshot,
    failure_reason,
    served_resources,
    take_snapshot,
    unreadable_resources,
)
from allotment.model.server_facts import release_note
from allotment.permissions.access_reviews import AccessRequest, access_requests
from allotment.permissions.components import COMPONENTS
from allotment.tools.doctor.reading import read_objects
from allotment.tools.doctor.snapshot import ClusterSnapshot, snapshot_of

if TYPE_CHECKING:
    from allotment.cluster.remote.http_client import HttpClient


def examine_live(source: LiveSource) -> tuple[ClusterSnapshot, tuple[str, ...]]:
    """Return the state of a running cluster, and notes about reading it. Raises StatusError and Unreachable."""
    return source.run(lambda client, _: _examined(source, client))


async def _examined(source: LiveSource, client: HttpClient) -> tuple[ClusterSnapshot, tuple[str, ...]]:
    discovery = await discover(client)
    now = datetime.now(UTC).isoformat()
    taken, facts, (denied, not_requested) = await asyncio.gather(
        _taken(client, discovery), facts_of(client, discovery, now), _denied(client, discovery)
    )
    facts = with_unread(facts, taken.refused)
    seen = read_objects(taken.objects)
    found = snapshot_of(source.features((facts,)), (facts, *seen.values), denied, not_requested)
    notes = (release_note(facts), *(f"ignored: {resource}" for resource in seen.failed))
    return found, tuple(filter(None, notes))


async def _taken(client: HttpClient, discovery: Discovery) -> Snapshot:
    """Read all readable kinds; if none is readable, return an empty snapshot with the reasons."""
    wanted = (*DEVICES, *PODS, *KEEPING_PODS, *EVENTS, *LIMITS)
    try:
        return await take_snapshot(client, discovery, wanted)
    except StatusError as error:
        if error.code != 403:
            raise
        refused = {resource.plural: failure_reason(error) for resource, _ in served_resources(discovery, wanted)}
        return Snapshot([], unreadable_resources(discovery, wanted) | refused)


async def _denied(client: HttpClient, discovery: Discovery) -> tuple[Sequence[AccessRequest] | None, str]:
    try:
        return await permissions.missing(
            client, permissions.served(discovery, access_requests(COMPONENTS["reader"]))
        ), ""
    except StatusError as error:
        return None, failure_reason(error)
