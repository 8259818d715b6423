"""Synchronous access to the asynchronous API: an event loop in a thread, and a blocking client."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from allotment.cluster.client import Client, Event, Listing, PatchKind, Propagation, Resource
from allotment.lab.http_server import new_event_loop
from allotment.model.trees import Tree

T = TypeVar("T")


class LoopThread:
    """An event loop in its own thread, until :meth:`stop`."""

    def __init__(self, name: str) -> None:
        self.loop = new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it; an interrupt of the caller cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """Cancel the tasks of the loop and stop it."""
        self.wait(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class SyncClient:
    """A blocking :class:`~allotment.cluster.client.Client` with the same methods."""

    def __init__(self, thread: LoopThread, client: Client) -> None:
        self._thread = thread
        self._client = client

    def get(self, resource: Resource, name: str, namespace: str = "", *, subresource: str = "") -> Tree:
        """Get an object."""
        return self._thread.wait(self._client.get(resource, name, namespace, subresource=subresource))

    def list(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "", limit: int = 0
    ) -> Listing:
        """List objects, of all namespaces if none is given."""
        return self._thread.wait(self._client.list(resource, namespace, labels=labels, fields=fields, limit=limit))

    def watch(
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = ""
    ) -> Iterator[Event]:
        """Yield changes after ``revision`` until the caller stops iterating."""
        events = self._client.watch(resource, namespace, revision=revision, labels=labels, fields=fields)

        async def following() -> Event | None:
            return await anext(events, None)

        while (event := self._thread.wait(following())) is not None:
            yield event

    def create(
        self, resource: Resource, tree: Tree, namespace: str = "", *, name: str = "", subresource: str = "",
        dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Create an object, or call a subresource such as binding or eviction."""
        return self._thread.wait(
            self._client.create(resource, tree, namespace, name=name, subresource=subresource, dry_run=dry_run)
        )

    def update(self, resource: Resource, tree: Tree, *, subresource: str = "", dry_run: bool = False) -> Tree:
        """Replace an object."""
        return self._thread.wait(self._client.update(resource, tree, subresource=subresource, dry_run=dry_run))

    def patch(
        self, resource: Resource, name: str, patch: Any, namespace: str = "", *, kind: PatchKind = "merge",
        subresource: str = "", force: bool = False, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Patch an object."""
        return self._thread.wait(
            self._client.patch(
                resource, name, patch, namespace, kind=kind, subresource=subresource, force=force, dry_run=dry_run
            )
        )

    def delete(
        self, resource: Resource, name: str, namespace: str = "", *, uid: str = "", revision: str = "",
        grace_seconds: int | None = None, propagation: Propagation | None = None, dry_run: bool = False,
    ) -> Tree:  # fmt: skip
        """Delete an object."""
        return self._thread.wait(
            self._client.delete(
                resource, name, namespace, uid=uid, revision=revision, grace_seconds=grace_seconds,
                propagation=propagation, dry_run=dry_run,
            )
        )  # fmt: skip
