"""Synchronous access to the asynchronous API: an event loop in a thread, and a blocking client."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar

from allotment.cluster.client import Client, Listing, PatchKind, Propagation, Resource, WatchEvent
from allotment.lab.http_server import new_event_loop
from allotment.model.trees import Tree

T = TypeVar("T")


class LoopStopped(RuntimeError):
    """Raised to the threads that wait for work of a loop when it stops."""


class LoopThread:
    """An event loop in its own thread, until :meth:`stop`."""

    def __init__(self, name: str) -> None:
        self.loop = new_event_loop()
        self._accepting = threading.Lock()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        # All of it in this thread: the one that stops the loop may be running another loop.
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_others())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it; an interrupt of the caller cancels it. Raises LoopStopped."""
        with self._accepting:
            if self._stopped:
                work.close()
                raise LoopStopped("the lab has been stopped")
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except CancelledError:
            raise LoopStopped("the lab has been stopped") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Accept no more work, run ``last``, cancel the other tasks and stop the loop."""
        with self._accepting:
            self._stopped = True
        try:
            if last is not None:
                asyncio.run_coroutine_threadsafe(last, self.loop).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class Watch(Iterator[WatchEvent]):
    """The events of a watch. They end at the timeout, when the lab stops, and when any thread calls :meth:`close`."""

    def __init__(self, thread: LoopThread, events: AsyncIterator[WatchEvent], timeout: float | None) -> None:
        self._thread = thread
        self._events = events
        self._deadline = None if timeout is None else time.monotonic() + timeout
        self._closed = threading.Event()
        self._pending: asyncio.Task[Any] | None = None

    def __next__(self) -> WatchEvent:
        try:
            event = self._thread.wait(self._next())
        except LoopStopped:
            event = None
        if event is None:
            raise StopIteration
        return event

    async def _next(self) -> WatchEvent | None:
        if self._closed.is_set():
            return None
        self._pending = asyncio.current_task()
        try:
            async with asyncio.timeout(None if self._deadline is None else self._deadline - time.monotonic()):
                return await anext(self._events, None)
        except TimeoutError:
            return None
        except asyncio.CancelledError:
            if not self._closed.is_set():
                raise
            return None
        finally:
            self._pending = None

    def close(self) -> None:
        """End the watch, also while another thread waits for its next event."""
        with suppress(LoopStopped):  # ended with the lab
            self._thread.wait(self._close())

    async def _close(self) -> None:
        self._closed.set()
        if self._pending is not None:
            self._pending.cancel()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
        self, resource: Resource, namespace: str = "", *, revision: str, labels: str = "", fields: str = "",
        timeout: float | None = None,
    ) -> Watch:  # fmt: skip
        """Return the changes after ``revision``, as an iterator that waits for the next one.

        It ends after ``timeout`` seconds, when the lab stops, and when it is closed, by any thread.
        """
        events = self._client.watch(resource, namespace, revision=revision, labels=labels, fields=fields)
        return Watch(self._thread, events, timeout)

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
