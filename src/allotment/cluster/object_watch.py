"""One object's states from now on, for those who wait for it; programs have caches instead."""

from __future__ import annotations

from collections.abc import AsyncIterator

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree


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
