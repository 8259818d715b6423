"""An object's states from now on, until it is as somebody wants it, or has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from allotment.cli.durations import Deadline
from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError

Tree = dict[str, Any]


async def states(client: Client, resource: Resource, place: str, name: str) -> AsyncIterator[Tree | None]:
    """The states of an object from now on, None where there is none."""
    fields = f"metadata.name={name}"
    while True:
        listing = await client.list(resource, place, fields=fields)
        yield next(iter(listing.items), None)
        try:
            async for event in client.watch(resource, place, revision=listing.revision, fields=fields):
                if event.type != "BOOKMARK":
                    yield event.object if event.type != "DELETED" else None
        except StatusError as error:
            if error.code != 410:
                raise


async def until_gone(client: Client, resource: Resource, place: str, name: str, deadline: Deadline) -> None:
    """Wait until there is no such object, or another one of that name. Raises TimeoutError."""
    uid = None
    async with asyncio.timeout(deadline.left()):
        async for tree in states(client, resource, place, name):
            if tree is None or (uid is not None and tree["metadata"].get("uid") != uid):
                return
            uid = tree["metadata"].get("uid")
