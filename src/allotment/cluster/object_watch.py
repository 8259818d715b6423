"""Watches a single object, for commands that wait for it; programs use caches instead."""

from __future__ import annotations

from collections.abc import AsyncIterator

from allotment.cluster.client import Client, Resource
from allotment.cluster.errors import StatusError
from allotment.model.trees import Tree


async def states(client: Client, resource: Resource, namespace: str, name: str) -> AsyncIterator[Tree | None]:
    """Yield the current and all later states of an object; None while it does not exist."""
    fields = f"metadata.name={name}"
    while True:
        listing = await client.list(resource, namespace, fields=fields)
        yield next(iter(listing.items), None)
        try:
            async for event in client.watch(resource, namespace, revision=listing.revision, fields=fields):
                if event.type != "BOOKMARK":
                    yield event.object if event.type != "DELETED" else None
        except StatusError as error:
            if error.code != 410:
                raise
