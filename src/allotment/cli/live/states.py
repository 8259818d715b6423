"""Waiting until an object has gone."""

from __future__ import annotations

import asyncio

from allotment.cli.inputs.durations import Deadline
from allotment.cluster.client import Client, Resource
from allotment.cluster.object_watch import states


async def until_gone(client: Client, resource: Resource, place: str, name: str, deadline: Deadline) -> None:
    """Wait until there is no such object, or another one of that name. Raises TimeoutError."""
    uid = None
    async with asyncio.timeout(deadline.left()):
        async for tree in states(client, resource, place, name):
            if tree is None or (uid is not None and tree["metadata"].get("uid") != uid):
                return
            uid = tree["metadata"].get("uid")
